//! Eviction: removes the least recently used content that no process has locked, to make room for new content.

use std::{
    fs::{self, File, TryLockError},
    path::PathBuf,
};

use tracing::{debug, warn};

use super::{Error, Result, disk::Disk, files, usage_file::UsageLock};
use crate::Digest;

/// Content that can be evicted, with an exclusive lock.
struct EvictionCandidate {
    path: PathBuf,
    file: File,
    size: u64,
}

impl EvictionCandidate {
    fn evict(self, usage: &mut UsageLock<'_>) -> Result<()> {
        fs::remove_file(&self.path).map_err(Error::file("remove", &self.path))?;
        usage.set(usage.used().saturating_sub(self.size))
    }
}

impl Drop for EvictionCandidate {
    fn drop(&mut self) {
        let _ = self.file.unlock(); // closing does not unlock while a copy of the descriptor exists
    }
}

impl Disk {
    /// Evicts content of at least `size` bytes, or all content that no process has locked, regardless of the budget.
    /// Returns the number of evicted contents.
    pub(super) fn evict_for(&self, size: u64) -> Result<usize> {
        let mut usage = self.state.lock()?;
        let (victims, _) = self.victims(size, 0)?;
        self.evict(&mut usage, &victims)
    }

    /// Selects content that no process has locked, least recently used first, until `enough` bytes are reached. Then
    /// selects more content that fits into `spare` more bytes. Also returns the total size. The selected content is not
    /// locked, because the number of open files is limited; the eviction checks each lock again.
    pub(super) fn victims(&self, enough: u64, spare: u64) -> Result<(Vec<Digest>, u64)> {
        let (mut victims, mut sum) = (Vec::new(), 0);
        if enough == 0 {
            return Ok((victims, sum));
        }
        let mut candidates = Vec::new();
        for entry in files::entries(&self.content)? {
            if let Some(digest) = files::content(&entry)
                && let Ok(metadata) = entry.metadata()
                && metadata.is_file()
            {
                let used = metadata.modified().ok();
                self.clock.observe(used);
                candidates.push((used, digest, metadata.len()));
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
                // A file that cannot be opened must not prevent other evictions.
                Err(error) => {
                    warn!(%digest, %error, "failed to evict content; skipping it");
                }
            }
        }
        Ok((victims, sum))
    }

    /// Locks content for eviction. Returns `None` if a process holds a lock on it.
    fn victim(&self, digest: &Digest) -> Result<Option<EvictionCandidate>> {
        let path = self.path(digest);
        let file = File::open(&path).map_err(Error::file("open", &path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(Error::file("lock", path)(error)),
        }
        let metadata = file.metadata().map_err(Error::file("examine", &path))?;
        Ok(Some(EvictionCandidate {
            path,
            file,
            size: metadata.len(),
        }))
    }

    /// Evicts content, except content that was locked since its selection. Returns the number of evicted contents.
    pub(super) fn evict(&self, usage: &mut UsageLock<'_>, victims: &[Digest]) -> Result<usize> {
        let mut count = 0;
        for digest in victims {
            if let Some(victim) = self.victim(digest)? {
                victim.evict(usage)?;
                count += 1;
            }
        }
        if count > 0 {
            debug!(count, "evicted content");
            let exists = |digest: &Digest| self.path(digest).exists();
            self.sources.removed(usage, count, exists)?;
        }
        Ok(count)
    }
}
