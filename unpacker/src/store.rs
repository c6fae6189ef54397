//! Content on disk under its digest, and the last of it in memory.
//!
//! ```text
//!  Tree ── put ──> tmp/… ── sync, rename ──> content/<digest>.tar ── get, verified ──> memory ──> Arc<Content>
//!                                              ^           └─ reader, served, verified ──> bytes
//!                      sources/<key> ──────────┘
//! ```
//!
//! Content is whole or not there, whenever whoever writes it is killed. It is verified whenever it is read; what is
//! damaged is removed, and said to be. On disk and in memory what was used longest ago goes first when a budget would
//! be exceeded, but on disk never what somebody holds, in whichever process. Any number of processes may share a
//! folder: files are locked (`flock`), and so is the one file that says how full the folder is.
//!
//! All functions here block; call them through `spawn_blocking` where that matters.
//!
//! ```
//! use unpacker::{Limits, Options, Store, store::Budget};
//!
//! let folder = tempfile::tempdir()?;
//! std::fs::write(folder.path().join("csv.yaml"), "kind: ClusterServiceVersion")?;
//! let (tree, _) = unpacker::open_tree(folder.path(), &Options::default())?;
//!
//! let store = Store::open(&folder.path().join("store"), Budget { disk: 1 << 30, memory: 64 << 20 })?;
//! let stored = store.put(&tree)?;
//! let content = store.get(&stored.digest, &Limits::default())?;
//! assert_eq!(content.read("csv.yaml").unwrap(), "kind: ClusterServiceVersion");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod clock;
mod disk;
mod error;
mod files;
mod flight;
mod hold;
mod key;
mod memory;
mod reading;
mod sources;
mod state;
mod stats;
mod writing;

use std::{
    io::BufReader,
    path::Path,
    sync::{Arc, atomic::AtomicBool},
};

use manifests::content::{Content, Limits};
use tracing::warn;

use crate::{Access, Digest, Format, Options, SkippedEntries, Source, Tree, unpack};
use disk::Disk;
use flight::Flights;
use hold::Holds;
use memory::Memory;
use stats::Counts;
use writing::Kept;

pub use error::{Error, Result};
pub use hold::Hold;
pub use key::Key;
pub use reading::{Reader, Served};
pub use stats::Stats;

/// How much a store may keep, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// On disk, for all processes that share the folder together; the one with the smallest budget evicts.
    pub disk: u64,
    /// In the memory of this process. What is larger is read for each caller and not kept.
    pub memory: u64,
}

/// A folder of content. Clones are the same store.
#[derive(Debug, Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    disk: Disk,
    memory: Memory,
    holds: Holds,
    reads: Flights<(Digest, Limits), Result<Arc<Content>>>,
    fetches: unpack::Flights,
    counts: Counts,
}

/// Content that is in the store, for as long as it is held.
#[derive(Debug, Clone)]
pub struct Stored {
    /// By which it is had.
    pub digest: Digest,
    /// The bytes of its tar.
    pub size: u64,
    /// Keeps it there.
    pub hold: Hold,
}

