//! The max OpenShift version that bundles of a catalog declare.

use super::{
    facts::{object, with},
    *,
};
use crate::finding::Level;

const PROPERTY: &str = "olm.maxOpenShiftVersion";
const ANNOTATION: &str = "operators.coreos.com/maxOpenShiftVersion";

/// The release that `foo.v0.3.0` declares, and the messages of findings.
fn declared(catalog: &Catalog) -> (Option<String>, Vec<String>) {
    assert!(catalog.is_valid(), "{:?}", catalog.findings);
    let declared = &catalog.packages["foo"].bundles["foo.v0.3.0"].max_openshift;
    let release = declared.as_ref().and_then(MaxOpenShiftVersion::release);
    let messages = catalog
        .findings
        .iter()
        .map(|finding| finding.message.clone());
    (
        release.map(|release| release.to_string()),
        messages.collect(),
    )
}

// parity: max-4
#[test]
fn every_spelling_in_a_catalog_declares_max_openshift() {
    let list = json!([{"type": PROPERTY, "value": "4.8"}]);
    let installed = json!({"properties": list}).to_string();
    let mut documents = sound();
    documents[4][ANNOTATION] = "4.8".into();
    let property = with(json!({"type": PROPERTY, "value": "4.8"}));
    let mut catalogs = vec![
        (PROPERTY.to_owned(), property),
        ("the key".to_owned(), of(&documents)),
    ];
    for (annotation, text) in [
        (ANNOTATION, "4.8".to_owned()),
        ("olm.properties", list.to_string()),
        ("operatorframework.io/properties", installed),
    ] {
        let annotations = json!({annotation: text});
        let metadata = json!({"type": "olm.csv.metadata", "value": {"annotations": annotations}});
        let csv =
            json!({"kind": "ClusterServiceVersion", "metadata": {"annotations": annotations}});
        let yaml = manifests::yaml::to_string(&csv).unwrap();
        for (place, property) in ::tests::rows![
            "the metadata" => metadata;
            "JSON" => object(&csv.to_string());
            "YAML" => object(&yaml);
        ] {
            catalogs.push((format!("{annotation} in {place}"), with(property)));
        }
    }
    for (what, catalog) in catalogs {
        let expected = (Some("4.8".to_owned()), vec![]);
        assert_eq!(declared(&catalog), expected, "{what}");
    }
}

/// The rows of the decision between spellings are those of `manifests::openshift`.
#[test]
fn catalog_property_counts_before_olm_properties() {
    let annotated = |key: &str, text: &str| json!({"type": "olm.csv.metadata", "value": {"annotations": {key: text}}});
    let property = |value: &str| json!({"type": PROPERTY, "value": value});
    let both = |property: Value, metadata: Value| {
        let mut documents = sound();
        let properties = documents[4]["properties"].as_array_mut().unwrap();
        properties.extend([metadata, property]);
        declared(&of(&documents))
    };
    let list = json!([{"type": PROPERTY, "value": "4.8"}]).to_string();
    let raised = both(property("4.9"), annotated("olm.properties", &list));
    assert_eq!(raised, (Some("4.9".to_owned()), vec![]));
    let (lower, findings) = both(property("4.9"), annotated(ANNOTATION, "4.8"));
    assert_eq!(lower.as_deref(), Some("4.8"));
    let warning = "bundle \"foo.v0.3.0\": max OpenShift version is 4.8 (annotation operators.coreos.com/maxOpenShiftVersion) and \
        4.9 (catalog properties); the lower version counts; write the intended release in the property and remove the annotation";
    assert_eq!(findings, [warning]);
    // The metadata count before the manifest.
    let annotations = json!({ANNOTATION: "4.7"});
    let csv = json!({"kind": "ClusterServiceVersion", "metadata": {"annotations": annotations}});
    let (release, findings) = both(object(&csv.to_string()), annotated(ANNOTATION, "4.8"));
    assert_eq!((release.as_deref(), findings.len()), (Some("4.8"), 0));
}

