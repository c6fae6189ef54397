//! Keeping content from being evicted.

use std::{
    collections::HashMap,
    fs::File,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use super::{Result, disk::Disk, files, reading::Reading};
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
        let path = disk.path(digest);
        let mut map = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        // What has been removed as damaged is held by whoever has it, and no longer given to others.
        if let Some(held) = map.get(digest).and_then(Weak::upgrade)
            && files::is_at(&held.file, &path)
        {
            files::touch(&held.file);
            return Ok(Hold { held });
        }
        let file = disk.content(digest)?;
        insert(&mut map, digest, file)
    }

    /// Holds what has just been opened, unless it is held already.
    pub(super) fn add(&self, disk: &Disk, digest: &Digest, file: File) -> Result<Hold> {
        let mut map = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        match map.get(digest).and_then(Weak::upgrade) {
            Some(held) if files::is_at(&held.file, &disk.path(digest)) => Ok(Hold { held }),
            _ => insert(&mut map, digest, file),
        }
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        let map = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        map.values().filter(|held| held.strong_count() > 0).count()
    }
}

fn insert(map: &mut HashMap<Digest, Weak<Held>>, digest: &Digest, file: File) -> Result<Hold> {
    let about = file
        .metadata()
        .map_err(super::Error::file("examine", files::name(digest)))?;
    map.retain(|_, held| held.strong_count() > 0);
    let held = Arc::new(Held {
        digest: *digest,
        file,
        size: about.len(),
    });
    map.insert(*digest, Arc::downgrade(&held));
    Ok(Hold { held })
}
