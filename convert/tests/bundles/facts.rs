//! Bundle info.

use super::*;

#[test]
fn facts_contain_requirements_and_provided_apis() {
    let dependencies = "dependencies:\n- type: olm.package\n  value: {packageName: moon, version: '>=1.0.0'}\n\
                        - type: olm.gvk\n  value: {group: sun.example.com, version: v1, kind: Sun}\n";
    let bundle = annotated("olm.skipRange", ">=1.0.0 <1.4.0")
        .file("metadata/dependencies.yaml", dependencies);
    let expected = json!({
        "package": "tide", "name": "tide.v1.4.0", "version": "1.4.0", "channels": ["stable", "fast"],
        "defaultChannel": "stable", "replaces": "tide.v1.3.0", "skips": ["tide.v1.3.1"], "skipRange": ">=1.0.0 <1.4.0",
        "minKubeVersion": "1.25.0", "installModes": ["AllNamespaces"], "installNamespace": "tide-system",
        "providedApis": [{"group": "sea.example.com", "version": "v1", "kind": "Tide"}],
        "requiredApis": [
            {"group": "sky.example.com", "version": "v1", "kind": "Moon"},
            {"group": "sun.example.com", "version": "v1", "kind": "Sun"},
        ],
        "requiredPackages": {"moon": ">=1.0.0"},
        "images": [{"image": "quay.io/example/gauge:v1", "name": "gauge"}, {"image": "quay.io/example/tide:v1.4.0"}],
        "properties": [],
        "dependencies": [
            {"type": "olm.package", "value": {"packageName": "moon", "version": ">=1.0.0"}},
            {"type": "olm.gvk", "value": {"group": "sun.example.com", "kind": "Sun", "version": "v1"}},
        ],
    });
    assert_rows!(serde_json::to_value(bundle.convert().report.facts).unwrap() => expected);
}

/// The rows of the decision between spellings are those of `manifests::openshift`.
// parity: max-4, max-olm-14
#[test]
fn max_openshift_is_read_from_every_spelling() {
    let declared = |bundle: &Bundle| {
        serde_json::to_value(bundle.convert().report.facts.max_open_shift_version).unwrap()
    };
    let max = |bundle: &Bundle| {
        let declared = declared(bundle);
        let [major, minor] = ["major", "minor"].map(|part| &declared["version"][part]);
        [
            declared["raw"].as_str().unwrap().to_owned(),
            format!("{major}.{minor}"),
        ]
    };
    let list = r#"[{"type": "olm.maxOpenShiftVersion", "value": 4.10}]"#;
    let installed = r#"{"properties": [{"type": "olm.maxOpenShiftVersion", "value": "4.20"}]}"#;
    assert_each!(|bundle, version| max(&bundle) => [version; 2];
        file("4.10") => "4.10";
        file("\"4.10\"") => "4.10";
        file("4.1") => "4.1";
        annotated("olm.properties", list) => "4.10";
        annotated("operatorframework.io~1properties", installed) => "4.20";
        annotated(ANNOTATION, "4.8") => "4.8";
        // The same text twice is one property.
        file("\"4.8\"").csv(&metadata("olm.properties"), json!(list.replace("4.10", "\"4.8\""))) => "4.8";
    );
    // Two spellings are two properties.
    let two = declared(&file("\"4.10\"").csv(&metadata("olm.properties"), json!(list)));
    let problem = "max OpenShift version cannot be determined: more than one olm.maxOpenShiftVersion property: \"4.10, 4.10\"";
    assert_rows!((&two["raw"], &two["problem"]) => (&json!("4.10, 4.10"), &json!(problem)));
    let expected = ["UnquotedNumber metadata/properties.yaml properties[0].value"];
    assert_eq!(findings(&file("4.10").convert(), Level::Warning), expected);
}

const ANNOTATION: &str = "operators.coreos.com~1maxOpenShiftVersion";

fn metadata(annotation: &str) -> String {
    format!("/metadata/annotations/{annotation}")
}

fn file(value: &str) -> Bundle {
    let text = format!("properties:\n- type: olm.maxOpenShiftVersion\n  value: {value}\n");
    Bundle::good().file("metadata/properties.yaml", text)
}

fn annotated(annotation: &str, value: &str) -> Bundle {
    Bundle::good().csv(&metadata(annotation), json!(value))
}

/// `manifests::openshift::olm_v0` has the readings of other values.
// parity: max-9
#[test]
fn invalid_max_openshift_is_an_error_of_validate_only() {
    let error = "max OpenShift version cannot be determined: \"v4.8\" is not <major>.<minor>";
    let olm_v0 = "OLM v0 reads 4.8 and blocks upgrades of the cluster beyond 4.8";
    let list = json!([{"type": "olm.maxOpenShiftVersion", "value": "v4.8"}]).to_string();
    for (bundle, place, source, olm_v0) in tests::rows![
        file("\"v4.8\""), "metadata/properties.yaml", "bundle properties" => olm_v0;
        annotated("olm.properties", &list), CSV, "bundle properties" => olm_v0;
        annotated(ANNOTATION, "v4.8"), CSV, "annotation operators.coreos.com/maxOpenShiftVersion" => "OLM v0 ignores the value";
    ] {
        let conversion = bundle.convert();
        assert!(conversion.objects.is_some(), "{source}");
        let report = conversion.report;
        let declared = report.facts.max_open_shift_version.as_ref().unwrap();
        assert_eq!(declared.release(), None);
        assert_eq!(declared.version.as_ref().unwrap_err().to_string(), error);
        let warning = report.with_level(Level::Warning).next().unwrap();
        assert_rows!((warning.code, warning.message.clone()) => (Code::MaxOpenShiftVersion, format!("{error} ({source})")));
        let content = bundle.content();
        let mut report = convert::validate(&content, &convert::Options::default());
        report.locate(&content);
        let [found] = report.with_level(Level::Error).collect::<Vec<_>>()[..] else {
            panic!("{source}: {:?}", report.findings);
        };
        assert_eq!(found.code, Code::MaxOpenShiftVersion);
        assert_rows!(found.message.starts_with(&format!("{error} ({source}); {olm_v0}")) => true, "{found}");
        let found = found.location.as_ref().unwrap();
        assert_rows!((&*found.file, found.line.is_some()) => (place, true), "{source}");
    }
}

#[test]
fn pod_annotation_keeps_the_spelling_of_properties() {
    let text = "properties:\n- type: b\n  value:\n    version: 4.10\n    range: '<2 & >1'\n";
    let bundle = annotated("olm.properties", r#"[ {"type":"a", "value": 1.50 } ]"#);
    let conversion = bundle.file("metadata/properties.yaml", text).convert();
    let found = &template(&conversion)["metadata"]["annotations"]["olm.properties"];
    let expected = r#"[{"type":"a","value":1.50},{"type":"b","value":{"range":"\u003c2 \u0026 \u003e1","version":4.10}}]"#;
    assert_eq!(found, expected);
}
