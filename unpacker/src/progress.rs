//! Progress of a transfer.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// Counts transferred bytes, for display. Clones share the counters.
#[derive(Debug, Clone, Default)]
pub struct Progress {
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    done: AtomicU64,
    total: AtomicU64,
}

impl Progress {
    /// Adds received bytes.
    pub fn add(&self, bytes: u64) {
        self.counts.done.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Resets the received bytes when a transfer restarts.
    pub fn restart(&self) {
        self.counts.done.store(0, Ordering::Relaxed);
    }

    /// Sets the total number of bytes, once known.
    pub fn set_total(&self, bytes: u64) {
        self.counts.total.store(bytes, Ordering::Relaxed);
    }

    /// Returns the received bytes.
    pub fn done(&self) -> u64 {
        self.counts.done.load(Ordering::Relaxed)
    }

    /// Returns the total number of bytes, or zero if it is unknown.
    pub fn total(&self) -> u64 {
        self.counts.total.load(Ordering::Relaxed)
    }
}
