//! gRPC service of a catalog. Most responses are bytes of the store.
//!
//! The store contains encoded messages, so nothing is decoded and encoded again. Lists are read in batches, each after
//! the client has received the previous one. Memory use therefore depends on the number of clients and not on the size
//! of the catalog. The server also offers the health service, which reports SERVING for any name because probers use
//! different names, and reflection for `grpcurl`.

mod connection;
mod instrument;
mod rpcs;

use std::{io, sync::Arc, time::Duration};

use futures::{Stream, future, stream};
use tokio::{
    net::TcpListener,
    sync::{Semaphore, oneshot},
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, service::Routes, transport::Server};
use tonic_health::pb::{
    HealthCheckRequest, HealthCheckResponse,
    health_check_response::ServingStatus,
    health_server::{Health, HealthServer},
};
use tracing::{info, warn};

pub use self::instrument::ObserveCalls;
use self::{
    connection::Connection,
    instrument::CallObserver,
    rpcs::{Experimental, Registry},
};
use super::store::Store;

/// File descriptors of `proto/registry.proto` and its imports. A test generates them.
pub const DESCRIPTORS: &[u8] = include_bytes!("../../proto/registry.bin");

/// Default connection limits. Each OLM process has one connection.
const CONNECTION_SLOTS: ConnectionSlots = ConnectionSlots {
    connections: 512,
    handshake_timeout: Duration::from_secs(5),
};
/// Maximum number of concurrent requests of a connection. OLM uses a handful.
const MAX_STREAMS: u32 = 128;
/// Idle time after which a connection is pinged, and the timeout of the response.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(60);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(20);
/// Maximum age of a connection, and the grace period for its requests after the client was asked to reconnect. The
/// limit frees slots of idle clients. It is long, because OLM resolves everything again after a reconnect.
const MAX_CONNECTION_AGE: Duration = Duration::from_secs(12 * 3600);
const CONNECTION_AGE_GRACE: Duration = Duration::from_secs(15 * 60);
/// Maximum size of a request's headers in bytes.
const MAX_HEADER_SIZE: u32 = 16 << 10;
/// Maximum number of unconfirmed bytes per connection. Lists are long and are buffered in memory.
const CONNECTION_WINDOW: u32 = 1 << 20;
/// Grace period for requests when the service shuts down.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(15);
/// Delay before the next accept if no file descriptor is left.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Limits for connections.
#[derive(Debug, Clone, Copy)]
struct ConnectionSlots {
    /// Maximum number of connections.
    connections: usize,
    /// Time within which a client must send the HTTP/2 preface.
    handshake_timeout: Duration,
}

