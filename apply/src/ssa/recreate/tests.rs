use manifests::{api::labels, object::Object};
use serde_json::json;

use super::*;
use crate::tests::{identity, owner};

/// Returns an object with the labels of the owner and additional fields.
fn object(api_version: &str, kind: &str, more: &Value) -> Value {
    let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": {
        "name": "a", "namespace": "n", "labels": {labels::OWNER_KIND: "BundleInstance", labels::OWNER_NAME: "etcd"},
    }});
    merge(&mut object, more);
    object
}

fn merge(target: &mut Value, more: &Value) {
    match more.as_object() {
        Some(more) => {
            for (key, value) in more {
                merge(&mut target[key], value);
            }
        }
        None => *target = more.clone(),
    }
}

fn found(live: &Value) -> Option<Obstacle> {
    let desired =
        json!({"apiVersion": live["apiVersion"], "kind": live["kind"], "metadata": {"name": "a"}});
    obstacle(&Object::try_from(desired).unwrap(), live, &owner())
}

#[test]
fn kinds_that_may_hold_data_are_not_recreated() {
    for (kinds, is_recreated) in ::tests::rows![
        &[
            "v1 ConfigMap", "v1 Secret", "v1 Service", "v1 Pod", "apps/v1 Deployment", "apps/v1 StatefulSet", "batch/v1 Job",
            "rbac.authorization.k8s.io/v1 RoleBinding", "rbac.authorization.k8s.io/v1 ClusterRoleBinding",
            "storage.k8s.io/v1 StorageClass", "scheduling.k8s.io/v1 PriorityClass",
        ][..] => true;
        &["v1 Namespace", "v1 PersistentVolume", "v1 PersistentVolumeClaim", "apiextensions.k8s.io/v1 CustomResourceDefinition"]
            => false;
        // Custom resources with other kinds and with this one.
        &["etcd.example.com/v1 EtcdCluster", "example.com/v1 Deployment"] => false;
    ] {
        for name in kinds {
            let (api_version, kind) = name.split_once(' ').unwrap();
            let found = found(&object(api_version, kind, &json!({})));
            assert_eq!(found.is_none(), is_recreated, "{name}: {found:?}");
            assert!(matches!(found, None | Some(Obstacle::Kind(_))), "{found:?}");
        }
    }
}

