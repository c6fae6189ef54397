//! Cache of review results with a short lifetime.

use std::{
    hash::Hash,
    num::NonZeroUsize,
    time::{Duration, Instant},
};

use lru::LruCache;
use parking_lot::Mutex;

/// Cache of the latest results, each with a lifetime.
pub(super) struct TtlCache<K: Hash + Eq, V> {
    entries: Mutex<LruCache<K, (Instant, V)>>,
    ttl: Duration,
}

impl<K: Hash + Eq, V: Clone> TtlCache<K, V> {
    pub(super) fn new(capacity: usize, ttl: Duration) -> Self {
        let capacity = NonZeroUsize::new(capacity).unwrap_or(NonZeroUsize::MIN);
        Self {
            entries: Mutex::new(LruCache::new(capacity)),
            ttl,
        }
    }

    pub(super) fn get(&self, key: &K, now: Instant) -> Option<V> {
        let mut entries = self.entries.lock();
        let (since, value) = entries.get(key)?;
        if now.saturating_duration_since(*since) < self.ttl {
            return Some(value.clone());
        }
        entries.pop(key);
        None
    }

    pub(super) fn put(&self, key: K, value: V, now: Instant) {
        let mut entries = self.entries.lock();
        entries.put(key, (now, value));
    }
}
