//! Meter for the bytes that are read of a catalog. Files that are generated while they are read do not know their size
//! in advance.

use std::{
    io::{self, Read},
    sync::atomic::{AtomicU64, Ordering},
};

use super::{Error, Limits};

/// Number of bytes that were read of all files.
#[derive(Debug)]
pub(crate) struct Meter {
    read: AtomicU64,
    limit: u64,
}

/// A reader whose bytes are counted.
pub(crate) struct Metered<'a, R> {
    reader: R,
    meter: &'a Meter,
}

// === impl Meter ===

impl Meter {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            read: AtomicU64::new(0),
            limit: limits.total,
        }
    }

    pub(crate) fn exceeded<R>(&self, reader: R) -> Metered<'_, R> {
        Metered {
            reader,
            meter: self,
        }
    }

    /// Checks the limit.
    ///
    /// # Errors
    /// Returns an error if more bytes than the limit were read.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.read.load(Ordering::Relaxed) <= self.limit {
            return Ok(());
        }
        Err(Error::TooLarge {
            limit: self.limit,
            unit: "bytes",
        })
    }
}

impl<R: Read> Read for Metered<'_, R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.meter.check().map_err(io::Error::other)?;
        let count = self.reader.read(out)?;
        self.meter.read.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}
