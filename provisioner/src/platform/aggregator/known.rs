//! What is known of everything that conclusions are drawn from. No I/O.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Display,
};

use manifests::{
    api::{
        config::ClusterOperator, instance::BundleInstance, platform::PlatformOperator,
        platform_status::PlatformStatus,
    },
    object::shortened,
    openshift::Cluster,
};

use super::subscribed::{Service, Subscription};

/// How much is kept of what an API server says, in characters.
const LONGEST_WORDS: usize = 400;

/// All objects of a kind that count, by `namespace/name`.
#[derive(Debug)]
pub(super) struct Known<T> {
    told: Told,
    /// Boxed, because a node of a tree has room for eleven of them.
    objects: BTreeMap<String, Box<T>>,
}

/// What the watch has told.
#[derive(Debug, PartialEq, Eq)]
enum Told {
    /// Nothing yet.
    Nothing,
    /// That the kind is not served.
    NotServed,
    /// What there is.
    Listed,
    /// Why it does not work. What was listed before may be outdated.
    Failing(String),
}

/// Everything.
#[derive(Debug, Default)]
pub(super) struct Facts {
    pub(super) operators: Known<PlatformOperator>,
    /// Of all owners.
    pub(super) instances: Known<BundleInstance>,
    pub(super) version: Known<Cluster>,
    /// Reason and message of those that ask not to be upgraded.
    pub(super) refusals: Known<(String, String)>,
    /// The ClusterServiceVersions of an OLM.
    pub(super) services: Known<Service>,
    /// The Subscriptions of an OLM that have installed something.
    pub(super) subscriptions: Known<Subscription>,
    /// The ClusterServiceVersions that the ClusterOperators of other components name as related objects, by
    /// ClusterOperator.
    pub(super) components: Known<BTreeSet<String>>,
    pub(super) aggregated: Known<ClusterOperator>,
    pub(super) core: Known<ClusterOperator>,
    pub(super) status: Known<PlatformStatus>,
}

// === impl Known ===

impl<T> Default for Known<T> {
    fn default() -> Self {
        Self {
            told: Told::Nothing,
            objects: BTreeMap::new(),
        }
    }
}

impl<T: PartialEq> Known<T> {
    /// These are all there are. Tells whether that is news, as all of these do.
    pub(super) fn list(&mut self, objects: BTreeMap<String, T>) -> bool {
        let objects = objects.into_iter();
        let objects = objects
            .map(|(name, object)| (name, Box::new(object)))
            .collect();
        let is_news = self.told != Told::Listed || self.objects != objects;
        self.told = Told::Listed;
        self.objects = objects;
        is_news
    }

    /// There is such an object.
    pub(super) fn put(&mut self, name: String, object: T) -> bool {
        let is_news = self.get(&name) != Some(&object);
        if is_news {
            self.objects.insert(name, Box::new(object));
        }
        is_news
    }

    /// There is no such object, or none that counts.
    pub(super) fn remove(&mut self, name: &str) -> bool {
        self.objects.remove(name).is_some()
    }

    /// The kind is not served.
    pub(super) fn is_not_served(&mut self) -> bool {
        let is_news = self.told != Told::NotServed;
        self.told = Told::NotServed;
        self.objects.clear();
        is_news
    }

    /// It cannot be watched.
    pub(super) fn fails(&mut self, why: &impl Display) -> bool {
        let told = Told::Failing(shortened(&why.to_string(), LONGEST_WORDS));
        let is_news = self.told != told;
        self.told = told;
        is_news
    }
}

impl<T> Known<T> {
    /// Reports whether anything has been told at all.
    pub(super) fn is_heard(&self) -> bool {
        self.told != Told::Nothing
    }

    /// Reports whether it is known what there is.
    pub(super) fn is_listed(&self) -> bool {
        self.told == Told::Listed
    }

    /// Reports whether there is no such kind.
    pub(super) fn is_absent(&self) -> bool {
        self.told == Told::NotServed
    }

    /// Why it cannot be watched.
    pub(super) fn error(&self) -> Option<&str> {
        match &self.told {
            Told::Failing(why) => Some(why),
            _ => None,
        }
    }

    /// All of them, also those that were listed before the watch failed.
    pub(super) fn all(&self) -> impl Iterator<Item = &T> {
        self.objects.values().map(AsRef::as_ref)
    }

    pub(super) fn get(&self, name: &str) -> Option<&T> {
        self.objects.get(name).map(AsRef::as_ref)
    }
}

// === impl Facts ===

impl Facts {
    /// Reports whether every watch has told something: before that, what is missing may be there.
    pub(super) fn are_heard(&self) -> bool {
        let reported = self.aggregated.is_heard() && self.core.is_heard() && self.status.is_heard();
        reported
            && self.operators.is_heard()
            && self.instances.is_heard()
            && self.version.is_heard()
            && self.refusals.is_heard()
            && self.services.is_heard()
            && self.subscriptions.is_heard()
            && self.components.is_heard()
    }
}
