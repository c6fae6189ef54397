//! The max OpenShift version, with the same answer of every command that reads bundles or catalogs.

use serde_json::{Value, json};

use crate::{
    bundle::{Place, csv},
    sources::says,
};

const ANNOTATION: &str = "operators.coreos.com/maxOpenShiftVersion";
const UNDETERMINABLE: &str =
    "max OpenShift version cannot be determined: \"v4.8\" is not <major>.<minor>";

/// A catalog with one bundle of the package `tide`.
fn catalog(place: &Place, properties: &[Value], key: Option<&str>) {
    let mut all =
        vec![json!({"type": "olm.package", "value": {"packageName": "tide", "version": "1.0.0"}})];
    all.extend_from_slice(properties);
    let mut bundle = json!({
        "schema": "olm.bundle", "package": "tide", "name": "tide.v1.0.0", "image": "quay.io/example/tide:v1",
        "properties": all,
    });
    if let Some(key) = key {
        bundle[ANNOTATION] = key.into();
    }
    let documents = [
        json!({"schema": "olm.package", "name": "tide", "defaultChannel": "stable"}),
        json!({"schema": "olm.channel", "package": "tide", "name": "stable", "entries": [{"name": "tide.v1.0.0"}]}),
        bundle,
    ];
    let text: Vec<_> = documents
        .iter()
        .map(|document| format!("{document}\n"))
        .collect();
    place.write("catalog/tide.json", text.concat());
}

// parity: max-4, max-5
#[test]
fn annotated_bundle_is_not_chosen_on_a_newer_openshift() {
    let place = Place::new();
    let metadata = |key: &str, text: &str| json!({"type": "olm.csv.metadata", "value": {"annotations": {key: text}}});
    let list = json!([{"type": "olm.maxOpenShiftVersion", "value": "4.8"}]).to_string();
    for (property, key) in [
        (Some(metadata(ANNOTATION, "4.8")), None),
        (Some(metadata("olm.properties", &list)), None),
        (None, Some("4.8")),
    ] {
        catalog(&place, property.as_slice(), key);
        let refusal = "requires OpenShift <= 4.8 but the cluster is 4.20";
        let choose = "catalog choose tide --catalog catalog";
        let run = place.fail(&format!("{choose} --openshift-version 4.20"));
        says(&run.out, &[refusal], &[]);
        place.ok(&format!("{choose} --openshift-version 4.8"));
        let render = "platform render tide --catalog catalog";
        let run = place.fail(&format!("{render} --openshift-version 4.20"));
        says(&run.err, &[refusal], &[]);
        // Rendered, it declares the same.
        let rendered = place.ok("catalog render -q catalog").out;
        place.write("catalog/tide.json", rendered);
        let run = place.fail(&format!("{choose} --openshift-version 4.20"));
        says(&run.out, &[refusal], &[]);
    }
}

#[test]
fn invalid_values_of_a_catalog_are_warnings_with_file_and_line() {
    let place = Place::new();
    catalog(&place, &[], None);
    let text = place.read("catalog/tide.json");
    let bundle: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    let head: Vec<_> = text.lines().take(2).collect();
    place.write("catalog/tide.json", head.join("\n"));
    let yaml = manifests::yaml::to_string(&bundle).unwrap();
    for (value, message) in tests::rows![
        "4.10" => "olm.maxOpenShiftVersion is the unquoted number 4.10; other programs read it as 4.1; write \"4.10\"";
        "latest"
            => "\"latest\" is not <major>.<minor> (catalog properties); OLM v0 rejects the value and blocks every minor upgrade";
        "v4.8"
            => "\"v4.8\" is not <major>.<minor> (catalog properties); OLM v0 reads 4.8 and blocks upgrades of the cluster beyond 4.8";
    ] {
        let text = yaml.replacen(
            "properties:\n",
            &format!("properties:\n- type: olm.maxOpenShiftVersion\n  value: {value}\n"),
            1,
        );
        let line = text.lines().position(|line| line.ends_with(value)).unwrap() + 1;
        place.write("catalog/bundle.yaml", &text);
        let run = place.ok("catalog validate catalog");
        let place_of = format!("bundle.yaml:{line} ");
        says(&run.out, &["warning", &place_of, message], &[]);
        says(&run.err, &["0 errors, 1 warning"], &[]);
    }
    let choose = "catalog choose tide --catalog catalog";
    let run = place.ok(&format!("{choose} --openshift-version 4.20"));
    let doubt =
        format!("bundle tide.v1.0.0: {UNDETERMINABLE}; the bundle may not run on OpenShift 4.20");
    says(&run.out, &[&doubt], &[]);
}

