//! Cache of catalog contents by CatalogSource. Loaded content remains available while its catalog is unavailable. Pure; no
//! I/O.

mod bundle_lookup;
mod offers;

use std::{collections::BTreeMap, sync::Arc};

use catalog::{
    Catalog,
    model::{Bundle, Package},
    registry::Packages,
};
use manifests::api::{
    catalog_source::{CatalogSource, Invalid, Origin},
    platform_operator::CatalogRef,
};

use self::offers::CatalogOffer;
pub use self::offers::Offers;
use super::{CatalogKey, locate::template_of};

/// Cached contents and states of all catalogs.
#[derive(Debug, Default)]
pub(super) struct CatalogCache {
    /// True once CatalogSources are being listed, or are known not to be served.
    is_started: bool,
    /// Namespaces of the selectable catalogs, in the admin's order.
    namespaces: Vec<(String, Listing)>,
    catalogs: BTreeMap<CatalogKey, CachedCatalog>,
}

/// Listing state of a namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Listing {
    /// The initial list is not complete.
    Pending,
    Listed,
    /// Listing is forbidden, with the message to report.
    Forbidden(String),
}

/// Identity of the catalog behind a CatalogSource. A CatalogSource with another identity is another catalog, even
/// under the same name. Content of the former catalog must not be disclosed to users without read access to the new one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct CatalogIdentity {
    uid: Option<String>,
    /// Kind of the source, and its name or address. For an image from a template, the template: the catalog stays the same
    /// when the template resolves to another image. `None` if the CatalogSource names no valid source.
    origin: Option<(&'static str, String)>,
}

/// Cached content and state of one catalog.
#[derive(Debug, Default)]
struct CachedCatalog {
    identity: CatalogIdentity,
    priority: i64,
    /// Content that was read last, also while the catalog is unavailable.
    read: Option<CatalogContent>,
    /// Reason why no newer content can be read.
    trouble: Option<String>,
}

/// Content that was read from a catalog.
#[derive(Debug, Clone)]
pub(super) enum CatalogContent {
    /// The whole catalog.
    Full(Arc<Catalog>),
    /// The requested packages.
    Partial(Arc<Packages>),
}

/// State of a catalog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogState {
    /// Name of the catalog.
    pub catalog: CatalogKey,
    /// True if any content is cached.
    pub is_read: bool,
    /// Reason why no content, or no newer content, can be read.
    pub trouble: Option<String>,
}

// === impl CatalogCache ===

impl CatalogCache {
    /// Resets the cache, with these namespaces.
    pub(super) fn reset(&mut self, namespaces: &[String]) {
        self.is_started = true;
        self.catalogs.clear();
        self.namespaces = namespaces
            .iter()
            .map(|namespace| (namespace.clone(), Listing::Pending))
            .collect();
    }

    /// Records that no catalogs exist, because CatalogSources are not served. Reports whether that is a change.
    pub(super) fn clear(&mut self) -> bool {
        let changed = !self.is_started || !self.catalogs.is_empty();
        self.is_started = true;
        self.namespaces.clear();
        self.catalogs.clear();
        changed
    }

    /// Records that the initial list of a namespace is complete.
    pub(super) fn listed(&mut self, namespace: &str) -> bool {
        self.set(namespace, Listing::Listed)
    }

    /// Records that listing a namespace is forbidden. Cached catalogs of the namespace are kept.
    pub(super) fn refused(&mut self, namespace: &str, message: String) -> bool {
        self.set(namespace, Listing::Forbidden(message))
    }

    fn set(&mut self, namespace: &str, listing: Listing) -> bool {
        let mut all = self.namespaces.iter_mut();
        let stored = all.find(|(name, _)| name == namespace);
        let Some((_, stored)) = stored.filter(|(_, stored)| *stored != listing) else {
            return false;
        };
        *stored = listing;
        true
    }

    pub(super) fn are_listed(&self) -> bool {
        let mut all = self.namespaces.iter();
        self.is_started && all.all(|(_, listing)| *listing != Listing::Pending)
    }

