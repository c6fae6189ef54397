//! What was read last, within a budget of bytes.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use lru::LruCache;
use manifests::content::{Content, Gate, Limits};

use crate::Digest;

/// What a file costs besides its path and its bytes: its places in a tree and on the heap.
const FILE: usize = 160;

/// How exactly the disk knows of what is only read from memory.
const TOLD: Duration = Duration::from_secs(1);

/// Content in memory, most recently used last to go.
#[derive(Debug)]
pub(super) struct Memory {
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
    /// The tightest limits that it keeps to.
    needs: Limits,
    size: u64,
    told: Instant,
}

/// What was found.
#[derive(Debug)]
pub(super) struct Hit {
    pub(super) content: Arc<Content>,
    /// Whether the disk should be told that it is in use.
    pub(super) is_news: bool,
}

impl Memory {
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

    /// Content, if it is here; an error if it exceeds these limits.
    pub(super) fn get(&self, digest: &Digest, limits: &Limits) -> Option<crate::Result<Hit>> {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = cache.entries.get_mut(digest)?;
        let now = Instant::now();
        let is_news = now.duration_since(entry.told) >= TOLD;
        if is_news {
            entry.told = now;
        }
        let content = Arc::clone(&entry.content);
        let is_within = is_within(&entry.needs, limits);
        drop(cache);
        let checked = if is_within {
            Ok(())
        } else {
            check(&content, limits)
        };
        Some(checked.map(|()| Hit { content, is_news }))
    }

    /// Keeps content, at the expense of what was used longest ago. What is larger than all of the budget is not kept.
    pub(super) fn put(&self, digest: &Digest, content: &Arc<Content>) {
        let size = size(content);
        if size > self.budget {
            return;
        }
        let entry = Entry {
            content: Arc::clone(content),
            needs: needs(content),
            size,
            told: Instant::now(),
        };
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let mut gone = Vec::new();
        if let Some(old) = cache.entries.put(*digest, entry) {
            cache.size -= old.size;
            gone.push(old);
        }
        cache.size += size;
        while cache.size > self.budget
            && let Some((_, old)) = cache.entries.pop_lru()
        {
            cache.size -= old.size;
            gone.push(old);
        }
        drop(cache);
        drop(gone); // much to free, while others read
    }

    /// Forgets content.
    pub(super) fn remove(&self, digest: &Digest) {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(old) = cache.entries.pop(digest) {
            cache.size -= old.size;
        }
    }

    /// The bytes that are kept.
    pub(super) fn size(&self) -> u64 {
        let cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        cache.size
    }
}

fn size(content: &Content) -> u64 {
    let sizes = content
        .files()
        .map(|(path, file)| path.len() + file.bytes.len() + FILE);
    sizes.fold(FILE as u64, |sum, size| sum.saturating_add(size as u64))
}

fn needs(content: &Content) -> Limits {
    let max = |of: fn(&str) -> usize| content.files().map(|(path, _)| of(path)).max();
    let largest = content.files().map(|(_, file)| file.bytes.len()).max();
    Limits {
        total: content.size(),
        file: largest.unwrap_or_default() as u64,
        entries: content.len(),
        path: max(str::len).unwrap_or_default(),
        depth: max(|path| path.split('/').count()).unwrap_or_default(),
    }
}

fn is_within(needs: &Limits, limits: &Limits) -> bool {
    let Limits {
        total,
        file,
        entries,
        path,
        depth,
    } = *needs;
    total <= limits.total
        && file <= limits.file
        && entries <= limits.entries
        && path <= limits.path
        && depth <= limits.depth
}

/// The refusal that reading it under these limits would have given.
fn check(content: &Content, limits: &Limits) -> crate::Result<()> {
    let mut gate = Gate::new(*limits);
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
