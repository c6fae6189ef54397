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
        let choose = ["catalog", "choose", "tide", "--catalog", "catalog"];
        let run = place
            .run(&[&choose[..], &["--openshift-version", "4.20"]].concat())
            .exits(1);
        says(&run.out, &[refusal], &[]);
        place
            .run(&[&choose[..], &["--openshift-version", "4.8"]].concat())
            .exits(0);
        let render = ["platform", "render", "tide", "--catalog", "catalog"];
        let run = place
            .run(&[&render[..], &["--openshift-version", "4.20"]].concat())
            .exits(1);
        says(&run.err, &[refusal], &[]);
        // Rendered, it declares the same.
        let rendered = place
            .run(&["catalog", "render", "-q", "catalog"])
            .exits(0)
            .out;
        place.write("catalog/tide.json", rendered);
        let run = place
            .run(&[&choose[..], &["--openshift-version", "4.20"]].concat())
            .exits(1);
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
    for (value, message) in [
        (
            "4.10",
            "olm.maxOpenShiftVersion is the unquoted number 4.10; other programs read it as 4.1; write \"4.10\"",
        ),
        (
            "latest",
            "\"latest\" is not <major>.<minor> (catalog properties); OLM v0 rejects the value and blocks every minor upgrade",
        ),
        (
            "v4.8",
            "\"v4.8\" is not <major>.<minor> (catalog properties); OLM v0 reads 4.8 and blocks upgrades of the cluster beyond \
             4.8",
        ),
    ] {
        let text = yaml.replacen(
            "properties:\n",
            &format!("properties:\n- type: olm.maxOpenShiftVersion\n  value: {value}\n"),
            1,
        );
        let line = text.lines().position(|line| line.ends_with(value)).unwrap() + 1;
        place.write("catalog/bundle.yaml", &text);
        let run = place.run(&["catalog", "validate", "catalog"]).exits(0);
        let place_of = format!("bundle.yaml:{line} ");
        says(&run.out, &["warning", &place_of, message], &[]);
        says(&run.err, &["0 errors, 1 warning"], &[]);
    }
    let choose = ["catalog", "choose", "tide", "--catalog", "catalog"];
    let run = place
        .run(&[&choose[..], &["--openshift-version", "4.20"]].concat())
        .exits(0);
    let doubt =
        format!("bundle tide.v1.0.0: {UNDETERMINABLE}; the bundle may not run on OpenShift 4.20");
    says(&run.out, &[&doubt], &[]);
}

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
    let run = place.run(&["validate", "tide"]).exits(1);
    let error = format!(
        "{UNDETERMINABLE} (bundle properties); OLM v0 reads 4.8 and blocks upgrades of the cluster beyond 4.8"
    );
    says(
        &run.out,
        &[
            "error",
            "MaxOpenShiftVersion",
            "metadata/properties.yaml:3",
            &error,
        ],
        &[],
    );
    let run = place.run(&["validate", "annotated"]).exits(1);
    let error = format!("{UNDETERMINABLE} (annotation {ANNOTATION}); OLM v0 ignores the value");
    says(&run.out, &["error", "manifests/csv.yaml:", &error], &[]);
    // Nothing is refused for it.
    let run = place.run(&["convert", "tide"]).exits(0);
    says(
        &run.err,
        &[&format!("{UNDETERMINABLE} (bundle properties)")],
        &["OLM v0"],
    );
    let run = place.run(&["inspect", "tide"]).exits(0);
    says(&run.out, &[UNDETERMINABLE], &["at most"]);
    let facts = place
        .run(&["inspect", "tide", "-o", "json"])
        .exits(0)
        .json();
    assert_eq!(
        facts["facts"]["maxOpenShiftVersion"],
        json!({"raw": "v4.8", "source": "bundle properties", "problem": UNDETERMINABLE})
    );
}
