//! Answers, for a short while.

use std::{
    hash::Hash,
    num::NonZeroUsize,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use lru::LruCache;

/// The latest answers, each until it is too old.
pub(super) struct Remember<K: Hash + Eq, V> {
    answers: Mutex<LruCache<K, (Instant, V)>>,
    age: Duration,
}

impl<K: Hash + Eq, V: Clone> Remember<K, V> {
    pub(super) fn new(count: usize, age: Duration) -> Self {
        let count = NonZeroUsize::new(count).unwrap_or(NonZeroUsize::MIN);
        Self {
            answers: Mutex::new(LruCache::new(count)),
            age,
        }
    }

    pub(super) fn get(&self, key: &K, now: Instant) -> Option<V> {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, value) = answers.get(key)?;
        if now.saturating_duration_since(*since) < self.age {
            return Some(value.clone());
        }
        answers.pop(key);
        None
    }

    pub(super) fn put(&self, key: K, value: V, now: Instant) {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        answers.put(key, (now, value));
    }
}
