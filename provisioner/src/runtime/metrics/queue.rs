//! Length of the work queue of each controller, which kube does not expose.

use std::{
    collections::HashSet,
    hash::{BuildHasher as _, RandomState},
};

use parking_lot::Mutex;
use prometheus_client::metrics::gauge::Gauge;

/// Counter of the objects that were triggered and whose reconcile has not started.
pub struct QueueDepth {
    /// Hashes of names, which have a fixed size.
    waiting: Mutex<HashSet<u64>>,
    hasher: RandomState,
    length: Gauge,
}

impl QueueDepth {
    pub(super) fn new(length: Gauge) -> Self {
        Self {
            waiting: Mutex::default(),
            hasher: RandomState::new(),
            length,
        }
    }

    /// Records a trigger for an object. Repeated triggers count once.
    pub fn triggered(&self, name: &str) {
        let mut waiting = self.waiting.lock();
        waiting.insert(self.hasher.hash_one(name));
        self.length
            .set(i64::try_from(waiting.len()).unwrap_or(i64::MAX));
    }

    /// Records that the reconcile of an object starts, or that the object was deleted.
    pub fn dequeued(&self, name: &str) {
        let mut waiting = self.waiting.lock();
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
        let queue = QueueDepth::new(length.clone());
        for name in ["a", "b", "a"] {
            queue.triggered(name);
        }
        assert_eq!(length.get(), 2);
        queue.dequeued("a");
        queue.dequeued("c");
        assert_eq!(length.get(), 1);
        queue.dequeued("b");
        assert_eq!(length.get(), 0);
    }
}
