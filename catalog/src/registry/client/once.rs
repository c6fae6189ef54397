//! A connector that connects once, so that whoever uses the connection notices its end.
//!
//! tonic connects again by itself and tells nobody. But another connection may lead to another catalog, and what was read
//! of the former one may be wrong.

use std::{
    future::Future,
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use http::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::{client::legacy::connect::HttpConnector, rt::TokioIo};
use tokio::{net::TcpStream, sync::watch};
use tower::Service;

/// After how much silence the other end is asked whether it is still there, and how often before it is given up. Not by
/// HTTP/2: Go's servers end connections on which nothing is asked but that.
const SILENCE: Duration = Duration::from_secs(30);
const QUESTIONS: u32 = 3;

/// Connects once.
#[derive(Debug, Clone)]
pub(super) struct Connector {
    inner: HttpConnector,
    alive: Option<watch::Sender<()>>,
}

/// A connection. Whoever waits for the sender's end waits for this one's.
#[derive(Debug)]
pub(super) struct Connection {
    stream: TokioIo<TcpStream>,
    _alive: watch::Sender<()>,
}

type Error = Box<dyn std::error::Error + Send + Sync>;

// === impl Connector ===

impl Connector {
    pub(super) fn new(alive: watch::Sender<()>) -> Self {
        let mut inner = HttpConnector::new();
        inner.set_nodelay(true);
        inner.set_keepalive(Some(SILENCE));
        inner.set_keepalive_interval(Some(SILENCE / 3));
        inner.set_keepalive_retries(Some(QUESTIONS));
        Self {
            inner,
            alive: Some(alive),
        }
    }
}

impl Service<Uri> for Connector {
    type Response = Connection;
    type Error = Error;
    type Future = Pin<Box<dyn Future<Output = Result<Connection, Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let alive = self.alive.take();
        let connecting = self.inner.call(uri);
        Box::pin(async move {
            let alive = alive.ok_or("the connection broke")?;
            Ok(Connection {
                stream: connecting.await?,
                _alive: alive,
            })
        })
    }
}

// === impl Connection ===

impl Read for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl Write for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, buffer)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, buffers)
    }
}
