//! Cache of all watched objects that decisions need. Pure; no I/O.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Display,
};

use manifests::{
    api::{
        config::ClusterOperator, platform_operator::PlatformOperator,
        platform_status::PlatformStatus,
    },
    object::truncate,
    openshift::ClusterRelease,
};

use super::{
    instance::ObservedInstance,
    subscriptions::{Service, Subscription},
};

/// Maximum length of an error of the API server, in characters.
const MAX_REASON_LEN: usize = 400;

/// Cached objects of a kind, by `namespace/name`.
#[derive(Debug)]
pub(crate) struct ObjectCache<T> {
    state: SyncState,
    /// Boxed, because a node of a `BTreeMap` has room for eleven values.
    objects: BTreeMap<String, Box<T>>,
}

/// State of a watch.
#[derive(Debug, PartialEq, Eq)]
enum SyncState {
    /// The watch has not reported a state yet.
    Pending,
    /// The kind is not served.
    NotServed,
    /// All objects are listed.
    Listed,
    /// The watch does not work, with the reason. The objects of the last list may be outdated.
    Failing(String),
}

/// Caches of all kinds.
#[derive(Debug, Default)]
pub(crate) struct ClusterState {
    pub(crate) operators: ObjectCache<PlatformOperator>,
    /// BundleInstances of all owners.
    pub(crate) instances: ObjectCache<ObservedInstance>,
    pub(crate) version: ObjectCache<ClusterRelease>,
    /// Reason and message of the OperatorConditions that block upgrades.
    pub(crate) refusals: ObjectCache<(String, String)>,
    /// ClusterServiceVersions of OLM.
    pub(crate) services: ObjectCache<Service>,
    /// Subscriptions of OLM with an installed ClusterServiceVersion.
    pub(crate) subscriptions: ObjectCache<Subscription>,
    /// ClusterServiceVersions that the ClusterOperators of other components name as related objects, by ClusterOperator.
    pub(crate) components: ObjectCache<BTreeSet<String>>,
    pub(crate) aggregated: ObjectCache<ClusterOperator>,
    pub(crate) core: ObjectCache<ClusterOperator>,
    pub(crate) status: ObjectCache<PlatformStatus>,
}

// === impl ObjectCache ===

impl<T> Default for ObjectCache<T> {
    fn default() -> Self {
        Self {
            state: SyncState::Pending,
            objects: BTreeMap::new(),
        }
    }
}

impl<T: PartialEq> ObjectCache<T> {
    /// Replaces all objects by a complete list. Like the other methods, returns whether the cache has changed.
    pub(crate) fn list(&mut self, objects: BTreeMap<String, T>) -> bool {
        let objects = objects.into_iter();
        let objects = objects
            .map(|(name, object)| (name, Box::new(object)))
            .collect();
        let is_news = self.state != SyncState::Listed || self.objects != objects;
        self.state = SyncState::Listed;
        self.objects = objects;
        is_news
    }

    /// Inserts or replaces an object.
    pub(crate) fn put(&mut self, name: String, object: T) -> bool {
        let is_news = self.get(&name) != Some(&object);
        if is_news {
            self.objects.insert(name, Box::new(object));
        }
        is_news
    }

    /// Removes an object that was deleted or is not needed.
    pub(crate) fn remove(&mut self, name: &str) -> bool {
        self.objects.remove(name).is_some()
    }

    /// Records that the kind is not served.
    pub(crate) fn mark_not_served(&mut self) -> bool {
        let is_news = self.state != SyncState::NotServed;
        self.state = SyncState::NotServed;
        self.objects.clear();
        is_news
    }

    /// Records that the objects cannot be watched.
    pub(crate) fn fails(&mut self, why: &impl Display) -> bool {
        let state = SyncState::Failing(truncate(&why.to_string(), MAX_REASON_LEN));
        let is_news = self.state != state;
        self.state = state;
        is_news
    }
}

impl<T> ObjectCache<T> {
    /// Reports whether the watch has reported any state.
    pub(crate) fn is_synced(&self) -> bool {
        self.state != SyncState::Pending
    }

    /// Reports whether all objects are listed.
    pub(crate) fn is_listed(&self) -> bool {
        self.state == SyncState::Listed
    }

    /// Reports whether the kind is not served.
    pub(crate) fn is_absent(&self) -> bool {
        self.state == SyncState::NotServed
    }

    /// Returns the reason why the objects cannot be watched; `None` if they can.
    pub(crate) fn error(&self) -> Option<&str> {
        match &self.state {
            SyncState::Failing(why) => Some(why),
            _ => None,
        }
    }

    /// Returns all objects, including those that were listed before the watch failed.
    pub(crate) fn all(&self) -> impl Iterator<Item = &T> {
        self.objects.values().map(AsRef::as_ref)
    }

    pub(crate) fn get(&self, name: &str) -> Option<&T> {
        self.objects.get(name).map(AsRef::as_ref)
    }
}

// === impl ClusterState ===

impl ClusterState {
    /// Reports whether every watch has reported a state. Before that, missing objects may exist.
    pub(crate) fn are_synced(&self) -> bool {
        let reported =
            self.aggregated.is_synced() && self.core.is_synced() && self.status.is_synced();
        reported
            && self.operators.is_synced()
            && self.instances.is_synced()
            && self.version.is_synced()
            && self.refusals.is_synced()
            && self.services.is_synced()
            && self.subscriptions.is_synced()
            && self.components.is_synced()
    }
}
