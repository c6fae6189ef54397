//! Counts what is read of a catalog: whose files are made while they are read does not know how large they are.

use std::{
    io::{self, Read},
    sync::atomic::{AtomicU64, Ordering},
};

use super::{Error, Limits};

/// What was read of all files together.
#[derive(Debug)]
pub(crate) struct Meter {
    read: AtomicU64,
    most: u64,
}

/// A file that is read on account.
pub(crate) struct Metered<'a, R> {
    reader: R,
    meter: &'a Meter,
}

// === impl Meter ===

impl Meter {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            read: AtomicU64::new(0),
            most: limits.total,
        }
    }

    pub(crate) fn over<R>(&self, reader: R) -> Metered<'_, R> {
        Metered {
            reader,
            meter: self,
        }
    }

    /// That nothing was read beyond the limit.
    ///
    /// # Errors
    /// When it was.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.read.load(Ordering::Relaxed) <= self.most {
            return Ok(());
        }
        Err(Error::TooLarge {
            limit: self.most,
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
