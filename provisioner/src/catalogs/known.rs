//! What is known of catalogs. No I/O.

mod offers;

use std::{cmp::Reverse, collections::BTreeMap, sync::Arc};

use catalog::{
    Catalog,
    model::{Bundle, Package},
    registry::Packages,
};
use manifests::{
    api::{
        catalog_source::{CatalogSource, Invalid, Origin},
        platform::CatalogRef,
    },
    openshift::{MaxOpenShiftVersion, Release, maximum},
};

use self::offers::Held;
pub use self::offers::Offers;
use super::{Key, maxima::Said, plan::template_of};

/// All catalogs.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// Whether anybody has looked.
    is_begun: bool,
    /// The namespaces that catalogs are taken from, in the admin's order.
    namespaces: Vec<(String, Listing)>,
    catalogs: BTreeMap<Key, Entry>,
}

/// Whether it is known which catalogs a namespace has.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Listing {
    /// Not yet.
    Pending,
    Known,
    /// They may not be listed, and why.
    Refused(String),
}

/// What a CatalogSource stands for: with another one it is another catalog, whatever its name, and what was read of the
/// former one is not for those who may not read this one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Identity {
    uid: Option<String>,
    /// What it is in, and its name there: of an image that is made of a template, that template, for it is the same catalog
    /// whatever the cluster is. None where the CatalogSource does not say it.
    origin: Option<(&'static str, String)>,
}

/// One catalog.
#[derive(Debug, Default)]
struct Entry {
    identity: Identity,
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
    Some(Arc<Packages>),
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

// === impl Known ===

impl Known {
    /// Begins anew, with these namespaces.
    pub(super) fn begin(&mut self, namespaces: &[String]) {
        self.is_begun = true;
        self.catalogs.clear();
        self.namespaces = namespaces
            .iter()
            .map(|namespace| (namespace.clone(), Listing::Pending))
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
        self.set(namespace, Listing::Known)
    }

    /// The catalogs of a namespace may not be listed. Those that are known stay.
    pub(super) fn refused(&mut self, namespace: &str, why: String) -> bool {
        self.set(namespace, Listing::Refused(why))
    }

    fn set(&mut self, namespace: &str, listing: Listing) -> bool {
        let mut all = self.namespaces.iter_mut();
        let known = all.find(|(name, _)| name == namespace);
        let Some((_, known)) = known.filter(|(_, known)| *known != listing) else {
            return false;
        };
        *known = listing;
        true
    }

    pub(super) fn are_listed(&self) -> bool {
        let mut all = self.namespaces.iter();
        self.is_begun && all.all(|(_, listing)| *listing != Listing::Pending)
    }

    /// There is a catalog. What was read of another one of its name is forgotten.
    pub(super) fn add(&mut self, key: &Key, identity: &Identity, priority: i64) -> bool {
        let is_new = !self.is(key, identity);
        let entry = self.catalogs.entry(key.clone()).or_default();
        if is_new {
            *entry = Entry {
                identity: identity.clone(),
                ..Entry::default()
            };
        }
        let changed = is_new || entry.priority != priority;
        entry.priority = priority;
        changed
    }

    /// Reports whether this very catalog is there.
    pub(super) fn is(&self, key: &Key, identity: &Identity) -> bool {
        let entry = self.catalogs.get(key);
        entry.is_some_and(|entry| entry.identity == *identity)
    }

    /// A catalog was read. It counts only while the catalog is there.
    pub(super) fn read(&mut self, key: &Key, identity: &Identity, read: Read) -> bool {
        let Some(entry) = self.entry(key, identity) else {
            return false;
        };
        entry.trouble = None;
        entry.read = Some(read);
        true
    }

    /// A catalog can be reached again, with what was read before.
    pub(super) fn is_well(&mut self, key: &Key, identity: &Identity) -> bool {
        let entry = self.entry(key, identity);
        entry.is_some_and(|entry| entry.trouble.take().is_some())
    }

    /// A catalog cannot be read.
    pub(super) fn trouble(&mut self, key: &Key, identity: &Identity, why: String) -> bool {
        let Some(entry) = self.entry(key, identity) else {
            return false;
        };
        let why = Some(why);
        let changed = entry.trouble != why;
        entry.trouble = why;
        changed
    }

    fn entry(&mut self, key: &Key, identity: &Identity) -> Option<&mut Entry> {
        let entry = self.catalogs.get_mut(key);
        entry.filter(|entry| entry.identity == *identity)
    }

    /// Reports whether anything is known of a catalog.
    pub(super) fn is_read(&self, key: &Key, identity: &Identity) -> bool {
        let entry = self.catalogs.get(key);
        entry.is_some_and(|entry| entry.identity == *identity && entry.read.is_some())
    }

    /// Reports whether nothing, or nothing newer, could be read of a catalog when that was last tried.
    pub(super) fn is_away(&self, key: &Key) -> bool {
        let entry = self.catalogs.get(key);
        entry.is_none_or(|entry| entry.read.is_none() || entry.trouble.is_some())
    }

