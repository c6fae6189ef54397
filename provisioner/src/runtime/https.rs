//! HTTPS services: TLS with a managed certificate, and limits for each connection.

use std::{net::SocketAddr, pin::Pin, sync::Arc, time::Duration};

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    time,
};
use tokio_io_timeout::TimeoutStream;
use tokio_rustls::TlsAcceptor;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{debug, info, warn};

use super::tls::CertificateManager;

/// Maximum number of concurrent connections. Further connections wait.
const MAX_CONNECTIONS: usize = 256;
/// Timeout of the TLS handshake, and of each request head.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum size of a request head in bytes, and maximum number of its headers.
const MAX_HEADER_SIZE: usize = 64 << 10;
const MAX_HEADERS: usize = 64;
/// Maximum time that a client may not read its response.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// Lifetime of a connection, after which it accepts no further request, and maximum time of the last request.
const MAX_CONNECTION_AGE: Duration = Duration::from_secs(1200);
const LAST_REQUEST_TIMEOUT: Duration = Duration::from_secs(900);
/// Maximum time for running requests at shutdown.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(15);

/// Reason why a service cannot start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address cannot be bound.
    #[error("failed to listen on {0}")]
    Bind(SocketAddr, #[source] std::io::Error),
    /// The TLS configuration is invalid.
    #[error("failed to set up TLS")]
    Tls(#[from] rustls::Error),
}

/// A service with a bound address that does not serve yet.
pub(crate) struct Service {
    listener: TcpListener,
    address: SocketAddr,
    acceptor: TlsAcceptor,
    certificates: CertificateManager,
}

impl Service {
    /// Binds the address.
    ///
    /// # Errors
    /// Returns an error if the address cannot be bound.
    pub(crate) async fn bind(
        address: SocketAddr,
        certificates: CertificateManager,
    ) -> Result<Self, Error> {
        let bound = |source| Error::Bind(address, source);
        let listener = TcpListener::bind(address).await.map_err(bound)?;
        Ok(Self {
            address: listener.local_addr().map_err(bound)?,
            listener,
            acceptor: TlsAcceptor::from(Arc::new(certificates.certificate().server()?)),
            certificates,
        })
    }

    /// Returns the bound address: the system may have chosen the port.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns a watch that becomes true as soon as the service has a certificate and responds to requests.
    pub(crate) fn ready(&self) -> watch::Receiver<bool> {
        self.certificates.certificate().ready()
    }

    /// Serves until `stop` is cancelled, and then until running requests have finished or a timeout has passed.
    pub(crate) async fn run(self, router: Router, stop: CancellationToken) {
        let mut ready = self.ready();
        let Self {
            listener,
            address,
            acceptor,
            certificates,
        } = self;
        let service = certificates.service();
        let manager_stop = stop.child_token();
        let manager = tokio::spawn(certificates.run(manager_stop));
        tokio::select! {
            _ = ready.wait_for(|ready| *ready) => info!(%address, service, "serving"),
            () = stop.cancelled() => {}
        }
        let connections = TaskTracker::new();
        let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        loop {
            let next = async {
                let slot = Arc::clone(&slots).acquire_owned().await;
                (listener.accept().await, slot)
            };
            let (accepted, slot) = tokio::select! {
                next = next => next,
                () = stop.cancelled() => break,
            };
            match (accepted, slot) {
                (Ok((stream, _)), Ok(slot)) => {
                    let serving =
                        serve(stream, acceptor.clone(), router.clone(), stop.clone(), slot);
                    connections.spawn(serving);
                }
                (Err(error), _) => {
                    // Some errors last, such as too many open files, so the next attempt is delayed.
                    warn!(%error, "failed to accept a connection");
                    time::sleep(Duration::from_millis(100)).await;
                }
                (_, Err(_)) => break, // the semaphore is never closed
            }
        }
        drop(listener);
        connections.close();
        if time::timeout(DRAIN_TIMEOUT, connections.wait())
            .await
            .is_err()
        {
            warn!("aborted requests that did not finish in time");
        }
        manager.abort();
    }
}

async fn serve(
    stream: TcpStream,
    acceptor: TlsAcceptor,
    router: Router,
    stop: CancellationToken,
    _slot: OwnedSemaphorePermit,
) {
    let _ = stream.set_nodelay(true);
    let stream = limit_writes(stream);
    let accepted = tokio::select! {
        accepted = time::timeout(HEADER_TIMEOUT, acceptor.accept(stream)) => accepted,
        () = stop.cancelled() => return, // without a session, the connection has no request to finish
    };
    let stream = match accepted {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return debug!(%error, "TLS handshake failed"),
        Err(_) => return debug!("TLS handshake timed out"),
    };
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_header_size(MAX_HEADER_SIZE)
        .max_buf_size(2 * MAX_HEADER_SIZE)
        .max_headers(MAX_HEADERS)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = &mut connection => Some(ended),
        () = time::sleep(MAX_CONNECTION_AGE) => None,
        () = stop.cancelled() => None,
    };
    let ended = if let Some(ended) = ended {
        ended
    } else {
        connection.as_mut().graceful_shutdown();
        let Ok(ended) = time::timeout(LAST_REQUEST_TIMEOUT, connection).await else {
            return debug!("aborted a request that did not finish in time");
        };
        ended
    };
    if let Err(error) = ended {
        debug!(%error, "connection failed");
    }
}

/// Wraps a stream so that a write fails if it was blocked for [`WRITE_TIMEOUT`]. Reads have other limits.
fn limit_writes<S: AsyncRead + AsyncWrite>(stream: S) -> Pin<Box<TimeoutStream<S>>> {
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(WRITE_TIMEOUT));
    Box::pin(stream)
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::{super::tls::ServingCertificate, *};

    #[tokio::test(start_paused = true)]
    async fn shutdown_does_not_wait_for_a_tls_handshake() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap())
            .await
            .unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let config = Arc::new(ServingCertificate::default()).server().unwrap();
        let slot = Arc::new(Semaphore::new(1)).acquire_owned().await.unwrap();
        let stop = CancellationToken::new();
        stop.cancel();
        let start = time::Instant::now();
        serve(stream, Arc::new(config).into(), Router::new(), stop, slot).await;
        assert_rows!(start.elapsed() => Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_blocked_write_times_out() {
        let (near, mut far) = tokio::io::duplex(4);
        let mut near = limit_writes(near);
        for _ in 0..3 {
            near.write_all(b"fits").await.unwrap();
            time::sleep(WRITE_TIMEOUT * 2).await;
            far.read_exact(&mut [0; 4]).await.unwrap();
        }
        assert_rows!(near.write_all(b"more than fits").await.unwrap_err().kind() => std::io::ErrorKind::TimedOut);
    }
}
