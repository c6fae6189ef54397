//! The small services: probes, metrics, the log level. Plain HTTP, nothing secret, everything bounded.

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

use super::{Error, Ready, log::Level};
use crate::metrics::Metrics;

/// How many connections one service has at once; others wait.
const CONNECTIONS: usize = 64;
/// How long a connection may live.
const LIFE: Duration = Duration::from_secs(60);
/// How long the head of a request may take.
const HEAD: Duration = Duration::from_secs(5);
/// How much a request may say.
const BODY: usize = 4 << 10;

/// A service that has its port.
pub(super) struct Service {
    listener: TcpListener,
    router: Router,
}

impl Service {
    /// Takes the port of a service, and logs which that is: it may have been left to the system.
    pub(super) async fn bind(
        service: &'static str,
        flag: &'static str,
        address: SocketAddr,
        router: Router,
    ) -> Result<Self, Error> {
        let failed = |source| Error::Bind {
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
            router: router.layer(DefaultBodyLimit::max(BODY)),
        })
    }

    /// Serves until `stop`.
    pub(super) async fn run(self, stop: CancellationToken) {
        let places = Arc::new(Semaphore::new(CONNECTIONS));
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new())
            .header_read_timeout(HEAD)
            .max_buf_size(16 << 10);
        let serve = async {
            loop {
                let Ok(place) = Arc::clone(&places).acquire_owned().await else {
                    return;
                };
                let stream = match self.listener.accept().await {
                    Ok((stream, _)) => stream,
                    Err(error) => {
                        // Out of file descriptors, most likely: that passes.
                        debug!(%error, "failed to accept a connection");
                        sleep(Duration::from_millis(100)).await;
                        continue;
                    }
                };
                let service = TowerToHyperService::new(self.router.clone());
                let connection = http.serve_connection(TokioIo::new(stream), service);
                tokio::spawn(async move {
                    // Whoever breaks off, or never ends, is no concern of ours.
                    let _ = timeout(LIFE, connection).await;
                    drop(place);
                });
            }
        };
        tokio::select! {
            () = serve => {}
            () = stop.cancelled() => {}
        }
    }
}

/// `/healthz` and `/readyz`.
pub(super) fn probes(ready: Ready, stop: CancellationToken) -> Router {
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

/// `/metrics`.
pub(super) fn metrics(metrics: Arc<Metrics>) -> Router {
    const TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    let render = async |State(metrics): State<Arc<Metrics>>| {
        ([(header::CONTENT_TYPE, TYPE)], metrics.render())
    };
    Router::new()
        .route("/metrics", get(render))
        .with_state(metrics)
}

/// `/log-level`, to be read and to be put.
pub(super) fn admin(level: Level) -> Router {
    let read = async |State(level): State<Level>| level.get() + "\n";
    let write = async |State(level): State<Level>, body: Bytes| {
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