    /// A catalog is gone.
    pub(super) fn remove(&mut self, key: &Key) -> bool {
        self.catalogs.remove(key).is_some()
    }

    pub(super) fn states(&self) -> Vec<State> {
        let all = self.catalogs.iter();
        let all = all.map(|(key, entry)| entry.state(key));
        all.chain(self.hidden()).collect()
    }

    /// What stands for the catalogs of namespaces where they may not be listed.
    fn hidden(&self) -> impl Iterator<Item = State> {
        self.namespaces.iter().filter_map(|(namespace, listing)| {
            let Listing::Refused(why) = listing else {
                return None;
            };
            Some(State {
                catalog: hidden(namespace),
                is_read: false,
                trouble: Some(why.clone()),
            })
        })
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
                state: entry.state(key),
                broken: entry.read.as_ref().and_then(|read| read.broken(package)),
            });
        // The catalog that is meant may be one that nobody sees.
        let may_be_meant = |state: &State| match only {
            None => true,
            Some(CatalogRef { namespace, .. }) => match namespace {
                Some(namespace) => *namespace == state.catalog.namespace,
                None => wanted == Some(None),
            },
        };
        let hidden = self.hidden().filter(may_be_meant).map(|state| Held {
            catalog: state.catalog.to_string(),
            priority: UNSAID,
            read: Err(state.trouble.clone()),
            state,
            broken: None,
        });
        let offers = offers.chain(hidden).collect();
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

    /// Adds a catalog, which is read and has this package.
    #[cfg(test)]
    pub(super) fn stock(&mut self, package: Package) {
        let key = Key {
            namespace: "catalogs".to_owned(),
            name: package.name.clone(),
        };
        self.begin(std::slice::from_ref(&key.namespace));
        self.add(&key, &Identity::default(), 0);
        let packages = [(package.name.clone(), package)].into();
        let read = Read::All(Arc::new(Catalog {
            packages,
            ..Catalog::default()
        }));
        self.read(&key, &Identity::default(), read);
        self.listed(&key.namespace);
    }

    /// Returns the bundle of an image from the first catalog that has it, in the order in which bundles are chosen.
    pub(super) fn bundle(&self, package: &str, bundle: &str, digest: &str) -> Option<&Bundle> {
        let found = self.catalogs.iter().filter_map(|(key, entry)| {
            let package = entry.read.as_ref()?.package(package)?;
            let bundle = package.bundle(bundle)?;
            let is_it = digest_of(&bundle.image) == Some(digest);
            is_it.then_some(((Reverse(entry.priority), key), bundle))
        });
        found
            .min_by_key(|(place, _)| *place)
            .map(|(_, bundle)| bundle)
    }

    /// In the order in which bundles are chosen from catalogs, the first that has it decides, unless one that comes before
    /// cannot be asked.
    pub(super) fn said(&self, package: &str, bundle: &str, digest: &str) -> Said {
        // Which catalogs there are, and where they come, must be known.
        let mut is_away = !self.are_listed();
        let hidden: Vec<Key> = self.hidden().map(|it| it.catalog).collect();
        let hidden = hidden.iter().map(|key| (Reverse(UNSAID), key, None));
        let catalogs = self.catalogs.iter();
        let mut all: Vec<(Reverse<i64>, &Key, Option<&Entry>)> = catalogs
            .map(|(key, entry)| (Reverse(entry.priority), key, Some(entry)))
            .chain(hidden)
            .collect();
        all.sort_by_key(|(priority, key, _)| (*priority, *key));
        let mut is_troubled = false;
        for (_, _, entry) in all {
            let read = entry.and_then(|entry| entry.read.as_ref());
            let Some(read) = read.filter(|it| it.knows_of(package) && !it.is_broken(package))
            else {
                is_away = true;
                continue;
            };
            is_troubled |= entry.is_some_and(|entry| entry.trouble.is_some());
            let listed = read.package(package).and_then(|it| it.bundle(bundle));
            let Some(listed) = listed.filter(|it| digest_of(&it.image) == Some(digest)) else {
                continue;
            };
            return if is_away {
                Said::Away(value(listed))
            } else {
                Said::Says(value(listed))
            };
        }
        // One that is away may have it by now.
        if is_away || is_troubled {
            Said::Away(None)
        } else {
            Said::Absent
        }
    }

