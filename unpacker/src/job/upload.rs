//! The body of a request: an archive that is made while it is sent.

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

use super::{Error, Load, Packed};
use crate::wire::Claims;

/// What is sent at once.
const CHUNK: usize = 64 << 10;
/// How many chunks may wait for the connection.
const WAITING: usize = 4;

/// The body. It ends with trailers if all went well, and with an error in place of an end if not.
pub(super) struct Upload {
    frames: mpsc::Receiver<Option<Frame<Bytes>>>,
    movement: Movement,
    ended: bool,
}

/// Counts what the connection takes.
#[derive(Debug, Clone, Default)]
pub(super) struct Movement(Arc<AtomicU64>);

/// The archive could not be made.
#[derive(Debug, thiserror::Error)]
#[error("the archive could not be made to its end")]
pub(super) struct Cut;

/// Starts to make the archive. What comes of it is known when the body has been read or dropped.
pub(super) fn start(load: Arc<Load>) -> (Upload, task::JoinHandle<Result<Packed, Error>>) {
    let (sender, frames) = mpsc::channel(WAITING);
    let made = task::spawn_blocking(move || {
        let mut chunks = Chunks {
            sender,
            waiting: BytesMut::with_capacity(CHUNK),
            hash: Sha256::new(),
        };
        let packed = load.write(&mut chunks);
        let last = packed.as_ref().ok().map(|packed| {
            let claims = Claims {
                body: Some(chunks.hash.into()),
                content: Some(packed.digest),
                size: Some(packed.size),
            };
            Frame::trailers(claims.to_headers())
        });
        let sent = chunks.sender.blocking_send(last);
        sent.map_err(|_| Error::Write { source: gone() })
            .and(packed)
    });
    let upload = Upload {
        frames,
        movement: Movement::default(),
        ended: false,
    };
    (upload, made)
}

impl Upload {
    pub(super) fn movement(&self) -> Movement {
        self.movement.clone()
    }
}

impl Movement {
    /// Waits until nothing has moved for so long, and at most twice as long.
    pub(super) async fn end(&self, idle: Duration) {
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
    type Error = Cut;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        self.frames.poll_recv(context).map(|frame| {
            self.movement.0.fetch_add(1, Ordering::Relaxed);
            let Some(frame) = frame.flatten() else {
                return Some(Err(Cut));
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
        sent.map_err(|_| gone())
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

    /// Called at the end, and nowhere before.
    fn flush(&mut self) -> io::Result<()> {
        self.send()
    }
}

fn gone() -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, "the connection is gone")
}
