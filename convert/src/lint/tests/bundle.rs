use super::*;
use crate::{
    finding::Findings,
    lint::files::{LIMIT, WARN_SIZE, check_size},
};

const MANIFESTS: &str = "/annotations/operators.operatorframework.io.bundle.manifests.v1";
const CHANNELS: &str = "/annotations/operators.operatorframework.io.bundle.channels.v1";
const PACKAGE: &str = "/annotations/operators.operatorframework.io.bundle.package.v1";
const MISSING: &str = "BundleAnnotation metadata/annotations.yaml (annotations)";
const DEFAULT: &str = "/annotations/operators.operatorframework.io.bundle.channel.default.v1";

// parity: check-2, check-6
#[test]
fn files_and_sizes_are_checked() {
    let map = |name| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    let three = format!("{}\n---\n{}\n---\n{}", map("a"), map("b"), map("c"));
    // Random text of sixteen letters, half a byte each, which gzip does not compress further.
    let noise = |letters: usize| {
        let letters = ::tests::noise(1, letters).into_iter();
        with!(map("a") => |map| map["data"] = json!({"a": letters.map(|byte| char::from(b'a' + byte % 16)).collect::<String>()}))
    };
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [map("a")]});
    check(::tests::rows![
        Bundle::good().file("manifests/.hidden.yaml", map("a")) => "HiddenFile manifests/.hidden.yaml";
        Bundle::good().file("metadata/.hidden", json!({})) => "";
        Bundle::good().file("manifests/a.yaml", three) => "SeveralDocuments manifests/a.yaml document 2";
        Bundle::good().file("manifests/a.yaml", format!("# License\n---\n{}\n---\n# end\n", map("a"))) => "";
        Bundle::good().file("manifests/a.yaml", list) => "SeveralDocuments manifests/a.yaml";
        // The size limit applies to the base64 of compressed files, which adds a third to the bytes.
        Bundle::good().file("manifests/a.yaml", noise(1_000_000)) => "";
        Bundle::good().file("manifests/a.yaml", noise(1_300_000)) => "BundleSize";
        Bundle::good().file("tests/scorecard/a.yaml", noise(3_000_000)) => "";
        Bundle::good().file("manifests/a.yaml", "#".repeat(3_000_000)) => "";
    ]);
}

// parity: check-6
#[test]
fn size_limit_is_one_mebibyte_and_85_percent_are_near_it() {
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

// parity: check-2, check-5
#[test]
fn annotations_of_the_bundle_are_checked() {
    let set = |pointer, value: &str| Bundle::good().set(ANNOTATIONS, pointer, value.into());
    let namespace = "operatorframework.io~1suggested-namespace";
    let named = |name: &str| set(PACKAGE, name).annotation(namespace, "x");
    let [csv, crd] = [CSV, CRD].map(|file| Bundle::good().json(file));
    let moved = set(MANIFESTS, "objects/").without(CSV).without(CRD);
    let moved = moved
        .file("objects/csv.yaml", csv)
        .file("objects/crd.yaml", crd);
    let without = |pointer| Bundle::good().remove(ANNOTATIONS, pointer);
    let at = |code, key| format!("{code} metadata/annotations.yaml (annotations[\"…{key}\"])");
    // Without the CSV, only checks that do not need it run.
    let without_csv = Bundle::good().set(CRD, "/spec/scope", "x".into());
    check(::tests::rows![
        without(MANIFESTS) => MISSING;
        without("/annotations/operators.operatorframework.io.bundle.metadata.v1") => MISSING;
        without(CHANNELS) => MISSING;
        set(CHANNELS, "") => &at("BundleAnnotation", "channels.v1");
        moved => &at("BundleAnnotation", "manifests.v1");
        without(DEFAULT) => "";
        set(CHANNELS, "stable,fast").remove(ANNOTATIONS, DEFAULT) => "Channel metadata/annotations.yaml (annotations)";
        set(DEFAULT, "") => &at("Channel", "channel.default.v1");
        set(DEFAULT, "fast") => &at("Channel", "channel.default.v1");
        set(CHANNELS, "stable, fast") => "";
        set(CHANNELS, "stable,stable") => &at("Channel", "channels.v1");
        set(CHANNELS, "stable,stable_v2") => &at("Channel", "channels.v1");
        set(CHANNELS, "stable,alpha,beta") => &at("ChannelName", "channels.v1");
        // Package names are labels.
        named("etcd") => "";
        named("a-1") => "";
        named("et.cd") => &at("PackageName", "package.v1");
        named("Etcd") => &at("PackageName", "package.v1");
        without_csv.without(CSV) => "CRDScope manifests/crd.yaml (spec.scope)";
    ]);
}
