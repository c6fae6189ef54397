use kube::core::response::{StatusCause, StatusDetails};
use manifests::{api::labels, object::Object};
use serde_json::json;

use super::*;

fn owner() -> Owner {
    Owner {
        name: "etcd".to_owned(),
        uid: "uid-of-etcd".to_owned(),
    }
}

/// An object that carries the labels of the owner, with more fields.
fn object(api_version: &str, kind: &str, more: &Value) -> Value {
    let mut object = json!({
        "apiVersion": api_version, "kind": kind,
        "metadata": {
            "name": "a", "namespace": "n",
            "labels": {labels::OWNER_KIND: "BundleInstance", labels::OWNER_NAME: "etcd"},
        },
    });
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
    let desired = json!({
        "apiVersion": live["apiVersion"], "kind": live["kind"], "metadata": {"name": "a"},
    });
    obstacle(&Object::try_from(desired).unwrap(), live, &owner())
}

#[test]
fn kinds_that_may_hold_data_are_not_recreated() {
    for (api_version, kind, is_recreated) in ::tests::rows![
        "v1", "ConfigMap" => true;
        "v1", "Secret" => true;
        "v1", "Service" => true;
        "v1", "Pod" => true;
        "apps/v1", "Deployment" => true;
        "apps/v1", "StatefulSet" => true;
        "batch/v1", "Job" => true;
        "rbac.authorization.k8s.io/v1", "RoleBinding" => true;
        "rbac.authorization.k8s.io/v1", "ClusterRoleBinding" => true;
        "storage.k8s.io/v1", "StorageClass" => true;
        "scheduling.k8s.io/v1", "PriorityClass" => true;
        "v1", "Namespace" => false;
        "v1", "PersistentVolume" => false;
        "v1", "PersistentVolumeClaim" => false;
        "apiextensions.k8s.io/v1", "CustomResourceDefinition" => false;
        // Custom resources, whatever their kind is called.
        "etcd.example.com/v1", "EtcdCluster" => false;
        "example.com/v1", "Deployment" => false;
    ] {
        let found = found(&object(api_version, kind, &json!({})));
        assert_eq!(
            found.is_none(),
            is_recreated,
            "{api_version} {kind}: {found:?}"
        );
        assert!(matches!(found, None | Some(Obstacle::Kind(_))), "{found:?}");
    }
}