// parity: max-9
#[test]
fn invalid_value_of_a_bundle_has_one_wording() {
    let place = Place::new();
    let mut csv = csv("tide");
    csv["metadata"]["annotations"][ANNOTATION] = "v4.8".into();
    place.bundle("annotated", &csv);
    place.good("tide");
    place.write(
        "tide/metadata/properties.yaml",
        "properties:\n- type: olm.maxOpenShiftVersion\n  value: \"v4.8\"\n",
    );
    let run = place.fail("validate tide");
    let error = format!(
        "{UNDETERMINABLE} (bundle properties); OLM v0 reads 4.8 and blocks upgrades of the cluster beyond 4.8"
    );
    run.out_has("error");
    run.out_has("MaxOpenShiftVersion");
    run.out_has("metadata/properties.yaml:3");
    run.out_has(&error);
    let run = place.fail("validate annotated");
    let error = format!("{UNDETERMINABLE} (annotation {ANNOTATION}); OLM v0 ignores the value");
    says(&run.out, &["error", "manifests/csv.yaml:", &error], &[]);
    // Nothing is refused for it.
    let run = place.ok("convert tide");
    run.err_has(format!("{UNDETERMINABLE} (bundle properties)"));
    run.err_lacks("OLM v0");
    let run = place.ok("inspect tide");
    says(&run.out, &[UNDETERMINABLE], &["at most"]);
    let facts = place.ok("inspect tide -o json").json();
    assert_eq!(
        facts["facts"]["maxOpenShiftVersion"],
        json!({"raw": "v4.8", "source": "bundle properties", "problem": UNDETERMINABLE})
    );
}

/// The columns: the number in a YAML file, and what other programs read and OLM v0 does then.
#[test]
fn number_spelling_means_the_same_in_bundle_and_catalog() {
    for (spelling, read_as, olm_v0) in [
        ("+4.8", "4.8", "OLM v0 reads 4.8 and blocks"),
        (".8", "0.8", "OLM v0 reads 0.8 and blocks"),
        ("0x48", "72", "OLM v0 reads 72.0 and blocks"),
        ("4_8.0", "48", "OLM v0 reads 48.0 and blocks"),
        ("4.8e0", "4.8", "OLM v0 reads 4.8 and blocks"),
        ("4.", "4", "OLM v0 reads 4.0 and blocks"),
    ] {
        let place = Place::new();
        let properties = format!("- type: olm.maxOpenShiftVersion\n  value: {spelling}\n");
        place.good("tide");
        place.write(
            "tide/metadata/properties.yaml",
            format!("properties:\n{properties}"),
        );
        place.write(
            "catalog/tide.yaml",
            format!(
                "schema: olm.package\nname: tide\ndefaultChannel: stable\n---\nschema: olm.channel\npackage: tide\nname: stable\n\
                 entries: [{{name: tide.v1.0.0}}]\n---\nschema: olm.bundle\npackage: tide\nname: tide.v1.0.0\nimage: a/b:v1\n\
                 properties:\n- type: olm.package\n  value: {{packageName: tide, version: 1.0.0}}\n{properties}"
            ),
        );
        let problem = format!(
            "max OpenShift version cannot be determined: \"{spelling}\" is not <major>.<minor>"
        );
        let number = format!(
            "is the unquoted number {spelling}; other programs read it as {read_as}; write a string such as \"4.16\""
        );
        let bundle = place.fail("validate tide");
        let explained = format!("{problem} (bundle properties); {olm_v0}");
        says(&bundle.out, &[&explained, &number], &[]);
        let catalog = place.ok("catalog validate catalog");
        let explained = format!("{problem} (catalog properties); {olm_v0}");
        says(&catalog.out, &[&explained, &number], &[]);
        let facts = place.ok("inspect tide -o json");
        assert_eq!(
            facts.json()["facts"]["maxOpenShiftVersion"],
            json!({"raw": spelling, "source": "bundle properties", "problem": problem})
        );
        for source in ["tide", "catalog"] {
            let rendered = place.ok(&format!("catalog render -q {source}"));
            let value = format!("\"value\": \"{spelling}\"");
            says(&rendered.out, &[&value], &[]);
        }
    }
}

#[test]
fn unquoted_annotation_has_one_wording() {
    let place = Place::new();
    let mut csv = csv("tide");
    csv["metadata"]["annotations"][ANNOTATION] = "4.10".into();
    place.bundle("tide", &csv);
    let text = place.read("tide/manifests/csv.yaml");
    let text = text.replace("\"4.10\"", "4.10");
    place.write("tide/manifests/csv.yaml", text);
    let metadata =
        json!({"type": "olm.csv.metadata", "value": {"annotations": {ANNOTATION: "4.10"}}});
    catalog(&place, &[metadata], None);
    let text = place.read("catalog/tide.json");
    place.write("catalog/tide.json", text.replace("\"4.10\"", "4.10"));
    let wording = format!(
        "max OpenShift version cannot be determined: 4.10 is not a string, and annotations must be strings (annotation \
         {ANNOTATION}); OLM v0 rejects the ClusterServiceVersion; write \"4.10\""
    );
    let run = place.fail("validate tide");
    says(&run.out, &["WrongShape", &wording], &["4.1)"]);
    let run = place.fail("catalog validate catalog");
    says(&run.out, &["json: cannot unmarshal number", &wording], &[]);
    let facts = place.run("inspect tide -o json");
    assert_eq!(facts.json()["facts"]["maxOpenShiftVersion"]["raw"], "4.10");
}

