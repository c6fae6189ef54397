//! Catalogs: what CatalogSources stand for, read and kept up to date.
//!
//! ```text
//!  CatalogSource ── plan ──┬── served: gRPC ── the packages that are wanted ──┐
//!  (watch, in namespaces   └── image: unpack ── load ── all packages ─────────┴──► Known ──► offers, maxima
//!   that the admin names)
//! ```
//!
//! Where OLM serves a catalog, its server is asked; elsewhere the catalog's image is pulled with the CatalogSource's own
//! secrets, and read. What was read last stays while a catalog is away. A server does not tell of changes; but when the
//! catalog changes, OLM starts another one, and the connection to the old one breaks: that is what is waited for.
//!
//! An image may be a template, whose values come from the cluster ([`around`]). Where OLM does not run, the status of a
//! CatalogSource is ours ([`status`], written by [`report`] alone); where it does, nothing of it is but what our own annotation
//! comes to.
//!
//! Catalogs of other namespaces count for nothing: what they name would be installed with the provisioner's rights.

mod access;
mod around;
mod follow;
mod found;
mod image;
mod interval;
mod known;
pub mod maxima;
mod olm_version;
mod patience;
mod plan;
pub mod pods;
mod release;
mod report;
mod server;
pub mod serving;
mod sources;
mod status;
mod template;
pub mod waiting;

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use manifests::api::platform::CatalogRef;
use tokio::sync::watch;

pub use self::known::{Offers, State};
pub use self::sources::run;
use self::{
    known::Known,
    maxima::{Maxima, Said},
};

/// A CatalogSource. Ordered as the texts `namespace/name` are: whoever chooses compares these.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Key {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

// === impl Key ===

