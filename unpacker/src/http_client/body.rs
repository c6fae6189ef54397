//! Bodies of responses, for async and for blocking code, and bodies of requests.

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

use super::{Error, RedactedUrl, Result, classify, deadline::Deadline};

// === Body ===

/// The unread part of a response body.
#[derive(Debug)]
pub(super) struct Body {
    response: reqwest::Response,
    url: RedactedUrl,
    deadline: Deadline,
    read: u64,
}

impl Body {
    pub(super) fn new(response: reqwest::Response, url: RedactedUrl, deadline: Deadline) -> Self {
        Self {
            response,
            url,
            deadline,
            read: 0,
        }
    }

    /// Returns the size of the body, if the server stated it.
    pub(super) fn stated(&self) -> Option<u64> {
        self.response.content_length()
    }

    pub(super) fn into_stream(self) -> impl Stream<Item = Result<Bytes>> + Send + Unpin + 'static {
        Box::pin(stream::try_unfold(self, async |mut body| {
            let chunk = body.next().await?;
            Ok(chunk.map(|chunk| (chunk, body)))
        }))
    }

    async fn next(&mut self) -> Result<Option<Bytes>> {
        // The time that the reader took must not count as idle time of the server.
        let deadline = &self.deadline;
        deadline.touch();
        let chunk = deadline.bound(&self.url, self.response.chunk()).await?;
        let chunk = chunk.map_err(|error| Error::Disconnected {
            url: self.url.clone(),
            read: self.read,
            source: classify::cause(&error),
        })?;
        self.read += chunk.as_ref().map_or(0, |chunk| chunk.len() as u64);
        Ok(chunk)
    }
}

// === Reader ===

/// Number of chunks that may wait for the reader: enough to keep the transfer running, and few in memory.
const CHANNEL_CAPACITY: usize = 4;

/// A blocking reader of a body. Dropping it ends the transfer.
///
/// Read errors wrap the errors of the body. For the body of a response, this is an [`Error`].
#[derive(Debug)]
pub struct Reader {
    messages: mpsc::Receiver<Message>,
    chunk: Bytes,
    ended: bool,
}

#[derive(Debug)]
enum Message {
    Bytes(io::Result<Bytes>),
    /// The end of the body. It distinguishes a complete transfer from an aborted one.
    End,
}

/// Returns a blocking reader of a body, for use in `spawn_blocking`. Must be called within the runtime.
pub fn reader<E>(mut body: impl Stream<Item = Result<Bytes, E>> + Send + Unpin + 'static) -> Reader
where
    E: Into<Box<dyn std::error::Error + Send + Sync>> + Send,
{
    let (sender, messages) = mpsc::channel(CHANNEL_CAPACITY);
    tokio::spawn(async move {
        while let Some(chunk) = body.next().await {
            let chunk = chunk.map_err(io::Error::other);
            let failed = chunk.is_err();
            if sender.send(Message::Bytes(chunk)).await.is_err() || failed {
                return;
            }
        }
        // A failure means that the reader was dropped, so nothing is lost.
        let _ = sender.send(Message::End).await;
    });
    Reader {
        messages,
        chunk: Bytes::new(),
        ended: false,
    }
}

impl Read for Reader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.chunk.is_empty() && !self.ended && !buffer.is_empty() {
            match self.messages.blocking_recv() {
                Some(Message::Bytes(chunk)) => self.chunk = chunk?,
                Some(Message::End) => self.ended = true,
                None => {
                    return Err(io::Error::other("the transfer was aborted"));
                }
            }
        }
        let count = self.chunk.len().min(buffer.len());
        if let Some(buffer) = buffer.get_mut(..count) {
            self.chunk.copy_to_slice(buffer);
        }
        Ok(count)
    }
}

// === Upload ===

/// Maximum size of a chunk. Small chunks make the progress of a slow upload visible.
const CHUNK: usize = 64 << 10;

/// The body of a request. It records when the connection takes a chunk.
#[derive(Debug)]
pub(super) struct Upload {
    remaining: Bytes,
    deadline: Deadline,
}

impl Upload {
    pub(super) fn new(bytes: Bytes, deadline: Deadline) -> Self {
        Self {
            remaining: bytes,
            deadline,
        }
    }
}

impl http_body::Body for Upload {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.deadline.touch();
        if self.remaining.is_empty() {
            return Poll::Ready(None);
        }
        let count = self.remaining.len().min(CHUNK);
        Poll::Ready(Some(Ok(Frame::data(self.remaining.split_to(count)))))
    }

    fn is_end_stream(&self) -> bool {
        self.remaining.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.remaining.len() as u64)
    }
}
