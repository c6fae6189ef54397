//! What catalogs are served from: a file for each content, made once and shared by all that have the content.
//!
//! ```text
//!  <storage>/registries/sha256-…/<digest>.registry
//! ```
//!
//! Files stay as long as anybody serves them. Those of an earlier process are taken over; what nobody has asked for in
//! an hour goes, and so does what this process has made and does not serve any more.

use std::{
    collections::{BTreeSet, HashMap},
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, Weak},
    time::{Duration, Instant},
};

use catalog::{
    Limits, Source,
    registry::{Cache, Calls, Service},
    source::Files,
    sqlite::Database,
};
use tokio::{sync::Semaphore, task::spawn_blocking};
use tracing::{info, warn};
use unpacker::Digest;

use super::Error;

/// The folder in that of the store.
const FOLDER: &str = "registries";
/// How long files of an earlier process are kept for catalogs that were not read yet.
const TAKEN_OVER: Duration = Duration::from_secs(3600);

/// How much is told of what is not served, in characters.
const FINDING: usize = 300;

/// Files to serve catalogs from.
pub struct Stores {
    folder: PathBuf,
    /// Who is told of requests.
    calls: Arc<dyn Calls>,
    began: Instant,
    open: Mutex<HashMap<Digest, Slot>>,
    /// Making one takes both threads and memory, so there is one at a time.
    turn: Arc<Semaphore>,
}

/// One of them. Who makes it holds the lock.
type Slot = Arc<tokio::sync::Mutex<Weak<Served>>>;

/// What is served, as long as anybody holds it.
#[derive(Debug)]
pub struct Served {
    digest: Digest,
    service: Service,
    size: u64,
}

// === impl Served ===

impl Served {
    /// The content.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// What answers for it.
    pub fn service(&self) -> &Service {
        &self.service
    }

    /// The bytes of its file.
    pub fn size(&self) -> u64 {
        self.size
    }
}

// === impl Stores ===

impl Stores {
    /// Files in a folder, which is made when the first one is. `calls` is told of requests.
    pub fn new(folder: &Path, calls: Arc<dyn Calls>) -> Self {
        Self {
            folder: folder.join(FOLDER),
            calls,
            began: Instant::now(),
            open: Mutex::default(),
            turn: Arc::new(Semaphore::new(1)),
        }
    }

    /// Opens the file of a content, or makes it from its files, which are asked for only then. It is not made with more
    /// bytes than there is room for, where that is known.
    ///
    /// # Errors
    /// When the files are no catalog that can be read, or there is no room.
    pub async fn get<F>(
        &self,
        digest: Digest,
        room: Option<u64>,
        files: F,
    ) -> Result<Arc<Served>, Error>
    where
        F: FnOnce() -> Result<Box<dyn Files + Send>, Error> + Send + 'static,
    {
        // Whoever gives up while it is made does not end that; and nobody begins a second time beside it.
        let slot = self.slot(digest).lock_owned().await;
        if let Some(served) = slot.upgrade() {
            return Ok(served);
        }
        let turn = Arc::clone(&self.turn).acquire_owned().await;
        let turn = turn.map_err(|_| Error::Ended)?;
        let (folder, unused) = (self.folder.clone(), self.unused());
        let calls = Arc::clone(&self.calls);
        let made = spawn_blocking(move || {
            unused.remove(&folder);
            let folder = folder.join(name(digest));
            let service = make(&folder, room, calls, files)?;
            let size = size_of(&folder);
            drop(turn); // held until here
            Ok::<_, Error>((service, size, slot))
        });
        let (service, size, mut slot) = made.await.map_err(|_| Error::Ended)??;
        let served = Arc::new(Served {
            digest,
            service,
            size,
        });
        *slot = Arc::downgrade(&served);
        Ok(served)
    }

    fn slot(&self, digest: Digest) -> Slot {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(open.entry(digest).or_default())
    }

    /// What may go.
    fn unused(&self) -> Unused {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        // Who holds one makes it, or waits for that.
        let is_used = |slot: &Slot| {
            Arc::strong_count(slot) > 1 || slot.try_lock().is_ok_and(|it| it.strong_count() > 0)
        };
        let (mut used, mut made) = (BTreeSet::new(), BTreeSet::new());
        open.retain(|digest, slot| {
            let is_used = is_used(slot);
            let names = if is_used { &mut used } else { &mut made };
            names.insert(name(*digest));
            is_used
        });
        Unused {
            used,
            made,
            also_earlier: self.began.elapsed() > TAKEN_OVER,
        }
    }
}

/// Which folders may go.
#[derive(Debug)]
struct Unused {
    used: BTreeSet<String>,
    /// By this process.
    made: BTreeSet<String>,
    also_earlier: bool,
}

// === impl Unused ===

impl Unused {
    fn may_go(&self, name: &str) -> bool {
        !self.used.contains(name) && (self.also_earlier || self.made.contains(name))
    }

    /// Best effort: what stays goes another time.
    fn remove(&self, folder: &Path) {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let names = entries.filter_map(|it| it.file_name().into_string().ok());
        for name in names.filter(|it| self.may_go(it)) {
            if let Err(error) = fs::remove_dir_all(folder.join(&name)) {
                warn!(name, %error, "the file of a catalog that is not served any more stays");
            }
        }
    }
}

fn name(digest: Digest) -> String {
    digest.to_string().replace(':', "-")
}

/// What the files of a folder take. What cannot be read takes nothing.
fn size_of(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let sizes = entries.filter_map(|it| it.metadata().ok());
    sizes.map(|it| it.len()).sum()
}

fn make(
    folder: &Path,
    room: Option<u64>,
    calls: Arc<dyn Calls>,
    files: impl FnOnce() -> Result<Box<dyn Files + Send>, Error>,
) -> Result<Service, Error> {
    let limits = Limits {
        threads: 2, // reconciles go on beside it
        ..Limits::default()
    };
    let began = Instant::now();
    let folder_failed = |source: io::Error| Error::Folder {
        folder: folder.to_owned(),
        source,
    };
    fs::create_dir_all(folder).map_err(folder_failed)?;
    let files = files()?;
    let database = Database::alone(&*files, &limits)?;
    let files = database
        .as_ref()
        .map_or(&*files as &dyn Files, |it| it as &dyn Files);
    let cache = Cache::open(folder)?.at_most(room.unwrap_or(limits.total));
    let (store, built) = cache.load_or_build(Source::Files(files), &limits)?;
    if store.packages() == 0 {
        let left_out = store.left_out().first();
        return Err(Error::Empty {
            left_out: left_out.map(|it| it.chars().take(FINDING).collect()),
        });
    }
    let (packages, milliseconds) = (store.packages(), began.elapsed().as_millis());
    info!(packages, built, milliseconds, "a catalog can be served");
    for left_out in store.left_out().iter().take(20) {
        let left_out: String = left_out.chars().take(FINDING).collect();
        warn!(left_out, "a part of a catalog is not served");
    }
    Ok(Service::telling(Arc::new(store), calls)?)
}

#[cfg(test)]
mod tests;
