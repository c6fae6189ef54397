//! Outcome of a reconcile: the values from which the status is built. Pure; no I/O.

use manifests::api::{
    bundle::{BundleInfo, BundleSource},
    bundle_instance::{Inventory, RevisionStatus},
};

pub use manifests::api::bundle_instance::ready::Remedy;

/// Outcome of a reconcile of one BundleInstance.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// State of the Bundle of the template.
    pub valid: TemplateState,
    /// State of the rollout.
    pub install: RolloutState,
    /// Whether `install` is about the objects that the spec declares, and not about those of an earlier spec.
    pub is_declared: bool,
    /// Health of the installed objects.
    pub health: HealthState,
    /// Messages about other field managers that repeatedly change the provisioner's fields.
    pub conflicts: Vec<String>,
    /// Changes that repairs made to the installed bundle while the rollout of another bundle failed or waited.
    pub repaired: Option<RepairedInventory>,
    /// Message about the installed Bundle if another client replaced it.
    pub replaced: Option<String>,
}

/// Changes that repairs and prunes made to the installed objects.
#[derive(Debug, Clone, PartialEq)]
pub struct RepairedInventory {
    /// Inventory after the changes.
    pub inventory: Inventory,
    /// Objects that are deferred from now on until an optional API is served.
    pub waiting: Vec<String>,
    /// Prune candidates that are still in the cluster.
    pub removing: Vec<String>,
    /// Objects that were released: they remain in the cluster without an owner.
    pub released: Vec<String>,
    /// Revisions after the changes.
    pub revisions: Vec<RevisionStatus>,
    /// Whether the newest revision was lost while an older one is live, so that the spec has to be rolled out again.
    pub is_lost: bool,
}

impl RepairedInventory {
    /// Extracts the fields that repairs and prunes change.
    pub fn from_done(done: &CompletedRollout) -> Self {
        Self {
            inventory: done.inventory.clone(),
            waiting: done.waiting.clone(),
            removing: done.removing.clone(),
            released: done.released.clone(),
            revisions: done.revisions.clone(),
            is_lost: false,
        }
    }
}

/// State of the Bundle of the template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TemplateState {
    /// The Bundle was not examined in this reconcile.
    Unchanged,
    /// Unknown provisioner class, with its name.
    UnknownClass(String),
    /// Bundles could not be listed or created.
    Unknown {
        /// Reason, with the remedy.
        message: String,
        /// Kind of the remedy.
        remedy: Remedy,
    },
    /// The Bundle is not unpacked yet.
    Pending {
        /// Name of the Bundle.
        bundle: String,
        /// Message of its `Unpacked` condition.
        message: String,
    },
    /// The Bundle failed.
    Failed {
        /// Name of the Bundle.
        bundle: String,
        /// Message of its `Unpacked` condition.
        message: String,
        /// Kind of the remedy.
        remedy: Remedy,
    },
    /// The Bundle can be installed.
    Unpacked {
        /// Name of the Bundle.
        bundle: String,
    },
}

impl TemplateState {
    /// Returns the name of the Bundle; `None` if it does not exist or was not examined.
    pub(crate) fn bundle(&self) -> Option<&str> {
        match self {
            Self::Unpacked { bundle }
            | Self::Pending { bundle, .. }
            | Self::Failed { bundle, .. } => Some(bundle),
            Self::Unchanged | Self::UnknownClass(_) | Self::Unknown { .. } => None,
        }
    }
}

/// State of the rollout.
#[derive(Debug, Clone, PartialEq)]
pub enum RolloutState {
    /// A rollout was not needed.
    Unchanged,
    /// Paused by `spec.paused`.
    Paused,
    /// Some objects of a revision are applied, and the next step follows.
    Applying(Applying),
    /// All objects are applied.
    Done(Box<CompletedRollout>),
    /// The rollout or a repair failed: not all declared objects are applied.
    Failed(Failure),
    /// The last attempt failed and needs this remedy. The next attempt is not due yet.
    Waiting(Remedy),
    /// The maximum number of concurrent rollouts is reached.
    Queued,
    /// After a restart, the watches have not delivered the installed objects yet.
    Unobserved,
    /// A change of the platform caused the rollout, and rollouts with the same cause made these BundleInstances unhealthy.
    Stopped(Vec<String>),
}

