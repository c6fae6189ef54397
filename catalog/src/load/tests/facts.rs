//! Properties: their meaning and their format.

use super::*;
use crate::{
    finding::Level,
    testing::{has, within},
};

pub(super) fn with(property: Value) -> Catalog {
    let mut documents = sound();
    let properties = documents[4]["properties"].as_array_mut();
    properties.unwrap().push(property);
    catalog_of(&documents)
}

/// Returns the last bundle of the valid package.
pub(super) fn last(catalog: &Catalog) -> &crate::model::Bundle {
    &catalog.packages["foo"].bundles["foo.v0.3.0"]
}

// parity: load-7
#[test]
fn manifests_in_properties_are_read() {
    let number = "kind: ClusterServiceVersion\nspec: {minKubeVersion: 1.30}";
    let min_kube = |manifest| last(&with(object(manifest))).min_kube.clone();
    assert_each!(|manifest, expected| min_kube(manifest).as_deref() => Some(expected);
        "{\"kind\": \"ClusterServiceVersion\", \"spec\": {\"minKubeVersion\": \"1.20.0\"}}" => "1.20.0";
        "kind: ClusterServiceVersion\nspec:\n  minKubeVersion: 1.20.0\n" => "1.20.0";
        // A number is not a version.
        number => "a number, not a string";
    );
}

/// opm accepts any value here, and OLM would fail to resolve the bundle.
// parity: validate-9
#[test]
fn malformed_constraint_is_a_warning_and_a_need() {
    let gvk = json!({"gvk": {"group": "g", "version": "v1", "kind": "K"}});
    let not = |inner, _| json!({"not": {"constraints": [inner]}});
    let range = |range: &str| json!({"package": {"packageName": "p", "versionRange": range}});
    for (value, problem) in ::tests::rows![
        gvk.clone() => "";
        range(">=1.0.0") => "";
        json!({"cel": {"rule": "properties.exists(p, true)"}}) => "";
        json!({"cel": {"rule": "1 +"}}) => "unexpected end of expression at 4";
        json!({"any": {"constraints": [{"cel": {"rule": "size(properties)"}}]}})
            => "the CEL expression has type int; it must have type bool";
        json!({"failureMessage": "no", "all": {"constraints": [gvk, {"any": {"constraints": [gvk, gvk]}}]}}) => "";
        json!({"not": {"constraints": [gvk]}}) => "";
        json!({"gvks": {}}) => "json: unknown field \"gvks\"";
        json!({"gvk": {"group": "g", "plural": "ks"}}) => "json: unknown field \"plural\"";
        json!({"failureMessage": 7}) => "Go struct field Constraint.failureMessage of type string";
        json!({"all": [gvk]}) => "Go struct field Constraint.all of type constraints.CompoundConstraint";
        json!({"all": {"constraints": [{"any": {"constraints": [7]}}]}})
            => "Go struct field CompoundConstraint.all.constraints.any.constraints of type constraints.Constraint";
        json!("x") => "json: cannot unmarshal string into Go value of type constraints.Constraint";
        json!(null) => "found none";
        json!({"failureMessage": "m"}) => "found none";
        json!({"gvk": {"version": "v1", "kind": "K"}, "cel": {"rule": "true"}}) => "found cel and gvk";
        json!({"all": {"constraints": [{}]}}) => "found none";
        json!({"all": {"constraints": []}}) => "all has no constraints";
        json!({"any": {}}) => "any has no constraints";
        json!({"cel": {}}) => "the CEL expression is missing";
        json!({"gvk": {"group": "g"}}) => "the API has no kind or no version";
        json!({"package": {}}) => "the package has no name";
        range("^1") => "version range \"^1\"";
        (0..100).fold(gvk.clone(), not) => "nested deeper than 64 levels";
        json!({"failureMessage": "x".repeat(131_072)}) => "olm.constraint value is greater than max constraint size 131072 bytes";
    ] {
        let catalog = with(json!({"type": "olm.constraint", "value": value}));
        assert!(catalog.is_valid(), "{value:.200}");
        let found = finding_lines(&catalog);
        let needs = last(&catalog).requires[0].to_string();
        if problem.is_empty() {
            assert_eq!(found, [""; 0], "{value:.200}");
            assert!(!needs.contains("cannot be read"), "{needs}");
            continue;
        }
        let start = "5: bundle \"foo.v0.3.0\": property[1] of type \"olm.constraint\" cannot be read by OLM: ";
        starts(&found[0], start);
        has(&found[0], problem);
        assert_eq!(catalog.findings[0].level, Level::Warning);
        has(&needs, "cannot be read");
        has(&needs, problem);
    }
}

#[test]
fn repeated_max_openshift_is_bounded() {
    let mut documents = sound();
    let maximum = |at| json!({"type": "olm.maxOpenShiftVersion", "value": format!("4.{at}")});
    let properties = documents[4]["properties"].as_array_mut();
    properties.unwrap().extend((0..100_000).map(maximum));
    // Comparing each value with all others takes more than a minute.
    let catalog = within(20, || catalog_of(&documents));
    let declared = last(&catalog).max_openshift.as_ref().unwrap();
    assert!(declared.version.is_err());
    assert_eq!(declared.raw.split(", ").count(), 10);
}

// parity: platform-28
#[test]
fn media_type_that_is_not_a_string_is_not_the_default() {
    for (value, expected) in [
        (json!("registry+v1"), "registry+v1"),
        (json!("plain+v0"), "plain+v0"),
        (json!(null), "registry+v1"),
        (json!({"x": 1}), "{\"x\":1}"),
        (json!(["registry+v1"]), "[\"registry+v1\"]"),
        (json!(1), "1"),
    ] {
        let catalog = with(json!({"type": "olm.bundle.mediatype", "value": value}));
        // opm does not check this property, so a wrong value is not an error.
        assert_eq!(finding_lines(&catalog), [""; 0]);
        assert_eq!(last(&catalog).media_type(), expected);
    }
}

// parity: validate-5
#[test]
fn build_metadata_of_a_substitute_is_a_release() {
    let metadata = |name: &str| json!({"type": "olm.csv.metadata", "value": {"annotations": {"olm.substitutesFor": name}}});
    let csv = "kind: ClusterServiceVersion\nmetadata: {annotations: {olm.substitutesFor: foo.v0.3.0}}\nspec: {}\n";
    for (property, version, release) in [
        (metadata("foo.v0.3.0"), "0.4.0+0.1649.p", Some("0.1649.p")),
        (object(csv), "0.4.0+7", Some("7")),
        (metadata(""), "0.4.0+7", None),
        (json!({"type": "x", "value": {}}), "0.4.0+7", None),
        (metadata("foo.v0.3.0"), "0.4.0", None),
        // This build metadata is not a valid release.
        (metadata("foo.v0.3.0"), "0.4.0+007", None),
        (metadata("foo.v0.3.0"), "0.4.0+123456789.123456789.1", None),
    ] {
        let mut documents = sound();
        let entry = json!({"name": "foo.v4", "replaces": "foo.v0.3.0"});
        documents[1]["entries"].as_array_mut().unwrap().push(entry);
        let mut bundle = testing::bundle("foo", "foo.v4", version);
        bundle["properties"].as_array_mut().unwrap().push(property);
        documents.push(bundle);
        let catalog = catalog_of(&documents);
        // opm accepts the name, and reports no finding.
        assert_eq!(finding_lines(&catalog), [""; 0], "{version}");
        let found = &catalog.packages["foo"].bundles["foo.v4"].version;
        assert_eq!(found.release.as_deref(), release, "{version}");
        assert_eq!(found.to_string(), version);
    }
}
