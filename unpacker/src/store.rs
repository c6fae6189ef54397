//! Content store: content on disk by its digest, with a cache of recently used content in memory.
//!
//! ```text
//!  Tree ── put ──> tmp/… ── sync, rename ──> content/<digest>.tar ── get, verified ──> memory ──> Arc<Content>
//!                                              ^           └─ reader, served, verified ──> bytes
//!                      sources/<key> ──────────┘
//! ```
//!
//! Content is stored atomically: it is complete or absent, even if a writing process is killed. Every read from disk
//! verifies the digest; corrupt content is removed and reported. If a budget would be exceeded, the least recently
//! used content is evicted, on disk only if no process holds it. Any number of processes may share a directory. They
//! lock (`flock`) the content files and the file that records the used space.
//!
//! All functions block; call them through `spawn_blocking` in async code.
//!
//! ```
//! use unpacker::{Limits, Options, Store, store::Budget};
//!
//! let directory = tempfile::tempdir()?;
//! std::fs::write(directory.path().join("csv.yaml"), "kind: ClusterServiceVersion")?;
//! let (tree, _) = unpacker::open_tree(directory.path(), &Options::default())?;
//!
//! let store = Store::open(&directory.path().join("store"), Budget { disk: 1 << 30, memory: 64 << 20 })?;
//! let stored = store.put(&tree)?;
//! let content = store.get(&stored.digest, &Limits::default())?;
//! assert_eq!(content.read("csv.yaml").unwrap(), "kind: ClusterServiceVersion");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod access_clock;
mod disk;
mod error;
mod eviction;
mod files;
mod hold;
mod memory_cache;
mod reader;
pub(crate) mod shared_fetches;
mod single_flight;
mod source_index;
mod source_key;
mod stats;
mod usage_file;
mod writer;

use std::{
    io::BufReader,
    path::Path,
    sync::{Arc, atomic::AtomicBool},
};

use futures::executor::block_on;
use manifests::content::{Content, Limits};
use tracing::warn;

use self::shared_fetches::Flights;
use crate::{Access, Digest, Format, Options, SkippedEntries, Source, Tree};
use disk::Disk;
use hold::Holds;
use memory_cache::MemoryCache;
use single_flight::SingleFlight;
use stats::Counts;
use writer::CommitOutcome;

pub use error::{Error, Result};
pub use hold::Hold;
pub use reader::{PackedReader, Reader};
pub use source_key::SourceKey;
pub use stats::Stats;

/// Size limits of a store, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Limit on disk, for all processes that share the directory together. The process with the smallest budget
    /// evicts.
    pub disk: u64,
    /// Limit of the memory cache of this process. Larger content is read for each caller and not cached.
    pub memory: u64,
}

/// A directory of content. Clones refer to the same store.
#[derive(Debug, Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    disk: Disk,
    memory: MemoryCache,
    holds: Holds,
    reads: SingleFlight<(Digest, Limits), Result<Arc<Content>>>,
    fetches: Flights,
    counts: Counts,
}

/// Content in the store that cannot be evicted while this value lives.
#[derive(Debug, Clone)]
pub struct Stored {
    /// Digest of the content.
    pub digest: Digest,
    /// Size of the tar archive in bytes.
    pub size: u64,
    /// Protects the content from eviction.
    pub hold: Hold,
}

