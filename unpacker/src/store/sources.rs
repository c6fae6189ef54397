//! Content of known sources: links in a directory, so that a lookup takes one system call and a change is atomic. A source
//! with skipped entries has a small file in place of the link, which lists them.

use std::{
    fs::{self, DirEntry, File},
    io::{ErrorKind, Read as _},
    os::unix,
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
    time::SystemTime,
};

use serde::{Deserialize, Serialize};

use super::{Error, Key, Result, files, state::Usage};
use crate::{Digest, SkippedEntries};

/// Links are small, but not nothing, and commits and credentials come and go. A source that is forgotten is fetched
/// once more.
const MOST: usize = 10_000;

/// So many links of no use are not worth a sweep.
const FEW: usize = 100;

/// Bytes of a file in place of a link.
const MAX_NOTE_SIZE: u64 = 64 << 10;

/// A file in place of a link.
#[derive(Serialize, Deserialize)]
struct Note {
    digest: String,
    skipped: SkippedEntries,
}

/// The folder of links.
#[derive(Debug)]
pub(super) struct Sources {
    folder: PathBuf,
    temp: PathBuf,
    /// About how many there are. Other processes add some too.
    count: AtomicUsize,
    /// How much content was removed since the last sweep: a link to it is of no use, and does no harm.
    stale: AtomicUsize,
}

impl Sources {
    pub(super) fn new(folder: PathBuf, temp: PathBuf) -> Self {
        Self {
            folder,
            temp,
            count: AtomicUsize::new(0),
            stale: AtomicUsize::new(0),
        }
    }

    /// Notes the content of a source.
    pub(super) fn remember(
        &self,
        usage: &Usage<'_>,
        key: &Key,
        digest: &Digest,
        skipped: &SkippedEntries,
    ) -> Result<()> {
        let path = self.folder.join(key.hex());
        let temp = self.temp.join(key.hex());
        let failed = |error| Error::file("write", &path)(error);
        match fs::remove_file(&temp) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        if skipped.is_empty() {
            let target = format!("../content/{}", files::name(digest));
            unix::fs::symlink(target, &temp).map_err(failed)?;
        } else {
            let note = Note {
                digest: digest.to_string(),
                skipped: skipped.clone(),
            };
            let bytes = serde_json::to_vec(&note).map_err(|error| failed(error.into()))?;
            fs::write(&temp, bytes).map_err(failed)?;
        }
        fs::rename(&temp, &path).map_err(failed)?;
        if self.count.fetch_add(1, Ordering::Relaxed) >= MOST {
            self.sweep(usage, |_| true)?;
        }
        Ok(())
    }

    /// Returns the content of a source, which may be missing from the store, and the entries that were skipped.
    pub(super) fn find(&self, key: &Key) -> Option<(Digest, SkippedEntries)> {
        read(&self.folder.join(key.hex()))
    }

    /// Some content was removed. Looking through the whole folder each time would take longer the more links there are, so
    /// that is done once there may be as many links of no use as others.
    pub(super) fn removed(
        &self,
        usage: &Usage<'_>,
        content: usize,
        is_there: impl Fn(&Digest) -> bool,
    ) -> Result<()> {
        let stale = self.stale.fetch_add(content, Ordering::Relaxed) + content;
        if stale >= (self.count.load(Ordering::Relaxed) / 2).max(FEW) {
            self.sweep(usage, is_there)?;
        }
        Ok(())
    }

    /// Forgets links whose content is gone, whatever else is no link of ours, and the oldest if there are too many.
    pub(super) fn sweep(&self, _: &Usage<'_>, is_there: impl Fn(&Digest) -> bool) -> Result<()> {
        let mut links = Vec::new();
        for entry in files::entries(&self.folder)? {
            let is_key = entry
                .file_name()
                .to_str()
                .is_some_and(|name| files::digest(name).is_some());
            if is_key && read(&entry.path()).is_some_and(|(digest, _)| is_there(&digest)) {
                links.push(entry);
            } else {
                files::remove(&entry);
            }
        }
        if links.len() > MOST {
            links.sort_by_cached_key(age);
            for entry in links.drain(..links.len() - MOST / 10 * 9) {
                files::remove(&entry);
            }
        }
        self.count.store(links.len(), Ordering::Relaxed);
        self.stale.store(0, Ordering::Relaxed);
        Ok(())
    }
}

fn age(link: &DirEntry) -> Option<SystemTime> {
    link.metadata().and_then(|about| about.modified()).ok()
}

/// Returns the content that a link of ours points to, or that the file in its place names.
fn read(path: &Path) -> Option<(Digest, SkippedEntries)> {
    match fs::read_link(path) {
        Ok(target) => {
            let name = target.to_str()?.strip_prefix("../content/")?;
            let digest = files::digest(name.strip_suffix(".tar")?)?;
            Some((digest, SkippedEntries::default()))
        }
        Err(error) if error.kind() == ErrorKind::InvalidInput => {
            let mut bytes = Vec::new();
            let file = File::open(path).ok()?;
            file.take(MAX_NOTE_SIZE).read_to_end(&mut bytes).ok()?;
            let Note { digest, skipped } = serde_json::from_slice(&bytes).ok()?;
            Some((digest.parse().ok()?, skipped))
        }
        Err(_) => None,
    }
}
