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
//! Catalogs of other namespaces count for nothing: what they name would be installed with the provisioner's rights.

mod access;
mod follow;
mod image;
mod known;
mod plan;
mod sources;

use std::{
    collections::BTreeSet,
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
};

use manifests::api::platform::CatalogRef;
use tokio::sync::watch;

use self::known::Known;
pub use self::known::{Offers, State};
pub use self::sources::run;

/// A CatalogSource.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
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

/// The latest that is known of all catalogs.
#[derive(Debug, Default)]
pub struct Catalogs {
    known: Mutex<Known>,
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
    /// They were refused for what they say of themselves.
    refused: BTreeSet<String>,
}

/// How many packages that were refused are asked for.
const MOST_REFUSED: usize = 256;

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
        self.wants(|wants| {
            if wants.refused.len() < MOST_REFUSED && !package.is_empty() {
                wants.refused.insert(package.to_owned());
            }
        });
    }

    fn wants(&self, change: impl FnOnce(&mut Wants)) {
        let mut wants = self.wants.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut wants);
        let all = [&wants.chosen, &wants.installed, &wants.refused];
        let packages: BTreeSet<String> = all.into_iter().flatten().cloned().collect();
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

    /// Whether it is known which CatalogSources there are. Before that, a catalog that is missing may be there.
    pub fn are_listed(&self) -> bool {
        self.known().are_listed()
    }

    /// The JSON text of each `olm.maxOpenShiftVersion` that catalogs have by now for a bundle of a package, in an image
    /// with this digest: of the catalog with the highest priority that has it.
    pub fn maximum(&self, package: &str, bundle: &str, digest: &str) -> Option<Vec<String>> {
        self.known().maximum(package, bundle, digest)
    }

    /// Whether all that catalogs have of a package is known: none of them is away.
    pub fn know(&self, package: &str) -> bool {
        self.known().know(package)
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
