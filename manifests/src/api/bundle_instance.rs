//! `BundleInstance`: an installed bundle whose objects are kept in the declared state.

pub mod ready;
mod status;

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{CustomResource, Resource as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use self::status::{
    BundleInstanceStatus, Cause, CreatedBundle, InstalledBundle, Inventory, InventoryKind,
    RemovedApi, RevisionState, RevisionStatus,
};
use super::{GROUP, bundle::BundleSource, limits, schema};
use crate::object::group_version;

/// The bundle to install, and its installation options.
#[derive(CustomResource, Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "core.rukpak.io",
    version = "v1alpha1",
    kind = "BundleInstance",
    plural = "bundleinstances",
    shortname = "bi",
    shortname = "bis",
    status = "BundleInstanceStatus",
    derive = "PartialEq",
    category = "rukpak",
    doc = "An installed bundle, whose objects are repaired when they drift."
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = schema::instance()))]
pub struct BundleInstanceSpec {
    /// The provisioner class: `core-rukpak-io-plain` or `core-rukpak-io-registry` (or `core.rukpak.io/…`). Both install any
    /// bundle; the template's class selects the format of the content.
    #[schemars(length(min = 1, max = limits::MAX_CLASS_LEN), regex(pattern = schema::CLASS))]
    pub provisioner_class_name: String,
    /// The Bundle to create and to install.
    pub template: BundleTemplate,
    /// The namespace of namespaced objects; the bundle's choice if unset. Immutable once set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63), regex(pattern = schema::NAMESPACE))]
    pub install_namespace: Option<String>,
    /// Changes to the operator's pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<InstanceConfig>,
    /// ServiceAccount used to apply the objects; the provisioner's own if unset. The requesting user must be allowed to
    /// impersonate it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account: Option<ServiceAccountRef>,
    /// Deletion of CRDs that leave the bundle, or with the instance: `DeleteIfUnused` keeps CRDs with custom resources,
    /// `Retain` keeps all, `Delete` also deletes the custom resources.
    #[serde(default)]
    pub crd_deletion_policy: CrdDeletionPolicy,
    /// Checks that can block an installation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preflight: Option<Preflight>,
    /// Constraints to ignore for one bundle content.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = limits::OVERRIDES))]
    pub overrides: Vec<Override>,
    /// Rollback to the previous bundle when a new one fails: `Never` retries the new one, `OnFailure` rolls back and
    /// retries only after the template changes.
    #[serde(default)]
    pub rollback: Rollback,
    /// Options for changing objects during upgrades.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upgrade: Option<Upgrade>,
    /// The number of the revision to roll back to, from `status.revisions`. While the field is set, neither the template
    /// nor the rest of the spec leads to another revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub rollback_to: Option<i64>,
    /// The seconds for a generation to become ready, and for the objects of a revision to become healthy. Defaults to 600;
    /// 0 means no limit. After that time the condition Stalled is True, and the revision counts as installed even if
    /// objects are unhealthy, so that objects of the former revision are pruned. With `rollback: OnFailure`, a value that
    /// is set also leads to a rollback.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = limits::SECONDS))]
    pub progress_deadline_seconds: Option<i64>,
    /// The number of archived revisions to keep for history and rollbacks. Defaults to 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = limits::REVISION_HISTORY))]
    pub revision_history_limit: Option<i64>,
    /// Pauses changes to the cluster.
    #[serde(default, skip_serializing_if = "super::bundle::is_false")]
    pub paused: bool,
}

/// A template for a Bundle.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BundleTemplate {
    /// Labels and annotations of the Bundle; its name is generated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<TemplateMetadata>,
    /// The Bundle's spec.
    pub spec: TemplateSpec,
}

/// Labels and annotations of the Bundle.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = schema::ignored_metadata)]
pub struct TemplateMetadata {
    /// Labels of the Bundle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxProperties" = limits::LABELS, "additionalProperties" = schema::label()))]
    pub labels: Option<BTreeMap<String, String>>,
    /// Annotations of the Bundle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxProperties" = limits::LABELS, "additionalProperties" = schema::annotation()))]
    pub annotations: Option<BTreeMap<String, String>>,
}