// parity: max-olm-14
#[test]
fn invalid_max_openshift_is_a_warning_with_its_line() {
    let yaml = |bundle: &str| {
        let text = format!(
            "---\nschema: olm.package\nname: foo\ndefaultChannel: alpha\n---\nschema: olm.channel\npackage: foo\n\
             name: alpha\nentries: [{{name: foo.v0.3.0}}]\n---\n# the bundle\nschema: olm.bundle\npackage: foo\n\
             name: foo.v0.3.0\nimage: quay.io/foo/bundle:v1\n{bundle}"
        );
        loaded(&[("foo/c.yaml", &text)])
    };
    let package = "properties:\n- type: olm.package\n  value: {packageName: foo, version: 0.3.0}\n";
    let undeterminable = "max OpenShift version cannot be determined: ";
    for (bundle, release, line, message) in ::tests::rows![
        format!("{package}- type: {PROPERTY}\n  value: 4.10\n"), Some("4.10"), 20
            => format!("{PROPERTY} is the unquoted number 4.10; other programs read it as 4.1; write \"4.10\"");
        format!("{package}- type: {PROPERTY}\n  value: 4.8\n"), Some("4.8"), 20
            => format!("{PROPERTY} is the unquoted number 4.8; write \"4.8\"");
        format!("{ANNOTATION}: 4.10\n{package}"), Some("4.10"), 16
            => format!("{PROPERTY} is the unquoted number 4.10; other programs read it as 4.1");
        format!("{package}- type: {PROPERTY}\n  value: latest\n"), None, 20 => format!(
            "{undeterminable}\"latest\" is not <major>.<minor> (catalog properties); OLM v0 rejects the value and blocks \
             every minor upgrade of the cluster"
        );
        format!("{package}- type: {PROPERTY}\n  value: v4.8\n"), None, 20 => format!(
            "{undeterminable}\"v4.8\" is not <major>.<minor> (catalog properties); OLM v0 reads 4.8 and blocks upgrades \
             of the cluster beyond 4.8"
        );
        format!("{package}- type: olm.csv.metadata\n  value:\n    annotations:\n      {ANNOTATION}: 4.8.1\n"), None, 22
            => format!("{undeterminable}\"4.8.1\" is not <major>.<minor> (annotation {ANNOTATION}); OLM v0 ignores the value");
        format!("{ANNOTATION}: \"4.8\"\n{package}- type: {PROPERTY}\n  value: \"4.30\"\n"), Some("4.8"), 21
            => "max OpenShift version is 4.8 (key".to_owned();
        format!("{ANNOTATION}: \"4.30\"\n{package}- type: {PROPERTY}\n  value: \"4.8\"\n"), Some("4.8"), 16
            => "max OpenShift version is 4.8 (catalog properties)".to_owned();
    ] {
        let catalog = yaml(&bundle);
        let (found, findings) = declared(&catalog);
        assert_eq!(found.as_deref(), release, "{bundle}");
        let [finding] = &findings[..] else {
            panic!("{bundle}: {findings:?}");
        };
        let message = format!("bundle \"foo.v0.3.0\": {message}");
        assert!(finding.starts_with(&message), "{finding}");
        let finding = &catalog.findings[0];
        assert_eq!(finding.level, Level::Warning);
        assert_eq!(finding.file.as_deref(), Some("foo/c.yaml"));
        assert_eq!(finding.line, Some(line), "{bundle}");
    }
    // JSON, over several lines.
    let mut documents = sound();
    let bundle = documents.pop().unwrap();
    let two = format!(
        "\"properties\": [\n{{\"type\": \"{PROPERTY}\",\n\"value\": 4.10}},\n{{\"type\": \"{PROPERTY}\",\n\"value\": \"x\"}},"
    );
    let text = lines(&documents) + &format!("{bundle:#}").replace("\"properties\": [", &two);
    let catalog = loaded(&[("c.json", &text)]);
    let places = catalog.findings.iter().map(|finding| finding.line.unwrap());
    let property = text
        .lines()
        .position(|line| line.contains(PROPERTY))
        .unwrap()
        + 1;
    assert_eq!(places.collect::<Vec<_>>(), [property + 1, property + 3]);
    assert!(catalog.findings[1].message.contains("more than one"));
}

