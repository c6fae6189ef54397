//! What a store has done.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts since the store was opened by this process, and sizes as they are now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Content that was in memory when it was asked for.
    pub hits: u64,
    /// Content that was not.
    pub misses: u64,
    /// Misses that waited for the read of another.
    pub shared: u64,
    /// Reads of whole content from disk.
    pub reads: u64,
    /// Content that was stored.
    pub written: u64,
    /// Content that was there already when it should be stored.
    pub duplicates: u64,
    /// Content that was evicted by this process.
    pub evicted: u64,
    /// Content that was found damaged.
    pub damaged: u64,
    /// Bytes in use on disk, by all processes.
    pub disk: u64,
    /// Bytes in use in memory.
    pub memory: u64,
    /// Content that this process holds.
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
