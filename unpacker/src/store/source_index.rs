//! Index of the content of known sources: symbolic links in a directory, so that a lookup takes one system call and a
//! change is atomic. For a source with skipped entries, a small file replaces the link and lists them.

use std::{
    fs::{self, DirEntry, File},
    io::{ErrorKind, Read as _},
    os::unix,
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
    time::SystemTime,
};

use serde::{Deserialize, Serialize};

use super::usage_file::UsageLock;
use super::{Error, Result, SourceKey, files};
use crate::{Digest, SkippedEntries};

/// Maximum number of links. They are small, but commits and credentials accumulate. A source without a link is
/// fetched again.
const MAX_LINKS: usize = 10_000;

/// Minimum number of stale links that is worth a sweep.
const MIN_STALE_LINKS: usize = 100;

/// Maximum size of a file in place of a link, in bytes.
const MAX_NOTE_SIZE: u64 = 64 << 10;

/// The content of a file in place of a link.
#[derive(Serialize, Deserialize)]
struct Note {
    digest: String,
    skipped: SkippedEntries,
}

/// The directory of links.
#[derive(Debug)]
pub(super) struct SourceIndex {
    dir: PathBuf,
    temp: PathBuf,
    /// Approximate number of links. Other processes add links, too.
    count: AtomicUsize,
    /// Number of contents that were removed since the last sweep. Links to them are useless but harmless.
    stale: AtomicUsize,
}

impl SourceIndex {
    pub(super) fn new(dir: PathBuf, temp: PathBuf) -> Self {
        Self {
            dir,
            temp,
            count: AtomicUsize::new(0),
            stale: AtomicUsize::new(0),
        }
    }

    /// Records the content of a source.
    pub(super) fn record(
        &self,
        usage: &UsageLock<'_>,
        key: &SourceKey,
        digest: &Digest,
        skipped: &SkippedEntries,
    ) -> Result<()> {
        let path = self.dir.join(key.hex());
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
        if self.count.fetch_add(1, Ordering::Relaxed) >= MAX_LINKS {
            self.sweep(usage, |_| true)?;
        }
        Ok(())
    }

    /// Returns the content of a source, which may be missing from the store, and the entries that were skipped.
    pub(super) fn find(&self, key: &SourceKey) -> Option<(Digest, SkippedEntries)> {
        read(&self.dir.join(key.hex()))
    }

    /// Records that content was removed. A sweep of the whole directory takes longer with more links. Therefore it
    /// runs only when up to half of the links may be stale.
    pub(super) fn removed(
        &self,
        usage: &UsageLock<'_>,
        content: usize,
        exists: impl Fn(&Digest) -> bool,
    ) -> Result<()> {
        let stale = self.stale.fetch_add(content, Ordering::Relaxed) + content;
        if stale >= (self.count.load(Ordering::Relaxed) / 2).max(MIN_STALE_LINKS) {
            self.sweep(usage, exists)?;
        }
        Ok(())
    }

    /// Removes stale links, foreign files, and the oldest links if their number exceeds the limit.
    pub(super) fn sweep(&self, _: &UsageLock<'_>, exists: impl Fn(&Digest) -> bool) -> Result<()> {
        let mut links = Vec::new();
        for entry in files::entries(&self.dir)? {
            let is_key = entry
                .file_name()
                .to_str()
                .is_some_and(|name| files::digest(name).is_some());
            if is_key && read(&entry.path()).is_some_and(|(digest, _)| exists(&digest)) {
                links.push(entry);
            } else {
                files::remove(&entry);
            }
        }
        if links.len() > MAX_LINKS {
            links.sort_by_cached_key(age);
            for entry in links.drain(..links.len() - MAX_LINKS / 10 * 9) {
                files::remove(&entry);
            }
        }
        self.count.store(links.len(), Ordering::Relaxed);
        self.stale.store(0, Ordering::Relaxed);
        Ok(())
    }
}

fn age(link: &DirEntry) -> Option<SystemTime> {
    link.metadata()
        .and_then(|metadata| metadata.modified())
        .ok()
}

/// Reads the content that a link points to, or that the file in its place names.
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
