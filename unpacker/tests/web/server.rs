//! A server that answers each request as a test wants it to, byte by byte, and remembers what it was asked.

use std::{
    fmt::Write as _,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use rustls::ServerConfig;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader},
    net::TcpListener,
    task::JoinHandle,
};
use tokio_rustls::TlsAcceptor;

/// A request as it came in.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    pub(crate) method: String,
    /// What stands between the method and the version.
    pub(crate) target: String,
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Seen {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        let found = headers.find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }
}

/// What happens to a connection once its request has been read.
#[derive(Debug, Clone)]
pub(crate) enum Answer {
    /// These bytes, and then the connection ends.
    Bytes(Vec<u8>),
    /// These bytes, and then nothing.
    Stall(Vec<u8>),
    /// These bytes, and then one more every few milliseconds, without end.
    Drip(Vec<u8>),
    /// The first bytes, and then the second ones as fast as they are taken, without end.
    Endless(Vec<u8>, Vec<u8>),
}

impl Answer {
    pub(crate) fn new(status: &str, headers: &[(&str, &str)], body: &[u8]) -> Self {
        let mut head = format!("HTTP/1.1 {status}\r\nConnection: close\r\n");
        for (name, value) in headers {
            write!(head, "{name}: {value}\r\n").unwrap();
        }
        if !headers.iter().any(|(name, _)| *name == "Content-Length") {
            write!(head, "Content-Length: {}\r\n", body.len()).unwrap();
        }
        Self::Bytes([head.as_bytes(), b"\r\n", body].concat())
    }

    pub(crate) fn ok(body: &[u8]) -> Self {
        Self::new("200 OK", &[], body)
    }

    pub(crate) fn redirect(status: u16, location: &str) -> Self {
        Self::new(
            &format!("{status} Elsewhere"),
            &[("Location", location)],
            b"",
        )
    }
}

type Handler = dyn Fn(&Seen) -> Answer + Send + Sync;

/// Runs until it is dropped.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    scheme: &'static str,
    seen: Arc<Mutex<Vec<Seen>>>,
    connections: Arc<Mutex<usize>>,
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    pub(crate) async fn plain(handler: impl Fn(&Seen) -> Answer + Send + Sync + 'static) -> Self {
        Self::start(None, handler).await
    }

    pub(crate) async fn tls(
        config: ServerConfig,
        handler: impl Fn(&Seen) -> Answer + Send + Sync + 'static,
    ) -> Self {
        Self::start(Some(TlsAcceptor::from(Arc::new(config))), handler).await
    }

    async fn start(
        tls: Option<TlsAcceptor>,
        handler: impl Fn(&Seen) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let seen = Arc::new(Mutex::new(Vec::new()));
        let connections = Arc::new(Mutex::new(0));
        let handler: Arc<Handler> = Arc::new(handler);
        let (log, count) = (Arc::clone(&seen), Arc::clone(&connections));
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                *count.lock().unwrap() += 1;
                let (handler, tls, log) = (Arc::clone(&handler), tls.clone(), Arc::clone(&log));
                tokio::spawn(async move {
                    match tls {
                        None => serve(stream, &*handler, &log).await,
                        Some(tls) => match tls.accept(stream).await {
                            Ok(stream) => serve(stream, &*handler, &log).await,
                            Err(_) => None,
                        },
                    }
                });
            }
        });
        Self {
            address,
            scheme,
            seen,
            connections,
            task,
        }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}://{}{path}", self.scheme, self.address)
    }

    /// The same server under a name: its port on localhost.
    pub(crate) fn url_by_name(&self, path: &str) -> String {
        format!("{}://localhost:{}{path}", self.scheme, self.address.port())
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    pub(crate) fn connections(&self) -> usize {
        *self.connections.lock().unwrap()
    }
}

/// `None` when the other side has gone, which tests may want.
async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    handler: &Handler,
    log: &Mutex<Vec<Seen>>,
) -> Option<()> {
    let mut stream = BufReader::new(stream);
    let request = read(&mut stream).await?;
    log.lock().unwrap().push(request.clone());
    match handler(&request) {
        Answer::Bytes(bytes) => {
            stream.write_all(&bytes).await.ok()?;
            stream.flush().await.ok()?;
        }
        Answer::Stall(bytes) => {
            stream.write_all(&bytes).await.ok()?;
            stream.flush().await.ok()?;
            // Until the other side gives up.
            stream.read_u8().await.ok()?;
        }
        Answer::Drip(bytes) => {
            stream.write_all(&bytes).await.ok()?;
            loop {
                stream.write_all(b"x").await.ok()?;
                stream.flush().await.ok()?;
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
        Answer::Endless(first, again) => {
            stream.write_all(&first).await.ok()?;
            loop {
                stream.write_all(&again).await.ok()?;
            }
        }
    }
    stream.shutdown().await.ok()
}

/// One request with its body.
pub(crate) async fn read(stream: &mut (impl AsyncRead + Unpin)) -> Option<Seen> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    let head = String::from_utf8(head).ok()?;
    let mut lines = head.lines();
    let mut words = lines.next()?.split(' ');
    let mut seen = Seen {
        method: words.next()?.to_owned(),
        target: words.next()?.to_owned(),
        ..Seen::default()
    };
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        let header = (name.to_owned(), value.trim().to_owned());
        seen.headers.push(header);
    }
    let length = seen.header("content-length").unwrap_or("0").to_owned();
    seen.body = vec![0; length.parse().unwrap()];
    // A large body is taken slowly.
    for piece in seen.body.chunks_mut(1 << 16) {
        if length.len() > 7 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        stream.read_exact(piece).await.ok()?;
    }
    Some(seen)
}