#[test]
fn key_and_property_that_differ_are_a_warning() {
    let differing = |property: &str, key: &str| {
        let mut documents = sound();
        documents[4][ANNOTATION] = key.into();
        let properties = documents[4]["properties"].as_array_mut().unwrap();
        properties.push(json!({"type": PROPERTY, "value": property}));
        declared(&of(&documents))
    };
    let remedy =
        "the lower version counts; write the intended release in the property and remove the key";
    for (property, key, release, messages) in ::tests::rows![
        "4.30", "4.8", Some("4.8")
            => &[format!("max OpenShift version is 4.8 (key {ANNOTATION}) and 4.30 (catalog properties); {remedy}")][..];
        "4.8", "4.30", Some("4.8")
            => &[format!("max OpenShift version is 4.8 (catalog properties) and 4.30 (key {ANNOTATION}); {remedy}")];
        "4.23", "5.0", Some("4.23") => &[];
        "4.8", "latest", Some("4.8") => &[format!(
            "max OpenShift version cannot be determined: \"latest\" is not <major>.<minor> (key {ANNOTATION}); OLM v0 \
             ignores the value; remove the key"
        )];
        "latest", "4.8", Some("4.8")
            => &["max OpenShift version cannot be determined: \"latest\" is not <major>.<minor> (catalog properties)".to_owned()];
    ] {
        let (found, findings) = differing(property, key);
        assert_eq!(found.as_deref(), release, "{property} {key}");
        assert_eq!(findings.len(), messages.len(), "{findings:?}");
        for (finding, message) in findings.iter().zip(messages) {
            let message = format!("bundle \"foo.v0.3.0\": {message}");
            assert!(finding.starts_with(&message), "{finding}");
        }
    }
}

#[test]
fn malformed_installed_properties_name_their_place_once() {
    let annotations = json!({"operatorframework.io/properties": "[]"});
    let metadata = json!({"type": "olm.csv.metadata", "value": {"annotations": annotations}});
    let (release, findings) = declared(&with(metadata));
    assert_eq!(release, None);
    let [finding] = &findings[..] else {
        panic!("{findings:?}");
    };
    let message = "bundle \"foo.v0.3.0\": max OpenShift version cannot be determined: the annotation is not JSON of properties \
                   (annotation operatorframework.io/properties); OLM v0 overwrites the annotation when OLM v0 installs from \
                   a catalog; otherwise OLM v0 rejects the value and blocks every minor upgrade of the cluster (failed to \
                   unmarshal properties annotation: ";
    assert!(finding.starts_with(message), "{finding}");
    let end = "; remove the annotation; OLM writes it";
    assert!(finding.ends_with(end), "{finding}");
}

#[test]
fn annotation_that_is_not_a_string_shows_its_spelling() {
    for (manifest, spelling, remedy) in ::tests::rows![
        "{kind: ClusterServiceVersion, metadata: {annotations: {KEY: 4.10}}}", "4.10" => "write \"4.10\"";
        "{\"kind\": \"ClusterServiceVersion\", \"metadata\": {\"annotations\": {\"KEY\": 4.10}}}", "4.10" => "write \"4.10\"";
        "kind: ClusterServiceVersion\nmetadata:\n  annotations:\n    KEY: yes\n", "yes" => "write a string such as \"4.16\"";
        "{kind: ClusterServiceVersion, metadata: {annotations: {KEY: [4.10]}}}", "[…]" => "write a string such as \"4.16\"";
    ] {
        let (release, findings) = declared(&with(object(&manifest.replace("KEY", ANNOTATION))));
        assert_eq!(release, None, "{manifest}");
        let message = format!(
            "bundle \"foo.v0.3.0\": max OpenShift version cannot be determined: {spelling} is not a string, and annotations \
             must be strings (annotation {ANNOTATION}); OLM v0 rejects the ClusterServiceVersion; {remedy}"
        );
        assert_eq!(findings, [message]);
    }
}