    /// Adds a catalog or updates its priority. Content of another catalog of the same name is discarded.
    pub(super) fn add(
        &mut self,
        key: &CatalogKey,
        identity: &CatalogIdentity,
        priority: i64,
    ) -> bool {
        let is_new = !self.is(key, identity);
        let entry = self.catalogs.entry(key.clone()).or_default();
        if is_new {
            *entry = CachedCatalog {
                identity: identity.clone(),
                ..CachedCatalog::default()
            };
        }
        let changed = is_new || entry.priority != priority;
        entry.priority = priority;
        changed
    }

    /// Reports whether the cache has the catalog with this identity.
    pub(super) fn is(&self, key: &CatalogKey, identity: &CatalogIdentity) -> bool {
        let entry = self.catalogs.get(key);
        entry.is_some_and(|entry| entry.identity == *identity)
    }

    /// Stores the content of a catalog. Ignored if the cache does not have the catalog.
    pub(super) fn read(
        &mut self,
        key: &CatalogKey,
        identity: &CatalogIdentity,
        read: CatalogContent,
    ) -> bool {
        let Some(entry) = self.entry(key, identity) else {
            return false;
        };
        entry.trouble = None;
        entry.read = Some(read);
        true
    }

    /// Records that a catalog is available again with unchanged content. Reports whether that is a change.
    pub(super) fn mark_ready(&mut self, key: &CatalogKey, identity: &CatalogIdentity) -> bool {
        let entry = self.entry(key, identity);
        entry.is_some_and(|entry| entry.trouble.take().is_some())
    }

    /// Records the problem of a catalog that cannot be read. Reports whether that is a change.
    pub(super) fn set_problem(
        &mut self,
        key: &CatalogKey,
        identity: &CatalogIdentity,
        problem: String,
    ) -> bool {
        let Some(entry) = self.entry(key, identity) else {
            return false;
        };
        let problem = Some(problem);
        let changed = entry.trouble != problem;
        entry.trouble = problem;
        changed
    }

    fn entry(
        &mut self,
        key: &CatalogKey,
        identity: &CatalogIdentity,
    ) -> Option<&mut CachedCatalog> {
        let entry = self.catalogs.get_mut(key);
        entry.filter(|entry| entry.identity == *identity)
    }

    /// Reports whether content of a catalog is cached.
    pub(super) fn is_read(&self, key: &CatalogKey, identity: &CatalogIdentity) -> bool {
        let entry = self.catalogs.get(key);
        entry.is_some_and(|entry| entry.identity == *identity && entry.read.is_some())
    }

    /// Reports whether no content of the catalog is cached, or the last attempt to read newer content failed.
    pub(super) fn is_unavailable(&self, key: &CatalogKey) -> bool {
        let entry = self.catalogs.get(key);
        entry.is_none_or(|entry| entry.read.is_none() || entry.trouble.is_some())
    }

    /// Removes a deleted catalog.
    pub(super) fn remove(&mut self, key: &CatalogKey) -> bool {
        self.catalogs.remove(key).is_some()
    }

    pub(super) fn states(&self) -> Vec<CatalogState> {
        let all = self.catalogs.iter();
        let all = all.map(|(key, entry)| entry.state(key));
        all.chain(self.hidden()).collect()
    }

    /// Returns placeholders for the catalogs of namespaces where listing is forbidden.
    fn hidden(&self) -> impl Iterator<Item = CatalogState> {
        self.namespaces.iter().filter_map(|(namespace, listing)| {
            let Listing::Forbidden(message) = listing else {
                return None;
            };
            Some(CatalogState {
                catalog: hidden(namespace),
                is_read: false,
                trouble: Some(message.clone()),
            })
        })
    }

