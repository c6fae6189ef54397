//! What properties say, and what they must look like.

use base64::{Engine as _, prelude::BASE64_STANDARD};

use super::*;
use crate::facts::Facts;

fn with(property: Value) -> Catalog {
    let mut documents = sound();
    documents[4]["properties"]
        .as_array_mut()
        .unwrap()
        .push(property);
    of(&documents)
}

fn object(manifest: &str) -> Value {
    json!({"type": "olm.bundle.object", "value": {"data": BASE64_STANDARD.encode(manifest)}})
}

#[test]
fn every_known_type_is_checked() {
    for (type_, good, bad) in [
        (
            "olm.package.required",
            json!({"packageName": "a", "versionRange": "x"}),
            json!({"packageName": 1}),
        ),
        ("olm.gvk", json!({"group": "g"}), json!({"kind": []})),
        ("olm.gvk.required", json!(null), json!([])),
        (
            "olm.channel",
            json!({"channelName": "c", "priority": 1}),
            json!({"channelName": 1}),
        ),
        (
            "olm.csv.metadata",
            json!({"keywords": ["a"], "labels": {"a": "b"}, "provider": {}, "links": [{}]}),
            json!({"keywords": [1]}),
        ),
        (
            "olm.csv.metadata",
            json!({"minKubeVersion": ""}),
            json!({"minKubeVersion": 1.25}),
        ),
        (
            "olm.csv.metadata",
            json!({"crdDescriptions": {}}),
            json!({"annotations": {"a": 1}}),
        ),
        (
            "olm.csv.metadata",
            json!({"installModes": []}),
            json!({"installModes": {}}),
        ),
    ] {
        let catalog = with(json!({"type": type_, "value": good}));
        assert_eq!(told(&catalog), [""; 0], "{type_}");
        let told = told(&with(json!({"type": type_, "value": bad})));
        assert!(told[0].starts_with(&format!("5: parse properties for bundle \"foo.v0.3.0\": parse property[1] of type {type_:?}: json: cannot unmarshal ")), "{told:?}");
    }
}

#[test]
fn manifests_in_the_catalog_are_read() {
    let json = "{\"kind\": \"ClusterServiceVersion\", \"spec\": {\"minKubeVersion\": \"1.20.0\"}}";
    let yaml = "kind: ClusterServiceVersion\nspec:\n  minKubeVersion: 1.20.0\n";
    for manifest in [json, yaml] {
        let catalog = with(object(manifest));
        assert_eq!(
            catalog.packages["foo"].bundles["foo.v0.3.0"]
                .min_kube
                .as_deref(),
            Some("1.20.0")
        );
    }
    for (data, problem) in [
        (json!("?"), "illegal base64 data at input byte 0"),
        (
            json!(1),
            "json: cannot unmarshal number into Go struct field BundleObject.data of type string",
        ),
        (
            json!(BASE64_STANDARD.encode("a: [")),
            "error converting YAML to JSON: ",
        ),
        (
            json!(BASE64_STANDARD.encode("[]")),
            "the manifest is array, not an object",
        ),
    ] {
        let told = told(&with(
            json!({"type": "olm.bundle.object", "value": {"data": data}}),
        ));
        let start = "5: parse bundle: read bundle objects: package \"foo\", bundle \"foo.v0.3.0\": parse property at index 1 as bundle object: ";
        assert!(
            told[0].starts_with(start) && told[0].contains(problem),
            "{told:?}"
        );
    }
}

#[test]
fn an_unquoted_maximum_is_a_warning_and_stays_as_it_was_written() {
    let text = lines(&sound()).replace(
        "\"properties\":[",
        "\"properties\":[{\"type\":\"olm.maxOpenShiftVersion\",\"value\": 4.10 },",
    );
    let catalog = loaded(&[("c.json", &text)]);
    assert!(catalog.is_valid());
    assert_eq!(catalog.findings.len(), 3);
    assert!(
        catalog.findings[0]
            .to_string()
            .contains("is the unquoted number 4.10"),
        "{}",
        catalog.findings[0]
    );
    assert_eq!(
        catalog.packages["foo"].bundles["foo.v0.1.0"].max_openshift,
        ["4.10"]
    );
}

#[test]
fn facts_are_the_same_from_texts() {
    let mut facts = Facts::default();
    facts
        .add_text(
            0,
            "olm.package",
            "{\"packageName\":\"p\",\"version\":\"1.0.0\"}",
        )
        .unwrap();
    facts
        .add_text(1, "olm.maxOpenShiftVersion", "\"4.9\"")
        .unwrap();
    facts
        .add_text(2, "olm.maxOpenShiftVersion", " \"4.9\"")
        .unwrap();
    facts
        .add_csv("{\"spec\":{\"minKubeVersion\":\"1.20.0\"}}")
        .unwrap();
    assert_eq!(
        (
            facts.packages[0].version.as_str(),
            facts.min_kube.as_deref()
        ),
        ("1.0.0", Some("1.20.0"))
    );
    assert_eq!(facts.max_openshift, ["\"4.9\""]);
    assert_eq!(
        facts.add_text(3, "x", "{").unwrap_err(),
        "parse property[3] of type \"x\": unexpected end of JSON input"
    );
    assert!(facts.add_csv("[").is_err());
}