impl Key {
    /// The text, byte by byte.
    fn bytes(&self) -> impl Iterator<Item = u8> {
        let (namespace, name) = (self.namespace.bytes(), self.name.bytes());
        namespace.chain(*b"/").chain(name)
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        self.bytes().cmp(other.bytes())
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The latest that is known of all catalogs.
#[derive(Debug, Default)]
pub struct Catalogs {
    known: Mutex<Known>,
    /// What they have said last of what is installed; nothing before that was looked up.
    kept: Mutex<Option<Arc<Maxima>>>,
    changes: watch::Sender<u64>,
    wants: Mutex<Wants>,
    wanted: watch::Sender<BTreeSet<String>>,
}

/// Which packages somebody wants to know about, and what for.
#[derive(Debug, Default)]
struct Wants {
    /// Somebody chooses from them.
    chosen: BTreeSet<String>,
    /// They are installed.
    installed: BTreeSet<String>,
    /// They were refused for what they say of themselves, and when that was last.
    refused: BTreeMap<String, Instant>,
}

/// How many packages that were refused are asked for.
const MOST_REFUSED: usize = 256;
/// When such a one may make room for another: whoever still wants it has tried again long before that.
const FORGOTTEN: Duration = Duration::from_secs(3600);

// === impl Catalogs ===

impl Catalogs {
    /// Says which packages somebody wants to choose from: of catalogs that others serve, no more is read.
    pub fn want(&self, packages: BTreeSet<String>) {
        self.wants(|wants| wants.chosen = packages);
    }

    /// Says which packages are installed, whoever has chosen them.
    pub(crate) fn want_installed(&self, packages: BTreeSet<String>) {
        self.wants(|wants| wants.installed = packages);
    }

    /// Says that a package was refused for the cluster's version, which a catalog may see otherwise.
    pub(crate) fn want_refused(&self, package: &str) {
        self.wants(|wants| wants.refuse(package, Instant::now()));
    }

    fn wants(&self, change: impl FnOnce(&mut Wants)) {
        let mut wants = self.wants.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut wants);
        let packages = wants.all();
        // Under the lock, so that the last change is the one that is sent last.
        self.wanted.send_if_modified(|wanted| {
            let differs = *wanted != packages;
            if differs {
                *wanted = packages;
            }
            differs
        });
    }

    /// Counts the changes of what is known.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// What the catalogs have of a package: all of them, or the one that is named.
    pub fn offers(&self, package: &str, only: Option<&CatalogRef>) -> Offers {
        self.known().offers(package, only)
    }

    /// How each catalog is.
    pub fn states(&self) -> Vec<State> {
        self.known().states()
    }

    /// Reports whether it is known which CatalogSources there are. Before that, a catalog that is missing may be there.
    pub fn are_listed(&self) -> bool {
        self.known().are_listed()
    }

    /// What catalogs say now of the newest OpenShift that a bundle of a package, in an image with this digest, runs on.
    pub fn said(&self, package: &str, bundle: &str, digest: &str) -> Said {
        self.known().said(package, bundle, digest)
    }

    /// Returns the value of the catalog that a Subscription names, for a bundle of this name and version. `None` if no
    /// namespace of the admin has such a catalog.
    pub fn said_by(
        &self,
        catalog: &Key,
        package: &str,
        bundle: &str,
        version: &str,
    ) -> Option<Said> {
        self.known().said_by(catalog, package, bundle, version)
    }

    /// Returns the lowest release that any catalog declares for a bundle of this name and version.
    pub fn lowest(&self, package: &str, bundle: &str, version: &str) -> Said {
        self.known().lowest(package, bundle, version)
    }

    /// Returns the max OpenShift version that counts, as text: the one that catalogs declare, or have declared last.
    pub fn maximum(&self, package: &str, bundle: &str, digest: &str) -> Option<String> {
        let key = maxima::key(package, bundle, digest);
        let kept = self.kept();
        let last = kept.as_ref().and_then(|kept| kept.get(&key));
        self.said(package, bundle, digest).counts(last)
    }

    /// Returns the `minKubeVersion` of a bundle in the first catalog that has it with this image; `None` also while no catalog
    /// that has it can be read.
    pub fn min_kube(&self, package: &str, bundle: &str, digest: &str) -> Option<String> {
        self.known()
            .bundle(package, bundle, digest)?
            .min_kube
            .clone()
    }

    /// What catalogs have said last of what is installed; nothing before it was told.
    pub(crate) fn kept(&self) -> Option<Arc<Maxima>> {
        let kept = self.kept.lock();
        kept.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Tells what catalogs have said last of what is installed. What was written down before counts from then on.
    pub(crate) fn keep(&self, maxima: Maxima) {
        let is_news = {
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            // What comes later was said by catalogs that everybody has heard.
            let is_news = kept.is_none() && !maxima.is_empty();
            if kept.as_deref() != Some(&maxima) {
                *kept = Some(Arc::new(maxima));
            }
            is_news
        };
        self.change(|_| is_news);
    }

    fn change(&self, change: impl FnOnce(&mut Known) -> bool) {
        let changed = change(&mut self.known());
        if changed {
            self.changes
                .send_modify(|changes| *changes = changes.wrapping_add(1));
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Wants ===

impl Wants {
    fn all(&self) -> BTreeSet<String> {
        let all = self.chosen.iter().chain(&self.installed);
        all.chain(self.refused.keys()).cloned().collect()
    }

    fn refuse(&mut self, package: &str, now: Instant) {
        if self.refused.len() >= MOST_REFUSED {
            let is_fresh = |at: Instant| now.saturating_duration_since(at) < FORGOTTEN;
            self.refused.retain(|_, at| is_fresh(*at));
        }
        let has_room = self.refused.len() < MOST_REFUSED || self.refused.contains_key(package);
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
mod tests {
    use super::*;

    #[test]
    fn packages_that_nobody_tries_any_more_make_room_for_others() {
        let begin = Instant::now();
        let mut wants = Wants::default();
        for at in 0..MOST_REFUSED {
            wants.refuse(&format!("p{at}"), begin);
        }
        wants.refuse("", begin);
        wants.refuse("one-too-many", begin);
        assert_eq!(wants.all().len(), MOST_REFUSED);
        assert!(!wants.all().contains("one-too-many"));
        // Two of them are tried again and again; of the others nobody has heard for long.
        let later = begin + FORGOTTEN / 2;
        for package in ["p1", "p2"] {
            wants.refuse(package, later);
        }
        assert_eq!(wants.all().len(), MOST_REFUSED);
        wants.refuse("new", begin + FORGOTTEN);
        assert_rows!(wants.all().into_iter().collect::<Vec<String>>() => ["new", "p1", "p2"]);
        // Who wants it for another reason still does.
        wants.installed.insert("p3".to_owned());
        assert!(wants.all().contains("p3"));
    }
}
