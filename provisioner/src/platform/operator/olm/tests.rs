use serde_json::json;

use super::*;

fn object(value: Value) -> DynamicObject {
    serde_json::from_value(value).unwrap()
}

fn subscription(name: &str, spec: &Value) -> DynamicObject {
    object(json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription",
        "metadata": {"name": name, "namespace": "ops"}, "spec": spec,
    }))
}

fn csv(metadata: &Value, status: &Value) -> DynamicObject {
    let mut csv = json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "metadata": metadata,
        "status": status,
    });
    csv["metadata"]["name"] = "tide.v1".into();
    csv["metadata"]["namespace"] = "ops".into();
    object(csv)
}

#[test]
fn subscriptions_name_their_package() {
    for (spec, expected) in [
        (json!({"name": "tide"}), Some("tide")),
        (json!({}), None),
        (json!({"name": 3}), None),
        (json!({"name": null}), None),
        (json!("odd"), None),
    ] {
        let found = package("Subscription", &subscription("a", &spec));
        assert_eq!(found.as_deref(), expected, "{spec}");
    }
}

#[test]
fn cluster_service_versions_name_it_in_what_olm_has_written() {
    let of =
        |properties: &str| json!({"annotations": {"operatorframework.io/properties": properties}});
    let tide = json!({"type": "olm.package", "value": {"packageName": "tide", "version": "1.0.0"}});
    let good = json!({"properties": [{"type": "olm.gvk", "value": {}}, tide]}).to_string();
    let with = |key: &str, value: Value| {
        let mut metadata = of(&good);
        metadata[key] = value;
        metadata
    };
    let mut elsewhere = of(&good);
    elsewhere["annotations"]["olm.operatorNamespace"] = "other".into();
    let deep = "[".repeat(100_000);
    for (metadata, status, expected) in [
        (of(&good), json!({}), Some("tide")),
        (
            of(&good),
            json!({"reason": "InstallSucceeded"}),
            Some("tide"),
        ),
        // Copies in other namespaces manage nothing.
        (of(&good), json!({"reason": "Copied"}), None),
        (
            with("labels", json!({"olm.copiedFrom": "ops"})),
            json!({}),
            None,
        ),
        (elsewhere, json!({}), None),
        // What nobody understands manages nothing.
        (json!({}), json!({}), None),
        (of(""), json!({}), None),
        (of("[]"), json!({}), None),
        (of(&deep), json!({}), None),
        (of(r#"{"properties": {}}"#), json!({}), None),
        (
            of(r#"{"properties": [3, null, {"type": "olm.package"}]}"#),
            json!({}),
            None,
        ),
        (
            of(r#"{"properties": [{"type": "olm.package", "value": {"packageName": ["tide"]}}]}"#),
            json!({}),
            None,
        ),
    ] {
        let found = package("ClusterServiceVersion", &csv(&metadata, &status));
        assert_eq!(found.as_deref(), expected, "{metadata:.200} {status}");
    }
}

#[tokio::test]
async fn only_what_changes_something_is_told() {
    let olm = Olm::default();
    let mut changes = olm.changes();
    let has_changed = |changes: &mut watch::Receiver<u64>| {
        let has_changed = changes.has_changed().unwrap();
        changes.mark_unchanged();
        has_changed
    };
    let packages = |names: &[&str]| -> Packages {
        let all = names.iter();
        all.map(|name| (("Subscription", format!("ops/{name}")), (*name).to_owned()))
            .collect()
    };
    olm.list("Subscription", packages(&["tide"]));
    assert!(has_changed(&mut changes));
    olm.list("Subscription", packages(&["tide"]));
    assert!(!has_changed(&mut changes));
    let surf = subscription("surf", &json!({}));
    for (package, expected) in [
        (Some("surf"), true),
        (Some("surf"), false),
        (Some("reef"), true),
        (None, true),
        (None, false),
    ] {
        olm.set("Subscription", &surf, package.map(str::to_owned));
        assert_eq!(has_changed(&mut changes), expected, "{package:?}");
    }
    // The other kind is not touched by that, and is still to be listed.
    olm.set("ClusterServiceVersion", &surf, Some("moon".into()));
    olm.list("Subscription", Packages::new());
    let by: Vec<String> = olm.managed().into_iter().map(|it| it.by).collect();
    assert_eq!(by, ["ClusterServiceVersion ops/surf"]);
    let listed = tokio::time::timeout(std::time::Duration::from_millis(20), olm.is_listed());
    assert!(listed.await.is_err());
    olm.list("ClusterServiceVersion", Packages::new());
    olm.is_listed().await;
    assert!(olm.managed().is_empty());
}
