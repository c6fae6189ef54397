//! Keeping content from being evicted.

use std::{
    collections::HashMap,
    fs::File,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use super::{Error, Result, disk::Disk, files, reading::Reading};
use crate::Digest;

/// Content in use: neither this process nor another one evicts it while a clone of this lives. The kernel ends it with
/// the process.
#[derive(Debug, Clone)]
pub struct Hold {
    held: Arc<Held>,
}

/// An open file with a shared lock on it.
#[derive(Debug)]
struct Held {
    digest: Digest,
    file: File,
    size: u64,
}

impl Drop for Held {
    fn drop(&mut self) {
        // Closing alone would not do while another thread is starting a program: until that runs, it has a copy.
        let _ = self.file.unlock();
    }
}

/// What this process holds, with one descriptor for each, however many hold it.
#[derive(Debug, Default)]
pub(super) struct Holds {
    held: Mutex<HashMap<Digest, Weak<Held>>>,
}

impl Hold {
    /// What is held.
    pub fn digest(&self) -> Digest {
        self.held.digest
    }

    /// The bytes of its tar.
    pub fn size(&self) -> u64 {
        self.held.size
    }

    pub(super) fn file(&self) -> &File {
        &self.held.file
    }

    /// From its first byte on.
    pub(super) fn read(&self) -> Reading<'_> {
        Reading::new(&self.held.file)
    }
}

impl Holds {
    /// Holds what is in the store.
    pub(super) fn hold(&self, disk: &Disk, digest: &Digest) -> Result<Hold> {
        if let Some(held) = self.get(disk, digest) {
            disk.clock.touch(&held.file);
            return Ok(Hold { held });
        }
        // Not under the mutex: locking may wait for another process.
        self.add(disk, digest, disk.content(digest)?)
    }

    /// Holds what has just been opened, unless it is held already.
    pub(super) fn add(&self, disk: &Disk, digest: &Digest, file: File) -> Result<Hold> {
        let about = file.metadata();
        let size = about
            .map_err(Error::file("examine", disk.path(digest)))?
            .len();
        let new = Arc::new(Held {
            digest: *digest,
            file,
            size,
        });
        let mut map = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let old = map.get(digest).and_then(Weak::upgrade);
        if let Some(held) = old.filter(|held| files::is_at(&held.file, &disk.path(digest))) {
            return Ok(Hold { held });
        }
        map.retain(|_, held| held.strong_count() > 0);
        map.insert(*digest, Arc::downgrade(&new));
        Ok(Hold { held: new })
    }

    /// What is held already. What has been removed as damaged is held by whoever has it, and not given to others.
    fn get(&self, disk: &Disk, digest: &Digest) -> Option<Arc<Held>> {
        let map = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let held = map.get(digest)?.upgrade()?;
        drop(map);
        files::is_at(&held.file, &disk.path(digest)).then_some(held)
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        let map = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        map.values().filter(|held| held.strong_count() > 0).count()
    }
}
