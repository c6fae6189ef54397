//! What a bundle says of itself.

use convert::{Code, Level};
use serde_json::json;

use super::fixture::{Bundle, findings, object};

#[test]
fn facts_tell_what_others_need() {
    let facts = Bundle::good()
        .csv(
            "/metadata/annotations/olm.skipRange",
            json!(">=1.0.0 <1.4.0"),
        )
        .file(
            "metadata/dependencies.yaml",
            "dependencies:\n- type: olm.package\n  value: {packageName: moon, version: '>=1.0.0'}\n\
             - type: olm.gvk\n  value: {group: sun.example.com, version: v1, kind: Sun}\n",
        )
        .convert()
        .report
        .facts;
    let facts = serde_json::to_value(facts).unwrap();
    assert_eq!(
        facts,
        json!({
            "package": "tide",
            "name": "tide.v1.4.0",
            "version": "1.4.0",
            "channels": ["stable", "fast"],
            "defaultChannel": "stable",
            "replaces": "tide.v1.3.0",
            "skips": ["tide.v1.3.1"],
            "skipRange": ">=1.0.0 <1.4.0",
            "minKubeVersion": "1.25.0",
            "installModes": ["AllNamespaces"],
            "installNamespace": "tide-system",
            "providedApis": [{"group": "sea.example.com", "version": "v1", "kind": "Tide"}],
            "requiredApis": [
                {"group": "sky.example.com", "version": "v1", "kind": "Moon"},
                {"group": "sun.example.com", "version": "v1", "kind": "Sun"},
            ],
            "requiredPackages": {"moon": ">=1.0.0"},
            "images": [
                {"image": "quay.io/example/gauge:v1", "name": "gauge"},
                {"image": "quay.io/example/tide:v1.4.0"},
            ],
            "properties": [],
            "dependencies": [
                {"type": "olm.package", "value": {"packageName": "moon", "version": ">=1.0.0"}},
                {"type": "olm.gvk", "value": {"group": "sun.example.com", "kind": "Sun", "version": "v1"}},
            ],
        })
    );
}

#[test]
fn max_open_shift_version_is_read_from_every_spelling_and_4_10_stays_4_10() {
    let max = |bundle: Bundle| {
        let facts = bundle.convert().report.facts;
        let max = facts.max_open_shift_version.expect("a version");
        (max.raw, max.version.map(|v| v.to_string()), max.problem)
    };
    let fine = |raw: &str, version: &str| (raw.to_owned(), Some(version.to_owned()), None);
    let file = |value: &str| {
        Bundle::good().file(
            "metadata/properties.yaml",
            format!("properties:\n- type: olm.maxOpenShiftVersion\n  value: {value}\n"),
        )
    };
    let annotation = |key: &str, value: &str| {
        Bundle::good().csv(&format!("/metadata/annotations/{key}"), json!(value))
    };
    assert_eq!(max(file("4.10")), fine("4.10", "4.10"));
    assert_eq!(max(file("\"4.10\"")), fine("4.10", "4.10"));
    assert_eq!(max(file("4.1")), fine("4.1", "4.1"));
    let list = r#"[{"type": "olm.maxOpenShiftVersion", "value": 4.10}]"#;
    assert_eq!(
        max(annotation("olm.properties", list)),
        fine("4.10", "4.10")
    );
    let projected = r#"{"properties": [{"type": "olm.maxOpenShiftVersion", "value": "4.20"}]}"#;
    assert_eq!(
        max(annotation("operatorframework.io~1properties", projected)),
        fine("4.20", "4.20")
    );
    assert_eq!(
        max(annotation(
            "operators.coreos.com~1maxOpenShiftVersion",
            "4.8"
        )),
        fine("4.8", "4.8")
    );
    // The property and the annotation differ: the lower one protects the cluster.
    let both = file("\"4.12\"").csv(
        "/metadata/annotations/operators.coreos.com~1maxOpenShiftVersion",
        json!("4.9"),
    );
    assert_eq!(max(both), fine("4.9", "4.9"));
    // The same text twice is one property, two spellings are two.
    let repeated = file("\"4.8\"").csv(
        "/metadata/annotations/olm.properties",
        json!(list.replace("4.10", "\"4.8\"")),
    );
    assert_eq!(max(repeated), fine("4.8", "4.8"));
    let two = max(file("\"4.10\"").csv("/metadata/annotations/olm.properties", json!(list)));
    assert!(two.1.is_none() && two.2.unwrap().contains("more than one"));
    assert!(
        max(file("\"latest\""))
            .2
            .unwrap()
            .contains("failed to parse")
    );
    let unquoted = file("4.10").convert();
    assert_eq!(
        findings(&unquoted, Level::Warning),
        [(
            Code::UnquotedNumber,
            "metadata/properties.yaml".to_owned(),
            "properties[0].value".to_owned()
        )]
    );
}

#[test]
fn properties_of_the_file_join_the_annotation_of_the_pods_in_their_spelling() {
    let bundle = Bundle::good()
        .csv(
            "/metadata/annotations/olm.properties",
            json!(r#"[ {"type":"a", "value": 1.50 } ]"#),
        )
        .file(
            "metadata/properties.yaml",
            "properties:\n- type: b\n  value:\n    version: 4.10\n    range: '<2 & >1'\n",
        );
    let conversion = bundle.convert();
    let annotations = &object(&conversion, "Deployment", "tide-operator")["spec"]["template"]["metadata"]
        ["annotations"];
    assert_eq!(
        annotations["olm.properties"],
        r#"[{"type":"a","value":1.50},{"type":"b","value":{"range":"\u003c2 \u0026 \u003e1","version":4.10}}]"#
    );
}
