use manifests::version::KubeVersion;
use serde_json::{Value, json};

use crate::{
    api_upgrade::{Disposition, UpgradeNote, tests::brief, upgrade},
    finding::Level,
};

#[allow(clippy::needless_pass_by_value, reason = "the cases read better")]
fn upgraded(spec: Value) -> (Value, Vec<UpgradeNote>) {
    let mut object = json!({
        "apiVersion": "apiextensions.k8s.io/v1beta1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "as.example.com", "creationTimestamp": null},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"kind": "A", "plural": "as"}},
        "status": {"acceptedNames": {"kind": "", "plural": ""}, "conditions": [], "storedVersions": []},
    });
    if let Some(more) = spec.as_object() {
        object["spec"].as_object_mut().unwrap().extend(more.clone());
    }
    let mut changes = Vec::new();
    assert_rows!(upgrade(&mut object, KubeVersion::NEWEST, &mut changes) => Disposition::Keep);
    (object, changes)
}

/// Returns the versions, and all changes except that of the API version.
fn versions(spec: Value) -> (Value, Vec<String>) {
    let (mut object, changes) = upgraded(spec);
    let changes = brief(&changes).split_off(1);
    (object["spec"]["versions"].take(), changes)
}

fn open() -> Value {
    json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}})
}

fn schema() -> Value {
    json!({"openAPIV3Schema": {"type": "object", "required": ["spec"]}})
}

// parity: convert-15
#[test]
fn crd_moves_to_v1() {
    let (object, changes) =
        upgraded(json!({"version": "v1", "preserveUnknownFields": false, "validation": schema()}));
    assert_rows!(object => json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "as.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"kind": "A", "plural": "as"}, "versions": [{
            "name": "v1", "served": true, "storage": true, "schema": schema(),
        }]},
    }));
    assert_eq!(changes.len(), 1, "{changes:?}");
}

#[test]
fn versions_are_listed_named_or_both() {
    let version = |name: &str, storage: bool| json!({"name": name, "served": true, "storage": storage, "schema": open()});
    let listed =
        |name: &str, storage: bool| json!({"name": name, "served": true, "storage": storage});
    let is_open = "Change Schema spec";
    assert_each!(|spec, expected, changes| versions(spec.clone()) => (expected, changes.iter().map(ToString::to_string).collect());
        json!({"version": "v1"}), json!([version("v1", true)]) => vec![is_open];
        json!({"version": "v1", "versions": []}), json!([version("v1", true)]) => vec![is_open];
        json!({"version": null, "versions": [listed("v1", true)]}), json!([version("v1", true)]) => vec![is_open];
        json!({"version": "v2", "versions": [listed("v2", false), listed("v1", true)]}),
            json!([version("v2", false), version("v1", true)]) => vec![is_open];
        json!({"version": "v1", "versions": [listed("v2", false), listed("v1", true)]}),
            json!([version("v2", false), version("v1", true)]) => vec!["Warning UpgradedAPI spec.version", is_open];
        json!({"versions": [{"name": "v1"}]}), json!([version("v1", true)])
            => vec!["Warning UpgradedAPI spec.versions[0]", is_open];
        json!({"versions": [{"name": "v1", "storage": true}, {"name": "v2", "served": true}]}), json!([
            {"name": "v1", "served": false, "storage": true, "schema": open()},
            {"name": "v2", "served": true, "storage": false, "schema": open()},
        ]) => vec![is_open];
    );
}

#[test]
fn crd_without_a_single_storage_version_is_rejected() {
    let specs = json!([
        {}, {"version": ""}, {"version": 1}, {"version": "v1", "preserveUnknownFields": "no"}, {"versions": {}},
        {"versions": ["v1"]}, {"versions": [{"name": "v1"}, {"name": "v2"}]},
        {"versions": [{"name": "v1", "storage": true}, {"name": "v2", "storage": true}]},
    ]);
    for spec in specs.as_array().unwrap() {
        let (_, changes) = upgraded(spec.clone());
        assert_rows!(changes.iter().filter(|change| change.level == Level::Error).count() => 1, "{spec}: {changes:?}");
    }
}

