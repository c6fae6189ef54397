//! Bodies of answers, for readers that block.

use std::io::{self, Read};

use bytes::{Buf as _, Bytes};
use futures::{Stream, StreamExt as _};
use tokio::sync::mpsc;

use super::Result;

/// How many parts may wait for the reader: some are always on their way, and few are kept.
const WAITING: usize = 16;

/// A body as [`Read`]. Dropping it ends the transfer.
#[derive(Debug)]
pub struct Reader {
    parts: mpsc::Receiver<Part>,
    part: Bytes,
    ended: bool,
}

#[derive(Debug)]
enum Part {
    Bytes(Result<Bytes>),
    /// So that a transfer that was given up is not taken for one that came to its end.
    End,
}

impl Reader {
    pub(super) fn new(
        mut body: impl Stream<Item = Result<Bytes>> + Send + Unpin + 'static,
    ) -> Self {
        let (sender, parts) = mpsc::channel(WAITING);
        tokio::spawn(async move {
            while let Some(part) = body.next().await {
                let failed = part.is_err();
                if sender.send(Part::Bytes(part)).await.is_err() || failed {
                    return;
                }
            }
            let _ = sender.send(Part::End).await;
        });
        Self {
            parts,
            part: Bytes::new(),
            ended: false,
        }
    }
}

impl Read for Reader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.part.is_empty() && !self.ended && !buffer.is_empty() {
            match self.parts.blocking_recv() {
                Some(Part::Bytes(part)) => self.part = part.map_err(io::Error::other)?,
                Some(Part::End) => self.ended = true,
                None => {
                    return Err(io::Error::other("the transfer was given up before its end"));
                }
            }
        }
        let count = self.part.len().min(buffer.len());
        if let Some(buffer) = buffer.get_mut(..count) {
            self.part.copy_to_slice(buffer);
        }
        Ok(count)
    }
}