#[test]
fn objects_whose_deletion_is_unsafe_are_not_recreated() {
    let keep = json!({"metadata": {"annotations": {labels::KEEP: "yes"}}});
    let claims =
        |policy| json!({"spec": {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": policy}}});
    let entry = |manager: &str, field: &str, keys: &[&str]| {
        let keys = keys.iter().map(|key| ((*key).to_owned(), json!({})));
        let keys: serde_json::Map<String, Value> = keys.collect();
        json!({"manager": manager, "operation": "Apply", "fieldsV1": {field: keys}})
    };
    let managed = |other: Value| json!({"metadata": {"managedFields": [entry(MANAGER, "f:data", &[".", "f:a", "f:b"]), other]}});
    for (api_version, kind, more, expected) in [
        ("v1", "ConfigMap", keep, Some(Obstacle::Kept)),
        (
            "v1",
            "ConfigMap",
            json!({"metadata": {"labels": {labels::OWNER_NAME: "other"}}}),
            Some(Obstacle::Foreign),
        ),
        (
            "v1",
            "ConfigMap",
            json!({"metadata": {"labels": null}}),
            Some(Obstacle::Foreign),
        ),
        (
            "apps/v1",
            "StatefulSet",
            claims("Delete"),
            Some(Obstacle::Claims),
        ),
        ("apps/v1", "StatefulSet", claims("Retain"), None),
        (
            "v1",
            "Secret",
            managed(entry("signer", "f:data", &["f:b", "f:c"])),
            Some(Obstacle::Data("signer".to_owned())),
        ),
        (
            "v1",
            "ConfigMap",
            managed(entry("signer", "f:binaryData", &["f:c"])),
            Some(Obstacle::Data("signer".to_owned())),
        ),
        // Both have set the same data.
        (
            "v1",
            "ConfigMap",
            managed(entry("kubectl", "f:data", &[".", "f:a"])),
            None,
        ),
        (
            "v1",
            "ConfigMap",
            managed(entry("kubectl", "f:metadata", &["f:labels"])),
            None,
        ),
        (
            "v1",
            "Service",
            managed(entry("signer", "f:data", &["f:c"])),
            None,
        ),
    ] {
        let live = object(api_version, kind, &more);
        assert_eq!(found(&live), expected, "{live}");
    }
}

#[test]
fn only_jobs_with_a_final_condition_are_finished() {
    let state = |kind: &str, group: &str, conditions: Value| {
        let identity = Identity {
            group: group.to_owned(),
            kind: kind.to_owned(),
            namespace: "n".to_owned(),
            name: "a".to_owned(),
        };
        job(&identity, &json!({"status": {"conditions": conditions}}))
    };
    let complete = json!([{"type": "Complete", "status": "True"}]);
    for (conditions, expected) in [
        (json!(null), JobState::Unfinished),
        (
            json!([{"type": "Suspended", "status": "True"}]),
            JobState::Unfinished,
        ),
        (
            json!([{"type": "FailureTarget", "status": "True"}]),
            JobState::Unfinished,
        ),
        (
            json!([{"type": "Failed", "status": "False"}]),
            JobState::Unfinished,
        ),
        (
            json!([{"type": "FailureTarget", "status": "True"}, {"type": "Failed", "status": "True"}]),
            JobState::Finished,
        ),
        (complete.clone(), JobState::Finished),
    ] {
        assert_eq!(
            state("Job", "batch", conditions.clone()),
            Some(expected),
            "{conditions}"
        );
    }
    assert_eq!(state("CronJob", "batch", complete.clone()), None);
    assert_eq!(state("Job", "example.com", complete), None);
}

#[test]
fn permissions_cover_what_they_say() {
    let immutable = |job| Immutable {
        identity: Identity {
            group: String::new(),
            kind: "ConfigMap".to_owned(),
            namespace: "n".to_owned(),
            name: "a".to_owned(),
        },
        fields: Vec::new(),
        job,
        obstacle: None,
    };
    let (finished, unfinished) = (Some(JobState::Finished), Some(JobState::Unfinished));
    for (permission, job, expected) in ::tests::rows![
        Permission::Delete, None => true;
        Permission::Delete, unfinished => true;
        Permission::Delete, finished => true;
        Permission::DeleteFinished, None => false;
        Permission::DeleteFinished, unfinished => false;
        Permission::DeleteFinished, finished => true;
        Permission::Await, None => false;
        Permission::Await, finished => false;
    ] {
        assert_eq!(
            permission.covers(&immutable(job)),
            expected,
            "{permission:?} {job:?}"
        );
    }
}

#[test]
fn refusals_name_object_fields_and_remedy() {
    let cause = |field: &str| StatusCause {
        reason: "FieldValueForbidden".to_owned(),
        message: "Forbidden: field is immutable".to_owned(),
        field: field.to_owned(),
    };
    let status = |named: &[&str]| Status {
        details: Some(StatusDetails {
            causes: named.iter().map(|field| cause(field)).collect(),
            name: "a".to_owned(),
            group: "apps".to_owned(),
            kind: "Deployment".to_owned(),
            uid: String::new(),
            retry_after_seconds: 0,
        }),
        ..Status::default()
    };
    let refusal = |named: &[&str], obstacle| {
        let immutable = Immutable {
            identity: Identity {
                group: "apps".to_owned(),
                kind: "Deployment".to_owned(),
                namespace: "n".to_owned(),
                name: "a".to_owned(),
            },
            fields: fields(&status(named)),
            job: None,
            obstacle,
        };
        immutable.refusal("set it free")
    };
    let failure = refusal(
        &["spec.template", "spec.selector", "", "spec.selector"],
        None,
    );
    assert_eq!(failure.cause, Cause::Invalid);
    assert_eq!(
        failure.message,
        "Deployment n/a: immutable fields changed: spec.selector, spec.template; set it free"
    );
    let failure = refusal(&["spec"], Some(Obstacle::Data("signer".to_owned())));
    assert_eq!(
        failure.message,
        "Deployment n/a: immutable fields changed: spec; the object is not deleted, because field manager \"signer\" has \
         added data; save the data and delete the object, or correct the bundle"
    );
    let many = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];
    assert_eq!(
        refusal(&many, None).message,
        "Deployment n/a: immutable fields changed: a, b, c, d, e, f, g, h, i, j and 2 more; set it free"
    );
}

#[test]
fn what_only_one_service_can_have_is_not_created_twice() {
    let ports = |numbers: &[u16]| {
        let port = |number: &u16| json!({"port": 80, "nodePort": number});
        numbers.iter().map(port).collect::<Vec<_>>()
    };
    let live = json!({"spec": {
        "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "healthCheckNodePort": 30001, "ports": ports(&[30002, 30003]),
    }});
    for (desired, expected) in [
        (
            json!({"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"]}),
            json!({}),
        ),
        (
            json!({"clusterIP": "10.0.0.2"}),
            json!({"clusterIP": "10.0.0.2"}),
        ),
        (json!({"clusterIP": "None"}), json!({"clusterIP": "None"})),
        (json!({"healthCheckNodePort": 30001}), json!({})),
        (
            json!({"healthCheckNodePort": 30009}),
            json!({"healthCheckNodePort": 30009}),
        ),
        (
            json!({"ports": ports(&[30003, 30004])}),
            json!({"ports": [{"port": 80}, {"port": 80, "nodePort": 30004}]}),
        ),
    ] {
        let service = json!({"apiVersion": "v1", "kind": "Service", "spec": desired});
        assert_eq!(
            without_allocations(service, &live)["spec"],
            expected,
            "{desired}"
        );
    }
    let headless = json!({"spec": {"clusterIP": "None"}});
    let service = json!({"apiVersion": "v1", "kind": "Service", "spec": {"clusterIP": "None"}});
    assert_eq!(without_allocations(service.clone(), &headless), service);
    let other = json!({"apiVersion": "example.com/v1", "kind": "Service", "spec": {"clusterIP": "10.0.0.1"}});
    assert_eq!(without_allocations(other.clone(), &live), other);
}
