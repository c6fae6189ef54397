//! `PlatformStatus` (`core.rukpak.io/v1alpha1`): what ClusterOperators tell on OpenShift, for every other cluster.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{bounds, schema};

/// The name of the only one.
pub const NAME: &str = "cluster";

/// Nothing is to be decided about it.
#[derive(
    CustomResource, Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema,
)]
#[kube(
    group = "core.rukpak.io",
    version = "v1alpha1",
    kind = "PlatformStatus",
    plural = "platformstatuses",
    status = "Platform",
    derive = "PartialEq",
    category = "rukpak",
    doc = "Whether the operators of this cluster are well, and whether it may be upgraded to its next minor version. The provisioner makes one, \"cluster\", where there are no ClusterOperators."
)]
pub struct PlatformStatusSpec {}

/// What is known of the operators of a cluster.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Platform {
    /// `Available`, `Progressing`, `Degraded`, `Upgradeable`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// The minor version that the cluster runs: `1.36`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = bounds::WORD))]
    pub cluster_minor: Option<String>,
    /// What is to be said about single operators.
    #[serde(flatten)]
    pub details: Details,
}

/// What the messages of conditions are about, as a whole: a message has room for some of it. On OpenShift this is the
/// ClusterOperator's `status.extension`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Details {
    /// When all platform operators were available for the first time: until then, the cluster is being installed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = bounds::WORD))]
    pub first_available: Option<String>,
    /// How many PlatformOperators there are.
    #[serde(default)]
    pub operators: i64,
    /// How many of them are installed.
    #[serde(default)]
    pub installed: i64,
    /// What speaks against an upgrade of the cluster, or is worth knowing before it, sorted by operator.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = bounds::CONCERNS))]
    pub concerns: Vec<Concern>,
    /// How many more there are than are listed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more_concerns: i64,
    /// The last max OpenShift version that a catalog declared for an installed bundle, by package, name and image digest of
    /// the bundle, or by package, name and CatalogSource where OLM installed it. Used while the catalog is unavailable.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = bounds::CONCERNS, "additionalProperties" = schema::word()))]
    pub catalog_maxima: BTreeMap<String, String>,
    /// Since when upgrades or repairs of installed platform operators have failed, by their names: they are tried again and
    /// again, and no condition tells it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = bounds::CONCERNS, "additionalProperties" = schema::word()))]
    pub troubled_since: BTreeMap<String, String>,
}

/// One thing about one operator.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Concern {
    /// The operator: `<install namespace>/<BundleInstance>`, or `<namespace>/<ClusterServiceVersion>`.
    #[schemars(length(max = bounds::WORD))]
    pub operator: String,
    /// What it does to an upgrade of the cluster.
    pub effect: Effect,
    /// What it is, and what to do about it.
    #[schemars(length(max = bounds::LINE))]
    pub message: String,
}

/// What something does to an upgrade of the cluster.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub enum Effect {
    /// The operator will not run on the next minor version.
    Blocks,
    /// The operator asks not to be upgraded now.
    Refuses,
    /// It would block, but an admin says that it does not count.
    Overridden,
    /// It is not known whether the operator runs on the next minor version.
    Unknown,
    /// The operator uses APIs that the next minor version does not serve.
    Warns,
}

#[expect(clippy::trivially_copy_pass_by_ref)] // serde passes references
fn is_zero(value: &i64) -> bool {
    *value == 0
}
