//! Catalogs of CatalogSources: loaded and kept up to date.
//!
//! ```text
//!  CatalogSource ─ locate ─┬── served: gRPC ── the requested packages ────────┐
//!  (watch, in namespaces   └── image: unpack ── load ── all packages ─────────┴──► CatalogCache ──► offers, max
//!   that the admin sets)                                                                            OpenShift versions
//! ```
//!
//! If OLM or another server serves a catalog, that server is queried. Otherwise the catalog is read from its ConfigMap,
//! or from its image, which is pulled with the secrets of the CatalogSource. Loaded content remains available while its
//! catalog is unavailable. A registry server does not report changes. When the catalog changes, however, OLM starts
//! another server, and the connection to the old one breaks. The worker of the catalog ([`worker`]) waits for that. The
//! controller ([`controller`]) reconciles the objects that serve a catalog, and its status ([`reconcile`]).
//!
//! An image may be a template, whose values come from the cluster (`cluster_facts`). Where OLM does not run, rukpak owns the
//! status of a CatalogSource ([`status`], written by [`status_writer`]). Where OLM runs, rukpak owns only the
//! conditions of the template annotation of rukpak.
//!
//! Catalogs of other namespaces are not selectable, because their content would be installed with the permissions of the
//! provisioner.

mod catalog_cache;
mod cluster_facts;
mod controller;
mod followed_catalogs;
mod image;
mod kubernetes_version;
mod locate;
pub mod max_openshift;
mod olm_detection;
mod olm_version;
mod owned_objects;
mod poll;
mod pull_secrets;
mod reconcile;
pub mod registry_pod;
pub mod registry_server;
mod server_backoff;
mod status;
mod status_writer;
mod template_resolution;
mod tolerant;
mod triggers;
mod watch_scope;
mod worker;

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use kube::ResourceExt as _;
use manifests::api::{catalog_source::CatalogSource, platform_operator::CatalogRef};
use parking_lot::Mutex;
use tokio::sync::watch;

pub(crate) use self::image::recorded_digests;
use self::{
    catalog_cache::CatalogCache,
    max_openshift::{CatalogMaximum, MaxOpenShiftVersions},
};
pub use self::{
    catalog_cache::{CatalogState, Offers},
    controller::run,
};

use crate::runtime::metrics::CatalogLabels;

/// Name of a CatalogSource. The order is that of the texts `namespace/name`, which the resolver compares.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CatalogKey {
    /// Namespace of the CatalogSource.
    pub namespace: String,
    /// Name of the CatalogSource.
    pub name: String,
}

impl From<&CatalogKey> for CatalogLabels {
    fn from(key: &CatalogKey) -> Self {
        Self {
            namespace: key.namespace.clone(),
            name: key.name.clone(),
        }
    }
}

impl fmt::Display for CatalogKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

// === impl CatalogKey ===

impl CatalogKey {
    /// Returns the name of a CatalogSource.
    fn from_source(source: &CatalogSource) -> Self {
        Self {
            namespace: source.namespace().unwrap_or_default(),
            name: source.name_any(),
        }
    }

    /// Returns the bytes of `namespace/name`.
    fn bytes(&self) -> impl Iterator<Item = u8> {
        let (namespace, name) = (self.namespace.bytes(), self.name.bytes());
        namespace.chain(*b"/").chain(name)
    }
}

impl Ord for CatalogKey {
    fn cmp(&self, other: &Self) -> Ordering {
        self.bytes().cmp(other.bytes())
    }
}

impl PartialOrd for CatalogKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Current state of all catalogs.
#[derive(Debug, Default)]
pub struct Catalogs {
    known: Mutex<CatalogCache>,
    /// Max OpenShift versions recorded for installed bundles; `None` before the first lookup.
    kept: Mutex<Option<Arc<MaxOpenShiftVersions>>>,
    changes: watch::Sender<u64>,
    wants: Mutex<PackageInterest>,
    wanted: watch::Sender<BTreeSet<String>>,
}

/// Packages that are read from catalogs on other servers, by the reason for the interest.
#[derive(Debug, Default)]
struct PackageInterest {
    /// Packages from which PlatformOperators choose.
    candidates: BTreeSet<String>,
    /// Packages that are installed.
    installed: BTreeSet<String>,
    /// Packages whose bundle was rejected because of its constraints, with the time of the last rejection.
    refused: BTreeMap<String, Instant>,
}

/// Maximum number of tracked rejected packages.
const MAX_REJECTED: usize = 256;
/// Time after which a rejected package may be replaced by another one. A package that is still needed is retried much
/// earlier.
const REJECTED_TTL: Duration = Duration::from_secs(3600);

// === impl Catalogs ===

impl Catalogs {
    /// Sets the packages to choose from. From catalogs on other servers, only tracked packages are read.
    pub fn track_candidates(&self, packages: BTreeSet<String>) {
        self.update_interest(|wants| wants.candidates = packages);
    }

    /// Sets the installed packages, regardless of how they were chosen.
    pub(crate) fn track_installed(&self, packages: BTreeSet<String>) {
        self.update_interest(|wants| wants.installed = packages);
    }

    /// Tracks a package that was rejected for the cluster's version. A catalog may declare another limit for it.
    pub(crate) fn track_rejected(&self, package: &str) {
        self.update_interest(|wants| wants.refuse(package, Instant::now()));
    }

    fn update_interest(&self, change: impl FnOnce(&mut PackageInterest)) {
        let mut wants = self.wants.lock();
        change(&mut wants);
        let packages = wants.all();
        // Send under the lock, so that the last change is also the last one sent.
        self.wanted.send_if_modified(|requested| {
            let differs = *requested != packages;
            if differs {
                *requested = packages;
            }
            differs
        });
    }

