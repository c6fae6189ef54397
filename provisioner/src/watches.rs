//! What is going on with applied objects: one watch for each kind (and account), started when the first instance needs
//! it and stopped with the last one. Metadata only, save for kinds with health rules; of both only what decisions need
//! is kept.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kube::runtime::reflector::ObjectRef;
use manifests::{
    api::instance::{BundleInstance, ServiceAccountRef},
    object::Identity,
};
use tokio::sync::mpsc;

use crate::{account::Accounts, drift::Fingerprint, health::Health, kinds::Kind};

/// The latest that is known of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Its uid.
    pub uid: String,
    /// Its resourceVersion.
    pub resource_version: String,
    /// Which of its fields are ours.
    pub fields: Option<Fingerprint>,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// How it is.
    pub health: Health,
}

/// The latest that is known of an instance's objects.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct View {
    /// Whether every watch has listed what there is: before, absence means nothing.
    pub synced: bool,
    /// Objects that carry the instance's owner labels.
    pub objects: BTreeMap<Identity, Seen>,
    /// Watches that do not work, in words: which kind, why, what to do.
    pub failing: Vec<String>,
}

/// The kinds an instance wants watched, each with the namespaces its objects are in (empty: cluster-scoped).
pub type Wanted = BTreeMap<Identity, Arc<Kind>>;

/// The watches.
pub struct Watches {}

impl Watches {
    /// No watches yet. `woken` is told which instance has to be looked at.
    pub fn new(
        accounts: Arc<Accounts>,
        woken: mpsc::UnboundedSender<ObjectRef<BundleInstance>>,
    ) -> Self {
        todo!()
    }

    /// Says which objects an instance has; replaces what was said before. An instance with an account is watched with
    /// that account's rights, a namespace at a time.
    pub fn want(&self, instance: &str, account: Option<&ServiceAccountRef>, objects: &Wanted) {
        todo!()
    }

    /// The instance is gone.
    pub fn forget(&self, instance: &str) {
        todo!()
    }

    /// What is known.
    pub fn view(&self, instance: &str) -> View {
        todo!()
    }
}
