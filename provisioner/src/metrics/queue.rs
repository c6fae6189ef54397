//! How many objects wait for their turn: kube's controllers do not tell.

use std::{
    collections::HashSet,
    hash::{BuildHasher as _, RandomState},
    sync::{Mutex, PoisonError},
};

use prometheus_client::metrics::gauge::Gauge;

/// Counts the objects that were triggered and whose reconcile has not begun.
pub struct Queue {
    /// Hashes of names: a number a name, however long that is.
    waiting: Mutex<HashSet<u64>>,
    hasher: RandomState,
    length: Gauge,
}

impl Queue {
    pub(super) fn new(length: Gauge) -> Self {
        Self {
            waiting: Mutex::default(),
            hasher: RandomState::new(),
            length,
        }
    }

    /// Something has happened to an object. It waits once, however often that is.
    pub fn triggered(&self, name: &str) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.insert(self.hasher.hash_one(name));
        self.length
            .set(i64::try_from(waiting.len()).unwrap_or(i64::MAX));
    }

    /// Its reconcile begins, or it is gone.
    pub fn begun(&self, name: &str) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.remove(&self.hasher.hash_one(name));
        self.length
            .set(i64::try_from(waiting.len()).unwrap_or(i64::MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_waits_once_until_its_turn() {
        let length = Gauge::default();
        let queue = Queue::new(length.clone());
        for name in ["a", "b", "a"] {
            queue.triggered(name);
        }
        assert_eq!(length.get(), 2);
        queue.begun("a");
        queue.begun("c");
        assert_eq!(length.get(), 1);
        queue.begun("b");
        assert_eq!(length.get(), 0);
    }
}