impl Store {
    /// Opens or makes a store, and sweeps what crashes left behind. The folder may exist; what lies in it beside the
    /// store's own folders is left alone.
    ///
    /// # Errors
    /// When the folder cannot be written or locked, is none, or is in use by something else.
    pub fn open(folder: &Path, budget: Budget) -> Result<Self> {
        let inner = Inner {
            disk: Disk::open(folder, budget.disk)?,
            memory: Memory::new(budget.memory),
            holds: Holds::default(),
            reads: Flights::default(),
            fetches: unpack::Flights::default(),
            counts: Counts::default(),
        };
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    /// Where the store is. Others may have folders of their own beside those of the store.
    pub fn folder(&self) -> &Path {
        &self.inner.disk.root
    }

    /// The folder for what is on its way into the store: see [`Options::spool`].
    pub fn spool(&self) -> &Path {
        &self.inner.disk.temp
    }

    /// Stores content and holds it. Content that is there already, and whole, is not written to its place again.
    ///
    /// # Errors
    /// When it does not fit into the budget or onto the disk, even if all is evicted that nobody holds, or cannot be
    /// read or written. Nothing of it is left then.
    pub fn put(&self, tree: &Tree) -> Result<Stored> {
        self.put_until(tree, &AtomicBool::new(false))
    }

    /// Gives up as soon as `stop` is set.
    pub(crate) fn put_until(&self, tree: &Tree, stop: &AtomicBool) -> Result<Stored> {
        let Inner {
            disk,
            holds,
            counts,
            ..
        } = &*self.inner;
        let write = || {
            let (writing, evicted) = disk.reserve(writing::size_of(tree))?;
            counts.evicted.add(evicted);
            let digest = writing.fill(tree, stop)?;
            Ok((digest, writing.keep(&digest)?))
        };
        let (digest, kept) = loop {
            match write() {
                // The budget may be larger than the disk, or the disk be used by others too.
                Err(Error::DiskFull { size, source }) => {
                    let evicted = disk.free(size)?;
                    counts.evicted.add(evicted);
                    if evicted == 0 {
                        return Err(Error::DiskFull { size, source });
                    }
                }
                written => break written?,
            }
        };
        let file = match kept {
            Kept::New(file) => {
                counts.written.add(1);
                file
            }
            Kept::Old(file) => {
                counts.duplicates.add(1);
                file
            }
        };
        let hold = holds.add(disk, &digest, file)?;
        let size = hold.size();
        Ok(Stored { digest, size, hold })
    }

    /// The files of content, from memory or from disk. Callers who ask for the same at the same time share one read.
    ///
    /// # Errors
    /// When it is missing, damaged, cannot be read, or exceeds the limits, wherever it comes from.
    pub fn get(&self, digest: &Digest, limits: &Limits) -> Result<Arc<Content>> {
        let counts = &self.inner.counts;
        if let Some(content) = self.remembered(digest, limits) {
            counts.hits.add(1);
            return content;
        }
        counts.misses.add(1);
        let joined = || counts.shared.add(1);
        self.inner.reads.run(&(*digest, *limits), joined, || {
            // Another read may have ended between looking and asking.
            let remembered = self.remembered(digest, limits);
            remembered.unwrap_or_else(|| self.read(digest, limits))
        })
    }

    fn remembered(&self, digest: &Digest, limits: &Limits) -> Option<Result<Arc<Content>>> {
        let hit = self.inner.memory.get(digest, limits)?;
        Some(match hit {
            Ok(hit) => {
                if hit.is_news {
                    // Where it has been evicted meanwhile, there is nothing to keep.
                    let _ = self.hold(digest);
                }
                Ok(hit.content)
            }
            Err(error) => Err(Error::Content(Arc::new(error))),
        })
    }

    /// Reads content to its end and verifies it, whatever its reader says.
    fn read(&self, digest: &Digest, limits: &Limits) -> Result<Arc<Content>> {
        let Inner {
            disk,
            memory,
            counts,
            ..
        } = &*self.inner;
        let hold = self.hold(digest)?;
        counts.reads.add(1);
        let mut reading = hold.read();
        let options = Options {
            limits: *limits,
            ..Options::default()
        };
        let unpacked = crate::stream(BufReader::with_capacity(256 << 10, &mut reading), &options);
        let found = reading.finish();
        let found = found.map_err(Error::file("read", disk.path(digest)))?;
        self.verify(&hold, &found)?;
        let unpacked = unpacked.map_err(|error| Error::Content(Arc::new(error)))?;
        let content = Arc::new(unpacked.content);
        memory.put(digest, &content);
        Ok(content)
    }

    fn verify(&self, hold: &Hold, found: &Digest) -> Result<()> {
        let Inner {
            disk,
            memory,
            counts,
            ..
        } = &*self.inner;
        let digest = hold.digest();
        if *found == digest {
            return Ok(());
        }
        warn!(%digest, %found, "removing content that was damaged on disk");
        counts.damaged.add(1);
        memory.remove(&digest);
        disk.discard(&digest, hold.file())?;
        Err(Error::Damaged { digest })
    }

    /// The plain tar of content, without taking it into memory. All of it is verified before the first byte is given
    /// out: bytes that have been sent cannot be taken back, and reading a file twice reads the disk once.
    ///
    /// # Errors
    /// When it is missing, damaged, or cannot be read.
    pub fn reader(&self, digest: &Digest) -> Result<Reader> {
        self.verified(digest).map(Reader::new)
    }

    /// Holds content, once all of it has been read and found right.
    pub(crate) fn verified(&self, digest: &Digest) -> Result<Hold> {
        let hold = self.hold(digest)?;
        self.inner.counts.reads.add(1);
        let found = hold.read().finish();
        let found = found.map_err(Error::file("read", self.inner.disk.path(digest)))?;
        self.verify(&hold, &found)?;
        Ok(hold)
    }

    /// Content in the form in which others want it, from [`Store::reader`]; compressed fast, while it is read.
    ///
    /// # Errors
    /// As [`Store::reader`].
    pub fn served(&self, digest: &Digest, format: Format) -> Result<Served> {
        Ok(Served::new(self.reader(digest)?, format))
    }

    /// Keeps content from being evicted. It is not verified.
    ///
    /// # Errors
    /// When it is missing.
    pub fn hold(&self, digest: &Digest) -> Result<Hold> {
        self.inner.holds.hold(&self.inner.disk, digest)
    }

    /// Removes content that nobody holds, from disk and memory. What is missing is removed already.
    ///
    /// # Errors
    /// When somebody holds it, in any process.
    pub fn remove(&self, digest: &Digest) -> Result<()> {
        self.inner.disk.remove(digest)?;
        self.inner.memory.remove(digest);
        Ok(())
    }

    /// All content that is there now, in no order.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn digests(&self) -> Result<Vec<Digest>> {
        self.inner.disk.digests()
    }

