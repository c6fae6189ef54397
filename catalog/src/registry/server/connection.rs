//! Connection that can be closed from outside, even while the client receives nothing, and that closes itself if the
//! client sends nothing.

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

/// Number of bytes in an HTTP/2 client preface: `PRI * HTTP/2.0` and more. Until the preface is complete, hyper waits
/// without a timeout; afterwards keepalive pings detect dead clients.
const PREFACE: usize = 24;

/// A client connection that ends with the token. Cancellation always takes effect, because HTTP/2 always waits for data
/// to read.
pub(super) struct Connection {
    stream: TcpStream,
    end: Pin<Box<WaitForCancellationFutureOwned>>,
    /// `None` after the client has sent its preface.
    handshake: Option<HandshakeDeadline>,
    /// Slot of the connection within the limit.
    _permit: Option<OwnedSemaphorePermit>,
}

/// Deadline for the client's preface.
struct HandshakeDeadline {
    deadline: Pin<Box<Sleep>>,
    /// Number of preface bytes that are missing.
    missing: usize,
}

// === impl Connection ===

impl Connection {
    /// Wraps a stream whose client must send the preface within `handshake_timeout`.
    pub(super) fn new(
        stream: TcpStream,
        end: &CancellationToken,
        handshake_timeout: Duration,
        permit: Option<OwnedSemaphorePermit>,
    ) -> Self {
        Self {
            stream,
            end: Box::pin(end.clone().cancelled_owned()),
            handshake: Some(HandshakeDeadline {
                deadline: Box::pin(sleep(handshake_timeout)),
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
        if let Some(handshake) = &mut self.handshake {
            handshake.missing = handshake.missing.saturating_sub(count);
            if handshake.missing == 0 {
                self.handshake = None;
            } else if handshake.deadline.as_mut().poll(context).is_ready() {
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
