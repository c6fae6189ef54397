//! `BundleInstance`: an installed bundle whose objects are kept in the declared state.

pub mod ready;

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, OwnerReference, Time};
use kube::{CustomResource, Resource as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    GROUP,
    bundle::{Bundle, BundleInfo, BundleSource},
    limits, schema,
};
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

/// Observed state of the BundleInstance.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BundleInstanceStatus {
    /// `HasValidBundle`, `Installed`, `Healthy`, `Progressing`, `Ready`; also `Reconciling` and `Stalled` while True.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// The Bundle whose objects are in the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::WORD))]
    pub installed_bundle_name: Option<String>,
    /// The former Bundle, until the new one is healthy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::WORD))]
    pub previous_bundle_name: Option<String>,
    /// The installed Bundle, by uid and content digest: nothing is applied or repaired from any other Bundle of its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub installed: Option<InstalledBundle>,
    /// The Bundle of previousBundleName, by uid and digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<InstalledBundle>,
    /// The Bundles that the provisioner created for this BundleInstance, the newest last. The provisioner uses no other
    /// Bundle, even if its name, labels and ownerReferences agree.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = limits::CREATED_BUNDLES))]
    pub bundles: Vec<CreatedBundle>,
    /// The revisions that are live or archived, the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = limits::REVISIONS))]
    pub revisions: Vec<RevisionStatus>,
    /// The generation that this status describes; -1 before the provisioner has observed any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The time since which this generation is not ready; the progress deadline starts then. Not set once the condition
    /// Ready was True.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progressing_since: Option<Time>,
    /// The pinned source of the installed Bundle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved_source: Option<BundleSource>,
    /// The SHA-256 of the installed content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::WORD))]
    pub content_digest: Option<String>,
    /// The namespace of namespaced objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::WORD))]
    pub install_namespace: Option<String>,
    /// The digest of the last applied content and of all inputs that shape the objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::WORD))]
    pub applied_digest: Option<String>,
    /// The bundle info of the installed bundle.
    #[serde(flatten)]
    pub facts: BundleInfo,
    /// Entries of spec.overrides for the installed content.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = limits::OVERRIDES))]
    pub overrides: Vec<Override>,
    /// The objects that were applied, or will be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inventory: Option<Inventory>,
    /// Objects deferred until an optional API is served: `ServiceMonitor monitoring.coreos.com/v1 operators/etcd`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = limits::LINES), inner(length(max = limits::LINE)))]
    pub waiting: Vec<String>,
    /// Objects that left the bundle and still exist. They are pruned once the new revision is active; an object that waits
    /// for its finalizers is listed until it is deleted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = limits::LINES), inner(length(max = limits::LINE)))]
    pub removing: Vec<String>,
    /// Objects kept in the cluster, with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = limits::LINES), inner(length(max = limits::LINE)))]
    pub released: Vec<String>,
    /// The template hash of a failed bundle that was rolled back. It is not retried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::WORD))]
    pub failed_template_hash: Option<String>,
}

/// An installed Bundle. Its name is not enough, because another Bundle can get the same name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InstalledBundle {
    /// The name of the Bundle.
    #[schemars(length(max = limits::WORD))]
    pub name: String,
    /// The uid of the Bundle.
    #[schemars(length(max = limits::WORD))]
    pub uid: String,
    /// The SHA-256 of the content that was applied.
    #[schemars(length(max = limits::WORD))]
    pub content_digest: String,
}

/// A recorded revision: an immutable snapshot of rendered objects, in Secrets of the system namespace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RevisionStatus {
    /// The number of the revision; a newer revision has a larger number.
    pub number: i64,
    /// The state of the revision.
    pub state: RevisionState,
    /// The cause of the revision.
    pub cause: Cause,
    /// For the cause `Rollback`: the revision whose objects this revision records again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollback_of: Option<i64>,
    /// The version of the bundle, if declared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::WORD))]
    pub version: Option<String>,
    /// The newest OpenShift release that the bundle supports, if declared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::WORD))]
    pub max_open_shift_version: Option<String>,
    /// The name of the Bundle that the objects were rendered from.
    #[schemars(length(max = limits::WORD))]
    pub bundle: String,
    /// The hash of the template of that Bundle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::WORD))]
    pub template_hash: Option<String>,
    /// The digest that identifies the revision: of its objects, its install namespace and its ServiceAccount.
    #[schemars(length(max = limits::WORD))]
    pub digest: String,
    /// The SHA-256 of the recorded bytes. A record with another checksum is not used.
    #[schemars(length(max = limits::WORD))]
    pub checksum: String,
    /// The number of Secrets that hold the record.
    pub parts: i64,
    /// The ServiceAccount used to apply the objects; the provisioner's own if unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account: Option<ServiceAccountRef>,
    /// The time of creation.
    pub created: Time,
    /// The time at which all objects had been applied; the progress deadline starts then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied: Option<Time>,
    /// The uses of APIs that a later minor version of Kubernetes removes, the earliest removal first. Not set while the
    /// uses are unknown, and for archived revisions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = RemovedApi::MAX))]
    pub removed_apis: Option<Vec<RemovedApi>>,
}

/// A use of an API that a later minor version of Kubernetes removes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RemovedApi {
    /// The first minor version of Kubernetes that does not serve the API, such as `1.37`.
    #[schemars(length(max = limits::WORD))]
    pub removed_in: String,
    /// The object that uses the API, the API, and its replacement.
    #[schemars(length(max = RemovedApi::MAX_MESSAGE))]
    pub message: String,
}

