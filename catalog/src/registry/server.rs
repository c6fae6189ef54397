//! The service: requests to answers that are mostly bytes of the store.
//!
//! Answers are in the store as the messages that are sent, so nothing is decoded to be encoded again, and a list is read
//! a part at a time, when the client has taken the one before: memory depends on how many ask, and not on the catalog.
//! Beside the registry there are health, which says SERVING for any name since every prober uses another, and
//! reflection, by which `grpcurl` knows the protocol.

mod answer;
mod call;
mod connection;

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

pub use self::call::Calls;
use self::{
    answer::{Experimental, Registry},
    call::Told,
    connection::Connection,
};
use super::store::Store;

/// The descriptors of `proto/registry.proto` and of what it imports, made from it by a test.
pub const DESCRIPTORS: &[u8] = include_bytes!("../../proto/registry.bin");

/// OLM's programs have one connection each.
const PLACES: Places = Places {
    connections: 512,
    patience: Duration::from_secs(5),
};
/// Requests of one connection at once; OLM has a handful.
const STREAMS: u32 = 128;
/// How long a connection may be silent before it is asked whether somebody is there, and how long that may take.
const KEEPALIVE: Duration = Duration::from_secs(60);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(20);
/// How long a connection may be there, whatever is asked; the client is told to make another, and requests may go on for
/// a while. Whoever holds places and does no more than be there gives way to others then. It is long, for OLM resolves
/// everything anew when a connection was made again.
const AGE: Duration = Duration::from_secs(12 * 3600);
const AGE_GRACE: Duration = Duration::from_secs(15 * 60);
/// Bytes of the headers of a request.
const HEADERS: u32 = 16 << 10;
/// What may be on its way to a client that has not confirmed it: lists are long, and come from memory.
const WINDOW: u32 = 1 << 20;
/// How long requests may go on when the service ends.
const GRACE: Duration = Duration::from_secs(15);
/// How long nobody is let in when there is no file descriptor left.
const PAUSE: Duration = Duration::from_millis(100);

/// Who is let in.
#[derive(Debug, Clone, Copy)]
struct Places {
    /// How many connections there may be.
    connections: usize,
    /// How long one may take to begin.
    patience: Duration,
}

/// Why there is no service any more.
#[derive(Debug, thiserror::Error)]
#[error("the registry's service failed")]
pub struct Failed(#[source] Box<dyn std::error::Error + Send + Sync>);

/// The service of a catalog, for any number of listeners. Clones are the same one.
#[derive(Debug, Clone)]
pub struct Service {
    routes: Routes,
}

/// Serves a catalog until `shutdown` is there. Requests that are being answered then may go on for 15 seconds.
///
/// # Errors
/// When the listener cannot be served.
pub async fn serve(
    store: Arc<Store>,
    listener: TcpListener,
    shutdown: impl Future<Output = ()>,
) -> Result<(), Failed> {
    Service::new(store)?.serve(listener, shutdown).await
}

// === impl Service ===

impl Service {
    /// What answers for a catalog. Costs more than a listener does, so there is one for all that serve the same.
    ///
    /// # Errors
    /// When the descriptors are no good, which a test rules out.
    pub fn new(store: Arc<Store>) -> Result<Self, Failed> {
        Self::of(store, Told::default())
    }

    /// The same, and somebody is told of each call that has ended.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn telling(store: Arc<Store>, calls: Arc<dyn Calls>) -> Result<Self, Failed> {
        Self::of(store, Told(Some(calls)))
    }

    fn of(store: Arc<Store>, told: Told) -> Result<Self, Failed> {
        let routes = routes(store, told).map_err(|it| Failed(it.into()))?;
        Ok(Self { routes })
    }

    /// Serves the catalog as [`serve`] does.
    ///
    /// # Errors
    /// When the listener cannot be served.
    pub async fn serve(
        &self,
        listener: TcpListener,
        shutdown: impl Future<Output = ()>,
    ) -> Result<(), Failed> {
        self.serve_within(PLACES, listener, shutdown).await
    }

    async fn serve_within(
        &self,
        places: Places,
        listener: TcpListener,
        shutdown: impl Future<Output = ()>,
    ) -> Result<(), Failed> {
        let (end, ended) = oneshot::channel::<()>();
        // Whoever leaves, and however, takes the connections along.
        let connections = CancellationToken::new();
        let _end = connections.clone().drop_guard();
        let incoming = accept(listener, connections, places);
        let router = server().add_routes(self.routes.clone());
        let service = router.serve_with_incoming_shutdown(incoming, async {
            // Also when nobody is there any more to say so.
            drop(ended.await);
        });
        let service = std::pin::pin!(service);
        let result = match future::select(service, std::pin::pin!(shutdown)).await {
            future::Either::Left((result, _)) => result,
            future::Either::Right(((), service)) => {
                info!("shutting down server");
                drop(end);
                timeout(GRACE, service).await.unwrap_or_else(|_| {
                    warn!(
                        seconds = GRACE.as_secs(),
                        "requests were still being answered"
                    );
                    Ok(())
                })
            }
        };
        result.map_err(|it| Failed(it.into()))
    }
}

