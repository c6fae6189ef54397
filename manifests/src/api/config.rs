//! As much of `config.openshift.io/v1` as is read or written here: ClusterVersion and ClusterOperator.
//!
//! The definitions are OpenShift's. Conditions there are not those of the rest of Kubernetes: a reason may be missing, and
//! they know no generation.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::openshift::Cluster;

/// The name of the only ClusterVersion.
pub const CLUSTER_VERSION: &str = "version";

/// What is read of a ClusterVersion's spec.
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
    /// Where updates come from: `stable-4.12`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
}

/// Which version a cluster runs, ran and is to run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterVersionStatus {
    /// The version that is to be reached, or was.
    #[serde(default)]
    pub desired: VersionName,
    /// The newest first. `null` before the first.
    #[serde(default)]
    pub history: Option<Vec<VersionEntry>>,
}

/// A version.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VersionName {
    /// `4.12.7`.
    #[serde(default)]
    pub version: String,
}

/// A version that was reached, or is being reached.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VersionEntry {
    /// `Completed` or `Partial`.
    #[serde(default)]
    pub state: String,
    /// `4.12.7`.
    #[serde(default)]
    pub version: String,
}

impl ClusterVersionStatus {
    /// What it tells of the cluster's release.
    pub fn cluster(&self) -> Cluster {
        let history = self.history.iter().flatten().map(|entry| {
            (
                Some(entry.state.as_str()),
                Some(entry.version.as_str()).filter(|version| !version.is_empty()),
            )
        });
        let desired = Some(self.desired.version.as_str()).filter(|version| !version.is_empty());
        Cluster::of_history(history, desired)
    }
}

/// A ClusterOperator's spec is empty.
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

/// How a part of the cluster is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterOperatorStatus {
    /// `Available`, `Progressing`, `Degraded`, `Upgradeable`.
    #[serde(default)]
    pub conditions: Vec<OperatorStatusCondition>,
    /// What runs.
    #[serde(default)]
    pub versions: Vec<OperandVersion>,
    /// What to look at, and to collect when something is wrong.
    #[serde(default)]
    pub related_objects: Vec<ObjectReference>,
    /// Whatever else its operator has to say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extension: Option<Value>,
}

/// A condition of a ClusterOperator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OperatorStatusCondition {
    /// What it is about.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Since when status has been what it is.
    pub last_transition_time: Option<Time>,
    /// Why, in one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// A version of something.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperandVersion {
    /// What: `operator`.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// An object, or all objects of a resource.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ObjectReference {
    /// API group, empty for the core one.
    pub group: String,
    /// Plural.
    pub resource: String,
    /// Namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Name; empty for all.
    pub name: String,
}

impl ObjectReference {
    /// An object of the cluster; all of them, if the name is empty.
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
    fn what_openshift_writes_is_read() {
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
        assert_eq!(cluster.running.unwrap().to_string(), "4.12");
        assert!(!cluster.is_installed);
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
