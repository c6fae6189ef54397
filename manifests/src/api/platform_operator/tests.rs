use serde_json::{Value, json};

use super::*;

fn operator(name: &str, spec: &Value, status: &Value, minors: Option<&str>) -> PlatformOperator {
    serde_json::from_value(json!({
        "apiVersion": "platform.openshift.io/v1alpha1", "kind": "PlatformOperator",
        "metadata": {"name": name, "annotations": minors.map(|minors| json!({labels::APPROVED_MINORS: minors}))}, "spec": spec,
        "status": status,
    }))
    .unwrap()
}

#[test]
fn values_that_a_foreign_crd_accepts_are_rejected() {
    let (longest, too_long) = ("e".repeat(45), "e".repeat(46));
    for (name, spec, expected) in ::tests::rows![
        "etcd", json!({"package": {"name": "etcd"}}) => Ok(());
        "etcd", json!({"package": {"name": "a".repeat(56)}}) => Ok(());
        "etcd", json!({"package": {"name": "a".repeat(57)}})
            => Err("PlatformOperator etcd*must be no more than 56 characters; recreate the PlatformOperator*");
        "etcd", json!({"package": {"name": "Foo_Bar!"}})
            => Err("PlatformOperator etcd*spec.package.name \"Foo_Bar!\" must consist of lower case letters*");
        "etcd", json!({"package": {"name": ""}}) => Err("PlatformOperator etcd*spec.package.name \"\" must not be empty*");
        "etcd", json!({"package": {"name": "etcd\n"}}) => Err("PlatformOperator etcd*spec.package.name \"etcd\\n\" must consist*");
        "etcd", json!({"package": {"name": "etcd"}, "version": ">=1.0.0 <2.0.0"}) => Ok(());
        "etcd", json!({"package": {"name": "etcd"}, "version": "^1.0.0"})
            => Err("PlatformOperator etcd*spec.version: version range \"^1.0.0\"*");
        longest.as_str(), json!({"package": {"name": "etcd"}}) => Ok(());
        too_long.as_str(), json!({"package": {"name": "etcd"}}) => Err("*has more than 45 characters*");
    ] {
        let found = operator(name, &spec, &json!({}), None).check();
        ::tests::table::assert_outcome(found, expected, spec);
    }
}

#[test]
fn recorded_minors_are_read_from_the_annotation() {
    let package = json!({"package": {"name": "etcd"}});
    let recorded = |status: Value, annotation: Option<&str>| {
        let minors = operator("etcd", &package, &status, annotation).approved_minors();
        minors.map(|minors| minors.to_string())
    };
    let status = json!({"clusterMinor": "4.12", "packageMinor": "2.5"});
    assert_each!(|status, annotation, expected| recorded(status, annotation).as_deref() => expected;
        status.clone(), None => Some("4.12 2.5");
        status, Some("4.11 2.4") => Some("4.12 2.5");
        json!({}), Some("4.10 1.20") => Some("4.10 1.20");
        json!({"clusterMinor": "4.12"}), None => None;
    );
    let nonsense = ["", "4.10", "4.10 ", "a b", "4.10 1.20 3", "04.1 1.0"];
    assert_rows!(nonsense.into_iter().find(|text| recorded(json!({}), Some(text)).is_some()) => None);
}

// parity: openshift-8
#[test]
fn instance_is_found_under_both_names() {
    let package = json!({"package": {"name": "etcd"}});
    assert_each!(|status, expected| operator("etcd", &package, &status, None).active_instance() => expected;
        json!({}) => None;
        json!({"activeBundleDeployment": {"name": ""}}) => None;
        json!({"activeBundleDeployment": {"name": "a"}}) => Some("a");
        json!({"activeBundleInstance": {"name": "b"}}) => Some("b");
        json!({"activeBundleInstance": {"name": ""}, "activeBundleDeployment": {"name": "a"}}) => Some("a");
    );
}

#[test]
fn object_of_openshift_has_safe_defaults() {
    let spec: PlatformOperatorSpec =
        serde_json::from_value(json!({"package": {"name": "etcd"}})).unwrap();
    let approvals = (&spec.upgrade_approval, &spec.approve_new_rights);
    assert_rows!(approvals => (&UpgradeApproval::WithCluster, &RightsApproval::Automatic));
    assert!(spec.bundle.is_none() && spec.catalog.is_none());
}