/// Error that stopped the service.
#[derive(Debug, thiserror::Error)]
#[error("the registry server failed")]
pub struct ServeError(#[source] Box<dyn std::error::Error + Send + Sync>);

/// The service of a catalog, for any number of listeners. Clones share its state.
#[derive(Debug, Clone)]
pub struct Service {
    routes: Routes,
}

/// Serves a catalog until `shutdown` completes. Requests in progress can continue for 15 seconds.
///
/// # Errors
/// Returns an error if the listener cannot be served.
pub async fn serve(
    store: Arc<Store>,
    listener: TcpListener,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    Service::new(store)?.serve(listener, shutdown).await
}

// === impl Service ===

impl Service {
    /// Creates the service of a catalog. It is more expensive than a listener, so listeners of the same catalog share
    /// it.
    ///
    /// # Errors
    /// Returns an error if the descriptors are invalid, which a test rules out.
    pub fn new(store: Arc<Store>) -> Result<Self, ServeError> {
        Self::with_call_observer(store, CallObserver::default())
    }

    /// Creates a service that reports each finished call to `calls`.
    ///
    /// # Errors
    /// Returns the errors of [`Self::new`].
    pub fn with_observer(
        store: Arc<Store>,
        calls: Arc<dyn ObserveCalls>,
    ) -> Result<Self, ServeError> {
        Self::with_call_observer(store, CallObserver(Some(calls)))
    }

    fn with_call_observer(store: Arc<Store>, observer: CallObserver) -> Result<Self, ServeError> {
        let routes = routes(store, observer).map_err(|error| ServeError(error.into()))?;
        Ok(Self { routes })
    }

    /// Serves the catalog like [`serve`].
    ///
    /// # Errors
    /// Returns an error if the listener cannot be served.
    pub async fn serve(
        &self,
        listener: TcpListener,
        shutdown: impl Future<Output = ()>,
    ) -> Result<(), ServeError> {
        self.serve_within(CONNECTION_SLOTS, listener, shutdown)
            .await
    }

    async fn serve_within(
        &self,
        slots: ConnectionSlots,
        listener: TcpListener,
        shutdown: impl Future<Output = ()>,
    ) -> Result<(), ServeError> {
        let (end, ended) = oneshot::channel::<()>();
        // Dropping this future, for any reason, closes all connections.
        let connections = CancellationToken::new();
        let _end = connections.clone().drop_guard();
        let incoming = accept(listener, connections, slots);
        let router = server().add_routes(self.routes.clone());
        let service = router.serve_with_incoming_shutdown(incoming, async {
            // An error means that the sender was dropped, which also ends the service.
            drop(ended.await);
        });
        let service = std::pin::pin!(service);
        let result = match future::select(service, std::pin::pin!(shutdown)).await {
            future::Either::Left((result, _)) => result,
            future::Either::Right(((), service)) => {
                info!("shutting down server");
                drop(end);
                timeout(SHUTDOWN_GRACE, service).await.unwrap_or_else(|_| {
                    warn!(
                        seconds = SHUTDOWN_GRACE.as_secs(),
                        "some requests did not finish before the shutdown"
                    );
                    Ok(())
                })
            }
        };
        result.map_err(|error| ServeError(error.into()))
    }
}

fn server() -> Server {
    Server::builder()
        .max_concurrent_streams(MAX_STREAMS)
        .http2_keepalive_interval(Some(KEEPALIVE_INTERVAL))
        .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
        .max_connection_age(MAX_CONNECTION_AGE)
        .max_connection_age_grace(CONNECTION_AGE_GRACE)
        .http2_max_header_list_size(MAX_HEADER_SIZE)
        .initial_stream_window_size(64 << 10)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .tcp_nodelay(true)
}

fn routes(
    store: Arc<Store>,
    observer: CallObserver,
) -> Result<Routes, tonic_reflection::server::Error> {
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    Ok(Routes::new(Registry(Arc::clone(&store), observer.clone()))
        .add_service(Experimental(store, observer))
        .add_service(HealthServer::new(HealthService))
        .add_service(reflection().build_v1()?)
        .add_service(reflection().build_v1alpha()?)
        .prepare())
}

/// Accepts connections up to the limit; others wait. A lack of file descriptors is temporary.
fn accept(
    listener: TcpListener,
    end: CancellationToken,
    slots: ConnectionSlots,
) -> impl Stream<Item = io::Result<Connection>> {
    let permits = Arc::new(Semaphore::new(slots.connections));
    stream::unfold(
        (listener, end, permits),
        move |(listener, end, permits)| async move {
            // The semaphore is never closed.
            let permit = Arc::clone(&permits).acquire_owned().await.ok();
            loop {
                match listener.accept().await {
                    Ok((stream, _)) => {
                        // Without `TCP_NODELAY`, responses are only slower.
                        drop(stream.set_nodelay(true));
                        let connection =
                            Connection::new(stream, &end, slots.handshake_timeout, permit);
                        return Some((Ok(connection), (listener, end, permits)));
                    }
                    Err(error) => {
                        warn!(%error, "failed to accept a connection");
                        sleep(ACCEPT_RETRY_DELAY).await;
                    }
                }
            }
        },
    )
}

/// Health service that reports SERVING for every name, because a service always has a catalog.
struct HealthService;

#[tonic::async_trait]
impl Health for HealthService {
    type WatchStream = stream::Empty<Result<HealthCheckResponse, Status>>;

    async fn check(
        &self,
        _: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        Ok(Response::new(HealthCheckResponse {
            status: ServingStatus::Serving.into(),
        }))
    }

    async fn watch(
        &self,
        _: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        Err(Status::unimplemented("Watch is not supported; use Check"))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use futures::StreamExt as _;
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpStream,
    };
    use tonic_health::pb::health_client::HealthClient;

    use super::*;
    use crate::{Limits, Source, registry::Cache};

    const TWO: ConnectionSlots = ConnectionSlots {
        connections: 2,
        handshake_timeout: Duration::from_secs(2),
    };

    #[tokio::test]
    async fn connections_beyond_the_limit_wait() {
        const SHORT_TIMEOUT: Duration = Duration::from_millis(200);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut incoming = Box::pin(accept(listener, CancellationToken::new(), TWO));
        let mut clients = Vec::new();
        for _ in 0..3 {
            clients.push(TcpStream::connect(address).await.unwrap());
        }
        let first = incoming.next().await.unwrap().unwrap();
        let _second = incoming.next().await.unwrap().unwrap();
        assert!(timeout(SHORT_TIMEOUT, incoming.next()).await.is_err());
        drop(first);
        let third = timeout(Duration::from_secs(60), incoming.next()).await;
        assert!(third.unwrap().unwrap().is_ok());
    }

    fn service() -> Service {
        let dir = tempfile::tempdir().unwrap();
        let (catalog, cache) = (dir.path().join("catalog"), dir.path().join("cache"));
        fs::create_dir(&catalog).unwrap();
        let cache = Cache::open(&cache).unwrap();
        let store = cache.load_or_build(Source::Directory(&catalog), &Limits::default());
        Service::new(Arc::new(store.unwrap().0)).unwrap()
    }

    #[tokio::test]
    async fn silent_clients_do_not_block_others() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let service = service();
        let serving = tokio::spawn(async move {
            let served = service.serve_within(TWO, listener, future::pending());
            served.await.unwrap();
        });
        // One client sends nothing, others stop within a request, and the last uses another protocol.
        let mut silent = Vec::new();
        let preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r";
        for begun in ["", "P", preface, "PRI *", "GET / HTTP/1.1\r\n\r\n"] {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(begun.as_bytes()).await.unwrap();
            silent.push(stream);
        }
        let honest = async {
            let endpoint = tonic::transport::Endpoint::from_shared(format!("http://{address}"));
            let mut client = HealthClient::new(endpoint.unwrap().connect().await.unwrap());
            client.check(HealthCheckRequest::default()).await.unwrap();
            // A started connection may be open for longer than the limit for the start.
            sleep(TWO.handshake_timeout * 2).await;
            client.check(HealthCheckRequest::default()).await.unwrap();
        };
        timeout(Duration::from_secs(60), honest).await.unwrap();
        for mut stream in silent {
            let mut rest = Vec::new();
            // The service closes the connection, with or without a reset.
            let closed = timeout(Duration::from_secs(60), stream.read_to_end(&mut rest)).await;
            assert!(closed.is_ok());
        }
        serving.abort();
    }
}
