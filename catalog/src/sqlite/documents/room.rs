//! How much of one blob there may be in memory.

use std::io::{self, Write};

use serde::Serialize;

/// What each text that is kept takes besides its bytes.
const BESIDES: usize = 64;

/// Bytes that may still be taken for a blob.
pub(super) struct Room<'a> {
    kind: &'static str,
    name: &'a str,
    left: usize,
    limit: usize,
}

/// What is written into the room.
struct Within<'a, 'r> {
    out: &'a mut Vec<u8>,
    room: &'a mut Room<'r>,
}

// === impl Room ===

impl<'a> Room<'a> {
    pub(super) fn new(kind: &'static str, name: &'a str, limit: usize) -> Self {
        Self {
            kind,
            name,
            left: limit,
            limit,
        }
    }

    /// Takes room for a text that is kept.
    pub(super) fn take(&mut self, bytes: usize) -> io::Result<()> {
        self.less(bytes.saturating_add(BESIDES))
    }

    /// Writes a blob, if there is room for it.
    pub(super) fn write(&mut self, blob: &impl Serialize, out: &mut Vec<u8>) -> io::Result<()> {
        let within = Within { out, room: self };
        serde_json::to_writer(within, blob).map_err(io::Error::from)
    }

    fn less(&mut self, bytes: usize) -> io::Result<()> {
        let Some(left) = self.left.checked_sub(bytes) else {
            return Err(io::Error::other(format!(
                "{} {:?} is larger than the limit of {} bytes",
                self.kind, self.name, self.limit
            )));
        };
        self.left = left;
        Ok(())
    }
}

impl Write for Within<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.room.less(bytes.len())?;
        self.out.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
