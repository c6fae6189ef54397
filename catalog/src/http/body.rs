//! Response bodies: content is read on demand and compressed if the client accepts it.

use std::{
    io::{self, Write as _},
    sync::Arc,
};

use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use futures::{Stream, stream};
use tokio::task::spawn_blocking;

use super::{content::MatchedLines, content_store::PublishedContent};

/// Number of bytes that are read at once. A line can be longer.
const CHUNK_SIZE: u64 = 128 << 10;

/// Streams the bytes of the lines.
pub(super) fn plain(
    published: Arc<PublishedContent>,
    lines: MatchedLines,
) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static {
    let chunks = ContentChunks {
        published,
        remaining: lines,
    };
    stream::try_unfold(chunks, |mut chunks| async {
        let next = spawn_blocking(move || {
            let chunk = chunks.next()?;
            Ok::<_, io::Error>(chunk.map(|chunk| (Bytes::from(chunk), chunks)))
        });
        next.await.map_err(io::Error::other)?
    })
}

/// Streams the bytes of the lines, compressed with gzip.
pub(super) fn gzip(
    published: Arc<PublishedContent>,
    lines: MatchedLines,
) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static {
    let chunks = ContentChunks {
        published,
        remaining: lines,
    };
    let encoder = GzEncoder::new(Vec::new(), Compression::fast());
    stream::try_unfold(Some((chunks, encoder)), |state| async {
        let Some((mut chunks, mut encoder)) = state else {
            return Ok(None);
        };
        let next = spawn_blocking(move || {
            loop {
                let Some(chunk) = chunks.next()? else {
                    return Ok((Bytes::from(encoder.finish()?), None));
                };
                encoder.write_all(&chunk)?;
                let compressed = std::mem::take(encoder.get_mut());
                if !compressed.is_empty() {
                    return Ok::<_, io::Error>((compressed.into(), Some((chunks, encoder))));
                }
            }
        });
        next.await.map_err(io::Error::other)?.map(Some)
    })
}

/// Lines that are still to be read.
struct ContentChunks {
    published: Arc<PublishedContent>,
    remaining: MatchedLines,
}

impl ContentChunks {
    /// Reads the next chunk. Many small ranges are combined.
    fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut chunk = Vec::new();
        while let Some(range) = self.remaining.next(&self.published.content)? {
            let room = CHUNK_SIZE.saturating_sub(chunk.len() as u64);
            let take = room.min(range.end.saturating_sub(range.start));
            if take == 0 && room == 0 {
                break;
            }
            let from = chunk.len();
            chunk.resize(from + usize::try_from(take).unwrap_or(0), 0);
            let target = chunk.get_mut(from..).unwrap_or_default();
            self.published.content.read_at(target, range.start)?;
            range.start += take;
        }
        Ok((!chunk.is_empty()).then_some(chunk))
    }
}