    /// Subscribes to the number of changes.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Returns the offers of all catalogs for a package, or of the named catalog only.
    pub fn offers(&self, package: &str, only: Option<&CatalogRef>) -> Offers {
        self.known.lock().offers(package, only)
    }

    /// Returns the state of each catalog.
    pub fn states(&self) -> Vec<CatalogState> {
        self.known.lock().states()
    }

    /// Reports whether all CatalogSources are listed. Until then, a missing catalog may exist.
    pub fn is_synced(&self) -> bool {
        self.known.lock().are_listed()
    }

    /// Returns the max OpenShift version that catalogs currently declare for a bundle of a package with this image digest.
    pub fn declared_maximum(&self, package: &str, bundle: &str, digest: &str) -> CatalogMaximum {
        self.known.lock().declared_maximum(package, bundle, digest)
    }

    /// Returns the value of the catalog that a Subscription names, for a bundle of this name and version. `None` if no
    /// namespace of the admin has such a catalog.
    pub fn said_by(
        &self,
        catalog: &CatalogKey,
        package: &str,
        bundle: &str,
        version: &str,
    ) -> Option<CatalogMaximum> {
        self.known.lock().said_by(catalog, package, bundle, version)
    }

    /// Returns the lowest release that any catalog declares for a bundle of this name and version.
    pub fn lowest(&self, package: &str, bundle: &str, version: &str) -> CatalogMaximum {
        self.known.lock().lowest(package, bundle, version)
    }

    /// Returns the effective max OpenShift version as text: the one that catalogs declare, or have declared last.
    pub fn effective_maximum(&self, package: &str, bundle: &str, digest: &str) -> Option<String> {
        let key = max_openshift::key(package, bundle, digest);
        let recorded = self.recorded_maxima();
        let last = recorded.as_ref().and_then(|recorded| recorded.get(&key));
        self.declared_maximum(package, bundle, digest)
            .effective(last)
    }

    /// Returns the `minKubeVersion` of a bundle in the first catalog that has it with this image. Returns `None` also while
    /// no catalog that has it can be read.
    pub fn min_kube(&self, package: &str, bundle: &str, digest: &str) -> Option<String> {
        self.known
            .lock()
            .bundle(package, bundle, digest)?
            .min_kube
            .clone()
    }

    /// Returns the max OpenShift versions recorded for installed bundles, or `None` before the first lookup.
    pub(crate) fn recorded_maxima(&self) -> Option<Arc<MaxOpenShiftVersions>> {
        self.kept.lock().clone()
    }

    /// Replaces the recorded max OpenShift versions. Versions persisted by an earlier process take effect with the first
    /// call.
    pub(crate) fn record_maxima(&self, maxima: MaxOpenShiftVersions) {
        let is_first = {
            let mut recorded = self.kept.lock();
            // Later values come from catalogs whose changes have already been published.
            let is_first = recorded.is_none() && !maxima.is_empty();
            if recorded.as_deref() != Some(&maxima) {
                *recorded = Some(Arc::new(maxima));
            }
            is_first
        };
        self.change(|_| is_first);
    }

    fn change(&self, change: impl FnOnce(&mut CatalogCache) -> bool) {
        let changed = change(&mut self.known.lock());
        if changed {
            self.changes
                .send_modify(|changes| *changes = changes.wrapping_add(1));
        }
    }
}

// === impl PackageInterest ===

impl PackageInterest {
    fn all(&self) -> BTreeSet<String> {
        let all = self.candidates.iter().chain(&self.installed);
        all.chain(self.refused.keys()).cloned().collect()
    }

    fn refuse(&mut self, package: &str, now: Instant) {
        if self.refused.len() >= MAX_REJECTED {
            let is_fresh = |at: Instant| now.saturating_duration_since(at) < REJECTED_TTL;
            self.refused.retain(|_, at| is_fresh(*at));
        }
        let has_room = self.refused.len() < MAX_REJECTED || self.refused.contains_key(package);
        if has_room && !package.is_empty() {
            self.refused.insert(package.to_owned(), now);
        }
    }
}

#[cfg(test)]
impl Catalogs {
    /// One catalog, which is read and has this package.
    pub(crate) fn with(package: catalog::model::Package) -> Self {
        let catalogs = Self::default();
        catalogs.change(|known| {
            known.stock(package);
            true
        });
        catalogs
    }
}

#[cfg(test)]
impl CatalogKey {
    pub(crate) fn new(namespace: &str, name: &str) -> Self {
        let [namespace, name] = [namespace, name].map(str::to_owned);
        Self { namespace, name }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expired_rejected_packages_make_room_for_others() {
        let begin = Instant::now();
        let mut wants = PackageInterest::default();
        for at in 0..MAX_REJECTED {
            wants.refuse(&format!("p{at}"), begin);
        }
        wants.refuse("", begin);
        wants.refuse("one-too-many", begin);
        assert_eq!(wants.all().len(), MAX_REJECTED);
        assert!(!wants.all().contains("one-too-many"));
        // Two of them are rejected again; the others have expired.
        let later = begin + REJECTED_TTL / 2;
        for package in ["p1", "p2"] {
            wants.refuse(package, later);
        }
        assert_eq!(wants.all().len(), MAX_REJECTED);
        wants.refuse("new", begin + REJECTED_TTL);
        assert_rows!(wants.all().into_iter().collect::<Vec<String>>() => ["new", "p1", "p2"]);
        // Another reason for the interest remains.
        wants.installed.insert("p3".to_owned());
        assert!(wants.all().contains("p3"));
    }
}
