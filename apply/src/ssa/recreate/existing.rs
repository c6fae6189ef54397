//! Safety checks of an existing object before it is recreated. Pure; no I/O.

use std::{collections::BTreeSet, fmt};

use manifests::{
    api::{labels, owner_metadata::is_annotated_keep},
    object::{Identity, Object, get_path, text},
};
use serde_json::Value;

use crate::plan::InstanceOwner;
use crate::ssa::MANAGER;
use crate::ssa::apply_object::is_owned;

/// The state of a Job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobState {
    /// The condition Complete or Failed is True.
    Finished,
    /// The Job is suspended, or its pods run or wait.
    Unfinished,
}

/// A reason that forbids the deletion of an object, even with a permission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Obstacle {
    /// The deletion of objects of this kind may lose data of users.
    Kind(&'static str),
    /// The object does not carry the labels of the owner.
    Foreign,
    /// The annotation `core.rukpak.io/keep` protects the object.
    Kept,
    /// The deletion of this StatefulSet deletes its PersistentVolumeClaims.
    Claims,
    /// The field manager of this name has added data.
    Data(String),
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kind(reason) => write!(
                f,
                "objects of this kind are not recreated, because {reason}; correct the bundle, or save the data and delete \
                 the object"
            ),
            Self::Foreign => f.write_str(
                "the object is not deleted, because it does not carry the labels of this BundleInstance; correct the \
                 bundle, or delete the object",
            ),
            Self::Kept => write!(
                f,
                "the object is not deleted, because its annotation {} protects it; correct the bundle, or delete the object",
                labels::KEEP
            ),
            Self::Claims => f.write_str(
                "the object is not deleted, because its PersistentVolumeClaims would be deleted as well \
                 (spec.persistentVolumeClaimRetentionPolicy.whenDeleted); set whenDeleted to Retain, or save the data and \
                 delete the object",
            ),
            Self::Data(manager) => write!(
                f,
                "the object is not deleted, because field manager {manager:?} has added data; save the data and delete the \
                 object, or correct the bundle"
            ),
        }
    }
}

/// Returns the state of an object that is a Job.
pub(super) fn job(identity: &Identity, live: &Value) -> Option<JobState> {
    if (identity.group.as_str(), identity.kind.as_str()) != ("batch", "Job") {
        return None;
    }
    let conditions = get_path(live, &["status", "conditions"]).and_then(Value::as_array);
    let is_finished = conditions.into_iter().flatten().any(|condition| {
        matches!(text(condition, &["type"]), Some("Complete" | "Failed"))
            && text(condition, &["status"]) == Some("True")
    });
    Some(if is_finished {
        JobState::Finished
    } else {
        JobState::Unfinished
    })
}

/// Returns the reason that forbids the recreation of an object.
pub(super) fn obstacle(desired: &Object, live: &Value, owner: &InstanceOwner) -> Option<Obstacle> {
    if let Some(reason) = obstacle_of_kind(desired.group(), desired.kind()) {
        return Some(Obstacle::Kind(reason));
    }
    if !live
        .get("metadata")
        .is_some_and(|live| is_owned(live, owner))
    {
        return Some(Obstacle::Foreign);
    }
    if is_annotated_keep(desired.value()) || is_annotated_keep(live) {
        return Some(Obstacle::Kept);
    }
    let when_deleted = &[
        "spec",
        "persistentVolumeClaimRetentionPolicy",
        "whenDeleted",
    ];
    if desired.kind() == "StatefulSet" && text(live, when_deleted) == Some("Delete") {
        return Some(Obstacle::Claims);
    }
    match (desired.group(), desired.kind()) {
        ("", "ConfigMap" | "Secret") => data_manager(live).map(Obstacle::Data),
        _ => None,
    }
}

