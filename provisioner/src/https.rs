//! Services over TLS: a certificate that is kept, and connections from their first byte to their last.

mod patient;
pub(crate) mod tls;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    time,
};
use tokio_rustls::TlsAcceptor;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{debug, info, warn};

use patient::Patient;
use tls::Keeper;

/// How many connections there are at once; more wait.
const CONNECTIONS: usize = 256;
/// How long the first bytes may take: the handshake, and each head of a request.
const HEAD: Duration = Duration::from_secs(10);
/// How large a head may be, in bytes and in lines.
const HEAD_SIZE: usize = 64 << 10;
const HEADERS: usize = 64;
/// How long a client may not read what it is sent.
const STALLED: Duration = Duration::from_secs(30);
/// How long a connection is kept for further requests, and how long the last one may take then.
const AGE: Duration = Duration::from_secs(1200);
const LAST: Duration = Duration::from_secs(900);
/// How long requests may take to end once the service ends.
const DRAIN: Duration = Duration::from_secs(15);

/// Why a service has no address.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address cannot be listened on.
    #[error("failed to listen on {0}")]
    Bind(SocketAddr, #[source] std::io::Error),
    /// The TLS library refuses its own defaults.
    #[error("failed to set TLS up")]
    Tls(#[from] rustls::Error),
}

/// A service that has its address, and does not answer yet.
pub(crate) struct Service {
    listener: TcpListener,
    address: SocketAddr,
    acceptor: TlsAcceptor,
    keeper: Keeper,
}

impl Service {
    /// Takes the address.
    ///
    /// # Errors
    /// When it cannot be listened on.
    pub(crate) async fn bind(address: SocketAddr, keeper: Keeper) -> Result<Self, Error> {
        let bound = |source| Error::Bind(address, source);
        let listener = TcpListener::bind(address).await.map_err(bound)?;
        Ok(Self {
            address: listener.local_addr().map_err(bound)?,
            listener,
            acceptor: TlsAcceptor::from(Arc::new(keeper.certificate().server()?)),
            keeper,
        })
    }

    /// Where it listens: of interest where the port was left to the system.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Becomes true as soon as requests are answered: there is a certificate.
    pub(crate) fn ready(&self) -> watch::Receiver<bool> {
        self.keeper.certificate().ready()
    }

    /// Serves until `stop`, and then until what is under way has ended, within a bound.
    pub(crate) async fn run(self, router: Router, stop: CancellationToken) {
        let mut ready = self.ready();
        let Self {
            listener,
            address,
            acceptor,
            keeper,
        } = self;
        let service = keeper.service();
        let keeping = stop.child_token();
        let keeping = tokio::spawn(keeper.run(keeping));
        tokio::select! {
            _ = ready.wait_for(|ready| *ready) => info!(%address, service, "serving"),
            () = stop.cancelled() => {}
        }
        let connections = TaskTracker::new();
        let places = Arc::new(Semaphore::new(CONNECTIONS));
        loop {
            let next = async {
                let place = Arc::clone(&places).acquire_owned().await;
                (listener.accept().await, place)
            };
            let (accepted, place) = tokio::select! {
                next = next => next,
                () = stop.cancelled() => break,
            };
            match (accepted, place) {
                (Ok((stream, _)), Ok(place)) => {
                    let serving = serve(
                        stream,
                        acceptor.clone(),
                        router.clone(),
                        stop.clone(),
                        place,
                    );
                    connections.spawn(serving);
                }
                (Err(error), _) => {
                    // Of those that last (too many open files), the next try is not to come at once.
                    warn!(%error, "a connection was not accepted");
                    time::sleep(Duration::from_millis(100)).await;
                }
                (_, Err(_)) => break, // the semaphore is never closed
            }
        }
        drop(listener);
        connections.close();
        if time::timeout(DRAIN, connections.wait()).await.is_err() {
            warn!("requests were cut off, since they took too long to end");
        }
        keeping.abort();
    }
}

async fn serve(
    stream: TcpStream,
    acceptor: TlsAcceptor,
    router: Router,
    stop: CancellationToken,
    _place: OwnedSemaphorePermit,
) {
    let _ = stream.set_nodelay(true);
    let stream = Patient::new(stream, STALLED);
    let stream = match time::timeout(HEAD, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return debug!(%error, "no TLS connection"),
        Err(_) => return debug!("no TLS connection in time"),
    };
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_header_size(HEAD_SIZE)
        .max_buf_size(2 * HEAD_SIZE)
        .max_headers(HEADERS)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = &mut connection => Some(ended),
        () = time::sleep(AGE) => None,
        () = stop.cancelled() => None,
    };
    let ended = if let Some(ended) = ended {
        ended
    } else {
        connection.as_mut().graceful_shutdown();
        let Ok(ended) = time::timeout(LAST, connection).await else {
            return debug!("a request was cut off, since it took too long");
        };
        ended
    };
    if let Err(error) = ended {
        debug!(%error, "a connection broke");
    }
}