#[test]
fn lower_of_key_and_property_counts() {
    let place = Place::new();
    let choose = "catalog choose tide --catalog catalog --openshift-version 4.20";
    for (key, property, release) in [
        ("4.8", "4.30", "4.8"),
        ("4.30", "4.9", "4.9"),
        ("4.8", "latest", "4.8"),
    ] {
        let property = json!({"type": "olm.maxOpenShiftVersion", "value": property});
        catalog(&place, &[property], Some(key));
        let refusal = format!("requires OpenShift <= {release} but the cluster is 4.20");
        let run = place.fail(choose);
        says(&run.out, &[&refusal], &[]);
        let rendered = place.ok("catalog render -q catalog");
        let value = format!("\"value\": \"{release}\"");
        says(&rendered.out, &[&value], &[]);
    }
}

#[test]
fn metadata_files_declare_the_same_for_all_commands() {
    const MAX: &str = "olm.maxOpenShiftVersion";
    let entry = |value: &str| format!("properties:\n- type: {MAX}\n  value: {value}\n");
    let named = |name: &str, value: &str| (format!("metadata/{name}"), entry(value));
    let properties = |text: &str| vec![("metadata/properties.yaml".to_owned(), text.to_owned())];
    for (files, version, rendered, validated, warning) in tests::rows![
        // Names of fields have any case.
        properties(&format!("Properties:\n- type: {MAX}\n  value: \"4.8\"\n")), Some("4.8"), Some("\"4.8\""), None => None;
        properties(&format!("properties:\n- TYPE: {MAX}\n  Value: 4.10\n")), Some("4.10"), Some("\"4.10\""),
            Some("the unquoted number 4.10") => None;
        // What opm does not read is reported.
        properties(&entry("4.8").replace("properties", "propertys")), None, None,
            Some("the first document has no list \"properties\"; the file is ignored") => None;
        properties(&format!("a: b\n---\n{}", entry("\"4.8\""))), None, None,
            Some("the first document has no list \"properties\"") => Some("found more than one document");
        properties(&format!("# a comment\n---\n{}", entry("\"4.8\""))), None, None,
            Some("only the first document is used") => Some("found more than one document");
        properties("properties: 4.8\n"), None, None, Some("properties is a number") =>
            Some("metadata/properties.yaml: properties is a number; opm ignores the whole list");
        properties(&format!("{}---\n{}", entry("\"4.20\""), entry("\"4.8\""))), Some("4.20"), Some("\"4.20\""),
            Some("only the first document is used") => Some("found more than one document");
        vec![named("aa.txt", "\"4.8\""), named("properties.yaml", "\"4.20\"")], Some("4.20"), Some("\"4.8\""),
            Some("opm renders catalogs with the properties of this file, but here properties of \
                  metadata/properties.yaml are used") => None;
        properties(&format!("properties:\n- 7\n- type: {MAX}\n  value: \"4.8\"\n")), Some("4.8"), None,
            Some("properties[0] has no type") => Some("properties[0] is a number; opm ignores the whole list");
        properties(&entry("|\n    4.20")), Some("4.20"), Some("\"4.20\\n\""),
            Some("max OpenShift version is 4.20 (bundle properties), but OLM v0 rejects the value") => None;
    ] {
        let place = Place::new();
        place.good("tide");
        for (path, text) in &files {
            place.write(&format!("tide/{path}"), text);
        }
        let facts = place.ok("inspect tide -o json").json()["facts"].clone();
        let release = &facts["maxOpenShiftVersion"]["version"];
        let release = release
            .is_object()
            .then(|| format!("{}.{}", release["major"], release["minor"]));
        assert_eq!(release.as_deref(), version, "{files:?}");
        let validation = place.run("validate tide");
        if let Some(validated) = validated {
            validation.out_has(validated);
        } else {
            says(&validation.out, &[], &[MAX]);
        }
        let render = place.ok("catalog render tide");
        let value = rendered.map(|value| format!("\"value\": {value}"));
        assert_eq!(render.out.contains(MAX), value.is_some(), "{}", render.out);
        says(
            &render.out,
            &value.iter().map(String::as_str).collect::<Vec<_>>(),
            &[],
        );
        if let Some(warning) = warning {
            render.err_has(warning);
        }
    }
}
