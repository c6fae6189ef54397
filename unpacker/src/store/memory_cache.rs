//! Memory cache of recently read content, with a budget in bytes.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use lru::LruCache;
use manifests::content::{Content, EntryLimiter, Limits};
use parking_lot::Mutex;

use crate::Digest;

/// Overhead of a file in addition to its path and content, in bytes: its nodes in the tree and on the heap.
const FILE_OVERHEAD: usize = 160;

/// Interval in which the time of use on disk is updated for content that is read from memory.
const TOUCH_INTERVAL: Duration = Duration::from_secs(1);

/// A cache of content with least-recently-used eviction.
#[derive(Debug)]
pub(super) struct MemoryCache {
    budget: u64,
    cache: Mutex<Cache>,
}

#[derive(Debug)]
struct Cache {
    entries: LruCache<Digest, Entry>,
    size: u64,
}

#[derive(Debug)]
struct Entry {
    content: Arc<Content>,
    /// Tightest limits that the content complies with.
    required_limits: Limits,
    size: u64,
    last_touch: Instant,
}

/// Content that was found in the cache.
#[derive(Debug)]
pub(super) struct CacheHit {
    pub(super) content: Arc<Content>,
    /// Whether the time of use on disk should be updated.
    pub(super) needs_touch: bool,
}

impl MemoryCache {
    pub(super) fn new(budget: u64) -> Self {
        let cache = Cache {
            entries: LruCache::unbounded(),
            size: 0,
        };
        Self {
            budget,
            cache: Mutex::new(cache),
        }
    }

    /// Returns cached content, or an error if it exceeds these limits.
    pub(super) fn get(&self, digest: &Digest, limits: &Limits) -> Option<crate::Result<CacheHit>> {
        let mut cache = self.cache.lock();
        let entry = cache.entries.get_mut(digest)?;
        let now = Instant::now();
        let needs_touch = now.duration_since(entry.last_touch) >= TOUCH_INTERVAL;
        if needs_touch {
            entry.last_touch = now;
        }
        let content = Arc::clone(&entry.content);
        let is_within = is_within(&entry.required_limits, limits);
        drop(cache);
        let checked = if is_within {
            Ok(())
        } else {
            check(&content, limits)
        };
        Some(checked.map(|()| CacheHit {
            content,
            needs_touch,
        }))
    }

    /// Caches content and evicts the least recently used content. Content larger than the budget is not cached.
    pub(super) fn put(&self, digest: &Digest, content: &Arc<Content>) {
        let size = size(content);
        if size > self.budget {
            return;
        }
        let entry = Entry {
            content: Arc::clone(content),
            required_limits: required_limits(content),
            size,
            last_touch: Instant::now(),
        };
        let mut cache = self.cache.lock();
        let mut evicted = Vec::new();
        if let Some(old) = cache.entries.put(*digest, entry) {
            cache.size -= old.size;
            evicted.push(old);
        }
        cache.size += size;
        while cache.size > self.budget
            && let Some((_, old)) = cache.entries.pop_lru()
        {
            cache.size -= old.size;
            evicted.push(old);
        }
        drop(cache);
        drop(evicted); // freeing may take long, so the lock is released before
    }

    /// Removes content from the cache.
    pub(super) fn remove(&self, digest: &Digest) {
        let mut cache = self.cache.lock();
        if let Some(old) = cache.entries.pop(digest) {
            cache.size -= old.size;
        }
    }

    /// Returns the size of the cached content in bytes.
    pub(super) fn size(&self) -> u64 {
        let cache = self.cache.lock();
        cache.size
    }
}

fn size(content: &Content) -> u64 {
    let sizes = content
        .files()
        .map(|(path, file)| path.len() + file.bytes.len() + FILE_OVERHEAD);
    sizes.fold(FILE_OVERHEAD as u64, |sum, size| {
        sum.saturating_add(size as u64)
    })
}

fn required_limits(content: &Content) -> Limits {
    let max = |measure: fn(&str) -> usize| content.files().map(|(path, _)| measure(path)).max();
    let largest = content.files().map(|(_, file)| file.bytes.len()).max();
    Limits {
        total: content.size(),
        file: largest.unwrap_or_default() as u64,
        entries: content.len(),
        path: max(str::len).unwrap_or_default(),
        depth: max(|path| path.split('/').count()).unwrap_or_default(),
    }
}

fn is_within(required_limits: &Limits, limits: &Limits) -> bool {
    let Limits {
        total,
        file,
        entries,
        path,
        depth,
    } = *required_limits;
    total <= limits.total
        && file <= limits.file
        && entries <= limits.entries
        && path <= limits.path
        && depth <= limits.depth
}

/// Checks content against limits. The error is the one that reading the content under these limits would return.
fn check(content: &Content, limits: &Limits) -> crate::Result<()> {
    let mut gate = EntryLimiter::new(*limits);
    for (path, file) in content.files() {
        gate.add(path, &mut file.bytes.as_ref(), |path, reader| {
            let read = std::io::copy(reader, &mut std::io::sink());
            read.map(drop).map_err(|source| {
                let path = path.to_owned();
                manifests::content::Error::Read { path, source }
            })
        })?;
    }
    Ok(())
}