    pub(super) fn offers(&self, package: &str, only: Option<&CatalogRef>) -> Offers {
        let requested = only.map(|only| self.named(only));
        let offers = self
            .catalogs
            .iter()
            .filter(|(key, _)| {
                requested
                    .as_ref()
                    .is_none_or(|requested| *requested == Some(*key))
            })
            .map(|(key, entry)| CatalogOffer {
                catalog: key.to_string(),
                priority: entry.priority,
                read: entry.answer(package),
                state: entry.state(key),
                broken: entry.read.as_ref().and_then(|read| read.broken(package)),
            });
        // The requested catalog may be in a namespace where listing is forbidden.
        let may_be_meant = |state: &CatalogState| match only {
            None => true,
            Some(CatalogRef { namespace, .. }) => match namespace {
                Some(namespace) => *namespace == state.catalog.namespace,
                None => requested == Some(None),
            },
        };
        let hidden = self
            .hidden()
            .filter(may_be_meant)
            .map(|state| CatalogOffer {
                catalog: state.catalog.to_string(),
                priority: DEFAULT_PRIORITY,
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

    /// Returns the referenced catalog. Without a namespace, it is searched in all namespaces, in the admin's order.
    fn named(&self, only: &CatalogRef) -> Option<&CatalogKey> {
        let namespaces: Vec<&str> = match &only.namespace {
            Some(namespace) => vec![namespace],
            None => self.namespaces.iter().map(|(name, _)| &**name).collect(),
        };
        namespaces.into_iter().find_map(|namespace| {
            let key = CatalogKey {
                namespace: namespace.to_owned(),
                name: only.name.clone(),
            };
            self.catalogs.get_key_value(&key).map(|(key, _)| key)
        })
    }

    /// Adds a loaded catalog with this package.
    #[cfg(test)]
    pub(super) fn stock(&mut self, package: Package) {
        let key = CatalogKey::new("catalogs", &package.name);
        self.reset(std::slice::from_ref(&key.namespace));
        self.add(&key, &CatalogIdentity::default(), 0);
        let packages = [(package.name.clone(), package)].into();
        let read = CatalogContent::Full(Arc::new(with!(Catalog, packages)));
        self.read(&key, &CatalogIdentity::default(), read);
        self.listed(&key.namespace);
    }
}

/// Priority of catalogs that do not set one.
const DEFAULT_PRIORITY: i64 = 0;

/// Returns the placeholder for all catalogs of a namespace.
pub(super) fn hidden(namespace: &str) -> CatalogKey {
    CatalogKey {
        namespace: namespace.to_owned(),
        name: "*".to_owned(),
    }
}

// === impl CatalogIdentity ===

impl CatalogIdentity {
    pub(super) fn from_source(source: &CatalogSource) -> Self {
        let image = |reference: Option<&str>| {
            let name = template_of(source).or(reference);
            name.map(|name| ("image", name.to_owned()))
        };
        let origin = match source.origin() {
            Ok(Origin::Image { reference, .. }) => image(Some(reference)),
            // The template is about to provide the image.
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

// === impl CachedCatalog ===

impl CachedCatalog {
    fn state(&self, key: &CatalogKey) -> CatalogState {
        CatalogState {
            catalog: key.clone(),
            is_read: self.read.is_some(),
            trouble: self.trouble.clone(),
        }
    }

    /// Returns the content for a package, or the reason why it is unavailable. The reason is `None` while the catalog is
    /// read for the first time.
    fn answer(&self, package: &str) -> Result<CatalogContent, Option<String>> {
        match (&self.read, &self.trouble) {
            (Some(read), _) if read.knows_of(package) => Ok(read.clone()),
            (_, trouble) => Err(trouble.clone()),
        }
    }

    /// Returns the content, if it covers the package in a valid form.
    fn usable(&self, package: &str) -> Option<&CatalogContent> {
        let is_usable = |read: &&CatalogContent| read.knows_of(package) && !read.is_broken(package);
        self.read.as_ref().filter(is_usable)
    }
}

// === impl CatalogContent ===

impl CatalogContent {
    /// Reports whether the content covers the package.
    fn knows_of(&self, package: &str) -> bool {
        match self {
            Self::Full(_) => true,
            Self::Partial(read) => read.requested.contains(package),
        }
    }

    fn package(&self, name: &str) -> Option<&Package> {
        match self {
            Self::Full(catalog) => catalog.packages.get(name),
            Self::Partial(read) => read.packages.get(name).map(AsRef::as_ref),
        }
    }

    /// Returns the bundle of this name and version.
    fn listed(&self, package: &str, bundle: &str, version: &str) -> Option<&Bundle> {
        let listed = self.package(package)?.bundle(bundle);
        listed.filter(|listed| listed.version.version.to_string() == version)
    }

    /// Reports whether the catalog may have the package, but in an invalid form or in an unreadable file.
    fn is_broken(&self, name: &str) -> bool {
        self.broken(name).is_some()
    }

    fn broken(&self, name: &str) -> Option<String> {
        match self {
            Self::Full(catalog) => catalog.why_broken(name),
            Self::Partial(read) => read.broken.get(name).cloned(),
        }
    }
}

#[cfg(test)]
mod tests;