    /// What a source is known by once it has been fetched; nothing for one that may change.
    pub fn key(&self, source: &Source, options: &Options, access: &Access) -> Option<Key> {
        Key::new(&self.inner.disk.state.salt, source, options, access)
    }

    /// What is asked for, by a source that may change too.
    pub(crate) fn asked(&self, source: &Source, options: &Options, access: &Access) -> Option<Key> {
        Key::of(&self.inner.disk.state.salt, source, options, access)
    }

    /// What is being fetched.
    pub(crate) fn fetches(&self) -> &unpack::Flights {
        &self.inner.fetches
    }

    /// Notes which content a source has, and which of its entries were skipped.
    ///
    /// # Errors
    /// When that cannot be written.
    pub fn remember(&self, key: &Key, digest: &Digest, skipped: &SkippedEntries) -> Result<()> {
        let disk = &self.inner.disk;
        let usage = disk.state.lock()?;
        disk.sources.remember(&usage, key, digest, skipped)
    }

    /// The content that a source was noted to have, if it is still there, and holds it; and the entries that were
    /// skipped.
    pub fn find(&self, key: &Key) -> Option<(Stored, SkippedEntries)> {
        let (digest, skipped) = self.inner.disk.sources.find(key)?;
        let hold = self.hold(&digest).ok()?;
        let size = hold.size();
        Some((Stored { digest, size, hold }, skipped))
    }

    /// What has been done since this process opened the store, and how full it is.
    pub fn stats(&self) -> Stats {
        let Inner {
            disk,
            memory,
            holds,
            counts,
            ..
        } = &*self.inner;
        let used = disk.state.lock().map_or(0, |usage| usage.used());
        counts.read(used, memory.size(), holds.count())
    }
}
