//! Bodies: of answers, for those who wait and for those who block; and of requests.

use std::{
    convert::Infallible,
    io::{self, Read},
    pin::Pin,
    task::{Context, Poll},
};

use bytes::{Buf as _, Bytes};
use futures::{Stream, StreamExt as _, stream};
use http_body::{Frame, SizeHint};
use tokio::sync::mpsc;

use super::{Error, Result, Shown, explain, wait::Wait};

// === Body ===

/// The body of an answer, as far as it has not been read.
#[derive(Debug)]
pub(super) struct Body {
    response: reqwest::Response,
    url: Shown,
    wait: Wait,
    read: u64,
}

impl Body {
    pub(super) fn new(response: reqwest::Response, url: Shown, wait: Wait) -> Self {
        Self {
            response,
            url,
            wait,
            read: 0,
        }
    }

    /// Its size, if the server has said it.
    pub(super) fn stated(&self) -> Option<u64> {
        self.response.content_length()
    }

    pub(super) fn into_stream(self) -> impl Stream<Item = Result<Bytes>> + Send + Unpin + 'static {
        Box::pin(stream::try_unfold(self, async |mut body| {
            let part = body.next().await?;
            Ok(part.map(|part| (part, body)))
        }))
    }

    async fn next(&mut self) -> Result<Option<Bytes>> {
        // Whoever reads slowly must not make the server look idle.
        let wait = &self.wait;
        wait.touch();
        let part = wait.bound(&self.url, self.response.chunk()).await?;
        let part = part.map_err(|error| Error::Broken {
            url: self.url.clone(),
            read: self.read,
            source: explain::cause(&error),
        })?;
        self.read += part.as_ref().map_or(0, |part| part.len() as u64);
        Ok(part)
    }
}

// === Reader ===

/// How many parts may wait for the reader: some are always on their way, and few are kept.
const WAITING: usize = 4;

/// A body as [`Read`]. Dropping it ends the transfer.
///
/// Its errors wrap those of the body: an [`Error`], if it is an answer's.
#[derive(Debug)]
pub struct Reader {
    parts: mpsc::Receiver<Part>,
    part: Bytes,
    ended: bool,
}

#[derive(Debug)]
enum Part {
    Bytes(io::Result<Bytes>),
    /// So that a transfer that was given up is not taken for one that came to its end.
    End,
}

/// Lets a body be read where blocking is allowed: in `spawn_blocking`. Must be called within the runtime.
pub fn reader<E>(mut body: impl Stream<Item = Result<Bytes, E>> + Send + Unpin + 'static) -> Reader
where
    E: Into<Box<dyn std::error::Error + Send + Sync>> + Send,
{
    let (sender, parts) = mpsc::channel(WAITING);
    tokio::spawn(async move {
        while let Some(part) = body.next().await {
            let part = part.map_err(io::Error::other);
            let failed = part.is_err();
            if sender.send(Part::Bytes(part)).await.is_err() || failed {
                return;
            }
        }
        // Nobody listens any more? Then nobody needs to know.
        let _ = sender.send(Part::End).await;
    });
    Reader {
        parts,
        part: Bytes::new(),
        ended: false,
    }
}

impl Read for Reader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.part.is_empty() && !self.ended && !buffer.is_empty() {
            match self.parts.blocking_recv() {
                Some(Part::Bytes(part)) => self.part = part?,
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

// === Upload ===

/// As much is handed over at once, so that a slow but steady upload shows as one.
const PIECE: usize = 64 << 10;

/// The body of a request, which tells when the connection has taken some of it.
#[derive(Debug)]
pub(super) struct Upload {
    left: Bytes,
    wait: Wait,
}

impl Upload {
    pub(super) fn new(bytes: Bytes, wait: Wait) -> Self {
        Self { left: bytes, wait }
    }
}

impl http_body::Body for Upload {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.wait.touch();
        if self.left.is_empty() {
            return Poll::Ready(None);
        }
        let count = self.left.len().min(PIECE);
        Poll::Ready(Some(Ok(Frame::data(self.left.split_to(count)))))
    }

    fn is_end_stream(&self) -> bool {
        self.left.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left.len() as u64)
    }
}
