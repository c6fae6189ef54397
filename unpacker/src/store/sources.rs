//! Which content a source had: links in a folder, so that finding it takes one system call and changing it is atomic.

use std::{
    fs::{self, DirEntry},
    io::ErrorKind,
    os::unix,
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
    time::SystemTime,
};

use super::{Error, Key, Result, files, state::Usage};
use crate::Digest;

/// Links are small, but not nothing, and commits and credentials come and go. A source that is forgotten is fetched
/// once more.
const MOST: usize = 10_000;

/// The folder of links.
#[derive(Debug)]
pub(super) struct Sources {
    folder: PathBuf,
    temp: PathBuf,
    /// About how many there are. Other processes add some too.
    count: AtomicUsize,
}

impl Sources {
    pub(super) fn new(folder: PathBuf, temp: PathBuf) -> Self {
        Self {
            folder,
            temp,
            count: AtomicUsize::new(0),
        }
    }

    /// Notes the content of a source.
    pub(super) fn remember(&self, usage: &Usage<'_>, key: &Key, digest: &Digest) -> Result<()> {
        let path = self.folder.join(key.hex());
        let temp = self.temp.join(key.hex());
        let failed = |error| Error::file("write", &path)(error);
        match fs::remove_file(&temp) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        unix::fs::symlink(format!("../content/{}", files::name(digest)), &temp).map_err(failed)?;
        fs::rename(&temp, &path).map_err(failed)?;
        if self.count.fetch_add(1, Ordering::Relaxed) >= MOST {
            self.sweep(usage, |_| true)?;
        }
        Ok(())
    }

    /// The content that a source had. It may be gone.
    pub(super) fn find(&self, key: &Key) -> Option<Digest> {
        target(&self.folder.join(key.hex()))
    }

    /// Forgets links whose content is gone, whatever else is no link of ours, and the oldest if there are too many.
    pub(super) fn sweep(&self, _: &Usage<'_>, is_there: impl Fn(&Digest) -> bool) -> Result<()> {
        let mut links = Vec::new();
        for entry in files::entries(&self.folder)? {
            let is_key = entry
                .file_name()
                .to_str()
                .is_some_and(|name| files::digest(name).is_some());
            if is_key && target(&entry.path()).is_some_and(|digest| is_there(&digest)) {
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
        Ok(())
    }
}

fn age(link: &DirEntry) -> Option<SystemTime> {
    link.metadata().and_then(|about| about.modified()).ok()
}

/// The content that a link of ours points to.
fn target(link: &Path) -> Option<Digest> {
    let target = fs::read_link(link).ok()?;
    let name = target.to_str()?.strip_prefix("../content/")?;
    files::digest(name.strip_suffix(".tar")?)
}