/// Returns the reason that forbids the recreation of objects of a kind. Only kinds that are known to hold no data are
/// recreated: a custom resource may represent any data of its operator.
fn obstacle_of_kind(group: &str, kind: &str) -> Option<&'static str> {
    match (group, kind) {
        (
            "",
            "ConfigMap"
            | "Endpoints"
            | "Pod"
            | "PodTemplate"
            | "ReplicationController"
            | "Secret"
            | "Service",
        )
        | ("apps", "DaemonSet" | "Deployment" | "ReplicaSet" | "StatefulSet")
        | ("batch", "CronJob" | "Job")
        | ("discovery.k8s.io", "EndpointSlice")
        | ("networking.k8s.io", "IngressClass")
        | ("node.k8s.io", "RuntimeClass")
        | ("rbac.authorization.k8s.io", "ClusterRoleBinding" | "RoleBinding")
        | ("resource.k8s.io", "ResourceClaimTemplate")
        | ("scheduling.k8s.io", "PriorityClass")
        | ("storage.k8s.io", "CSIDriver" | "StorageClass" | "VolumeAttributesClass") => None,
        ("", "Namespace") => {
            Some("the deletion of a Namespace deletes all objects of the Namespace")
        }
        ("", "PersistentVolume" | "PersistentVolumeClaim") => {
            Some("the deletion may delete the stored data")
        }
        ("apiextensions.k8s.io", "CustomResourceDefinition") => {
            Some("the deletion of a CustomResourceDefinition deletes all its custom resources")
        }
        _ => Some("the deletion may lose data of users"),
    }
}

/// Returns another field manager that has added data to a ConfigMap or Secret. A value that both have set is not lost.
fn data_manager(live: &Value) -> Option<String> {
    let entries = get_path(live, &["metadata", "managedFields"]).and_then(Value::as_array);
    let is_own = |entry: &&Value| text(entry, &["manager"]) == Some(MANAGER);
    let (own, others): (Vec<&Value>, Vec<&Value>) = entries.into_iter().flatten().partition(is_own);
    let own: BTreeSet<&str> = own.into_iter().flat_map(data_keys).collect();
    let adds = |entry: &&Value| data_keys(entry).any(|key| !own.contains(key));
    let manager = text(others.into_iter().find(adds)?, &["manager"]);
    Some(manager.unwrap_or_default().to_owned())
}

/// Returns the keys of the data that an entry of managedFields names.
fn data_keys(entry: &Value) -> impl Iterator<Item = &str> {
    ["f:data", "f:binaryData"].into_iter().flat_map(|field| {
        let fields = get_path(entry, &["fieldsV1", field]).and_then(Value::as_object);
        let keys = fields.into_iter().flat_map(|fields| fields.keys());
        // The key `.` stands for the map itself.
        keys.map(String::as_str).filter(|key| *key != ".")
    })
}

/// Removes the addresses and ports from a Service that the existing Service holds. The API server allocates them before it
/// validates the object, so the dry run of a creation would fail.
pub(super) fn without_allocations(mut object: Value, live: &Value) -> Value {
    let is_service =
        text(&object, &["apiVersion"]) == Some("v1") && text(&object, &["kind"]) == Some("Service");
    let Some(spec) = object
        .get_mut("spec")
        .and_then(Value::as_object_mut)
        .filter(|_| is_service)
    else {
        return object;
    };
    if get_path(live, &["spec", "clusterIP"])
        .is_some_and(|address| address != "None" && spec.get("clusterIP") == Some(address))
    {
        spec.remove("clusterIP");
        spec.remove("clusterIPs");
    }
    let health = get_path(live, &["spec", "healthCheckNodePort"]);
    if health.is_some() && spec.get("healthCheckNodePort") == health {
        spec.remove("healthCheckNodePort");
    }
    let ports = get_path(live, &["spec", "ports"]).and_then(Value::as_array);
    let allocated: Vec<&Value> = ports
        .into_iter()
        .flatten()
        .filter_map(|port| port.get("nodePort"))
        .collect();
    let ports = spec.get_mut("ports").and_then(Value::as_array_mut);
    for port in ports.into_iter().flatten() {
        if port
            .get("nodePort")
            .is_some_and(|number| allocated.contains(&number))
            && let Some(port) = port.as_object_mut()
        {
            port.remove("nodePort");
        }
    }
    object
}
