//! Pieces of a content on their way: read as they are wanted, compressed if they may be.

use std::{
    io::{self, Write as _},
    sync::Arc,
};

use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use futures::{Stream, stream};
use tokio::task::spawn_blocking;

use super::{content::Found, shelf::Shown};

/// How much is read at once. A line may be longer.
const PIECE: u64 = 128 << 10;

/// The bytes of these lines, one after the other.
pub(super) fn plain(
    shown: Arc<Shown>,
    found: Found,
) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static {
    let pieces = Pieces { shown, left: found };
    stream::try_unfold(pieces, |mut pieces| async {
        let next = spawn_blocking(move || {
            let piece = pieces.next()?;
            Ok::<_, io::Error>(piece.map(|piece| (Bytes::from(piece), pieces)))
        });
        next.await.map_err(io::Error::other)?
    })
}

/// The same, compressed with gzip.
pub(super) fn gzip(
    shown: Arc<Shown>,
    found: Found,
) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static {
    let pieces = Pieces { shown, left: found };
    let encoder = GzEncoder::new(Vec::new(), Compression::fast());
    stream::try_unfold(Some((pieces, encoder)), |state| async {
        let Some((mut pieces, mut encoder)) = state else {
            return Ok(None);
        };
        let next = spawn_blocking(move || {
            loop {
                let Some(piece) = pieces.next()? else {
                    return Ok((Bytes::from(encoder.finish()?), None));
                };
                encoder.write_all(&piece)?;
                let compressed = std::mem::take(encoder.get_mut());
                if !compressed.is_empty() {
                    return Ok::<_, io::Error>((compressed.into(), Some((pieces, encoder))));
                }
            }
        });
        next.await.map_err(io::Error::other)?.map(Some)
    })
}

/// What is still to be read.
struct Pieces {
    shown: Arc<Shown>,
    left: Found,
}

impl Pieces {
    /// The next bytes; of many small ranges several together.
    fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut piece = Vec::new();
        while let Some(range) = self.left.next(&self.shown.content)? {
            let room = PIECE.saturating_sub(piece.len() as u64);
            let take = room.min(range.end.saturating_sub(range.start));
            if take == 0 && room == 0 {
                break;
            }
            let from = piece.len();
            piece.resize(from + usize::try_from(take).unwrap_or(0), 0);
            let part = piece.get_mut(from..).unwrap_or_default();
            self.shown.content.read_at(part, range.start)?;
            range.start += take;
        }
        Ok((!piece.is_empty()).then_some(piece))
    }
}
