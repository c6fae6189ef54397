//! Request body of an upload: an archive that is created while it is sent.

use std::{
    io::{self, Write},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame};
use sha2::{Digest as _, Sha256};
use tokio::{sync::mpsc, task, time};

use super::{Error, Packed, Payload};
use crate::transfer::DeclaredUpload;

/// Size of a chunk in bytes.
const CHUNK: usize = 64 << 10;
/// Number of chunks that may wait for the connection.
const CHANNEL_CAPACITY: usize = 4;

/// The body of an upload. It ends with trailers on success, and with an error otherwise.
pub(super) struct Upload {
    frames: mpsc::Receiver<Option<Frame<Bytes>>>,
    progress: ProgressCounter,
    ended: bool,
}

/// Counts the frames that the connection takes.
#[derive(Debug, Clone, Default)]
pub(super) struct ProgressCounter(Arc<AtomicU64>);

/// The archive is incomplete.
#[derive(Debug, thiserror::Error)]
#[error("failed to complete the archive")]
pub(super) struct ArchiveAborted;

/// Starts to create the archive. The handle returns the result after the body was read or dropped.
pub(super) fn start(load: Arc<Payload>) -> (Upload, task::JoinHandle<Result<Packed, Error>>) {
    let (sender, frames) = mpsc::channel(CHANNEL_CAPACITY);
    let archive = task::spawn_blocking(move || {
        let mut chunks = Chunks {
            sender,
            waiting: BytesMut::with_capacity(CHUNK),
            hash: Sha256::new(),
        };
        let packed = load.write(&mut chunks);
        let last = packed.as_ref().ok().map(|packed| {
            let claims = DeclaredUpload {
                body: Some(chunks.hash.into()),
                content: Some(packed.digest),
                size: Some(packed.size),
            };
            Frame::trailers(claims.to_headers())
        });
        let sent = chunks.sender.blocking_send(last);
        sent.map_err(|_| Error::Write {
            source: connection_closed(),
        })
        .and(packed)
    });
    let upload = Upload {
        frames,
        progress: ProgressCounter::default(),
        ended: false,
    };
    (upload, archive)
}

impl Upload {
    pub(super) fn progress(&self) -> ProgressCounter {
        self.progress.clone()
    }
}

impl ProgressCounter {
    /// Waits until no frame was taken for the duration `idle`. Returns after at most twice this duration without
    /// progress.
    pub(super) async fn wait_until_idle(&self, idle: Duration) {
        let count = || self.0.load(Ordering::Relaxed);
        let mut before = count();
        loop {
            time::sleep(idle).await;
            let now = count();
            if now == before {
                return;
            }
            before = now;
        }
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = ArchiveAborted;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ArchiveAborted>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        self.frames.poll_recv(context).map(|frame| {
            self.progress.0.fetch_add(1, Ordering::Relaxed);
            let Some(frame) = frame.flatten() else {
                return Some(Err(ArchiveAborted));
            };
            self.ended = frame.is_trailers();
            Some(Ok(frame))
        })
    }
}

struct Chunks {
    sender: mpsc::Sender<Option<Frame<Bytes>>>,
    waiting: BytesMut,
    hash: Sha256,
}

impl Chunks {
    fn send(&mut self) -> io::Result<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        self.hash.update(&self.waiting);
        let chunk = self.waiting.split().freeze();
        self.waiting.reserve(CHUNK);
        let sent = self.sender.blocking_send(Some(Frame::data(chunk)));
        sent.map_err(|_| connection_closed())
    }
}

impl Write for Chunks {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        if self.waiting.len() >= CHUNK {
            self.send()?;
        }
        let count = buffer.len().min(CHUNK - self.waiting.len());
        self.waiting
            .extend_from_slice(buffer.get(..count).unwrap_or(buffer));
        Ok(count)
    }

    /// Sends the last chunk. It is called only at the end.
    fn flush(&mut self) -> io::Result<()> {
        self.send()
    }
}

fn connection_closed() -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, "the connection was closed")
}
