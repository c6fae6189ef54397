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

fn check_spec(spec: &Value) -> Result<(), InvalidOperator> {
    operator("etcd", spec, &json!({}), None).check()
}

#[test]
fn values_that_a_foreign_crd_accepts_are_rejected() {
    for (spec, problem) in ::tests::rows![
        json!({"package": {"name": "etcd"}}) => None;
        json!({"package": {"name": "a".repeat(56)}}) => None;
        json!({"package": {"name": "a".repeat(57)}}) => Some("must be no more than 56 characters; recreate the PlatformOperator");
        json!({"package": {"name": "Foo_Bar!"}}) => Some("spec.package.name \"Foo_Bar!\" must consist of lower case letters");
        json!({"package": {"name": ""}}) => Some("spec.package.name \"\" must not be empty");
        json!({"package": {"name": "etcd\n"}}) => Some("spec.package.name \"etcd\\n\" must consist");
        json!({"package": {"name": "etcd"}, "version": ">=1.0.0 <2.0.0"}) => None;
        json!({"package": {"name": "etcd"}, "version": "^1.0.0"}) => Some("spec.version: version range \"^1.0.0\"");
    ] {
        match (check_spec(&spec), problem) {
            (found, None) => assert_eq!(found, Ok(()), "{spec}"),
            (found, Some(problem)) => {
                let message = found.unwrap_err().to_string();
                assert!(message.contains(problem), "{message}");
                assert!(message.starts_with("PlatformOperator etcd"), "{message}");
            }
        }
    }
    let package = json!({"package": {"name": "etcd"}});
    let named = |length| operator(&"e".repeat(length), &package, &json!({}), None).check();
    assert_eq!(named(45), Ok(()));
    let message = named(46).unwrap_err().to_string();
    assert!(message.contains("has more than 45 characters"), "{message}");
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
    for nonsense in ["", "4.10", "4.10 ", "a b", "4.10 1.20 3", "04.1 1.0"] {
        assert_eq!(recorded(json!({}), Some(nonsense)), None, "{nonsense}");
    }
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
    assert_eq!(spec.upgrade_approval, UpgradeApproval::WithCluster);
    assert_eq!(spec.approve_new_rights, RightsApproval::Automatic);
    assert!(spec.bundle.is_none() && spec.catalog.is_none());
}
