//! HTTP services for probes, metrics and the log level. They use plain HTTP, expose no secrets, and are bounded.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use axum::{
    Router,
    body::Bytes,
    extract::{DefaultBodyLimit, State},
    http::{StatusCode, header},
    response::IntoResponse,
    routing::get,
};
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    net::TcpListener,
    sync::Semaphore,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info};

use super::{log::LogLevelHandle, metrics::Metrics, readiness::Readiness};

/// Maximum number of concurrent connections of one service. Further connections wait.
const MAX_CONNECTIONS: usize = 64;
/// Maximum lifetime of a connection.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(60);
/// Timeout for the head of a request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum size of a request body in bytes.
const MAX_BODY_SIZE: usize = 4 << 10;

/// An address to listen on is in use or invalid.
#[derive(Debug, thiserror::Error)]
#[error("failed to listen on {address} for {service}; choose another address with {flag}")]
pub struct BindError {
    /// Address to listen on.
    address: SocketAddr,
    /// Service that listens there.
    service: &'static str,
    /// Flag that sets the address.
    flag: &'static str,
    /// Error of the socket.
    source: std::io::Error,
}

/// A service with its bound listener.
pub(crate) struct Service {
    listener: TcpListener,
    router: Router,
}

impl Service {
    /// Binds the address of a service, and logs it: the system may have chosen the port.
    pub(crate) async fn bind(
        service: &'static str,
        flag: &'static str,
        address: SocketAddr,
        router: Router,
    ) -> Result<Self, BindError> {
        let failed = |source| BindError {
            address,
            service,
            flag,
            source,
        };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        info!(service, %address, "listening");
        Ok(Self {
            listener,
            router: router.layer(DefaultBodyLimit::max(MAX_BODY_SIZE)),
        })
    }

    /// Serves until `stop` is cancelled.
    pub(crate) async fn run(self, stop: CancellationToken) {
        let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new())
            .header_read_timeout(HEADER_TIMEOUT)
            .max_buf_size(16 << 10);
        let serve = async {
            loop {
                let Ok(slot) = Arc::clone(&slots).acquire_owned().await else {
                    return;
                };
                let stream = match self.listener.accept().await {
                    Ok((stream, _)) => stream,
                    Err(error) => {
                        // Most likely the process is out of file descriptors, which is temporary.
                        debug!(%error, "failed to accept a connection");
                        sleep(Duration::from_millis(100)).await;
                        continue;
                    }
                };
                let service = TowerToHyperService::new(self.router.clone());
                let connection = http.serve_connection(TokioIo::new(stream), service);
                tokio::spawn(async move {
                    // Errors and timeouts of a connection are ignored.
                    let _ = timeout(CONNECTION_TIMEOUT, connection).await;
                    drop(slot);
                });
            }
        };
        tokio::select! {
            () = serve => {}
            () = stop.cancelled() => {}
        }
    }
}

/// Returns the routes `/healthz` and `/readyz`.
pub(crate) fn probes(ready: Readiness, stop: CancellationToken) -> Router {
    let readiness = move || {
        let waiting = ready.waiting();
        let stopping = stop.is_cancelled();
        async move {
            if stopping {
                (StatusCode::SERVICE_UNAVAILABLE, "stopping\n".to_owned())
            } else if waiting.is_empty() {
                (StatusCode::OK, "ok\n".to_owned())
            } else {
                let waiting = waiting.join(", ");
                (
                    StatusCode::SERVICE_UNAVAILABLE,
                    format!("waiting for: {waiting}\n"),
                )
            }
        }
    };
    Router::new()
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(readiness))
}

/// Returns the route `/metrics`.
pub(crate) fn metrics(metrics: Arc<Metrics>) -> Router {
    const TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    let render = async |State(metrics): State<Arc<Metrics>>| {
        ([(header::CONTENT_TYPE, TYPE)], metrics.render())
    };
    Router::new()
        .route("/metrics", get(render))
        .with_state(metrics)
}

/// Returns the route `/log-level`, with GET and PUT.
pub(crate) fn admin(level: LogLevelHandle) -> Router {
    let read = async |State(level): State<LogLevelHandle>| level.get() + "\n";
    let write = async |State(level): State<LogLevelHandle>, body: Bytes| {
        let text = String::from_utf8_lossy(&body);
        match level.set(&text) {
            Ok(()) => StatusCode::NO_CONTENT.into_response(),
            Err(problem) => (StatusCode::BAD_REQUEST, problem + "\n").into_response(),
        }
    };
    Router::new()
        .route("/log-level", get(read).put(write))
        .with_state(level)
}
