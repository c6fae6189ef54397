//! Directories of the store, and the operations that add and remove content.
//!
//! | path                 | content                                                               |
//! | -------------------- | --------------------------------------------------------------------- |
//! | `content/<hex>.tar`  | a deterministic tar, named by its SHA-256                             |
//! | `sources/<hex>`      | a link to the content of a source, named by its [`super::Key`]        |
//! | `tmp/…`              | temporary files; those without a lock remain from a crash             |
//! | `state`              | see [`UsageFile`]                                                     |
//!
//! A process that writes, reads or holds a content file has a shared lock on it. A process that unlinks the file needs
//! an exclusive lock. Renames and unlinks also require the [`UsageLock`], so that they never run concurrently.

use std::{
    fs::{self, DirBuilder, File},
    io::{self, ErrorKind},
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

use tempfile::NamedTempFile;

use super::access_clock::Clock;
use super::source_index::SourceIndex;
use super::usage_file::UsageFile;
use super::writer::ContentWriter;
use super::{Error, Result, files};
use crate::Digest;

/// Divisor of the budget for the additional space that an eviction may free beyond its need.
const SPARE_DIVISOR: u64 = 20;

/// The directories and the state of a store.
#[derive(Debug)]
pub(super) struct Disk {
    pub(super) content: PathBuf,
    /// Directory of the store, which contains all others.
    pub(super) root: PathBuf,
    pub(super) temp: PathBuf,
    pub(super) sources: SourceIndex,
    pub(super) state: UsageFile,
    pub(super) clock: Clock,
    budget: u64,
}

impl Disk {
    /// Creates missing directories and removes the remains of crashes.
    pub(super) fn open(root: &Path, budget: u64) -> Result<Self> {
        let create_dir = |path: &Path| {
            let created = DirBuilder::new().recursive(true).mode(0o700).create(path);
            created.map_err(|error| Error::open(path, error))
        };
        create_dir(root)?;
        let dirs = ["content", "sources", "tmp"].map(|name| root.join(name));
        let state = UsageFile::open(&root.join("state"), || {
            let is_used = |path: &&PathBuf| {
                fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some())
            };
            match dirs.iter().find(is_used) {
                Some(path) => Err(Error::Foreign { path: path.clone() }),
                None => Ok(()),
            }
        })?;
        dirs.iter().try_for_each(|path| create_dir(path))?;
        let [content, sources, temp] = dirs;
        let disk = Self {
            sources: SourceIndex::new(sources, temp.clone()),
            content,
            root: root.to_owned(),
            temp,
            state,
            clock: Clock::default(),
            budget,
        };
        disk.sweep()?;
        Ok(disk)
    }

    /// Returns the path of content, whether it exists or not.
    pub(super) fn path(&self, digest: &Digest) -> PathBuf {
        self.content.join(files::name(digest))
    }

    /// Returns the digests of all stored content.
    pub(super) fn digests(&self) -> Result<Vec<Digest>> {
        let entries = files::entries(&self.content)?;
        Ok(entries.filter_map(|entry| files::content(&entry)).collect())
    }

    /// Opens content for reading with a shared lock.
    pub(super) fn content(&self, digest: &Digest) -> Result<File> {
        let path = self.path(digest);
        loop {
            let file = match File::open(&path) {
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    return Err(Error::Missing { digest: *digest });
                }
                file => file.map_err(Error::file("open", &path))?,
            };
            file.lock_shared().map_err(Error::file("lock", &path))?;
            // The file may have been unlinked between the open and the lock. In this case another file may have its
            // path now.
            if files::is_at(&file, &path) {
                self.clock.mark_used(&file);
                return Ok(file);
            }
        }
    }

    /// Reserves space for new content, evicts other content if necessary, and creates a temporary file. Also returns
    /// the number of evicted contents.
    pub(super) fn reserve(&self, size: u64) -> Result<(ContentWriter<'_>, usize)> {
        let mut usage = self.state.lock()?;
        let excess = |used: u64| used.saturating_add(size).saturating_sub(self.budget);
        if excess(usage.used()) > 0 {
            // The recorded usage may include the remains of killed processes, so it is measured before an eviction.
            let used = self.measure()?;
            usage.set(used)?;
        }
        let mut evicted = 0;
        loop {
            let needed = excess(usage.used());
            if needed == 0 {
                break;
            }
            // Some more content is evicted, so that not every following write has to scan the directory.
            let (victims, freed) = self.victims(needed, self.budget / SPARE_DIVISOR)?;
            if needed > freed {
                return Err(Error::BudgetExceeded {
                    size,
                    used: usage.used().saturating_sub(freed),
                    budget: self.budget,
                });
            }
            evicted += self.evict(&mut usage, &victims)?;
        }
        let used = usage.used() + size;
        usage.set(used)?;
        let created = NamedTempFile::new_in(&self.temp).and_then(|temp| {
            // A sweep also needs the usage lock. It finds the file either not at all or locked.
            temp.as_file().lock_shared()?;
            // A measurement by another process includes the bytes that will be written.
            temp.as_file().set_len(size)?;
            Ok(temp)
        });
        match created {
            Ok(temp) => Ok((ContentWriter::new(self, temp, size), evicted)),
            Err(error) => {
                usage.set(used - size)?;
                Err(self.io_error("create a file in", size, error))
            }
        }
    }

    /// Converts an error of a write to `tmp`.
    pub(super) fn io_error(&self, action: &'static str, size: u64, error: io::Error) -> Error {
        match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Error::DiskFull {
                size,
                source: error.into(),
            },
            _ => Error::file(action, &self.temp)(error),
        }
    }

    /// Removes content unless a process holds a lock on it.
    pub(super) fn remove(&self, digest: &Digest) -> Result<()> {
        let mut usage = self.state.lock()?;
        if !self.path(digest).exists() {
            return Ok(());
        }
        match self.evict(&mut usage, &[*digest])? {
            0 => Err(Error::InUse { digest: *digest }),
            _ => Ok(()),
        }
    }

    /// Removes corrupt content, even if it is held. Content that replaced the corrupt file is left alone.
    pub(super) fn remove_corrupt(&self, digest: &Digest, damaged: &File) -> Result<()> {
        let mut usage = self.state.lock()?;
        let path = self.path(digest);
        if files::is_at(damaged, &path) {
            fs::remove_file(&path).map_err(Error::file("remove", &path))?;
            let used = self.measure()?;
            usage.set(used)?;
            self.sources.sweep(&usage, |target| target != digest)?;
        }
        Ok(())
    }

    /// Removes the remains of crashes and foreign files.
    fn sweep(&self) -> Result<()> {
        let mut usage = self.state.lock()?;
        for entry in files::entries(&self.temp)? {
            let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
            let is_free = |file: io::Result<File>| file.is_ok_and(|file| file.try_lock().is_ok());
            // Entries other than files are links without a writer: writers of links hold the usage lock.
            if !is_file || is_free(File::open(entry.path())) {
                files::remove(&entry);
            }
        }
        for entry in files::entries(&self.content)? {
            if files::content(&entry).is_none() {
                files::remove(&entry);
            } else if let Ok(metadata) = entry.metadata() {
                self.clock.observe(metadata.modified().ok());
            }
        }
        self.sources
            .sweep(&usage, |digest| self.path(digest).exists())?;
        let used = self.measure()?;
        usage.set(used)
    }

    /// Measures the bytes in use.
    fn measure(&self) -> Result<u64> {
        Ok(files::size(&self.content)? + files::size(&self.temp)?)
    }
}
