//! Store files of served catalogs: one file per content, built once and shared by all catalogs with that content.
//!
//! ```text
//!  <storage>/registries/sha256-…/<digest>.registry
//! ```
//!
//! A file is kept as long as a catalog is served from it. Files of an earlier process are reused, and removed if no catalog
//! has requested them within an hour. Files of this process are removed once no server reads them.

use std::{
    collections::{BTreeSet, HashMap},
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use catalog::{
    Limits, Source,
    registry::{Cache, ObserveCalls, Service},
    source::FileSource,
    sqlite::Database,
};
use parking_lot::Mutex;
use tokio::{sync::Semaphore, task::spawn_blocking};
use tracing::{info, warn};
use unpacker::Digest;

use super::Error;

/// Subdirectory of the content store's directory.
const DIRECTORY: &str = "registries";
/// Time for which unused files of an earlier process are kept, because their catalogs may not have been read yet.
const ORPHAN_TTL: Duration = Duration::from_secs(3600);

/// Maximum length of a logged or reported skipped part, in characters.
const MAX_FINDING_LEN: usize = 300;

/// Cache of the store files that catalogs are served from.
pub struct CatalogStores {
    directory: PathBuf,
    /// Observer of the gRPC requests.
    calls: Arc<dyn ObserveCalls>,
    began: Instant,
    open: Mutex<HashMap<Digest, Slot>>,
    /// Permit to build a store. Building needs threads and memory, so only one store is built at a time.
    turn: Arc<Semaphore>,
}

/// Store of one content. The lock is held while the store is being built.
type Slot = Arc<tokio::sync::Mutex<Weak<ServedStore>>>;

/// Open store of one content. It is closed when the last user drops it.
#[derive(Debug)]
pub struct ServedStore {
    digest: Digest,
    service: Service,
    size: u64,
}

// === impl ServedStore ===

impl ServedStore {
    /// Returns the digest of the content.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Returns the gRPC service of the store.
    pub fn service(&self) -> &Service {
        &self.service
    }

    /// Returns the size of the store file in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }
}

// === impl CatalogStores ===

impl CatalogStores {
    /// Creates a cache below a directory. The subdirectory is created with the first file. `calls` observes the gRPC
    /// requests.
    pub fn new(directory: &Path, calls: Arc<dyn ObserveCalls>) -> Self {
        Self {
            directory: directory.join(DIRECTORY),
            calls,
            began: Instant::now(),
            open: Mutex::default(),
            turn: Arc::new(Semaphore::new(1)),
        }
    }

    /// Opens the store of a content, or builds it. `files` is called only if it has to be built. The build fails if the
    /// store exceeds `room` bytes; `None` is unlimited.
    ///
    /// # Errors
    /// Returns an error if the files are not a valid catalog, or if the store is too large.
    pub async fn get<F>(
        &self,
        digest: Digest,
        room: Option<u64>,
        files: F,
    ) -> Result<Arc<ServedStore>, Error>
    where
        F: FnOnce() -> Result<Box<dyn FileSource + Send>, Error> + Send + 'static,
    {
        // The blocking task owns the lock. A build continues if its caller is cancelled, and no second one starts beside
        // it.
        let slot = self.slot(digest).lock_owned().await;
        if let Some(served) = slot.upgrade() {
            return Ok(served);
        }
        let turn = Arc::clone(&self.turn).acquire_owned().await;
        let turn = turn.map_err(|_| Error::ShuttingDown)?;
        let (directory, unused) = (self.directory.clone(), self.unused());
        let calls = Arc::clone(&self.calls);
        let made = spawn_blocking(move || {
            unused.remove(&directory);
            let directory = directory.join(name(digest));
            let service = make(&directory, room, calls, files)?;
            let size = size_of(&directory);
            drop(turn); // held during the build
            Ok::<_, Error>((service, size, slot))
        });
        let (service, size, mut slot) = made.await.map_err(|_| Error::ShuttingDown)??;
        let served = Arc::new(ServedStore {
            digest,
            service,
            size,
        });
        *slot = Arc::downgrade(&served);
        Ok(served)
    }

    fn slot(&self, digest: Digest) -> Slot {
        let mut open = self.open.lock();
        Arc::clone(open.entry(digest).or_default())
    }

    /// Determines the stores that can be removed.
    fn unused(&self) -> UnusedStores {
        let mut open = self.open.lock();
        // A task with another reference to the slot is building the store or waits for it.
        let is_used = |slot: &Slot| {
            Arc::strong_count(slot) > 1
                || slot.try_lock().is_ok_and(|store| store.strong_count() > 0)
        };
        let (mut used, mut made) = (BTreeSet::new(), BTreeSet::new());
        open.retain(|digest, slot| {
            let is_used = is_used(slot);
            let names = if is_used { &mut used } else { &mut made };
            names.insert(name(*digest));
            is_used
        });
        UnusedStores {
            used,
            made,
            also_earlier: self.began.elapsed() > ORPHAN_TTL,
        }
    }
}

/// Store directories that can be removed.
#[derive(Debug)]
struct UnusedStores {
    used: BTreeSet<String>,
    /// Built by this process and no longer used.
    made: BTreeSet<String>,
    also_earlier: bool,
}

// === impl UnusedStores ===

impl UnusedStores {
    fn may_go(&self, name: &str) -> bool {
        !self.used.contains(name) && (self.also_earlier || self.made.contains(name))
    }

    /// Removes the unused stores. Failures are retried by a later call.
    fn remove(&self, directory: &Path) {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        for name in names.filter(|name| self.may_go(name)) {
            if let Err(error) = fs::remove_dir_all(directory.join(&name)) {
                warn!(
                    name,
                    %error,
                    "failed to delete the file of a catalog after its server had stopped"
                );
            }
        }
    }
}

fn name(digest: Digest) -> String {
    digest.to_string().replace(':', "-")
}

/// Returns the total size of the files in a directory. Unreadable entries count as empty.
fn size_of(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let sizes = entries.filter_map(|entry| entry.metadata().ok());
    sizes.map(|metadata| metadata.len()).sum()
}

fn make(
    directory: &Path,
    room: Option<u64>,
    calls: Arc<dyn ObserveCalls>,
    files: impl FnOnce() -> Result<Box<dyn FileSource + Send>, Error>,
) -> Result<Service, Error> {
    let limits = Limits {
        threads: 2, // leaves CPU for reconciles
        ..Limits::default()
    };
    let began = Instant::now();
    let folder_failed = |source: io::Error| Error::Directory {
        directory: directory.to_owned(),
        source,
    };
    fs::create_dir_all(directory).map_err(folder_failed)?;
    let files = files()?;
    let database = Database::private_copy(&*files, &limits)?;
    let files = database
        .as_ref()
        .map_or(&*files as &dyn FileSource, |database| {
            database as &dyn FileSource
        });
    let cache = Cache::open(directory)?.at_most(room.unwrap_or(limits.total));
    let (store, built) = cache.load_or_build(Source::Files(files), &limits)?;
    if store.packages() == 0 {
        let left_out = store.skipped().first();
        return Err(Error::Empty {
            left_out: left_out.map(|reason| reason.chars().take(MAX_FINDING_LEN).collect()),
        });
    }
    let (packages, milliseconds) = (store.packages(), began.elapsed().as_millis());
    info!(
        packages,
        built, milliseconds, "a catalog is ready to be served"
    );
    for left_out in store.skipped().iter().take(20) {
        let left_out: String = left_out.chars().take(MAX_FINDING_LEN).collect();
        warn!(left_out, "a part of a catalog is not served");
    }
    Ok(Service::with_observer(Arc::new(store), calls)?)
}

#[cfg(test)]
mod tests;
