//! Status of a BundleInstance: its conditions, Bundles, revisions and inventory.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Override, ServiceAccountRef};
use crate::api::{
    bundle::{Bundle, BundleInfo, BundleSource},
    limits, schema,
};

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
    /// The hash of the content and of the configuration that the objects were rendered from: provisioner class, install
    /// namespace and `spec.config`. For the revision of an older provisioner, not set, or empty once the spec has changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::WORD))]
    pub configuration_hash: Option<String>,
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
    /// The time at which the rollout was last resumed, after a pause or an unknown provisioner class; the progress
    /// deadline starts then, unless the objects were applied later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resumed: Option<Time>,
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
        self.resumed = None;
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

impl InstalledBundle {
    /// Creates the record of a Bundle.
    pub fn new(bundle: &Bundle) -> Self {
        let metadata = &bundle.metadata;
        let status = bundle.status.as_ref();
        let digest = status.and_then(|status| status.content_digest.clone());
        Self {
            name: metadata.name.clone().unwrap_or_default(),
            uid: metadata.uid.clone().unwrap_or_default(),
            content_digest: digest.unwrap_or_default(),
        }
    }

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
