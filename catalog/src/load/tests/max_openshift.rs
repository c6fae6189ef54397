//! The max OpenShift version that bundles of a catalog declare.

use super::{
    facts::{last, with},
    *,
};
use crate::finding::Level;

const PROPERTY: &str = "olm.maxOpenShiftVersion";
const ANNOTATION: &str = "operators.coreos.com/maxOpenShiftVersion";

/// Returns the release that `foo.v0.3.0` declares, and the messages of findings.
fn declared(catalog: &Catalog) -> (Option<String>, Vec<String>) {
    assert!(catalog.is_valid(), "{:?}", catalog.findings);
    let declared = last(catalog).max_openshift.as_ref();
    let release = declared.and_then(MaxOpenShiftVersion::release);
    let release = release.map(|release| release.to_string());
    let findings = catalog.findings.iter();
    let messages = findings.map(|finding| finding.message.clone());
    (release, messages.collect())
}

/// The rows of the decision between spellings are those of `manifests::openshift`.
// parity: max-4
#[test]
fn every_spelling_in_a_catalog_declares_max_openshift() {
    let list = json!([{"type": PROPERTY, "value": "4.8"}]);
    let installed = json!({"properties": list}).to_string();
    let mut documents = sound();
    documents[4][ANNOTATION] = "4.8".into();
    let annotated = |key: &str, text: &str| json!({"annotations": {key: text}});
    let metadata = |metadata: Value| json!({"type": "olm.csv.metadata", "value": metadata});
    let csv = |metadata: Value| json!({"kind": "ClusterServiceVersion", "metadata": metadata});
    let yaml = csv(annotated("operatorframework.io/properties", &installed));
    let mut catalogs = Vec::from(::tests::rows![
        "a property" => with(json!({"type": PROPERTY, "value": "4.8"}));
        "the key" => catalog_of(&documents);
        "a list in the metadata" => with(metadata(annotated("olm.properties", &list.to_string())));
        "the annotation in JSON" => with(object(&csv(annotated(ANNOTATION, "4.8")).to_string()));
        "an installed list in YAML" => with(object(&manifests::yaml::to_string(&yaml).unwrap()));
    ]);
    // Metadata precedes the manifest.
    let manifest = object(&csv(annotated(ANNOTATION, "4.7")).to_string());
    let mut documents = sound();
    let properties = documents[4]["properties"].as_array_mut().unwrap();
    properties.extend([metadata(annotated(ANNOTATION, "4.8")), manifest]);
    catalogs.push(("metadata and a manifest", catalog_of(&documents)));
    for (form, catalog) in catalogs {
        assert_rows!(declared(&catalog) => (Some("4.8".to_owned()), vec![]), "{form}");
    }
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
            => format!("{PROPERTY} is the unquoted number 4.10; other programs read it as 4.1; use \"4.10\"");
        format!("{ANNOTATION}: 4.10\n{package}"), Some("4.10"), 16
            => format!("{PROPERTY} is the unquoted number 4.10; other programs read it as 4.1");
        format!("{package}- type: {PROPERTY}\n  value: latest\n"), None, 20 => format!(
            "{undeterminable}\"latest\" is not <major>.<minor> (catalog properties); OLM v0 rejects the value and blocks \
             every minor upgrade of the cluster"
        );
        format!("{package}- type: olm.csv.metadata\n  value:\n    annotations:\n      {ANNOTATION}: 4.8.1\n"), None, 22
            => format!("{undeterminable}\"4.8.1\" is not <major>.<minor> (annotation {ANNOTATION}); OLM v0 ignores the value");
        format!("{ANNOTATION}: \"4.8\"\n{package}- type: {PROPERTY}\n  value: \"4.30\"\n"), Some("4.8"), 21
            => "max OpenShift version is 4.8 (key".to_owned();
        format!("{ANNOTATION}: \"4.30\"\n{package}- type: {PROPERTY}\n  value: \"4.8\"\n"), Some("4.8"), 16
            => "max OpenShift version is 4.8 (catalog properties)".to_owned();
    ] {
        let catalog = yaml(&bundle);
        assert_eq!(declared(&catalog).0.as_deref(), release, "{bundle}");
        let [finding] = &catalog.findings[..] else {
            panic!("{bundle}: {:?}", catalog.findings);
        };
        let start = format!("bundle \"foo.v0.3.0\": {message}");
        starts(&finding.message, &start);
        let place = (finding.level, finding.file.as_deref(), finding.line);
        assert_rows!(place => (Level::Warning, Some("foo/c.yaml"), Some(line)), "{bundle}");
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
    let before = text.lines().take_while(|line| !line.contains(PROPERTY));
    let property = before.count() + 1;
    assert_eq!(places.collect::<Vec<_>>(), [property + 1, property + 3]);
    assert!(catalog.findings[1].message.contains("more than one"));
}

#[test]
fn annotation_that_is_not_a_string_shows_its_spelling() {
    for (manifest, spelling, remedy) in ::tests::rows![
        "{kind: ClusterServiceVersion, metadata: {annotations: {KEY: 4.10}}}", "4.10" => "use \"4.10\"";
        "{\"kind\": \"ClusterServiceVersion\", \"metadata\": {\"annotations\": {\"KEY\": 4.10}}}", "4.10" => "use \"4.10\"";
        "kind: ClusterServiceVersion\nmetadata:\n  annotations:\n    KEY: yes\n", "yes" => "use a string such as \"4.16\"";
        "{kind: ClusterServiceVersion, metadata: {annotations: {KEY: [4.10]}}}", "[…]" => "use a string such as \"4.16\"";
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
