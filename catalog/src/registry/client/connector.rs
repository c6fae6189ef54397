//! Connector that connects only once, so that users of the connection notice its end.
//!
//! tonic reconnects silently. A new connection can lead to another catalog, which invalidates content that was read
//! over the earlier one.

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

/// TCP keepalive: idle time before the first probe, and the number of unanswered probes after which the connection is
/// closed. HTTP/2 pings are not used, because Go servers close connections that carry only pings.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
const KEEPALIVE_RETRIES: u32 = 3;

/// Connector that opens a single connection.
#[derive(Debug, Clone)]
pub(super) struct OneShotConnector {
    inner: HttpConnector,
    alive: Option<watch::Sender<()>>,
}

/// A connection. Receivers of its watch channel are notified when it is dropped.
#[derive(Debug)]
pub(super) struct Connection {
    stream: TokioIo<TcpStream>,
    _alive: watch::Sender<()>,
}

type Error = Box<dyn std::error::Error + Send + Sync>;

// === impl OneShotConnector ===

impl OneShotConnector {
    pub(super) fn new(alive: watch::Sender<()>) -> Self {
        let mut inner = HttpConnector::new();
        inner.set_nodelay(true);
        inner.set_keepalive(Some(KEEPALIVE_IDLE));
        inner.set_keepalive_interval(Some(KEEPALIVE_IDLE / 3));
        inner.set_keepalive_retries(Some(KEEPALIVE_RETRIES));
        Self {
            inner,
            alive: Some(alive),
        }
    }
}

impl Service<Uri> for OneShotConnector {
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
