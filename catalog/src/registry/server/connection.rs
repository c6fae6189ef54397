//! A connection that can be ended from outside, even when its other side takes nothing, and ends by itself when its other
//! side says nothing.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    sync::OwnedSemaphorePermit,
    time::{Sleep, sleep},
};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tonic::transport::server::{Connected, TcpConnectInfo};

/// With so many bytes every client begins: `PRI * HTTP/2.0` and some more. Until they are there, HTTP/2 waits for ever;
/// from then on it asks by itself whether somebody is there.
const PREFACE: usize = 24;

/// A connection, for as long as the token lets it be. HTTP/2 always waits for something to read.
pub(super) struct Connection {
    stream: TcpStream,
    end: Pin<Box<WaitForCancellationFutureOwned>>,
    /// Until it has begun.
    begin: Option<Begin>,
    /// Its place among those that there may be.
    _permit: Option<OwnedSemaphorePermit>,
}

/// What a client has to do soon.
struct Begin {
    until: Pin<Box<Sleep>>,
    /// Bytes that are still to come.
    missing: usize,
}

// === impl Connection ===

impl Connection {
    /// Its other side has to begin in `patience`.
    pub(super) fn new(
        stream: TcpStream,
        end: &CancellationToken,
        patience: Duration,
        permit: Option<OwnedSemaphorePermit>,
    ) -> Self {
        Self {
            stream,
            end: Box::pin(end.clone().cancelled_owned()),
            begin: Some(Begin {
                until: Box::pin(sleep(patience)),
                missing: PREFACE,
            }),
            _permit: permit,
        }
    }
}

impl Connected for Connection {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> TcpConnectInfo {
        self.stream.connect_info()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.end.as_mut().poll(context).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        let count = buffer.filled().len().saturating_sub(before);
        if let Some(begin) = &mut self.begin {
            begin.missing = begin.missing.saturating_sub(count);
            if begin.missing == 0 {
                self.begin = None;
            } else if begin.until.as_mut().poll(context).is_ready() {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
        }
        read
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