/// Progress of a rollout between two of its steps.
#[derive(Debug, Clone, PartialEq)]
pub struct Applying {
    /// Name of the Bundle that the objects come from.
    pub bundle: String,
    /// Number of applied objects.
    pub applied: usize,
    /// Number of objects to apply.
    pub count: usize,
    /// Inventory with the applied objects.
    pub inventory: Inventory,
}

/// Installed objects, and the Bundle that they come from.
#[derive(Debug, Clone, PartialEq)]
pub struct CompletedRollout {
    /// Name of the Bundle.
    pub bundle: String,
    /// UID of the Bundle.
    pub uid: String,
    /// Name of the Bundle that was installed before; `None` once the new one is healthy.
    pub previous: Option<String>,
    /// Resolved source of the Bundle.
    pub source: Option<BundleSource>,
    /// Digest of its content.
    pub content: Option<String>,
    /// Install namespace of the bundle's namespaced objects.
    pub namespace: String,
    /// Digest of the applied state.
    pub digest: String,
    /// Whether the spec, the provisioner or the cluster has changed since the objects were rendered, so that another rollout
    /// follows.
    pub is_outdated: bool,
    /// Bundle info of the installed bundle.
    pub facts: BundleInfo,
    /// Inventory of the installed objects.
    pub inventory: Inventory,
    /// Objects that are deferred until an optional API is served.
    pub waiting: Vec<String>,
    /// Objects that were released: they remain in the cluster without an owner.
    pub released: Vec<String>,
    /// Prune candidates that are still in the cluster, with the problem if one is known.
    pub removing: Vec<String>,
    /// Revisions, the installed one last.
    pub revisions: Vec<RevisionStatus>,
    /// Warnings for the message of the `Installed` condition.
    pub warnings: Vec<String>,
    /// Rollback that led to these objects, if one did.
    pub rolled_back: Option<RolledBack>,
}

/// A rollback, automatic or by `spec.rollbackTo`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RolledBack {
    /// Hash of the template that failed; `None` for a rollback by `spec.rollbackTo`.
    pub template_hash: Option<String>,
    /// Reason why the template failed; `None` if it is not known any longer.
    pub why: Option<String>,
    /// Number of the revision that was recorded again.
    pub to: i64,
}

/// Failure of an attempt to apply the desired objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Name of the Bundle that should have been installed.
    pub bundle: String,
    /// Message with object, problem and remedy.
    pub message: String,
    /// Whether objects were changed before the failure.
    pub touched: bool,
    /// Class of the delay until the next attempt.
    pub retry: RetryClass,
    /// Kind of the remedy.
    pub remedy: Remedy,
}

impl Failure {
    /// Replaces the kind of the remedy.
    #[must_use]
    pub fn with(self, remedy: Remedy) -> Self {
        Self { remedy, ..self }
    }
}

/// Class of the delay until the next attempt, the shortest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RetryClass {
    /// Transient: the next attempt may succeed.
    Soon,
    /// Missing permissions. The user who grants them waits for the result, and no watch reports the grant.
    AfterGrant,
    /// Needs a change by a person that the provisioner may not observe.
    Backoff,
}

/// Health of the installed objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HealthState {
    /// The health is not known, for these reasons.
    Unknown(String),
    /// The objects were not observed in this reconcile; the previous condition remains.
    NotObserved,
    /// All objects are healthy.
    Healthy,
    /// Some objects are not healthy yet, with a message for each.
    Progressing(Vec<String>),
    /// Some objects failed and do not recover on their own, with a message for each.
    Failed(Vec<String>),
}

impl Outcome {
    /// Returns the outcome of a reconcile that ends before a rollout.
    pub fn of_bundle(valid: TemplateState) -> Self {
        Self {
            valid,
            install: RolloutState::Unchanged,
            is_declared: false,
            health: HealthState::NotObserved,
            conflicts: Vec::new(),
            repaired: None,
            replaced: None,
        }
    }
}