/// The spec of the Bundle to create.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = schema::template()))]
pub struct TemplateSpec {
    /// The format of the content: `core-rukpak-io-registry` or `core-rukpak-io-plain`; the instance's class if unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = limits::MAX_CLASS_LEN), regex(pattern = schema::CLASS))]
    pub provisioner_class_name: Option<String>,
    /// The source of the content.
    pub source: BundleSource,
}

/// Configuration of the operator by the admin.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InstanceConfig {
    /// The fields of a Subscription's `spec.config`: env, resources, tolerations, nodeSelector, affinity, volumes and so
    /// on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::deployment_config")]
    pub deployment_config: Option<Value>,
}

/// A reference to a ServiceAccount.
#[derive(
    Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub struct ServiceAccountRef {
    /// The name of the ServiceAccount.
    #[schemars(length(min = 1, max = 253), regex(pattern = schema::NAME))]
    pub name: String,
    /// The namespace.
    #[schemars(length(min = 1, max = 63), regex(pattern = schema::NAMESPACE))]
    pub namespace: String,
}

/// Policy for CRDs that leave the bundle, or with the instance.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum CrdDeletionPolicy {
    /// CRDs are kept.
    Retain,
    /// CRDs are deleted unless custom resources exist.
    #[default]
    DeleteIfUnused,
    /// CRDs are deleted, with all custom resources.
    Delete,
}

/// Policy for rollbacks to the previous bundle.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Rollback {
    /// The provisioner retries the new bundle.
    #[default]
    Never,
    /// Rolls back if the new bundle cannot be applied, if an object of it fails, or if `progressDeadlineSeconds` is set and
    /// the objects are not healthy in time.
    OnFailure,
}

/// Options for changing objects during upgrades.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Upgrade {
    /// Whether an object with a changed immutable field is deleted and created again. The annotation
    /// `core.rukpak.io/recreate` of an object takes precedence.
    #[serde(default)]
    pub recreate: Recreate,
}

/// Whether an object with a changed immutable field is deleted and created again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Recreate {
    /// Never, except for finished Jobs: the revision is rejected, and the message names the fields.
    #[default]
    Never,
    /// The object is deleted, and created in its new form once the deletion is complete.
    WhenImmutable,
}

/// Checks that can block an installation.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Preflight {
    /// Whether a new version of a CRD must be safe for existing custom resources.
    #[serde(default)]
    pub crd_upgrade_safety: CheckMode,
    /// Whether `maxOpenShiftVersion` and `minKubeVersion` of the bundle are enforced.
    #[serde(default)]
    pub cluster_version: CheckMode,
}

/// Mode of a preflight check.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum CheckMode {
    /// The check is enforced.
    #[default]
    Enforce,
    /// The check is off.
    Off,
}

/// A constraint to ignore.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Override {
    /// The constraint: `maxOpenShiftVersion` then blocks neither the installation nor cluster upgrades, `minKubeVersion`
    /// not the installation.
    pub constraint: Constraint,
    /// The content: the digest in a Bundle's status.contentDigest, or that of its image. The constraint is enforced for all
    /// other content.
    #[schemars(length(max = limits::WORD), regex(pattern = schema::DIGEST))]
    pub digest: String,
    /// The reason for the override.
    #[schemars(length(min = 1, max = limits::WORD))]
    pub reason: String,
}

/// A constraint of a bundle on the cluster.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub enum Constraint {
    /// The newest supported OpenShift release.
    MaxOpenShiftVersion,
    /// The oldest supported Kubernetes version.
    MinKubeVersion,
}

impl BundleInstance {
    /// Reports whether an ownerReference refers to this BundleInstance.
    pub fn is_in(&self, reference: &OwnerReference) -> bool {
        let (group, _) = group_version(&reference.api_version);
        group == GROUP
            && reference.kind == Self::kind(&())
            && self.metadata.uid.as_ref() == Some(&reference.uid)
    }
}
