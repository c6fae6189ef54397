//! What every source gives, and how far it has come.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// Counts the bytes that have been transferred, for whoever shows them. Clones count together.
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
    /// Counts bytes that have arrived.
    pub fn add(&self, bytes: u64) {
        self.counts.done.fetch_add(bytes, Ordering::Relaxed);
    }

    /// States how many bytes there will be, as soon as that is known.
    pub fn set_total(&self, bytes: u64) {
        self.counts.total.store(bytes, Ordering::Relaxed);
    }

    /// The bytes that have arrived.
    pub fn done(&self) -> u64 {
        self.counts.done.load(Ordering::Relaxed)
    }

    /// The bytes there will be; zero while that is not known.
    pub fn total(&self) -> u64 {
        self.counts.total.load(Ordering::Relaxed)
    }
}
