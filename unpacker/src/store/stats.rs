//! Counters of a store.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters since this process opened the store, and current sizes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Requests for content that was in memory.
    pub hits: u64,
    /// Requests for content that was not in memory.
    pub misses: u64,
    /// Misses that waited for a running read of the same content.
    pub shared: u64,
    /// Complete reads of content from disk.
    pub reads: u64,
    /// Contents that were stored.
    pub written: u64,
    /// Contents that already existed when they were to be stored.
    pub duplicates: u64,
    /// Contents that this process evicted.
    pub evicted: u64,
    /// Contents that were found corrupt.
    pub damaged: u64,
    /// Bytes in use on disk, by all processes.
    pub disk: u64,
    /// Bytes in use in memory.
    pub memory: u64,
    /// Contents that this process holds.
    pub held: u64,
}

#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) hits: Count,
    pub(super) misses: Count,
    pub(super) shared: Count,
    pub(super) reads: Count,
    pub(super) written: Count,
    pub(super) duplicates: Count,
    pub(super) evicted: Count,
    pub(super) damaged: Count,
}

#[derive(Debug, Default)]
pub(super) struct Count(AtomicU64);

impl Count {
    pub(super) fn add(&self, count: usize) {
        self.0.fetch_add(count as u64, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Counts {
    pub(super) fn read(&self, disk: u64, memory: u64, held: usize) -> Stats {
        Stats {
            hits: self.hits.get(),
            misses: self.misses.get(),
            shared: self.shared.get(),
            reads: self.reads.get(),
            written: self.written.get(),
            duplicates: self.duplicates.get(),
            evicted: self.evicted.get(),
            damaged: self.damaged.get(),
            disk,
            memory,
            held: held as u64,
        }
    }
}