#[test]
fn shared_fields_move_into_versions_without_them() {
    // A bare status subresource remains disabled.
    assert_rows!(versions(json!({"version": "v1", "subresources": {"status": null}})).0[0]["subresources"] => json!({}));
    let column = |path: &str| json!([{"name": "Phase", "type": "string", path: ".status.phase"}]);
    let own = json!({"scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}});
    let (versions, changes) = versions(json!({
        "preserveUnknownFields": false,
        "validation": schema(),
        "subresources": {"status": {}},
        "additionalPrinterColumns": column("JSONPath"),
        "versions": [
            {"name": "v2", "served": true, "storage": true},
            {"name": "v1", "served": true, "storage": false, "subresources": own, "schema": {"openAPIV3Schema": {"type": "object"}},
             "additionalPrinterColumns": [{"name": "Age", "type": "date", "JSONPath": ".metadata.creationTimestamp"}]},
        ],
    }));
    assert_rows!(versions => json!([
        {"name": "v2", "served": true, "storage": true, "subresources": {"status": {}}, "schema": schema(),
         "additionalPrinterColumns": column("jsonPath")},
        {"name": "v1", "served": true, "storage": false, "subresources": own, "schema": {"openAPIV3Schema": {"type": "object"}},
         "additionalPrinterColumns": [{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}]},
    ]));
    assert_eq!(changes, [""; 0]);
}

#[test]
fn crd_without_a_schema_accepts_any_object() {
    for (validation, expected) in ::tests::rows![
        json!(null) => vec!["Change Schema spec"];
        json!({}) => vec!["Change Schema spec"];
        json!({"openAPIV3Schema": null}) => vec!["Change Schema spec"];
        json!({"type": "object"}) => vec!["Warning Schema spec.validation", "Change Schema spec"];
    ] {
        let (versions, changes) = versions(json!({"version": "v1", "validation": validation}));
        assert_rows!((&versions[0]["schema"], changes) => (&open(), expected.iter().map(ToString::to_string).collect()));
    }
}

#[test]
fn broken_columns_are_reported() {
    let (versions, changes) = versions(json!({"version": "v1", "additionalPrinterColumns": [
        {"name": "a", "type": "string", "JSONPath": "status.a"}, {"name": "b", "type": "string"},
    ]}));
    assert_rows!(versions[0]["additionalPrinterColumns"] => json!([{"name": "a", "type": "string", "jsonPath": ".status.a"}]));
    let columns = "Warning UpgradedAPI spec.additionalPrinterColumns".to_owned();
    assert_rows!(changes => [columns.clone(), columns, "Change Schema spec".to_owned()]);
}

#[test]
fn conversion_webhooks_move() {
    let client = json!({"service": {"name": "a", "namespace": "b"}});
    assert_each!(|old, new| upgraded(json!({"version": "v1", "conversion": old})).0["spec"]["conversion"] => new;
        json!({"strategy": "None"}) => json!({"strategy": "None"});
        json!({}) => json!({"strategy": "None"});
        json!({"strategy": "None", "webhookClientConfig": client}) => json!({"strategy": "None"});
        json!({"strategy": "Webhook", "webhookClientConfig": client})
            => json!({"strategy": "Webhook", "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1beta1"]}});
        json!({"strategy": "Webhook", "webhookClientConfig": client, "conversionReviewVersions": ["v1", "v1beta1"]})
            => json!({"strategy": "Webhook", "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1", "v1beta1"]}});
    );
}

#[test]
fn a_placeholder_for_a_certificate_is_removed() {
    for (bundle, is_retained) in [("Cg==", false), ("", false), (&*"LS0t".repeat(100), true)] {
        let conversion = json!({"strategy": "Webhook", "webhookClientConfig": json!({"url": "https://a", "caBundle": bundle})});
        let (object, changes) = upgraded(json!({"version": "v1", "conversion": conversion}));
        let client = &object["spec"]["conversion"]["webhook"]["clientConfig"];
        assert_eq!(client.get("caBundle").is_some(), is_retained, "{bundle}");
        assert_rows!(changes.iter().any(|change| change.level == Level::Warning) => !is_retained, "{bundle}");
    }
}

#[test]
fn the_default_scope_is_written_out() {
    for (scope, expected, is_reported) in [
        (json!(null), json!("Namespaced"), true),
        (json!(""), json!("Namespaced"), true),
        (json!("Cluster"), json!("Cluster"), false),
        (json!(5), json!(5), false),
    ] {
        let (object, changes) = upgraded(json!({"version": "v1", "scope": scope}));
        let mut says = changes.iter();
        let says = says.any(|change| change.message.contains("Namespaced"));
        assert_rows!((&object["spec"]["scope"], says) => (&expected, is_reported), "{scope}");
    }
}

#[test]
fn copies_of_shared_fields_fit_into_a_request() {
    let text = |length| "x".repeat(length);
    let schema =
        |length| json!({"openAPIV3Schema": {"type": "object", "description": text(length)}});
    let columns = |length| json!([{"name": "a", "type": "string", "JSONPath": ".a", "description": text(length)}]);
    for (key, shared, number, is_refused) in ::tests::rows![
        // Cases from published CRDs.
        "validation", schema(500 << 10), 5 => false;
        "additionalPrinterColumns", columns(1 << 10), 6 => false;
        "validation", schema(50), 100 => false;
        // More than an API server accepts.
        "validation", schema(1 << 20), 4 => true;
        "additionalPrinterColumns", columns(1 << 20), 4 => true;
        "subresources", json!({"scale": {"labelSelectorPath": text(40 << 10)}}), 100 => true;
        "selectableFields", json!([{"jsonPath": text(40 << 10)}]), 100 => true;
        // A small CRD with many versions.
        "validation", schema(1 << 10), 10 => false;
        "validation", schema(4 << 10), 100 => false;
        "additionalPrinterColumns", columns(4 << 10), 100 => false;
    ] {
        let versions: Vec<Value> = (0..number)
            .map(|n| json!({"name": format!("v{n}"), "served": true, "storage": n == 0}))
            .collect();
        let (_, changes) = upgraded(json!({"versions": versions, key: shared}));
        let errors = changes.iter().filter(|change| change.level == Level::Error);
        let errors: Vec<_> = errors.map(|change| change.path.to_string()).collect();
        assert_rows!(errors => Vec::from_iter(is_refused.then(|| format!("spec.{key}"))), "{key} {number}");
    }
}
