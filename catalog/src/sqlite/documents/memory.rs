//! Memory limit for building one blob.

use std::io::{self, Write};

use serde::Serialize;

/// Overhead of each retained text in bytes.
const TEXT_OVERHEAD: usize = 64;

/// Memory that remains for a blob.
pub(super) struct BlobMemory<'a> {
    kind: &'static str,
    name: &'a str,
    remaining: usize,
    limit: usize,
}

/// Writer that counts its output against the limit.
struct LimitedWriter<'a, 'r> {
    out: &'a mut Vec<u8>,
    memory: &'a mut BlobMemory<'r>,
}

// === impl BlobMemory ===

impl<'a> BlobMemory<'a> {
    pub(super) fn new(kind: &'static str, name: &'a str, limit: usize) -> Self {
        Self {
            kind,
            name,
            remaining: limit,
            limit,
        }
    }

    /// Reserves memory for a retained text.
    pub(super) fn reserve(&mut self, bytes: usize) -> io::Result<()> {
        self.subtract(bytes.saturating_add(TEXT_OVERHEAD))
    }

    /// Writes a blob if the limit allows it.
    pub(super) fn write(&mut self, blob: &impl Serialize, out: &mut Vec<u8>) -> io::Result<()> {
        let writer = LimitedWriter { out, memory: self };
        serde_json::to_writer(writer, blob).map_err(io::Error::from)
    }

    fn subtract(&mut self, bytes: usize) -> io::Result<()> {
        let Some(remaining) = self.remaining.checked_sub(bytes) else {
            return Err(io::Error::other(format!(
                "{} {:?} is larger than the limit of {} bytes",
                self.kind, self.name, self.limit
            )));
        };
        self.remaining = remaining;
        Ok(())
    }
}

impl Write for LimitedWriter<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.memory.subtract(bytes.len())?;
        self.out.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
