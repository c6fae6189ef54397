//! A server for catalogs alone. Whoever has a server of his own takes the router.

use std::{
    convert::Infallible,
    future::Future,
    io,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::body::Body;
use http::Request;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpListener,
    sync::Semaphore,
    time::{Sleep, sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower::ServiceExt as _;
use tracing::{debug, warn};

use super::{Shelf, router};

/// How many connections there may be.
const CONNECTIONS: usize = 512;
/// How long a request's head may take.
const HEAD: Duration = Duration::from_secs(5);
/// How long somebody may read nothing of what is sent to him.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long those who are being answered are waited for at the end.
const GRACE: Duration = Duration::from_secs(20);
/// The pause after a connection that could not be taken: there may be too many open files.
const PAUSE: Duration = Duration::from_millis(100);

/// Answers until `stop` is done; what is being answered then may come to its end.
pub async fn serve(listener: TcpListener, shelf: Shelf, stop: impl Future<Output = ()>) {
    let router = router(shelf);
    let permits = Arc::new(Semaphore::new(CONNECTIONS));
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
            Ok((stream, _)) => Patient::new(stream),
            Err(error) => {
                warn!(%error, "failed to take a connection");
                sleep(PAUSE).await;
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
                .header_read_timeout(HEAD)
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
                debug!(%error, "a connection broke");
            }
        });
    }
    end.cancel();
    tasks.close();
    if timeout(GRACE, tasks.wait()).await.is_err() {
        warn!("some who read catalogs did not come to the end");
    }
}

/// A connection that fails once nothing could be written for a while.
struct Patient<S> {
    stream: S,
    waiting: Option<Pin<Box<Sleep>>>,
}

impl<S> Patient<S> {
    fn new(stream: S) -> Self {
        Self {
            stream,
            waiting: None,
        }
    }

    fn written<T>(
        &mut self,
        context: &mut Context<'_>,
        outcome: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if outcome.is_ready() {
            self.waiting = None;
            return outcome;
        }
        let waiting = self
            .waiting
            .get_or_insert_with(|| Box::pin(sleep(PATIENCE)));
        waiting
            .as_mut()
            .poll(context)
            .map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.written(context, outcome)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.stream).poll_flush(context);
        self.written(context, outcome)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.stream).poll_shutdown(context);
        self.written(context, outcome)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn whoever_does_not_read_is_given_up_on() {
        let (near, _far) = tokio::io::duplex(4);
        let mut near = Patient::new(near);
        let error = near.write_all(b"more than fits").await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