fn server() -> Server {
    Server::builder()
        .max_concurrent_streams(STREAMS)
        .http2_keepalive_interval(Some(KEEPALIVE))
        .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
        .max_connection_age(AGE)
        .max_connection_age_grace(AGE_GRACE)
        .http2_max_header_list_size(HEADERS)
        .initial_stream_window_size(64 << 10)
        .initial_connection_window_size(WINDOW)
        .tcp_nodelay(true)
}

fn routes(store: Arc<Store>, told: Told) -> Result<Routes, tonic_reflection::server::Error> {
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    Ok(Routes::new(Registry(Arc::clone(&store), told.clone()))
        .add_service(Experimental(store, told))
        .add_service(HealthServer::new(Always))
        .add_service(reflection().build_v1()?)
        .add_service(reflection().build_v1alpha()?)
        .prepare())
}

/// Whoever connects, so many at once; others wait. That there are no file descriptors for more of them passes.
fn accept(
    listener: TcpListener,
    end: CancellationToken,
    places: Places,
) -> impl Stream<Item = io::Result<Connection>> {
    let permits = Arc::new(Semaphore::new(places.connections));
    stream::unfold(
        (listener, end, permits),
        move |(listener, end, permits)| async move {
            // It is never closed.
            let permit = Arc::clone(&permits).acquire_owned().await.ok();
            loop {
                match listener.accept().await {
                    Ok((stream, _)) => {
                        // Without it, answers only take longer.
                        drop(stream.set_nodelay(true));
                        let connection = Connection::new(stream, &end, places.patience, permit);
                        return Some((Ok(connection), (listener, end, permits)));
                    }
                    Err(error) => {
                        warn!(%error, "a connection was not accepted");
                        sleep(PAUSE).await;
                    }
                }
            }
        },
    )
}

/// Health of whatever is asked for: there is no service without a catalog.
struct Always;

#[tonic::async_trait]
impl Health for Always {
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
        Err(Status::unimplemented(
            "health is not watched here; ask again",
        ))
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

    const TWO: Places = Places {
        connections: 2,
        patience: Duration::from_secs(2),
    };

    #[tokio::test]
    async fn who_comes_when_all_places_are_taken_waits_for_one() {
        const SOON: Duration = Duration::from_millis(200);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut incoming = Box::pin(accept(listener, CancellationToken::new(), TWO));
        let mut clients = Vec::new();
        for _ in 0..3 {
            clients.push(TcpStream::connect(address).await.unwrap());
        }
        let first = incoming.next().await.unwrap().unwrap();
        let _second = incoming.next().await.unwrap().unwrap();
        assert!(timeout(SOON, incoming.next()).await.is_err());
        drop(first);
        let third = timeout(Duration::from_secs(60), incoming.next()).await;
        assert!(third.unwrap().unwrap().is_ok());
    }

    /// A service of an empty catalog.
    fn service() -> Service {
        let folder = tempfile::tempdir().unwrap();
        let (catalog, cache) = (folder.path().join("catalog"), folder.path().join("cache"));
        fs::create_dir(&catalog).unwrap();
        let cache = Cache::open(&cache).unwrap();
        let store = cache.load_or_build(Source::Folder(&catalog), &Limits::default());
        Service::new(Arc::new(store.unwrap().0)).unwrap()
    }

    #[tokio::test]
    async fn who_says_nothing_keeps_nobody_out() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let service = service();
        let serving = tokio::spawn(async move {
            let served = service.serve_within(TWO, listener, future::pending());
            served.await.unwrap();
        });
        // One says nothing at all, others begin and do not go on, and the last speaks another language.
        let mut silent = Vec::new();
        for begun in [
            "",
            "P",
            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r",
            "PRI *",
            "GET / HTTP/1.1\r\n\r\n",
        ] {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(begun.as_bytes()).await.unwrap();
            silent.push(stream);
        }
        let honest = async {
            let endpoint = tonic::transport::Endpoint::from_shared(format!("http://{address}"));
            let mut client = HealthClient::new(endpoint.unwrap().connect().await.unwrap());
            client.check(HealthCheckRequest::default()).await.unwrap();
            // And it stays longer than others may take to begin.
            sleep(TWO.patience * 2).await;
            client.check(HealthCheckRequest::default()).await.unwrap();
        };
        timeout(Duration::from_secs(60), honest).await.unwrap();
        for mut stream in silent {
            let mut rest = Vec::new();
            // It is closed, gently or not.
            let closed = timeout(Duration::from_secs(60), stream.read_to_end(&mut rest)).await;
            assert!(closed.is_ok());
        }
        serving.abort();
    }
}
