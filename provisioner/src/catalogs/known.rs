//! What is known of catalogs. No I/O.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use catalog::{
    Catalog,
    choose::{Answer, Offer},
    model::Package,
    registry::Packages,
};
use manifests::api::platform::CatalogRef;

use super::Key;

/// All catalogs.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// Whether anybody has looked.
    is_begun: bool,
    /// The namespaces that catalogs are taken from, in the admin's order; and whether each was listed.
    namespaces: Vec<(String, bool)>,
    catalogs: BTreeMap<Key, Entry>,
}

/// One catalog.
#[derive(Debug, Default)]
struct Entry {
    priority: i64,
    /// What was read last, which stays while the catalog is away.
    read: Option<Read>,
    /// Why nothing newer can be read.
    trouble: Option<String>,
}

/// What was read of a catalog.
#[derive(Debug, Clone)]
pub(super) enum Read {
    /// All of it.
    All(Arc<Catalog>),
    /// What was asked for.
    Some {
        asked: Arc<BTreeSet<String>>,
        packages: Arc<Packages>,
    },
}

/// How a catalog is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    /// Which.
    pub catalog: Key,
    /// Whether anything of it is known.
    pub is_read: bool,
    /// Why nothing, or nothing newer, can be read.
    pub trouble: Option<String>,
}

/// What catalogs have of a package, as it was at one moment.
#[derive(Debug)]
pub struct Offers {
    package: String,
    offers: Vec<Held>,
}

#[derive(Debug)]
struct Held {
    catalog: String,
    priority: i64,
    /// What was read, or why nothing was: `None` while the first reading is under way.
    read: Result<Read, Option<String>>,
    /// Why the package cannot be used, if it is there.
    broken: Option<String>,
}

// === impl Known ===

impl Known {
    /// Begins anew, with these namespaces.
    pub(super) fn begin(&mut self, namespaces: &[String]) {
        self.is_begun = true;
        self.catalogs.clear();
        self.namespaces = namespaces
            .iter()
            .map(|namespace| (namespace.clone(), false))
            .collect();
    }

    /// There are no catalogs at all.
    pub(super) fn has_none(&mut self) -> bool {
        let changed = !self.is_begun || !self.catalogs.is_empty();
        self.is_begun = true;
        self.namespaces.clear();
        self.catalogs.clear();
        changed
    }

    /// It is known which catalogs a namespace has.
    pub(super) fn listed(&mut self, namespace: &str) -> bool {
        let mut changed = false;
        for (name, listed) in &mut self.namespaces {
            if name == namespace && !*listed {
                (*listed, changed) = (true, true);
            }
        }
        changed
    }

    pub(super) fn are_listed(&self) -> bool {
        self.is_begun && self.namespaces.iter().all(|(_, listed)| *listed)
    }

    /// There is a catalog.
    pub(super) fn add(&mut self, key: &Key, priority: i64) -> bool {
        let is_new = !self.catalogs.contains_key(key);
        let entry = self.catalogs.entry(key.clone()).or_default();
        let changed = is_new || entry.priority != priority;
        entry.priority = priority;
        changed
    }

    /// A catalog was read. It counts only while the catalog is there.
    pub(super) fn read(&mut self, key: &Key, read: Read) -> bool {
        let Some(entry) = self.catalogs.get_mut(key) else {
            return false;
        };
        entry.trouble = None;
        entry.read = Some(read);
        true
    }

    /// A catalog can be reached again, with what was read before.
    pub(super) fn is_well(&mut self, key: &Key) -> bool {
        let entry = self.catalogs.get_mut(key);
        entry.is_some_and(|entry| entry.trouble.take().is_some())
    }

    /// A catalog cannot be read.
    pub(super) fn trouble(&mut self, key: &Key, why: String) -> bool {
        let Some(entry) = self.catalogs.get_mut(key) else {
            return false;
        };
        let why = Some(why);
        let changed = entry.trouble != why;
        entry.trouble = why;
        changed
    }

    /// Whether nothing, or nothing newer, could be read of a catalog when that was last tried.
    pub(super) fn is_away(&self, key: &Key) -> bool {
        let entry = self.catalogs.get(key);
        entry.is_none_or(|entry| entry.read.is_none() || entry.trouble.is_some())
    }

