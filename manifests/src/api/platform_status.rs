//! `PlatformStatus` (`core.rukpak.io/v1alpha1`): the data of ClusterOperators, for clusters other than OpenShift.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{limits, schema};

/// Name of the singleton.
pub const NAME: &str = "cluster";

/// Empty: a PlatformStatus has no options.
#[derive(
    CustomResource, Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema,
)]
#[kube(
    group = "core.rukpak.io",
    version = "v1alpha1",
    kind = "PlatformStatus",
    plural = "platformstatuses",
    status = "PlatformStatusStatus",
    derive = "PartialEq",
    category = "rukpak",
    doc = "Health of the operators of this cluster, and whether the cluster can be upgraded to its next minor version. The \
           provisioner creates one, \"cluster\", in clusters without ClusterOperators."
)]
pub struct PlatformStatusSpec {}

/// Observed state of the operators of the cluster.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlatformStatusStatus {
    /// `Available`, `Progressing`, `Degraded`, `Upgradeable`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// The minor version of the cluster: `1.36`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::WORD))]
    pub cluster_minor: Option<String>,
    /// Details by operator.
    #[serde(flatten)]
    pub details: OperatorDetails,
}

/// The complete data behind the conditions, whose messages have room for only a part. On OpenShift, this is the
/// ClusterOperator's `status.extension`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OperatorDetails {
    /// The time when all platform operators were first available. Until then, the cluster is being installed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::WORD))]
    pub first_available: Option<String>,
    /// The number of PlatformOperators.
    #[serde(default)]
    pub operators: i64,
    /// The number of installed PlatformOperators.
    #[serde(default)]
    pub installed: i64,
    /// Blockers of a cluster upgrade, and related warnings, sorted by operator.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = limits::CONCERNS))]
    pub concerns: Vec<Concern>,
    /// The number of unlisted concerns.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more_concerns: i64,
    /// The last max OpenShift version that a catalog declared for an installed bundle, by package, name and image digest of
    /// the bundle, or by package, name and CatalogSource where OLM installed it. Used while the catalog is unavailable.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = limits::CONCERNS, "additionalProperties" = schema::word()))]
    pub catalog_maxima: BTreeMap<String, String>,
    /// The time since which upgrades or repairs of an installed platform operator have failed, by name. They are retried,
    /// but no condition reports them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = limits::CONCERNS, "additionalProperties" = schema::word()))]
    pub troubled_since: BTreeMap<String, String>,
}

/// A concern about one operator.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Concern {
    /// The operator: `<install namespace>/<BundleInstance>`, or `<namespace>/<ClusterServiceVersion>`.
    #[schemars(length(max = limits::WORD))]
    pub operator: String,
    /// The effect on an upgrade of the cluster.
    pub effect: Effect,
    /// The problem, and its remedy.
    #[schemars(length(max = limits::LINE))]
    pub message: String,
}

/// Effect of a concern on an upgrade of the cluster.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub enum Effect {
    /// The operator will not run on the next minor version.
    Blocks,
    /// The operator asks not to be upgraded now.
    Refuses,
    /// The operator would block the upgrade, but an override ignores this.
    Overridden,
    /// The provisioner cannot determine whether the operator supports the next minor version.
    Unknown,
    /// The operator uses APIs that the next minor version does not serve.
    Warns,
}

#[expect(clippy::trivially_copy_pass_by_ref)] // serde passes references
fn is_zero(value: &i64) -> bool {
    *value == 0
}
