//! HTTP server that serves only catalogs. Programs with another HTTP server mount the router instead.

use std::{
    convert::Infallible,
    future::Future,
    pin::{Pin, pin},
    sync::Arc,
    time::Duration,
};

use axum::body::Body;
use http::Request;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
    sync::Semaphore,
    time::{sleep, timeout},
};
use tokio_io_timeout::TimeoutStream;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower::ServiceExt as _;
use tracing::{debug, warn};

use super::{ContentStore, router};

/// Maximum number of connections.
const MAX_CONNECTIONS: usize = 512;
/// Timeout for the headers of a request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(5);
/// Time after which a connection is closed whose client reads nothing.
const WRITE_TIMEOUT: Duration = Duration::from_secs(60);
/// Grace period for responses in progress at shutdown.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(20);
/// Delay after a failed accept, for example with too many open files.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Serves catalogs until `stop` completes. Responses in progress may finish.
pub async fn serve(listener: TcpListener, shelf: ContentStore, stop: impl Future<Output = ()>) {
    let router = router(shelf);
    let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let tasks = TaskTracker::new();
    let end = CancellationToken::new();
    let mut stop = pin!(stop);
    loop {
        let accepted = async {
            // The semaphore is never closed.
            let permit = Arc::clone(&permits).acquire_owned().await;
            (permit, listener.accept().await)
        };
        let (permit, accepted) = tokio::select! {
            () = &mut stop => break,
            accepted = accepted => accepted,
        };
        let stream = match accepted {
            Ok((stream, _)) => limit_writes(stream),
            Err(error) => {
                warn!(%error, "failed to accept a connection");
                sleep(ACCEPT_RETRY_DELAY).await;
                continue;
            }
        };
        let (router, end) = (router.clone(), end.clone());
        tasks.spawn(async move {
            let _permit = permit;
            let service = service_fn(move |request: Request<Incoming>| {
                let router = router.clone();
                async move {
                    let Ok(response) = router.oneshot(request.map(Body::new)).await;
                    Ok::<_, Infallible>(response)
                }
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEADER_TIMEOUT)
                .serve_connection(TokioIo::new(stream), service);
            let mut connection = pin!(connection);
            let outcome = tokio::select! {
                outcome = connection.as_mut() => outcome,
                () = end.cancelled() => {
                    connection.as_mut().graceful_shutdown();
                    connection.await
                }
            };
            if let Err(error) = outcome {
                debug!(%error, "a connection failed");
            }
        });
    }
    end.cancel();
    tasks.close();
    if timeout(SHUTDOWN_TIMEOUT, tasks.wait()).await.is_err() {
        warn!("some downloads did not finish before the shutdown");
    }
}

/// Wraps a stream so that a write fails if it was blocked for [`WRITE_TIMEOUT`].
fn limit_writes<S: AsyncRead + AsyncWrite>(stream: S) -> Pin<Box<TimeoutStream<S>>> {
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(WRITE_TIMEOUT));
    Box::pin(stream)
}

#[cfg(test)]
mod tests {
    use std::io;

    use tokio::io::AsyncWriteExt as _;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn client_that_does_not_read_times_out() {
        let (near, _far) = tokio::io::duplex(4);
        let mut near = limit_writes(near);
        assert_rows!(near.write_all(b"more than fits").await.unwrap_err().kind() => io::ErrorKind::TimedOut);
    }
}