    /// A catalog is gone.
    pub(super) fn remove(&mut self, key: &Key) -> bool {
        self.catalogs.remove(key).is_some()
    }

    pub(super) fn states(&self) -> Vec<State> {
        self.catalogs
            .iter()
            .map(|(key, entry)| State {
                catalog: key.clone(),
                is_read: entry.read.is_some(),
                trouble: entry.trouble.clone(),
            })
            .collect()
    }

    pub(super) fn offers(&self, package: &str, only: Option<&CatalogRef>) -> Offers {
        let wanted = only.map(|only| self.named(only));
        let offers = self
            .catalogs
            .iter()
            .filter(|(key, _)| wanted.as_ref().is_none_or(|wanted| *wanted == Some(*key)))
            .map(|(key, entry)| Held {
                catalog: key.to_string(),
                priority: entry.priority,
                read: entry.answer(package),
                broken: entry.read.as_ref().and_then(|read| read.broken(package)),
            })
            .collect();
        Offers {
            package: package.to_owned(),
            offers,
        }
    }

    /// The catalog that is meant: without a namespace, the one in the first namespace that has it.
    fn named(&self, only: &CatalogRef) -> Option<&Key> {
        let namespaces: Vec<&str> = match &only.namespace {
            Some(namespace) => vec![namespace],
            None => self.namespaces.iter().map(|(name, _)| &**name).collect(),
        };
        namespaces.into_iter().find_map(|namespace| {
            let key = Key {
                namespace: namespace.to_owned(),
                name: only.name.clone(),
            };
            self.catalogs.get_key_value(&key).map(|(key, _)| key)
        })
    }

    pub(super) fn maximum(&self, package: &str, bundle: &str, digest: &str) -> Option<Vec<String>> {
        let mut found: Option<(i64, &Vec<String>)> = None;
        for entry in self.catalogs.values() {
            let read = entry.read.as_ref();
            let Some(listed) = read
                .and_then(|read| read.package(package)?.bundle(bundle))
                .filter(|listed| digest_of(&listed.image) == Some(digest))
            else {
                continue;
            };
            // Of equal ones the first by name.
            if found.is_none_or(|(priority, _)| priority < entry.priority) {
                found = Some((entry.priority, &listed.max_openshift));
            }
        }
        found.map(|(_, maximum)| maximum.clone())
    }
}

/// Of an image that is pinned.
fn digest_of(image: &str) -> Option<&str> {
    image.rsplit_once('@').map(|(_, digest)| digest)
}

// === impl Entry ===

impl Entry {
    /// What there is to be known of a package, or why it is not known; `None` while it is being read for the first time.
    fn answer(&self, package: &str) -> Result<Read, Option<String>> {
        match (&self.read, &self.trouble) {
            (Some(read), _) if read.knows_of(package) => Ok(read.clone()),
            (_, trouble) => Err(trouble.clone()),
        }
    }
}

// === impl Read ===

impl Read {
    /// Whether the package is there if it is in the catalog.
    fn knows_of(&self, package: &str) -> bool {
        match self {
            Self::All(_) => true,
            Self::Some { asked, .. } => asked.contains(package),
        }
    }

    fn package(&self, name: &str) -> Option<&Package> {
        match self {
            Self::All(catalog) => catalog.packages.get(name),
            Self::Some { packages, .. } => packages.packages.get(name),
        }
    }

    fn broken(&self, name: &str) -> Option<String> {
        match self {
            Self::All(catalog) => catalog.why_broken(name),
            Self::Some { packages, .. } => packages.broken.get(name).cloned(),
        }
    }
}

// === impl Offers ===

impl Offers {
    /// As they are to be chosen from.
    pub fn list(&self) -> Vec<Offer<'_>> {
        self.offers
            .iter()
            .map(|held| Offer {
                catalog: &held.catalog,
                priority: held.priority,
                answer: match (&held.broken, &held.read) {
                    (Some(why), _) | (None, Err(Some(why))) => Answer::Unknown(why),
                    (None, Err(None)) => Answer::Pending,
                    (None, Ok(read)) => match read.package(&self.package) {
                        Some(package) => Answer::Package(package),
                        None => Answer::Absent,
                    },
                },
            })
            .collect()
    }
}

#[cfg(test)]
mod tests;