impl Store {
    /// Opens or creates a store, and removes the remains of crashes. The directory may exist. Entries other than
    /// those of the store are left alone.
    ///
    /// # Errors
    /// Returns an error if the directory cannot be written or locked, is not a directory, or contains files of
    /// another program.
    pub fn open(dir: &Path, budget: Budget) -> Result<Self> {
        let inner = Inner {
            disk: Disk::open(dir, budget.disk)?,
            memory: MemoryCache::new(budget.memory),
            holds: Holds::default(),
            reads: SingleFlight::default(),
            fetches: Flights::default(),
            counts: Counts::default(),
        };
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    /// Returns the directory of the store. Other programs may have their own directories next to those of the store.
    pub fn dir(&self) -> &Path {
        &self.inner.disk.root
    }

    /// Returns the directory for temporary files of the store: see [`Options::spool`].
    pub fn spool(&self) -> &Path {
        &self.inner.disk.temp
    }

    /// Stores content and holds it. Content that already exists intact is not replaced.
    ///
    /// # Errors
    /// Returns an error if the content cannot be read or written. Also returns an error if it exceeds the budget or
    /// the disk, even after the eviction of all content that is not held. Partial content is never stored.
    pub fn put(&self, tree: &Tree) -> Result<Stored> {
        self.put_until(tree, &AtomicBool::new(false))
    }

    /// Stores content like `put`, but stops as soon as `stop` is set.
    pub(crate) fn put_until(&self, tree: &Tree, stop: &AtomicBool) -> Result<Stored> {
        let Inner {
            disk,
            holds,
            counts,
            ..
        } = &*self.inner;
        let write = || {
            let (writer, evicted) = disk.reserve(writer::size_of(tree))?;
            counts.evicted.add(evicted);
            let digest = writer.fill(tree, stop)?;
            Ok((digest, writer.commit(&digest)?))
        };
        let (digest, outcome) = loop {
            match write() {
                // The budget may be larger than the disk, and other programs may use the disk.
                Err(Error::DiskFull { size, source }) => {
                    let evicted = disk.evict_for(size)?;
                    counts.evicted.add(evicted);
                    if evicted == 0 {
                        return Err(Error::DiskFull { size, source });
                    }
                }
                result => break result?,
            }
        };
        let file = match outcome {
            CommitOutcome::New(file) => {
                counts.written.add(1);
                file
            }
            CommitOutcome::Existing(file) => {
                counts.duplicates.add(1);
                file
            }
        };
        let hold = holds.add(disk, &digest, file)?;
        let size = hold.size();
        Ok(Stored { digest, size, hold })
    }

    /// Returns the files of content, from memory or from disk. Concurrent calls for the same content share one read.
    ///
    /// # Errors
    /// Returns an error if the content is missing, is corrupt, cannot be read, or exceeds the limits. The limits also
    /// apply to cached content.
    pub fn get(&self, digest: &Digest, limits: &Limits) -> Result<Arc<Content>> {
        let counts = &self.inner.counts;
        if let Some(content) = self.cached(digest, limits) {
            counts.hits.add(1);
            return content;
        }
        counts.misses.add(1);
        let (store, digest, limits) = (self.clone(), *digest, *limits);
        let read = async move {
            // Another read may have ended since the first lookup.
            let cached = store.cached(&digest, &limits);
            cached.unwrap_or_else(|| store.read(&digest, &limits))
        };
        let on_join = || counts.shared.add(1);
        block_on(self.inner.reads.run((digest, limits), on_join, read))
    }

    fn cached(&self, digest: &Digest, limits: &Limits) -> Option<Result<Arc<Content>>> {
        let hit = self.inner.memory.get(digest, limits)?;
        Some(match hit {
            Ok(hit) => {
                if hit.needs_touch {
                    // If the content was evicted from disk in the meantime, a failure to hold it does no harm.
                    let _ = self.hold(digest);
                }
                Ok(hit.content)
            }
            Err(error) => Err(Error::Content(Arc::new(error))),
        })
    }

    /// Reads and verifies content. The digest is verified even if the archive cannot be read to its end.
    fn read(&self, digest: &Digest, limits: &Limits) -> Result<Arc<Content>> {
        let Inner {
            disk,
            memory,
            counts,
            ..
        } = &*self.inner;
        let hold = self.hold(digest)?;
        counts.reads.add(1);
        let mut reader = hold.read();
        let options = Options {
            limits: *limits,
            ..Options::default()
        };
        let unpacked = crate::stream(BufReader::with_capacity(256 << 10, &mut reader), &options);
        let actual = reader.finish();
        let actual = actual.map_err(Error::file("read", disk.path(digest)))?;
        self.verify(&hold, &actual)?;
        let unpacked = unpacked.map_err(|error| Error::Content(Arc::new(error)))?;
        let content = Arc::new(unpacked.content);
        memory.put(digest, &content);
        Ok(content)
    }

    fn verify(&self, hold: &Hold, actual: &Digest) -> Result<()> {
        let Inner {
            disk,
            memory,
            counts,
            ..
        } = &*self.inner;
        let digest = hold.digest();
        if *actual == digest {
            return Ok(());
        }
        warn!(%digest, found = %actual, "removing corrupt content");
        counts.damaged.add(1);
        memory.remove(&digest);
        disk.remove_corrupt(&digest, hold.file())?;
        Err(Error::Corrupt { digest })
    }

    /// Returns the uncompressed tar archive of content without loading it into memory. All of it is verified before
    /// the first byte is returned, because sent bytes cannot be revoked. The second read of the file usually comes
    /// from the page cache.
    ///
    /// # Errors
    /// Returns an error if the content is missing, is corrupt, or cannot be read.
    pub fn reader(&self, digest: &Digest) -> Result<Reader> {
        self.verified(digest).map(Reader::new)
    }

    /// Reads and verifies content, and holds it.
    pub(crate) fn verified(&self, digest: &Digest) -> Result<Hold> {
        let hold = self.hold(digest)?;
        self.inner.counts.reads.add(1);
        let actual = hold.read().finish();
        let actual = actual.map_err(Error::file("read", self.inner.disk.path(digest)))?;
        self.verify(&hold, &actual)?;
        Ok(hold)
    }

    /// Returns the archive of [`Store::reader`] in another format. Compression is fast and happens while the archive
    /// is read.
    ///
    /// # Errors
    /// Returns the errors of [`Store::reader`].
    pub fn served(&self, digest: &Digest, format: Format) -> Result<PackedReader> {
        Ok(PackedReader::new(self.reader(digest)?, format))
    }

    /// Protects content from eviction without verifying it.
    ///
    /// # Errors
    /// Returns an error if the content is missing.
    pub fn hold(&self, digest: &Digest) -> Result<Hold> {
        self.inner.holds.hold(&self.inner.disk, digest)
    }

    /// Removes content from disk and memory. Missing content is not an error.
    ///
    /// # Errors
    /// Returns an error if any process holds the content.
    pub fn remove(&self, digest: &Digest) -> Result<()> {
        self.inner.disk.remove(digest)?;
        self.inner.memory.remove(digest);
        Ok(())
    }

    /// Returns the digests of all stored content, in no particular order.
    ///
    /// # Errors
    /// Returns an error if the directory cannot be read.
    pub fn digests(&self) -> Result<Vec<Digest>> {
        self.inner.disk.digests()
    }

    /// Returns the key of a source in the source index; `None` if the source is not pinned.
    pub fn key(&self, source: &Source, options: &Options, access: &Access) -> Option<SourceKey> {
        SourceKey::new(&self.inner.disk.state.salt, source, options, access)
    }

    /// Returns the key of a request, also for a source that is not pinned.
    pub(crate) fn request_key(
        &self,
        source: &Source,
        options: &Options,
        access: &Access,
    ) -> Option<SourceKey> {
        SourceKey::for_request(&self.inner.disk.state.salt, source, options, access)
    }

    /// Returns the running fetches.
    pub(crate) fn fetches(&self) -> &Flights {
        &self.inner.fetches
    }

    /// Records the content of a source, and its skipped entries.
    ///
    /// # Errors
    /// Returns an error if the record cannot be written.
    pub fn remember(
        &self,
        key: &SourceKey,
        digest: &Digest,
        skipped: &SkippedEntries,
    ) -> Result<()> {
        let disk = &self.inner.disk;
        let usage = disk.state.lock()?;
        disk.sources.record(&usage, key, digest, skipped)
    }

    /// Returns the recorded content of a source and holds it, if it is still in the store. Also returns the skipped
    /// entries.
    pub fn find(&self, key: &SourceKey) -> Option<(Stored, SkippedEntries)> {
        let (digest, skipped) = self.inner.disk.sources.find(key)?;
        let hold = self.hold(&digest).ok()?;
        let size = hold.size();
        Some((Stored { digest, size, hold }, skipped))
    }

    /// Returns the counters of this process since it opened the store, and the current usage.
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
