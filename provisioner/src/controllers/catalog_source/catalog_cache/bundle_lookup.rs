//! Lookup of bundles in the cached catalogs, and of the max OpenShift versions that they declare. Pure; no I/O.

use std::cmp::Reverse;

use catalog::model::Bundle;
use manifests::openshift::{MaxOpenShiftVersion, Release, maximum};

use super::{CachedCatalog, CatalogCache, DEFAULT_PRIORITY, Listing};
use crate::controllers::catalog_source::{CatalogKey, max_openshift::CatalogMaximum};

// === impl CatalogCache ===

impl CatalogCache {
    /// Returns the bundle of an image from the first catalog that has it, in the order in which bundles are chosen.
    pub(in crate::controllers::catalog_source) fn bundle(
        &self,
        package: &str,
        bundle: &str,
        digest: &str,
    ) -> Option<&Bundle> {
        let candidates = self.catalogs.iter().filter_map(|(key, entry)| {
            let package = entry.read.as_ref()?.package(package)?;
            let bundle = package.bundle(bundle)?;
            let is_same = digest_of(&bundle.image) == Some(digest);
            is_same.then_some(((Reverse(entry.priority), key), bundle))
        });
        candidates
            .min_by_key(|(order, _)| *order)
            .map(|(_, bundle)| bundle)
    }

    /// Returns the max OpenShift version that the first catalog with the bundle declares, in the order of selection. The
    /// result is `Unavailable` if a catalog of higher priority is unavailable.
    pub(in crate::controllers::catalog_source) fn declared_maximum(
        &self,
        package: &str,
        bundle: &str,
        digest: &str,
    ) -> CatalogMaximum {
        // Without all lists, a catalog of higher priority may be missing.
        let mut is_unavailable = !self.are_listed();
        let hidden: Vec<CatalogKey> = self.hidden().map(|state| state.catalog).collect();
        let hidden = hidden
            .iter()
            .map(|key| (Reverse(DEFAULT_PRIORITY), key, None));
        let catalogs = self.catalogs.iter();
        let mut all: Vec<(Reverse<i64>, &CatalogKey, Option<&CachedCatalog>)> = catalogs
            .map(|(key, entry)| (Reverse(entry.priority), key, Some(entry)))
            .chain(hidden)
            .collect();
        all.sort_by_key(|(priority, key, _)| (*priority, *key));
        let mut is_troubled = false;
        for (_, _, entry) in all {
            let read = entry.and_then(|entry| entry.read.as_ref());
            let Some(read) = read.filter(|read| read.knows_of(package) && !read.is_broken(package))
            else {
                is_unavailable = true;
                continue;
            };
            is_troubled |= entry.is_some_and(|entry| entry.trouble.is_some());
            let listed = read
                .package(package)
                .and_then(|package| package.bundle(bundle));
            let Some(listed) = listed.filter(|bundle| digest_of(&bundle.image) == Some(digest))
            else {
                continue;
            };
            return if is_unavailable {
                CatalogMaximum::Unavailable(value(listed))
            } else {
                CatalogMaximum::Declared(value(listed))
            };
        }
        // An unavailable catalog may contain the bundle in the meantime.
        if is_unavailable || is_troubled {
            CatalogMaximum::Unavailable(None)
        } else {
            CatalogMaximum::NotFound
        }
    }

    /// Returns the value of the catalog that a Subscription names, for a bundle of this name and version. `None` if no
    /// namespace of the admin has such a catalog.
    pub(in crate::controllers::catalog_source) fn said_by(
        &self,
        catalog: &CatalogKey,
        package: &str,
        bundle: &str,
        version: &str,
    ) -> Option<CatalogMaximum> {
        let Some(entry) = self.catalogs.get(catalog) else {
            let mut namespaces = self.namespaces.iter();
            let listed = namespaces.find(|(name, _)| *name == catalog.namespace);
            let is_listed = listed.is_none_or(|(_, listing)| *listing == Listing::Listed);
            return (!self.is_started || !is_listed).then_some(CatalogMaximum::Unavailable(None));
        };
        let Some(read) = entry.usable(package) else {
            return Some(CatalogMaximum::Unavailable(None));
        };
        Some(match read.listed(package, bundle, version) {
            Some(listed) => CatalogMaximum::Declared(value(listed)),
            // The newer catalog may list the bundle.
            None if entry.trouble.is_some() => CatalogMaximum::Unavailable(None),
            None => CatalogMaximum::NotFound,
        })
    }

    /// Returns the lowest release that any catalog declares for a bundle of this name and version. One catalog that cannot
    /// be read may declare a lower one.
    pub(in crate::controllers::catalog_source) fn lowest(
        &self,
        package: &str,
        bundle: &str,
        version: &str,
    ) -> CatalogMaximum {
        if !self.are_listed() || self.hidden().next().is_some() {
            return CatalogMaximum::Unavailable(None);
        }
        let mut lowest: Option<Release> = None;
        for entry in self.catalogs.values() {
            let Some(read) = entry.usable(package) else {
                return CatalogMaximum::Unavailable(None);
            };
            let declared = read.listed(package, bundle, version).and_then(value);
            let declared = declared.and_then(|text| maximum(&text).ok());
            let releases = lowest.into_iter().chain(declared);
            lowest = releases.min_by_key(|release| release.normalized());
        }
        CatalogMaximum::Declared(lowest.map(|release| release.to_string()))
    }
}

/// Returns the max OpenShift version that a bundle of a catalog declares, as text.
fn value(bundle: &Bundle) -> Option<String> {
    let declared = bundle.max_openshift.as_ref();
    declared.map(MaxOpenShiftVersion::text)
}

/// Returns the digest of a pinned image.
fn digest_of(image: &str) -> Option<&str> {
    image.rsplit_once('@').map(|(_, digest)| digest)
}
