//! Conversion of a server's messages to packages.

use manifests::version::Version;
use serde_json::json;

use super::*;
use crate::{
    model::{PLAIN_V0, REGISTRY_V1},
    testing::starts,
};

const CSV: &str = "{\"kind\":\"ClusterServiceVersion\",\"spec\":{\"minKubeVersion\":\"1.25.0\"}}";
const API: &str = "{\"group\":\"g\",\"kind\":\"K\",\"version\":\"v1\"}";

fn property(r#type: &str, value: &str) -> proto::Property {
    let (r#type, value) = (r#type.to_owned(), value.to_owned());
    proto::Property { r#type, value }
}

fn dependency(r#type: &str, value: &str) -> proto::Dependency {
    let proto::Property { r#type, value } = property(r#type, value);
    proto::Dependency { r#type, value }
}

/// A bundle as a server describes it.
fn served_bundle(csv: &str, properties: Vec<proto::Property>) -> proto::Bundle {
    let (csv_name, package_name) = ("raft.v1.0.0".into(), "raft".into());
    with!(proto::Bundle, csv_name, package_name, csv_json: csv.into(), properties)
}

fn needing(dependency: proto::Dependency) -> proto::Bundle {
    with!(proto::Bundle, dependencies: vec![dependency]; ..served_bundle(CSV, Vec::new()))
}

fn filled(served: proto::Bundle) -> Bundle {
    let mut bundle = Bundle::new("raft.v1.0.0", Version::new(1, 0, 0));
    bundle.image = "registry.example.com/raft@sha256:0".into();
    fill(&mut bundle, "raft", served);
    bundle
}

#[test]
fn bundles_without_a_csv_are_readable() {
    let types = [None, Some(REGISTRY_V1), Some(PLAIN_V0), Some("helm")];
    for (csv, media_type) in [CSV, ""]
        .into_iter()
        .flat_map(|csv| types.map(|media_type| (csv, media_type)))
    {
        let property = |text| property("olm.bundle.mediatype", &format!("{text:?}"));
        let properties = media_type.map(property).into_iter().collect();
        let bundle = filled(served_bundle(csv, properties));
        assert_eq!(bundle.invalid_properties, None, "{media_type:?}");
        assert_eq!(bundle.media_type.as_deref(), media_type);
        let min_kube = (!csv.is_empty()).then_some("1.25.0");
        assert_eq!(bundle.min_kube.as_deref(), min_kube);
    }
}

#[test]
fn served_csv_declares_max_openshift() {
    let csv = |annotations: serde_json::Value| {
        let metadata = json!({"annotations": annotations});
        json!({"kind": "ClusterServiceVersion", "metadata": metadata}).to_string()
    };
    let annotation = "operators.coreos.com/maxOpenShiftVersion";
    let max = |value: &str| vec![property("olm.maxOpenShiftVersion", value)];
    for (csv, properties, expected) in ::tests::rows![
        csv(json!({})), vec![] => None;
        csv(json!({annotation: "4.8"})), vec![] => Some("4.8");
        csv(json!({})), max("4.10") => Some("4.10");
        csv(json!({annotation: "4.8"})), max("\"4.9\"") => Some("4.8");
        csv(json!({annotation: 4.8})), vec![]
            => Some("max OpenShift version cannot be determined: 4.8 is not a string, and annotations must be strings");
    ] {
        let declared = filled(served_bundle(&csv, properties)).max_openshift;
        assert_rows!(declared.map(|declared| declared.text()).as_deref() => expected, "{csv}");
    }
}

// parity: platform-5
#[test]
fn both_forms_of_dependencies_become_needs() {
    let package = "{\"packageName\":\"rope\",\"version\":\">1.0.0\"}";
    let constraint = format!("{{\"failureMessage\":\"GPU\",\"gvk\":{API}}}");
    for (dependency, expected) in ::tests::rows![
        dependency("olm.gvk", API) => "API g/v1 K";
        dependency("olm.package", package) => "package rope >1.0.0";
        dependency("olm.constraint", &constraint) => "constraint: GPU";
        dependency("olm.constraint", "{}")
            => "a constraint that cannot be read (a constraint must have exactly one of cel, package, gvk, all, any and \
                not; found none)";
        dependency("olm.label", "{\"label\":\"blue\"}") => "constraint: label blue";
    ] {
        let bundle = filled(needing(dependency));
        let needs: Vec<String> = bundle.requires.iter().map(ToString::to_string).collect();
        assert_eq!(needs, [expected]);
        assert_eq!(bundle.invalid_properties, None);
    }
    // Both representations at once, as in opm's answers.
    let range = package.replace("version", "versionRange");
    let all = [("olm.gvk", API), ("olm.package", package)];
    let dependencies = all.map(|(r#type, value)| dependency(r#type, value)).into();
    let all = [("olm.gvk.required", API), ("olm.package.required", &range)];
    let properties = all.map(|(r#type, value)| property(r#type, value)).into();
    let bundle = filled(with!(proto::Bundle, dependencies; ..served_bundle(CSV, properties)));
    assert_eq!(bundle.requires.len(), 2, "{:?}", bundle.requires);
}

#[test]
fn malformed_values_make_the_bundle_unreadable() {
    let good = property("olm.gvk", API);
    for (bundle, problem) in ::tests::rows![
        needing(dependency("olm.gvk", "{\"group\":1}")) => "parse dependency[0] of type \"olm.gvk\": json: cannot unmarshal";
        needing(dependency("olm.package", "{")) => "parse dependency[0] of type \"olm.package\": unexpected end of JSON input";
        needing(dependency("olm.moon", "{}")) => "parse dependency[0] of type \"olm.moon\": OLM does not support this type";
        served_bundle(CSV, vec![good, property("x", "{")]) => "parse property[1] of type \"x\": unexpected end of JSON input";
        served_bundle("[", vec![]) => "the ClusterServiceVersion is not valid JSON: unexpected end of JSON input";
    ] {
        starts(filled(bundle).invalid_properties.unwrap(), problem);
    }
}