    /// Returns the value of the catalog that a Subscription names, for a bundle of this name and version. `None` if no
    /// namespace of the admin has such a catalog.
    pub(super) fn said_by(
        &self,
        catalog: &Key,
        package: &str,
        bundle: &str,
        version: &str,
    ) -> Option<Said> {
        let Some(entry) = self.catalogs.get(catalog) else {
            let mut namespaces = self.namespaces.iter();
            let listed = namespaces.find(|(name, _)| *name == catalog.namespace);
            let is_listed = listed.is_none_or(|(_, listing)| *listing == Listing::Known);
            return (!self.is_begun || !is_listed).then_some(Said::Away(None));
        };
        let Some(read) = entry.usable(package) else {
            return Some(Said::Away(None));
        };
        Some(match read.listed(package, bundle, version) {
            Some(listed) => Said::Says(value(listed)),
            // The newer catalog may list the bundle.
            None if entry.trouble.is_some() => Said::Away(None),
            None => Said::Absent,
        })
    }

    /// Returns the lowest release that any catalog declares for a bundle of this name and version. One catalog that cannot be
    /// read may declare a lower one.
    pub(super) fn lowest(&self, package: &str, bundle: &str, version: &str) -> Said {
        if !self.are_listed() || self.hidden().next().is_some() {
            return Said::Away(None);
        }
        let mut lowest: Option<Release> = None;
        for entry in self.catalogs.values() {
            let Some(read) = entry.usable(package) else {
                return Said::Away(None);
            };
            let declared = read.listed(package, bundle, version).and_then(value);
            let declared = declared.and_then(|text| maximum(&text).ok());
            let releases = lowest.into_iter().chain(declared);
            lowest = releases.min_by_key(|release| release.normalized());
        }
        Said::Says(lowest.map(|release| release.to_string()))
    }
}

/// Returns the max OpenShift version that a bundle of a catalog declares, as text.
fn value(bundle: &Bundle) -> Option<String> {
    let declared = bundle.max_openshift.as_ref();
    declared.map(MaxOpenShiftVersion::text)
}

/// The priority of catalogs that say nothing of it.
const UNSAID: i64 = 0;

/// What stands for all catalogs of a namespace.
pub(super) fn hidden(namespace: &str) -> Key {
    Key {
        namespace: namespace.to_owned(),
        name: "*".to_owned(),
    }
}

/// Of an image that is pinned.
fn digest_of(image: &str) -> Option<&str> {
    image.rsplit_once('@').map(|(_, digest)| digest)
}

// === impl Identity ===

impl Identity {
    pub(super) fn of(source: &CatalogSource) -> Self {
        let image = |reference: Option<&str>| {
            let name = template_of(source).or(reference);
            name.map(|it| ("image", it.to_owned()))
        };
        let origin = match source.origin() {
            Ok(Origin::Image { reference, .. }) => image(Some(reference)),
            // Its template is about to give it one.
            Err(Invalid::NoPlace) => image(None),
            Ok(Origin::Service { address }) => Some(("service", address.into_owned())),
            Ok(Origin::ConfigMap { name }) => Some(("configmap", name.to_owned())),
            Err(_) => None,
        };
        Self {
            uid: source.metadata.uid.clone(),
            origin,
        }
    }
}

// === impl Entry ===

impl Entry {
    fn state(&self, key: &Key) -> State {
        State {
            catalog: key.clone(),
            is_read: self.read.is_some(),
            trouble: self.trouble.clone(),
        }
    }

    /// What there is to be known of a package, or why it is not known; `None` while it is being read for the first time.
    fn answer(&self, package: &str) -> Result<Read, Option<String>> {
        match (&self.read, &self.trouble) {
            (Some(read), _) if read.knows_of(package) => Ok(read.clone()),
            (_, trouble) => Err(trouble.clone()),
        }
    }

    /// Returns what was read last, if the package can be looked up in it.
    fn usable(&self, package: &str) -> Option<&Read> {
        let is_usable = |read: &&Read| read.knows_of(package) && !read.is_broken(package);
        self.read.as_ref().filter(is_usable)
    }
}

// === impl Read ===

impl Read {
    /// Reports whether the package is there if it is in the catalog.
    fn knows_of(&self, package: &str) -> bool {
        match self {
            Self::All(_) => true,
            Self::Some(read) => read.asked.contains(package),
        }
    }

    fn package(&self, name: &str) -> Option<&Package> {
        match self {
            Self::All(catalog) => catalog.packages.get(name),
            Self::Some(read) => read.packages.get(name).map(AsRef::as_ref),
        }
    }

    /// Returns the bundle of this name and version.
    fn listed(&self, package: &str, bundle: &str, version: &str) -> Option<&Bundle> {
        let listed = self.package(package)?.bundle(bundle);
        listed.filter(|listed| listed.version.version.to_string() == version)
    }

    /// Reports whether the package is there, and cannot be used.
    fn is_broken(&self, name: &str) -> bool {
        match self {
            Self::All(catalog) => catalog.broken.contains_key(name),
            Self::Some(read) => read.broken.contains_key(name),
        }
    }

    fn broken(&self, name: &str) -> Option<String> {
        match self {
            Self::All(catalog) => catalog.why_broken(name),
            Self::Some(read) => read.broken.get(name).cloned(),
        }
    }
}

#[cfg(test)]
mod tests;
