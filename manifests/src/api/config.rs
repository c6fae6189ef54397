//! Types of `config.openshift.io/v1`, reduced to the fields that are read or written here: ClusterVersion and
//! ClusterOperator.
//!
//! The CRDs are OpenShift's. Their conditions differ from those of Kubernetes: the reason is optional, and
//! `observedGeneration` does not exist.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::openshift::ClusterRelease;

/// Name of the ClusterVersion singleton.
pub const CLUSTER_VERSION: &str = "version";

/// Spec of a ClusterVersion, reduced to the fields that are read.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[kube(
    group = "config.openshift.io",
    version = "v1",
    kind = "ClusterVersion",
    plural = "clusterversions",
    status = "ClusterVersionStatus",
    derive = "PartialEq",
    schema = "disabled"
)]
pub struct ClusterVersionSpec {
    /// Update channel: `stable-4.12`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
}

/// Current, former and desired versions of a cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterVersionStatus {
    /// The desired version.
    #[serde(default)]
    pub desired: VersionName,
    /// Former versions, newest first. `null` until the first entry exists.
    #[serde(default)]
    pub history: Option<Vec<VersionEntry>>,
}

/// Reference to a version by its name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VersionName {
    /// The version: `4.12.7`.
    #[serde(default)]
    pub version: String,
}

/// A version in the history, reached or in progress.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VersionEntry {
    /// State of the update: `Completed` or `Partial`.
    #[serde(default)]
    pub state: String,
    /// The version: `4.12.7`.
    #[serde(default)]
    pub version: String,
}

impl ClusterVersionStatus {
    /// Returns the release of the cluster.
    pub fn cluster(&self) -> ClusterRelease {
        let history = self.history.iter().flatten().map(|entry| {
            (
                Some(entry.state.as_str()),
                Some(entry.version.as_str()).filter(|version| !version.is_empty()),
            )
        });
        let desired = Some(self.desired.version.as_str()).filter(|version| !version.is_empty());
        ClusterRelease::of_history(history, desired)
    }
}

/// Spec of a ClusterOperator, which is empty.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[kube(
    group = "config.openshift.io",
    version = "v1",
    kind = "ClusterOperator",
    plural = "clusteroperators",
    status = "ClusterOperatorStatus",
    derive = "PartialEq",
    schema = "disabled"
)]
pub struct ClusterOperatorSpec {}

/// Observed state of a cluster component.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterOperatorStatus {
    /// The conditions `Available`, `Progressing`, `Degraded` and `Upgradeable`.
    #[serde(default)]
    pub conditions: Vec<OperatorStatusCondition>,
    /// Installed versions of the component.
    #[serde(default)]
    pub versions: Vec<OperandVersion>,
    /// Objects to inspect, and to collect for diagnosis.
    #[serde(default)]
    pub related_objects: Vec<ObjectReference>,
    /// Additional data of the operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extension: Option<Value>,
}

/// A condition of a ClusterOperator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OperatorStatusCondition {
    /// Type of the condition.
    #[serde(rename = "type")]
    pub type_: String,
    /// Status of the condition: `True`, `False` or `Unknown`.
    pub status: String,
    /// Time of the last change of status.
    pub last_transition_time: Option<Time>,
    /// Reason in CamelCase, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Message with details, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Version of one operand.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperandVersion {
    /// Name of the operand: `operator`.
    pub name: String,
    /// Version of the operand.
    pub version: String,
}

/// Reference to an object, or to all objects of a resource.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ObjectReference {
    /// API group, or empty for the core group.
    pub group: String,
    /// Plural name of the resource.
    pub resource: String,
    /// Namespace, or `None` for cluster-scoped resources and for all namespaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Name of the object, or empty for all objects.
    pub name: String,
}

impl ObjectReference {
    /// Returns a reference to a cluster-scoped object, or to all objects if the name is empty.
    pub fn new(group: &str, resource: &str, name: &str) -> Self {
        Self {
            group: group.to_owned(),
            resource: resource.to_owned(),
            namespace: None,
            name: name.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn cluster_version_of_openshift_is_read() {
        let version: ClusterVersion = serde_json::from_value(json!({
            "apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion", "metadata": {"name": "version"},
            "spec": {"clusterID": "a", "channel": "stable-4.12"},
            "status": {
                "desired": {"version": "4.12.7", "image": "a", "channels": ["a"]}, "history": null,
                "observedGeneration": 1, "versionHash": "a", "availableUpdates": null,
            },
        }))
        .unwrap();
        let cluster = version.status.unwrap().cluster();
        assert_rows!((&*cluster.running.unwrap().to_string(), cluster.is_installed) => ("4.12", false));
        let operator: ClusterOperator = serde_json::from_value(json!({
            "apiVersion": "config.openshift.io/v1", "kind": "ClusterOperator", "metadata": {"name": "a"}, "spec": {},
            "status": {"conditions": [{"type": "Available", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
                       "extension": null},
        }))
        .unwrap();
        let status = operator.status.unwrap();
        assert_rows!((status.conditions[0].reason.as_ref(), status.extension) => (None, None));
    }
}