impl RemovedApi {
    /// The maximum number of uses that a revision lists.
    pub const MAX: usize = 64;
    /// The maximum length of a message, in characters.
    pub const MAX_MESSAGE: usize = 512;
}

/// The state of a revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RevisionState {
    /// The objects are being applied, or not all of them are healthy yet.
    RollingOut,
    /// The objects are installed; drift from them is repaired.
    Active,
    /// A newer revision replaced it.
    Archived,
}

/// The cause of a revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Cause {
    /// The first installation.
    Install,
    /// A change to another bundle.
    Upgrade,
    /// A change of configuration, install namespace or ServiceAccount.
    Configuration,
    /// A change of the provisioner release or the Kubernetes version.
    Platform,
    /// A rollback, automatic or by `spec.rollbackTo`.
    Rollback,
    /// A migration of an installation by a provisioner without revisions.
    Migration,
}

impl RevisionStatus {
    /// Reports whether the objects of the revision are in the cluster.
    pub fn is_live(&self) -> bool {
        self.state != RevisionState::Archived
    }

    /// Marks the revision as archived, and clears the uses of removed APIs, which matter only for live revisions.
    pub fn archive(&mut self) {
        self.state = RevisionState::Archived;
        self.removed_apis = None;
    }
}

impl BundleInstanceStatus {
    /// The value of `observedGeneration` before the provisioner has observed a generation, which is the default in the CRD:
    /// without it, kstatus considers a new object finished.
    pub const NOT_OBSERVED: i64 = -1;

    /// Returns the revisions whose objects are in the cluster, the newest first.
    pub fn live(&self) -> impl Iterator<Item = &RevisionStatus> {
        let revisions = self.revisions.iter().rev();
        revisions.filter(|revision| revision.is_live())
    }

    /// Returns the newest live revision. An archived one may have a higher number, if the record of a newer one was lost.
    pub fn newest(&self) -> Option<&RevisionStatus> {
        self.live().next()
    }

    /// Returns the active revision.
    pub fn active(&self) -> Option<&RevisionStatus> {
        self.live()
            .find(|revision| revision.state == RevisionState::Active)
    }

    /// Returns the revision that is rolled out and not active yet.
    pub fn rolling_out(&self) -> Option<&RevisionStatus> {
        self.newest()
            .filter(|newest| newest.state == RevisionState::RollingOut)
    }

    /// Returns the revisions that together record every object, the newest first: the live ones, those that were superseded
    /// before their rollout finished, and, while objects of former revisions remain, all archived ones.
    pub fn indexed(&self) -> impl Iterator<Item = &RevisionStatus> {
        let has_leftovers = !self.removing.is_empty();
        let active = self.active().map(|active| active.number);
        self.revisions.iter().rev().filter(move |revision| {
            let is_superseded = active < Some(revision.number);
            has_leftovers || is_superseded || revision.is_live()
        })
    }

    /// Reports whether the status lists every object. The ConfigMaps of an older provisioner lack objects that revisions
    /// added.
    pub fn lists_all(&self) -> bool {
        match &self.inventory {
            Some(inventory) => {
                inventory.is_whole() && (inventory.more.is_none() || self.revisions.is_empty())
            }
            None => self.revisions.is_empty(),
        }
    }

    /// Returns the generation that the provisioner has observed.
    pub fn observed(&self) -> Option<i64> {
        self.observed_generation
            .filter(|generation| *generation > Self::NOT_OBSERVED)
    }
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

impl InstalledBundle {
    /// Reports whether a Bundle is the installed one, and still has the content that was applied.
    pub fn is(&self, bundle: &Bundle) -> bool {
        let status = bundle.status.as_ref();
        bundle.metadata.uid.as_ref() == Some(&self.uid)
            && status.and_then(|status| status.content_digest.as_ref())
                == Some(&self.content_digest)
    }
}

/// A Bundle that the provisioner created from a template.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CreatedBundle {
    /// The name of the Bundle.
    #[schemars(length(max = limits::WORD))]
    pub name: String,
    /// The uid that the API server gave to the Bundle.
    #[schemars(length(max = limits::WORD))]
    pub uid: String,
    /// The hash of the template.
    #[schemars(length(max = limits::WORD))]
    pub template_hash: String,
}

/// The objects of an instance, limited to 500. The recorded revisions have all of them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Inventory {
    /// The total number of objects.
    pub count: i64,
    /// The objects by kind.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = limits::INVENTORY_KINDS))]
    pub kinds: Vec<InventoryKind>,
    /// The number of ConfigMaps in which an older provisioner listed the other objects, in the system namespace and with
    /// the label core.rukpak.io/inventory-of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub more: Option<i64>,
}

impl Inventory {
    /// Reports whether every object is listed, here or in ConfigMaps of an older provisioner.
    pub fn is_whole(&self) -> bool {
        let listed: usize = self.kinds.iter().map(|kind| kind.objects.len()).sum();
        self.more.is_some_and(|more| more > 0)
            || i64::try_from(listed).is_ok_and(|listed| listed >= self.count)
    }
}

/// The objects of one kind.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InventoryKind {
    /// The API version at which the objects were applied.
    #[schemars(length(max = limits::WORD))]
    pub api_version: String,
    /// The kind of the objects.
    #[schemars(length(max = limits::WORD))]
    pub kind: String,
    /// `namespace/name`, or `name`; once applied, followed by a space and the fingerprint of the applied fields. The suffix
    /// `+recreate` marks an object that a rollout deletes and creates again.
    #[schemars(length(max = limits::INVENTORY_OBJECTS), inner(length(max = limits::WORD)))]
    pub objects: Vec<String>,
}
