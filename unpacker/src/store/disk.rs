//! The folder: what is where, and how content comes and goes.
//!
//! | path                 | what                                                                  |
//! | -------------------- | --------------------------------------------------------------------- |
//! | `content/<hex>.tar`  | a deterministic tar, named by its SHA-256                             |
//! | `sources/<hex>`      | a link to the content that a source had, named by its [`super::Key`]  |
//! | `tmp/…`              | what is being written; without a lock on it: what a crash left behind |
//! | `state`              | see [`State`]                                                         |
//!
//! Every file of content belongs to its users: who writes, reads or holds it has a shared lock on it, who unlinks it
//! needs an exclusive one. Everybody who renames or unlinks has the [`Usage`] besides, so that these never meet.

use std::{
    fs::{self, DirBuilder, File, TryLockError},
    io::{self, ErrorKind},
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

use tempfile::NamedTempFile;
use tracing::{debug, warn};

use super::{
    Error, Result,
    clock::Clock,
    files,
    sources::Sources,
    state::{State, Usage},
    writing::Writing,
};
use crate::Digest;

/// Which part of the budget is freed, at most, beyond what is needed.
const SPARE: u64 = 20;

/// The folders and the state of a store.
#[derive(Debug)]
pub(super) struct Disk {
    pub(super) content: PathBuf,
    /// Where all of it is.
    pub(super) root: PathBuf,
    pub(super) temp: PathBuf,
    pub(super) sources: Sources,
    pub(super) state: State,
    pub(super) clock: Clock,
    budget: u64,
}

/// Content that is about to be evicted, with an exclusive lock on it.
struct Victim {
    path: PathBuf,
    file: File,
    size: u64,
}

impl Victim {
    fn evict(self, usage: &mut Usage<'_>) -> Result<()> {
        fs::remove_file(&self.path).map_err(Error::file("remove", &self.path))?;
        usage.set(usage.used().saturating_sub(self.size))
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.file.unlock(); // as whoever holds content does
    }
}

impl Disk {
    /// Makes the folders where they are missing, and sweeps.
    pub(super) fn open(root: &Path, budget: u64) -> Result<Self> {
        let folder = |path: &Path| {
            let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
            made.map_err(|error| Error::open(path, error))
        };
        folder(root)?;
        let folders = ["content", "sources", "tmp"].map(|name| root.join(name));
        let state = State::open(&root.join("state"), || {
            let is_used = |path: &&PathBuf| {
                fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some())
            };
            match folders.iter().find(is_used) {
                Some(path) => Err(Error::Foreign { path: path.clone() }),
                None => Ok(()),
            }
        })?;
        folders.iter().try_for_each(|path| folder(path))?;
        let [content, sources, temp] = folders;
        let disk = Self {
            sources: Sources::new(sources, temp.clone()),
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

    /// Where content is, if it is.
    pub(super) fn path(&self, digest: &Digest) -> PathBuf {
        self.content.join(files::name(digest))
    }

    /// All content that is there now.
    pub(super) fn digests(&self) -> Result<Vec<Digest>> {
        let entries = files::entries(&self.content)?;
        Ok(entries.filter_map(|entry| files::content(&entry)).collect())
    }

    /// Opens content for reading, with a shared lock on it.
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
            // It may have been unlinked between opening and locking. Then another one may stand there now.
            if files::is_at(&file, &path) {
                self.clock.touch(&file);
                return Ok(file);
            }
        }
    }

    /// Makes room for so many bytes, by evicting if need be, and opens a file for them. Also gives how much content
    /// was evicted.
    pub(super) fn reserve(&self, size: u64) -> Result<(Writing<'_>, usize)> {
        let mut usage = self.state.lock()?;
        let over = |used: u64| used.saturating_add(size).saturating_sub(self.budget);
        if over(usage.used()) > 0 {
            // Only now it matters whether all that was counted is there: somebody may have been killed.
            let used = self.measure()?;
            usage.set(used)?;
        }
        let mut evicted = 0;
        loop {
            let enough = over(usage.used());
            if enough == 0 {
                break;
            }
            // Some more goes at once, so that not everybody who comes now has to look through the whole folder.
            let (victims, freed) = self.victims(enough, self.budget / SPARE)?;
            if enough > freed {
                return Err(Error::OverBudget {
                    size,
                    used: usage.used().saturating_sub(freed),
                    budget: self.budget,
                });
            }
            evicted += self.evict(&mut usage, &victims)?;
        }
        let used = usage.used() + size;
        usage.set(used)?;
        let made = NamedTempFile::new_in(&self.temp).and_then(|temp| {
            // A sweep needs the usage too, so that it finds the file not yet, or locked.
            temp.as_file().lock_shared()?;
            // Whoever measures finds all that is going to be written.
            temp.as_file().set_len(size)?;
            Ok(temp)
        });
        match made {
            Ok(temp) => Ok((Writing::new(self, temp, size), evicted)),
            Err(error) => {
                usage.set(used - size)?;
                Err(self.explain("create a file in", size, error))
            }
        }
    }

    /// What it means that `tmp` cannot be written to.
    pub(super) fn explain(&self, action: &'static str, size: u64, error: io::Error) -> Error {
        match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Error::DiskFull {
                size,
                source: error.into(),
            },
            _ => Error::file(action, &self.temp)(error),
        }
    }

    /// Evicts as much as this, or all there is, whatever the budget says. Gives how much content went.
    pub(super) fn free(&self, size: u64) -> Result<usize> {
        let mut usage = self.state.lock()?;
        let (victims, _) = self.victims(size, 0)?;
        self.evict(&mut usage, &victims)
    }

    /// Content that nobody has a lock on, what was used longest ago first, until it is enough, and what more there is
    /// in the spare bytes; and the bytes of all of it. It is not locked any more, since a process may not have as many
    /// files open as there is content: whoever evicts it looks again.
    fn victims(&self, enough: u64, spare: u64) -> Result<(Vec<Digest>, u64)> {
        let (mut victims, mut sum) = (Vec::new(), 0);
        if enough == 0 {
            return Ok((victims, sum));
        }
        let mut candidates = Vec::new();
        for entry in files::entries(&self.content)? {
            if let Some(digest) = files::content(&entry)
                && let Ok(about) = entry.metadata()
                && about.is_file()
            {
                let used = about.modified().ok();
                self.clock.saw(used);
                candidates.push((used, digest, about.len()));
            }
        }
        candidates.sort_unstable();
        for (_, digest, size) in candidates {
            if sum >= enough && sum.saturating_add(size) > enough.saturating_add(spare) {
                break;
            }
            match self.victim(&digest) {
                Ok(Some(victim)) => {
                    sum += victim.size;
                    victims.push(digest);
                }
                Ok(None) => {}
                // One that cannot be opened is no reason to keep all others.
                Err(error) => {
                    warn!(%digest, %error, "cannot evict content; passing it over");
                }
            }
        }
        Ok((victims, sum))
    }

    /// Content alone, unless somebody has a lock on it.
    fn victim(&self, digest: &Digest) -> Result<Option<Victim>> {
        let path = self.path(digest);
        let file = File::open(&path).map_err(Error::file("open", &path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(Error::file("lock", path)(error)),
        }
        let about = file.metadata().map_err(Error::file("examine", &path))?;
        Ok(Some(Victim {
            path,
            file,
            size: about.len(),
        }))
    }

    /// Evicts content, one after the other, but not what somebody has come to hold since it was chosen. Gives how much
    /// went.
    fn evict(&self, usage: &mut Usage<'_>, victims: &[Digest]) -> Result<usize> {
        let mut count = 0;
        for digest in victims {
            if let Some(victim) = self.victim(digest)? {
                victim.evict(usage)?;
                count += 1;
            }
        }
        if count > 0 {
            debug!(count, "evicted content");
            let is_there = |digest: &Digest| self.path(digest).exists();
            self.sources.removed(usage, count, is_there)?;
        }
        Ok(count)
    }

    /// Removes content, unless somebody has a lock on it.
    pub(super) fn remove(&self, digest: &Digest) -> Result<()> {
        let mut usage = self.state.lock()?;
        if !self.path(digest).exists() {
            return Ok(());
        }
        match self.evict(&mut usage, &[*digest])? {
            0 => Err(Error::Held { digest: *digest }),
            _ => Ok(()),
        }
    }

    /// Removes content that is not what it should be, even from under those who hold it, unless it has been replaced
    /// since this file was opened.
    pub(super) fn discard(&self, digest: &Digest, damaged: &File) -> Result<()> {
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

    /// Removes what crashes left behind, and what else does not belong here.
    fn sweep(&self) -> Result<()> {
        let mut usage = self.state.lock()?;
        for entry in files::entries(&self.temp)? {
            let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
            let is_free = |file: io::Result<File>| file.is_ok_and(|file| file.try_lock().is_ok());
            // What is no file nobody is writing: links are made by those who have the usage.
            if !is_file || is_free(File::open(entry.path())) {
                files::remove(&entry);
            }
        }
        for entry in files::entries(&self.content)? {
            if files::content(&entry).is_none() {
                files::remove(&entry);
            } else if let Ok(about) = entry.metadata() {
                self.clock.saw(about.modified().ok());
            }
        }
        self.sources
            .sweep(&usage, |digest| self.path(digest).exists())?;
        let used = self.measure()?;
        usage.set(used)
    }

    /// The bytes in use, by looking.
    fn measure(&self) -> Result<u64> {
        Ok(files::size(&self.content)? + files::size(&self.temp)?)
    }
}
