//! What came of looking at an instance: values, from which its status is made.

use manifests::api::{
    bundle::{BundleSource, Facts},
    instance::{Inventory, RevisionStatus},
};

pub use manifests::api::instance::ready::Remedy;

/// The outcome.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// How it is with the Bundle of the template.
    pub valid: Valid,
    /// What became of installing.
    pub install: Install,
    /// Whether `install` is about the objects that the spec declares, and not about those of an earlier declaration.
    pub is_declared: bool,
    /// How the objects are.
    pub health: Health,
    /// Somebody who does not leave our objects alone, in words.
    pub fights: Vec<String>,
    /// What was repaired of the installed bundle, while another one could not be installed.
    pub kept: Option<Kept>,
    /// The message about the installed Bundle, if another client replaced it.
    pub replaced: Option<String>,
}

/// A change of what is known of the installed objects.
#[derive(Debug, Clone, PartialEq)]
pub struct Kept {
    /// All objects.
    pub inventory: Inventory,
    /// Objects that wait for an optional API from now on.
    pub waiting: Vec<String>,
    /// Objects that have left the bundle and are still in the cluster.
    pub removing: Vec<String>,
    /// Objects that were left in the cluster.
    pub released: Vec<String>,
    /// The revisions.
    pub revisions: Vec<RevisionStatus>,
    /// Whether the newest revision was lost while an older one is live, so that it has to be rolled out anew.
    pub is_lost: bool,
}

impl Kept {
    /// Takes what repairs and prunes change.
    pub fn of(done: &Done) -> Self {
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

/// How it is with the Bundle of the template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Valid {
    /// Nobody looked.
    Unchanged,
    /// Nobody here serves the class of that name.
    Unserved(String),
    /// Bundles could not be listed or made.
    Unknown {
        /// The reason, with the remedy.
        message: String,
        /// The kind of the remedy.
        remedy: Remedy,
    },
    /// The Bundle is not there yet.
    Pending {
        /// Its name.
        bundle: String,
        /// What it waits for, as it says itself.
        message: String,
    },
    /// The Bundle is no good.
    Failed {
        /// Its name.
        bundle: String,
        /// Why, as it says itself.
        message: String,
        /// The kind of the remedy.
        remedy: Remedy,
    },
    /// It can be installed.
    Unpacked {
        /// Its name.
        bundle: String,
    },
}

/// What became of installing.
#[derive(Debug, Clone, PartialEq)]
pub enum Install {
    /// Nothing was tried: there is nothing new.
    Unchanged,
    /// `spec.paused`.
    Paused,
    /// Some objects of a revision are applied, and the next step follows.
    Applying(Applying),
    /// Everything is in the cluster.
    Done(Box<Done>),
    /// Something is not.
    Failed(Failure),
    /// The last attempt failed for want of this remedy, and the next one is not due yet.
    Waiting(Remedy),
    /// Other rollouts are under way.
    Queued,
    /// The platform caused the rollout, and rollouts with the same cause made these BundleInstances unhealthy.
    Stopped(Vec<String>),
}

/// How far a rollout is between two of its steps.
#[derive(Debug, Clone, PartialEq)]
pub struct Applying {
    /// The Bundle that the objects come from.
    pub bundle: String,
    /// How many objects were applied.
    pub applied: usize,
    /// How many objects there are to apply.
    pub count: usize,
    /// All objects.
    pub inventory: Inventory,
}

/// What is in the cluster now.
#[derive(Debug, Clone, PartialEq)]
pub struct Done {
    /// The Bundle it comes from.
    pub bundle: String,
    /// The uid of that Bundle.
    pub uid: String,
    /// The one that was installed before, while the new one is not healthy.
    pub previous: Option<String>,
    /// The source of that Bundle.
    pub source: Option<BundleSource>,
    /// The digest of its content.
    pub content: Option<String>,
    /// Where namespaced objects went.
    pub namespace: String,
    /// What was applied.
    pub digest: String,
    /// What the bundle says of itself.
    pub facts: Facts,
    /// All objects.
    pub inventory: Inventory,
    /// Objects that wait for an optional API.
    pub waiting: Vec<String>,
    /// Objects that were left in the cluster.
    pub released: Vec<String>,
    /// What has left the bundle, but not yet the cluster, and why.
    pub removing: Vec<String>,
    /// The revisions, the installed one last.
    pub revisions: Vec<RevisionStatus>,
    /// Worth knowing.
    pub warnings: Vec<String>,
    /// The template that failed, when this is the way back from it, and why it failed.
    pub rolled_back: Option<RolledBack>,
}

/// A rollback.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RolledBack {
    /// The hash of the template that failed; `None` for a rollback by `spec.rollbackTo`.
    pub template_hash: Option<String>,
    /// The reason why the template failed, if that is still known.
    pub why: Option<String>,
    /// The number of the revision that was recorded again.
    pub to: i64,
}

/// The reason why something is not in the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The Bundle that should have been installed.
    pub bundle: String,
    /// Object, problem, remedy.
    pub message: String,
    /// Whether anything was changed before it failed.
    pub touched: bool,
    /// The time to try again.
    pub retry: Retry,
    /// The kind of the remedy.
    pub remedy: Remedy,
}

impl Failure {
    /// Changes the kind of the remedy.
    #[must_use]
    pub fn with(self, remedy: Remedy) -> Self {
        Self { remedy, ..self }
    }
}

/// The time to try again, the earliest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Retry {
    /// It may work next time.
    Soon,
    /// Rights are missing. Somebody grants them and waits; nothing tells of that here.
    Granted,
    /// Somebody has to do something, which may not be seen from here.
    Slowly,
}

/// How the objects are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// It cannot be known, for these reasons.
    Unknown(String),
    /// Nobody has looked yet: what was known remains.
    NotLooked,
    /// All well.
    Healthy,
    /// Some are on their way.
    Progressing(Vec<String>),
    /// Some will not get there by themselves.
    Failed(Vec<String>),
}

impl Outcome {
    /// Nothing could be found out about installing.
    pub fn of_bundle(valid: Valid) -> Self {
        Self {
            valid,
            install: Install::Unchanged,
            is_declared: false,
            health: Health::NotLooked,
            fights: Vec::new(),
            kept: None,
            replaced: None,
        }
    }
}
