use super::*;
use crate::{
    finding::Findings,
    lint::files::{LIMIT, WARN_SIZE, check_size},
};

const MANIFESTS: &str = "/annotations/operators.operatorframework.io.bundle.manifests.v1";
const METADATA: &str = "/annotations/operators.operatorframework.io.bundle.metadata.v1";
const CHANNELS: &str = "/annotations/operators.operatorframework.io.bundle.channels.v1";
const DEFAULT: &str = "/annotations/operators.operatorframework.io.bundle.channel.default.v1";
const CHANNELS_AT: &str = r#"metadata/annotations.yaml (annotations["operators.operatorframework.io.bundle.channels.v1"])"#;
const MANIFESTS_AT: &str = r#"metadata/annotations.yaml (annotations["operators.operatorframework.io.bundle.manifests.v1"])"#;
/// Location of a missing annotation.
const MISSING: &str = "metadata/annotations.yaml (annotations)";
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
        Bundle::good().file("manifests/a.yaml", format!("{}\n---\n{}\n---\n{}", map("a"), map("b"), map("c")))
            => &[(Code::SeveralDocuments, "manifests/a.yaml document 2")];
        Bundle::good().file("manifests/a.yaml", format!("# Licence\n---\n{}\n---\n# end\n", map("a"))) => &[];
        Bundle::good().file("manifests/a.yaml", list) => &[(Code::SeveralDocuments, "manifests/a.yaml")];
    ]);
}

// parity: check-6
#[test]
fn the_size_limit_is_one_mebibyte_and_85_percent_are_near_it() {
    assert_eq!((LIMIT, WARN_SIZE), (1_048_576, 891_289));
    for (size, message) in ::tests::rows![
        WARN_SIZE => None;
        WARN_SIZE + 1 => Some("nearing maximum bundle compressed size with gzip: size=~891290 B, max=1048576 B");
        LIMIT => Some("nearing maximum bundle compressed size with gzip: size=~1048576 B, max=1048576 B");
        LIMIT + 1 => Some("maximum bundle compressed size with gzip size exceeded: size=~1048577 B, max=1048576 B");
    ] {
        let mut findings = Findings::default();
        check_size(size, 5_000_000, &mut findings);
        let found = findings.finish();
        assert_eq!(found.len(), usize::from(message.is_some()), "{size}");
        assert_rows!(found.iter().all(|finding| finding.message.starts_with(message.unwrap_or("?"))) => true, "{found:?}");
    }
}

/// Random text of sixteen letters, half a byte each, which gzip does not compress further.
fn noise(letters: usize) -> Value {
    let letters = ::tests::noise(1, letters).into_iter();
    let text: String = letters.map(|byte| char::from(b'a' + byte % 16)).collect();
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"a": text}})
}

// parity: check-6
#[test]
fn the_size_is_that_of_compressed_files() {
    // The limit applies to base64, which adds a third to the bytes.
    check(::tests::rows![
        Bundle::good().file("manifests/a.yaml", noise(1_000_000)) => &[] as &[_];
        Bundle::good().file("manifests/a.yaml", noise(1_300_000)) => &[(Code::BundleSize, "")];
        Bundle::good().file("tests/scorecard/a.yaml", noise(3_000_000)) => &[];
        Bundle::good().file("manifests/a.yaml", "#".repeat(3_000_000)) => &[];
    ]);
}

// parity: check-5
#[test]
fn annotations() {
    let set = |pointer, value: &str| Bundle::good().set(ANNOTATIONS, pointer, value.into());
    let moved = set(MANIFESTS, "objects/").without(CSV).without(CRD);
    let moved = ["csv", "crd"].into_iter().fold(moved, |moved, name| {
        let [from, to] = ["manifests", "objects"].map(|dir| format!("{dir}/{name}.yaml"));
        moved.file(&to, Bundle::good().json(&from))
    });
    check(::tests::rows![
        Bundle::good().remove(ANNOTATIONS, MANIFESTS) => &[(Code::BundleAnnotation, MISSING)] as &[_];
        Bundle::good().remove(ANNOTATIONS, METADATA) => &[(Code::BundleAnnotation, MISSING)];
        Bundle::good().remove(ANNOTATIONS, CHANNELS) => &[(Code::BundleAnnotation, MISSING)];
        set(CHANNELS, "") => &[(Code::BundleAnnotation, CHANNELS_AT)];
        moved => &[(Code::BundleAnnotation, MANIFESTS_AT)];
        Bundle::good().remove(ANNOTATIONS, DEFAULT) => &[];
        set(CHANNELS, "stable,fast").remove(ANNOTATIONS, DEFAULT) => &[(Code::Channel, MISSING)];
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
        assert_rows!(bundle.advice(&Options::default()) => Vec::from_iter(expected), "{name}");
    }
}

// parity: check-2
#[test]
fn a_bundle_without_csv_gets_the_advice_that_needs_none() {
    let bundle = Bundle::good()
        .set(CRD, "/spec/scope", "x".into())
        .without(CSV);
    assert_rows!(bundle.advice(&Options::default()) => [(Code::CRDScope, "manifests/crd.yaml (spec.scope)".to_owned())]);
}
