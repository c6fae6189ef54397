//! Doing what a plan says: server-side apply in waves, many objects at once, and deleting what leaves.

use std::collections::BTreeMap;

use kube::Client;
use manifests::{api::instance::CrdDeletionPolicy, object::Identity};

use crate::{
    drift::Fingerprint,
    kinds::Kinds,
    plan::{Leaving, Owner, Plan, Step, Wave},
};

/// The one field manager of applied objects.
pub const MANAGER: &str = "rukpak";

/// An object that is in place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// Its uid.
    pub uid: String,
    /// Its resourceVersion: equal to the one before when nothing changed.
    pub resource_version: String,
    /// Which of its fields are ours; `None` where an admission webhook took away who set what.
    pub fields: Option<Fingerprint>,
    /// Fields that others had set, and that were taken over.
    pub taken: Vec<Conflict>,
    /// Fields that were left to a scaler.
    pub yielded: Vec<Conflict>,
}

/// A field that somebody else has set.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Conflict {
    /// `.spec.replicas`
    pub field: String,
    /// Who.
    pub manager: String,
    /// Through which subresource, empty for the object itself.
    pub subresource: String,
}

/// An object that the apiserver did not take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Which.
    pub identity: Identity,
    /// What the apiserver said, and what to do: complete and readable.
    pub message: String,
    /// What kind of failure it is.
    pub cause: Cause,
}

/// What kind of failure it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// The object is invalid: trying again does not help.
    Invalid,
    /// The account lacks rights.
    Forbidden,
    /// An admission webhook or policy denied it.
    Denied,
    /// Its API is not served (any more).
    NotServed,
    /// Its namespace does not exist, or is terminating.
    Namespace,
    /// A definition did not become Established in time.
    NotEstablished,
    /// The object is being deleted; it can be applied again afterwards.
    Deleting,
    /// Timeouts, throttling, conflicts, an apiserver that is not there.
    Transient,
}

/// What came of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// What is in place now.
    pub applied: BTreeMap<Identity, Applied>,
    /// What is not, and why. Waves after the first with failures were not begun.
    pub failed: Vec<Failure>,
    /// The wave that could not be finished.
    pub stopped_in: Option<Wave>,
}

/// How to apply.
pub struct Apply<'a> {
    /// With whose rights.
    pub client: &'a Client,
    /// To forget the groups of definitions that were applied.
    pub kinds: &'a Kinds,
    /// How many requests at once.
    pub concurrency: usize,
}

impl Apply<'_> {
    /// Applies steps, wave by wave.
    pub async fn run(&self, steps: &[Step]) -> Report {
        todo!()
    }

    /// Asks the apiserver what it would say, without changing anything. Objects that it cannot judge yet (their
    /// namespace or definition comes with the same plan) are passed over.
    pub async fn dry_run(&self, steps: &[Step]) -> Vec<Failure> {
        todo!()
    }

    /// Deletes what leaves, in order. Only what still carries the owner's labels is touched.
    pub async fn prune(
        &self,
        leaving: &[Leaving],
        owner: &Owner,
        policy: CrdDeletionPolicy,
    ) -> Pruned {
        todo!()
    }
}

/// What became of what leaves.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Gone, or going without a need to wait.
    pub deleted: Vec<Identity>,
    /// Deleted, and still there because of finalizers: look again.
    pub going: Vec<Identity>,
    /// Left in the cluster on purpose, released from the instance: which, and why (`CustomResourceDefinition x.y: 3
    /// custom resources are left (…); delete them and then it, or …`).
    pub released: BTreeMap<Identity, String>,
    /// Could not be deleted.
    pub failed: Vec<Failure>,
}
