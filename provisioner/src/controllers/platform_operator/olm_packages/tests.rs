use serde_json::{Value, json};

use super::*;

fn csv(metadata: &Value) -> ObjectMeta {
    let metadata = with!(metadata.clone() =>
        |metadata| metadata["name"] = "tide.v1".into(); metadata["namespace"] = "ops".into());
    serde_json::from_value(metadata).unwrap()
}

#[test]
fn cluster_service_versions_name_their_package() {
    let of = |text: &str| json!({"annotations": {"operatorframework.io/properties": text}});
    let tide = json!({"type": "olm.package", "value": {"packageName": "tide", "version": "1.0.0"}});
    let good = json!({"properties": [{"type": "olm.gvk", "value": {}}, tide]}).to_string();
    let with = |key: &str, value: Value| with!(of(&good) => |metadata| metadata[key] = value);
    let deep = "[".repeat(100_000);
    assert_each!(|metadata, expected| of_csv(&csv(&metadata)).as_deref() => expected;
        of(&good) => Some("tide");
        // Copies in other namespaces are ignored.
        with("labels", json!({"olm.copiedFrom": "ops"})) => None;
        // Malformed objects are ignored.
        json!({}) => None;
        of("") => None;
        of("[]") => None;
        of(&deep) => None;
        of(r#"{"properties": {}}"#) => None;
        of(r#"{"properties": [3, null, {"type": "olm.package"}]}"#) => None;
        of(r#"{"properties": [{"type": "olm.package", "value": {"packageName": ["tide"]}}]}"#) => None;
    );
}

#[test]
fn only_effective_changes_are_reported() {
    let olm = OlmPackages::default();
    let mut changes = olm.changes();
    let has_changed = |changes: &mut watch::Receiver<u64>| {
        let has_changed = changes.has_changed().unwrap();
        changes.mark_unchanged();
        has_changed
    };
    let packages = |names: &[&str]| -> Packages {
        let key = |name: &&str| ("Subscription", format!("ops/{name}"));
        let all = names.iter().map(|name| (key(name), (*name).to_owned()));
        all.collect()
    };
    let set = |kind, package: Option<&str>| {
        olm.set(kind, "ops/surf".to_owned(), package.map(str::to_owned));
    };
    olm.list("Subscription", packages(&["tide"]));
    assert!(has_changed(&mut changes));
    olm.list("Subscription", packages(&["tide"]));
    assert!(!has_changed(&mut changes));
    assert_each!(|package, expected| { set("Subscription", package); has_changed(&mut changes) } => expected;
        Some("surf") => true;
        Some("surf") => false;
        Some("reef") => true;
        None => true;
        None => false;
    );
    // The other kind is not affected, and is still unlisted.
    set("ClusterServiceVersion", Some("moon"));
    olm.list("Subscription", Packages::new());
    assert_rows!(olm.managed().into_iter().map(|package| package.by).collect::<Vec<_>>() => ["ClusterServiceVersion ops/surf"]);
    // Until then, the packages of OLM are unknown, and the reason is reported.
    assert_rows!(olm.unknown().unwrap() => "ClusterServiceVersions have not been listed yet");
    changes.mark_unchanged();
    for expected in [true, false] {
        olm.record_error("ClusterServiceVersion", "403".to_owned());
        assert_eq!(has_changed(&mut changes), expected);
    }
    assert_rows!(olm.unknown().unwrap() => "failed to list ClusterServiceVersions: 403");
    olm.list("ClusterServiceVersion", Packages::new());
    assert!(has_changed(&mut changes));
    assert_eq!(olm.unknown(), None);
    // After the list, the known packages count even if the watch fails.
    olm.record_error("ClusterServiceVersion", "403".to_owned());
    assert_eq!(olm.unknown(), None);
    assert!(olm.managed().is_empty());
}
