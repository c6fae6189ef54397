//! A server with a real receiver behind it, and the bad days that a test wants it to have before.

use std::{
    fs,
    net::SocketAddr,
    path::Path,
    pin::pin,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::TcpListener,
    task::JoinHandle,
};
use tokio_rustls::TlsAcceptor;
use unpacker::{
    Store,
    store::Budget,
    wire::{self, Terms},
};

/// What happens to one connection.
#[derive(Debug, Clone)]
pub(crate) enum Day {
    /// A good one.
    Receive,
    /// The whole body is read, and then comes this answer: status, header lines, body.
    Answer(&'static str, &'static str, String),
    /// The head is read, this answer is sent, and the connection reset while the body still comes.
    Hasty(&'static str, String),
    /// The whole body is read, and the connection ends in the middle of the answer.
    Torn(&'static str),
    /// So many bytes are read, and the connection ends.
    Cut(usize),
    /// All is read, and nothing said.
    Mute,
    /// Nothing is read.
    Deaf,
}

/// Runs until it is dropped.
pub(crate) struct Receiver {
    pub(crate) address: SocketAddr,
    scheme: &'static str,
    pub(crate) store: Store,
    pub(crate) folder: tempfile::TempDir,
    seen: Arc<Mutex<Vec<HeaderMap>>>,
    serving: JoinHandle<()>,
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Receiver {
    /// Has good days alone.
    pub(crate) async fn new() -> Self {
        Self::with(Terms::default(), None, []).await
    }

    /// Has these days first, one a connection.
    pub(crate) async fn after(days: impl IntoIterator<Item = Day>) -> Self {
        Self::with(Terms::default(), None, days).await
    }

    pub(crate) async fn with(
        terms: Terms,
        tls: Option<ServerConfig>,
        days: impl IntoIterator<Item = Day>,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let budget = Budget {
            disk: 1 << 30,
            memory: 1 << 20,
        };
        let store = Store::open(folder.path(), budget).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::<Mutex<Vec<HeaderMap>>>::default();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let tls = tls.map(|config| TlsAcceptor::from(Arc::new(config)));
        let mut days = days.into_iter().collect::<Vec<_>>().into_iter();
        let shared = (store.clone(), terms, Arc::clone(&seen));
        let serving = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let day = days.next().unwrap_or(Day::Receive);
                let (tls, shared) = (tls.clone(), shared.clone());
                tokio::spawn(async move {
                    match tls {
                        None => serve(stream, day, shared).await,
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                serve(stream, day, shared).await;
                            }
                        }
                    }
                });
            }
        });
        Self {
            address,
            scheme,
            store,
            folder,
            seen,
            serving,
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("{}://{}/content/x", self.scheme, self.address)
    }

    /// The heads of all requests that got as far as the receiver, or an answer.
    pub(crate) fn seen(&self) -> Vec<HeaderMap> {
        self.seen.lock().unwrap().clone()
    }

    /// The number of files in the store: of content, and of what is on its way there.
    pub(crate) fn kept(&self) -> (usize, usize) {
        let count = |path: &Path| fs::read_dir(path).unwrap().count();
        (
            count(&self.folder.path().join("content")),
            count(self.store.spool()),
        )
    }
}

type Shared = (Store, Terms, Arc<Mutex<Vec<HeaderMap>>>);

async fn serve(
    mut stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    day: Day,
    (store, terms, seen): Shared,
) {
    let mut buffer = vec![0; 1 << 16];
    match day {
        Day::Receive | Day::Answer(..) | Day::Mute => {
            let service = service_fn(|request: Request<Incoming>| {
                seen.lock().unwrap().push(request.headers().clone());
                let (store, terms, day) = (store.clone(), terms.clone(), day.clone());
                async move { respond(request, &store, &terms, day).await }
            });
            // What goes wrong with a connection is for the other side to tell.
            let _ = http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        }
        Day::Hasty(status, body) => {
            let _ = stream.read(&mut buffer).await;
            let length = body.len();
            let head = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n{body}");
            let _ = stream.write_all(head.as_bytes()).await;
        }
        Day::Torn(status) => {
            let mut end = Vec::new();
            while !(end.ends_with(b"\r\n\r\n") && end.windows(5).any(|part| part == b"\r\n0\r\n")) {
                match stream.read(&mut buffer).await {
                    Ok(count) if count > 0 => end.extend(&buffer[..count]),
                    _ => return,
                }
                end.drain(..end.len().saturating_sub(4096));
            }
            let head = format!("HTTP/1.1 {status}\r\nContent-Length: 100\r\n\r\n{{\"dig");
            let _ = stream.write_all(head.as_bytes()).await;
        }
        Day::Cut(most) => {
            let mut read = 0;
            while read < most {
                match stream.read(&mut buffer).await {
                    Ok(count) if count > 0 => read += count,
                    _ => return,
                }
            }
        }
        Day::Deaf => {
            let () = pin!(std::future::pending()).await;
        }
    }
}

async fn respond(
    request: Request<Incoming>,
    store: &Store,
    terms: &Terms,
    day: Day,
) -> Result<Response<Full<Bytes>>, hyper::Error> {
    match day {
        Day::Answer(status, headers, body) => {
            request.into_body().collect().await?;
            let mut response = Response::builder().status(status);
            for line in headers.lines() {
                let (name, value) = line.split_once(": ").unwrap();
                response = response.header(name, value);
            }
            Ok(response.body(Full::from(body)).unwrap())
        }
        Day::Mute => {
            request.into_body().collect().await?;
            std::future::pending().await
        }
        _ => {
            let result = wire::receive(store, terms, request).await;
            Ok(wire::answer(&result).map(Full::from))
        }
    }
}

/// Short times, so that tests need not wait.
pub(crate) fn brisk() -> Terms {
    Terms {
        idle: Duration::from_millis(300),
        total: Duration::from_secs(20),
        ..Terms::default()
    }
}
