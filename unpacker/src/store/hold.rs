//! Holds, which protect content from eviction.

use std::{
    collections::HashMap,
    fs::File,
    sync::{Arc, Weak},
};

use super::{Error, Result, disk::Disk, files, reader::VerifyingReader};
use crate::Digest;
use parking_lot::Mutex;

/// A hold on content. Neither this process nor another one evicts the content while a clone of this value lives. The
/// kernel releases the lock when the process ends.
#[derive(Debug, Clone)]
pub struct Hold {
    held: Arc<LockedFile>,
}

/// An open file with a shared lock.
#[derive(Debug)]
struct LockedFile {
    digest: Digest,
    file: File,
    size: u64,
}

impl Drop for LockedFile {
    fn drop(&mut self) {
        // Closing the file is not enough while another thread starts a program: until the program runs, it has a copy
        // of the descriptor.
        let _ = self.file.unlock();
    }
}

/// The holds of this process. All holds of the same content share one descriptor.
#[derive(Debug, Default)]
pub(super) struct Holds {
    held: Mutex<HashMap<Digest, Weak<LockedFile>>>,
}

impl Hold {
    /// Returns the digest of the content.
    pub fn digest(&self) -> Digest {
        self.held.digest
    }

    /// Returns the size of the tar archive in bytes.
    pub fn size(&self) -> u64 {
        self.held.size
    }

    pub(super) fn file(&self) -> &File {
        &self.held.file
    }

    /// Returns a reader that starts at the first byte.
    pub(super) fn read(&self) -> VerifyingReader<'_> {
        VerifyingReader::new(&self.held.file)
    }
}

impl Holds {
    /// Holds content of the store.
    pub(super) fn hold(&self, disk: &Disk, digest: &Digest) -> Result<Hold> {
        if let Some(held) = self.get(disk, digest) {
            disk.clock.mark_used(&held.file);
            return Ok(Hold { held });
        }
        // The mutex is not held here, because locking may wait for another process.
        self.add(disk, digest, disk.content(digest)?)
    }

    /// Holds a file that was just opened. An existing hold of the same file is reused.
    pub(super) fn add(&self, disk: &Disk, digest: &Digest, file: File) -> Result<Hold> {
        let metadata = file.metadata();
        let size = metadata
            .map_err(Error::file("examine", disk.path(digest)))?
            .len();
        let new = Arc::new(LockedFile {
            digest: *digest,
            file,
            size,
        });
        let mut map = self.held.lock();
        let old = map.get(digest).and_then(Weak::upgrade);
        if let Some(held) = old.filter(|held| files::is_at(&held.file, &disk.path(digest))) {
            return Ok(Hold { held });
        }
        map.retain(|_, held| held.strong_count() > 0);
        map.insert(*digest, Arc::downgrade(&new));
        Ok(Hold { held: new })
    }

    /// Returns the existing hold of content. A hold of a corrupt file that was removed stays valid for its owner, but
    /// is not returned to others.
    fn get(&self, disk: &Disk, digest: &Digest) -> Option<Arc<LockedFile>> {
        let map = self.held.lock();
        let held = map.get(digest)?.upgrade()?;
        drop(map);
        files::is_at(&held.file, &disk.path(digest)).then_some(held)
    }

    /// Returns the number of held contents.
    pub(super) fn count(&self) -> usize {
        let map = self.held.lock();
        map.values().filter(|held| held.strong_count() > 0).count()
    }
}
