use std::fmt::Write;

use serde_json::{Value, json};

use super::{ANNOTATIONS, Bundle, CRD, check};
use crate::{
    Code, Options,
    lint::files::{LIMIT, NEAR, judge},
    report::Findings,
};

const CHANNELS: &str = "/annotations/operators.operatorframework.io.bundle.channels.v1";
const DEFAULT: &str = "/annotations/operators.operatorframework.io.bundle.channel.default.v1";
const CHANNELS_AT: &str = r#"metadata/annotations.yaml (annotations["operators.operatorframework.io.bundle.channels.v1"])"#;
const DEFAULT_AT: &str = r#"metadata/annotations.yaml (annotations["operators.operatorframework.io.bundle.channel.default.v1"])"#;

// parity: check-2
#[test]
fn files() {
    let map =
        |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [map("a")]});
    check(::tests::rows![
        Bundle::good().file("manifests/.hidden.yaml", map("a")) => &[(Code::HiddenFile, "manifests/.hidden.yaml")] as &[_];
        Bundle::good().file("metadata/.hidden", json!({})) => &[];
        Bundle::good().text("manifests/a.yaml", format!("{}\n---\n{}\n---\n{}", map("a"), map("b"), map("c")))
            => &[(Code::SeveralDocuments, "manifests/a.yaml document 2")];
        Bundle::good().text("manifests/a.yaml", format!("# Licence\n---\n{}\n---\n# end\n", map("a"))) => &[];
        Bundle::good().file("manifests/a.yaml", list) => &[(Code::SeveralDocuments, "manifests/a.yaml")];
    ]);
}

// parity: check-6
#[test]
fn the_size_limit_is_one_mebibyte_and_85_percent_are_near_it() {
    assert_eq!((LIMIT, NEAR), (1_048_576, 891_289));
    for (size, message) in ::tests::rows![
        NEAR => None;
        NEAR + 1 => Some("nearing maximum bundle compressed size with gzip: size=~891290 B, max=1048576 B");
        LIMIT => Some("nearing maximum bundle compressed size with gzip: size=~1048576 B, max=1048576 B");
        LIMIT + 1 => Some("maximum bundle compressed size with gzip size exceeded: size=~1048577 B, max=1048576 B");
    ] {
        let mut findings = Findings::default();
        judge(size, 5_000_000, &mut findings);
        let found = findings.finish();
        assert_eq!(found.len(), usize::from(message.is_some()), "{size}");
        let holds = found
            .iter()
            .all(|finding| finding.message.starts_with(message.unwrap_or("?")));
        assert!(holds, "{found:?}");
    }
}

/// Noise that gzip cannot make smaller.
fn noise(bytes: usize) -> Value {
    let mut seed = 1_u64;
    let mut text = String::new();
    while text.len() < bytes {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let _ = write!(text, "{:08x}", seed >> 32);
    }
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"a": text}})
}

// parity: check-6
#[test]
fn the_size_is_that_of_compressed_files() {
    // Sixteen letters take half a byte each, and base64 four thirds of that.
    check(::tests::rows![
        Bundle::good().file("manifests/a.yaml", noise(1_000_000)) => &[] as &[_];
        Bundle::good().file("manifests/a.yaml", noise(1_300_000)) => &[(Code::BundleSize, "")];
        Bundle::good().file("tests/scorecard/a.yaml", noise(3_000_000)) => &[];
        Bundle::good().text("manifests/a.yaml", "#".repeat(3_000_000)) => &[];
    ]);
}

// parity: check-5
#[test]
fn annotations() {
    let key = "/annotations/operators.operatorframework.io.bundle.manifests.v1";
    let set = |pointer, value: &str| Bundle::good().set(ANNOTATIONS, pointer, value.into());
    let mut moved = set(key, "objects/");
    for name in ["csv", "crd"] {
        let file = moved.0.remove(&format!("manifests/{name}.yaml")).unwrap();
        moved.0.insert(format!("objects/{name}.yaml"), file);
    }
    check(::tests::rows![
        Bundle::good().remove(ANNOTATIONS, key) => &[(Code::BundleAnnotation, "metadata/annotations.yaml (annotations)")] as &[_];
        Bundle::good().remove(ANNOTATIONS, "/annotations/operators.operatorframework.io.bundle.metadata.v1")
            => &[(Code::BundleAnnotation, "metadata/annotations.yaml (annotations)")];
        Bundle::good().remove(ANNOTATIONS, CHANNELS) => &[(Code::BundleAnnotation, "metadata/annotations.yaml (annotations)")];
        set(CHANNELS, "") => &[(Code::BundleAnnotation, CHANNELS_AT)];
        moved => &[(
            Code::BundleAnnotation,
            r#"metadata/annotations.yaml (annotations["operators.operatorframework.io.bundle.manifests.v1"])"#,
        )];
        Bundle::good().remove(ANNOTATIONS, DEFAULT) => &[];
        set(CHANNELS, "stable,fast").remove(ANNOTATIONS, DEFAULT)
            => &[(Code::Channel, "metadata/annotations.yaml (annotations)")];
        set(DEFAULT, "") => &[(Code::Channel, DEFAULT_AT)];
        set(DEFAULT, "fast") => &[(Code::Channel, DEFAULT_AT)];
        set(CHANNELS, "stable, fast") => &[];
        set(CHANNELS, "stable,stable") => &[(Code::Channel, CHANNELS_AT)];
        set(CHANNELS, "stable,stable_v2") => &[(Code::Channel, CHANNELS_AT)];
        set(CHANNELS, "stable,alpha,beta") => &[(Code::ChannelName, CHANNELS_AT)];
    ]);
}

#[test]
fn package_names_are_labels() {
    let key = "/annotations/operators.operatorframework.io.bundle.package.v1";
    let at = r#"metadata/annotations.yaml (annotations["operators.operatorframework.io.bundle.package.v1"])"#;
    for (name, is_fine) in [
        ("etcd", true),
        ("a-1", true),
        ("et.cd", false),
        ("Etcd", false),
    ] {
        let bundle = Bundle::good().set(ANNOTATIONS, key, name.into());
        let bundle = bundle.annotation("operatorframework.io~1suggested-namespace", "x");
        let expected = (!is_fine).then(|| (Code::PackageName, at.to_owned()));
        let expected = Vec::from_iter(expected);
        assert_eq!(bundle.advice(&Options::default()), expected, "{name}");
    }
}

// parity: check-2
#[test]
fn a_bundle_without_csv_gets_the_advice_that_needs_none() {
    let mut bundle = Bundle::good().set(CRD, "/spec/scope", "x".into());
    bundle.0.remove(super::CSV);
    let expected = [(Code::CRDScope, "manifests/crd.yaml (spec.scope)".to_owned())];
    assert_eq!(bundle.advice(&Options::default()), expected);
}