#[test]
fn objects_whose_deletion_is_unsafe_are_not_recreated() {
    let claims =
        |policy| json!({"spec": {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": policy}}});
    let entry = |manager: &str, field: &str, keys: &[&str]| {
        let keys: Value = keys.iter().map(|key| (*key, json!({}))).collect();
        json!({"manager": manager, "operation": "Apply", "fieldsV1": {field: keys}})
    };
    let managed = |other: Value| json!({"metadata": {"managedFields": [entry(MANAGER, "f:data", &[".", "f:a", "f:b"]), other]}});
    assert_each!(|api_version, kind, more, expected| found(&object(api_version, kind, &more)) => expected;
        "v1", "ConfigMap", json!({"metadata": {"annotations": {labels::KEEP: "yes"}}}) => Some(Obstacle::Kept);
        "v1", "ConfigMap", json!({"metadata": {"labels": {labels::OWNER_NAME: "other"}}}) => Some(Obstacle::Foreign);
        "v1", "ConfigMap", json!({"metadata": {"labels": null}}) => Some(Obstacle::Foreign);
        "apps/v1", "StatefulSet", claims("Delete") => Some(Obstacle::Claims);
        "apps/v1", "StatefulSet", claims("Retain") => None;
        "v1", "Secret", managed(entry("signer", "f:data", &["f:b", "f:c"])) => Some(Obstacle::Data("signer".to_owned()));
        "v1", "ConfigMap", managed(entry("signer", "f:binaryData", &["f:c"])) => Some(Obstacle::Data("signer".to_owned()));
        // Two managers set the same data.
        "v1", "ConfigMap", managed(entry("kubectl", "f:data", &[".", "f:a"])) => None;
        "v1", "ConfigMap", managed(entry("kubectl", "f:metadata", &["f:labels"])) => None;
        "v1", "Service", managed(entry("signer", "f:data", &["f:c"])) => None;
    );
}

#[test]
fn only_jobs_with_a_final_condition_are_finished() {
    let state = |kind: &str, group: &str, conditions: Value| {
        let live = json!({"status": {"conditions": conditions}});
        job(&identity(group, kind, "n", "a"), &live)
    };
    let complete = json!([{"type": "Complete", "status": "True"}]);
    assert_each!(|conditions, expected| state("Job", "batch", conditions.clone()) => Some(expected);
        json!(null) => JobState::Unfinished;
        json!([{"type": "Suspended", "status": "True"}]) => JobState::Unfinished;
        json!([{"type": "FailureTarget", "status": "True"}]) => JobState::Unfinished;
        json!([{"type": "Failed", "status": "False"}]) => JobState::Unfinished;
        json!([{"type": "FailureTarget", "status": "True"}, {"type": "Failed", "status": "True"}]) => JobState::Finished;
        complete.clone() => JobState::Finished;
    );
    assert_eq!(state("CronJob", "batch", complete.clone()), None);
    assert_eq!(state("Job", "example.com", complete), None);
}

#[test]
fn permissions_cover_jobs_by_their_state() {
    let immutable = |job| Immutable {
        identity: identity("", "ConfigMap", "n", "a"),
        fields: Vec::new(),
        job,
        obstacle: None,
    };
    let jobs = || [None, Some(JobState::Finished), Some(JobState::Unfinished)];
    let covered = |permission: Permission| jobs().map(|job| permission.covers(&immutable(job)));
    assert_rows! {
        covered(Permission::Delete) => [true, true, true];
        covered(Permission::DeleteFinished) => [false, true, false];
        covered(Permission::Await)[..2] => [false, false];
    }
}

#[test]
fn refusals_name_object_fields_and_remedy() {
    let cause = |field: &str| json!({"reason": "FieldValueForbidden", "message": "field is immutable", "field": field});
    let data = Obstacle::Data("signer".to_owned());
    for (named, obstacle, expected) in ::tests::rows![
        "spec.template spec.selector  spec.selector", None => "spec.selector, spec.template; set it free";
        "a b c d e f g h i j k l", None => "a, b, c, d, e, f, g, h, i, j and 2 more; set it free";
        "spec", Some(data) => "spec; the object is not deleted, because field manager \"signer\" has added data; save the data \
                               and delete the object, or correct the bundle";
    ] {
        let causes: Vec<Value> = named.split(' ').map(cause).collect();
        let details = json!({"details": {"causes": causes}});
        let immutable = Immutable {
            identity: identity("apps", "Deployment", "n", "a"),
            fields: fields(&serde_json::from_value(details).unwrap()),
            job: None,
            obstacle,
        };
        let failure = immutable.refusal("set it free");
        let expected = format!("Deployment n/a: immutable fields changed: {expected}");
        assert_rows!((failure.cause, failure.message) => (FailureKind::Invalid, expected));
    }
}

#[test]
fn allocated_addresses_and_ports_are_not_created_twice() {
    let ports = |numbers: &[u16]| {
        let port = |number: &u16| json!({"port": 80, "nodePort": number});
        numbers.iter().map(port).collect::<Vec<_>>()
    };
    let live = json!({"spec": {
        "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "healthCheckNodePort": 30001, "ports": ports(&[30002, 30003]),
    }});
    let service = |spec: &Value| json!({"apiVersion": "v1", "kind": "Service", "spec": spec});
    assert_each!(|desired, expected| without_allocations(service(&desired), &live)["spec"] => expected;
        json!({"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"]}) => json!({});
        json!({"clusterIP": "10.0.0.2"}) => json!({"clusterIP": "10.0.0.2"});
        json!({"clusterIP": "None"}) => json!({"clusterIP": "None"});
        json!({"healthCheckNodePort": 30001}) => json!({});
        json!({"healthCheckNodePort": 30009}) => json!({"healthCheckNodePort": 30009});
        json!({"ports": ports(&[30003, 30004])}) => json!({"ports": [{"port": 80}, {"port": 80, "nodePort": 30004}]});
    );
    let headless = service(&json!({"clusterIP": "None"}));
    assert_eq!(without_allocations(headless.clone(), &headless), headless);
    let other = json!({"apiVersion": "example.com/v1", "kind": "Service", "spec": {"clusterIP": "10.0.0.1"}});
    assert_eq!(without_allocations(other.clone(), &live), other);
}
