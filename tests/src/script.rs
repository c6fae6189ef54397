//! Servers that follow a script: hostile, broken or slow, byte by byte.
//!
//! ```text
//! 200 << content                                  an answer: a status, and a body after ` << `
//! 429; Retry-After: 0 << slow down                headers, before the body
//! << HTTP/1.1 200 OK\r\n\r\nabc                   bytes as they are, without a status; `nothing` for none
//! 2 x 503 then 200 << content                     answers one after the other; the last one is repeated
//! /moved => 200 << content && 302; Location: /moved       the first rule whose text is in the head of the request
//! GET & !authorization: => 401 && 200             a rule for heads with one text and without another
//! 200; Content-Length: 9 << abc ~ stall           after the bytes: see [`Ending`]
//! ```
//!
//! `Content-Length` and `Connection: close` are added; a script that sets `Content-Length` or `Transfer-Encoding` replaces
//! the former, and `Content-Length: -` omits it. Scripts know the escapes and references of [`Cell`], and also `{host}`,
//! the `Host` of the request, and `<< {body}`, its body.

use std::{
    fmt::Write as _,
    future::pending,
    net::{SocketAddr, TcpListener},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use rustls::ServerConfig;
use tokio::{
    io::{
        AsyncBufRead, AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite,
        AsyncWriteExt as _, BufReader, copy, split,
    },
    net::TcpStream,
    task::JoinHandle,
    time::sleep,
};
use tokio_rustls::TlsAcceptor;

use crate::{
    address,
    table::{Cell, Values},
};

/// A request as the server received it.
#[derive(Debug, Clone, Default)]
pub struct Received {
    /// The method; `RAW` for a connection that does not start with HTTP.
    pub method: String,
    /// The text between the method and the version.
    pub target: String,
    headers: Vec<(String, String)>,
    /// The body, without the frames of a transfer encoding.
    pub body: Vec<u8>,
}

impl Received {
    /// Returns the first value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        let found = headers.find(|(header, _)| header.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// Returns the lines of the head, without the version and without the named header.
    fn head(&self, without: &str) -> String {
        let mut head = format!("{} {}\r\n", self.method, self.target);
        let headers = self.headers.iter();
        for (name, value) in headers.filter(|(name, _)| !name.eq_ignore_ascii_case(without)) {
            write!(head, "{}: {value}\r\n", name.to_ascii_lowercase()).unwrap();
        }
        head
    }
}

/// Describes requests, and counts equal ones in a row: `PUT /, 3 x GET /`.
pub fn counted(requests: &[Received], describe: impl Fn(&Received) -> String) -> String {
    let lines: Vec<_> = requests.iter().map(describe).collect();
    let counted = lines.chunk_by(PartialEq::eq).map(|lines| match lines {
        [line] => line.clone(),
        lines => format!("{} x {}", lines.len(), lines[0]),
    });
    counted.collect::<Vec<_>>().join(", ")
}

/// The state of the connection after the bytes of an answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
enum Ending {
    /// The connection is closed.
    #[default]
    Close,
    /// `stall`: the connection stays open without more bytes.
    Stall,
    /// `drip`: one byte is sent every few milliseconds, without end.
    Drip,
    /// `repeat BYTES`: the bytes are sent repeatedly, without end.
    Repeat(Vec<u8>),
    /// `pass`, `pass COUNT`, `pass without HEADER`, `tunnel`: the server at `{upstream}` continues, up to a number of bytes,
    /// and receives the request without a header, or, with `None`, not at all.
    Pass(String, u64, Option<String>),
}

/// One answer, and the body that is read before it.
#[derive(Debug, Clone, Default)]
pub struct Answer {
    /// Bytes of the body to read: all of it if `None`.
    most: Option<usize>,
    is_slow: bool,
    is_echo: bool,
    bytes: Vec<u8>,
    ending: Ending,
}

impl Answer {
    /// Reads the script of one answer.
    pub fn new(script: &str, values: &Values) -> Self {
        let mut parts = script.trim().split(" ~ ");
        let first = parts.next().unwrap();
        let (head, body) = first.split_once("<< ").unwrap_or((first, ""));
        let is_echo = body == "{body}";
        let body = values.expand(if is_echo { "" } else { body });
        let length = (!is_echo).then_some(body.len());
        let mut answer = Self {
            is_echo,
            bytes: [head_bytes(head.trim(), length, values), body].concat(),
            ..Self::default()
        };
        for part in parts {
            let (word, rest) = part.split_once(' ').unwrap_or((part, ""));
            match word {
                "read" => answer.most = Some(rest.parse().unwrap()),
                "slowly" => answer.is_slow = true,
                "stall" => answer.ending = Ending::Stall,
                "drip" => answer.ending = Ending::Drip,
                "repeat" => answer.ending = Ending::Repeat(values.expand(rest)),
                "pass" | "tunnel" => {
                    let upstream = String::from_utf8(values.expand("{upstream}")).unwrap();
                    let limit = rest.parse().unwrap_or(u64::MAX);
                    let without = rest.strip_prefix("without ").unwrap_or_default();
                    let without = (word == "pass").then(|| without.to_owned());
                    answer.ending = Ending::Pass(upstream, limit, without);
                }
                _ => panic!("{part:?} is no ending of an answer"),
            }
        }
        answer
    }
}

fn head_bytes(head: &str, length: Option<usize>, values: &Values) -> Vec<u8> {
    let mut parts = head.split("; ");
    let status = parts.next().unwrap();
    if ["", "nothing"].contains(&status) {
        return Vec::new();
    }
    let space = if status.contains(' ') { "" } else { " " };
    let mut bytes = format!("HTTP/1.1 {status}{space}\r\nConnection: close\r\n").into_bytes();
    let mut is_framed = false;
    for header in parts {
        let header = String::from_utf8(values.expand(header)).unwrap();
        let (name, value) = header.split_once(": ").unwrap();
        is_framed |= ["Content-Length", "Transfer-Encoding"].contains(&name);
        if value != "-" {
            bytes.extend(format!("{header}\r\n").bytes());
        }
    }
    if let Some(length) = length.filter(|_| !is_framed) {
        bytes.extend(format!("Content-Length: {length}\r\n").bytes());
    }
    bytes.extend(b"\r\n");
    bytes
}

type Choose = dyn Fn(&Received) -> Answer + Send + Sync;

/// The answers of a server, chosen by the heads of requests.
#[derive(Clone)]
pub struct Script(Arc<Choose>);

struct Rule {
    /// Texts that a head must contain, or, with `true`, must not contain.
    needles: Vec<(bool, String)>,
    steps: Vec<String>,
    answered: AtomicUsize,
}

impl Rule {
    fn new(text: &str, values: &Values) -> Self {
        let (needles, steps) = text.split_once(" => ").unwrap_or(("", text));
        let needle = |text: &str| {
            let text = String::from_utf8(values.expand(text.trim())).unwrap();
            let bare = text.trim_start_matches('!').to_owned();
            (bare != text, bare)
        };
        let step = |step: &str| match step.trim().split_once(" x ") {
            Some((count, answer)) => vec![answer.to_owned(); count.parse().unwrap()],
            None => vec![step.to_owned()],
        };
        Self {
            needles: needles.split(" & ").map(needle).collect(),
            steps: steps.split(" then ").flat_map(step).collect(),
            answered: AtomicUsize::new(0),
        }
    }

    fn matches(&self, head: &str) -> bool {
        let mut needles = self.needles.iter();
        needles.all(|(is_absent, needle)| head.contains(needle) != *is_absent)
    }

    /// Returns the script of the next answer; the last one is repeated.
    fn next(&self) -> &str {
        let number = self.answered.fetch_add(1, Ordering::SeqCst);
        &self.steps[number.min(self.steps.len() - 1)]
    }
}

impl Script {
    /// Reads a script.
    pub fn new(text: &str, values: &Values) -> Self {
        Self::before(text, values, |_| Answer::new("404", &Values::default()))
    }

    /// Reads a script with a default for requests without a rule.
    pub fn before(
        text: &str,
        values: &Values,
        otherwise: impl Fn(&Received) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let rules = text.split(" && ").filter(|rule| !rule.trim().is_empty());
        let rules: Vec<_> = rules.map(|rule| Rule::new(rule, values)).collect();
        let values = values.clone();
        // An error in a script fails the test, and not a connection.
        for step in rules.iter().flat_map(|rule| &rule.steps) {
            drop(Answer::new(step, &values.clone().with("host", "h")));
        }
        Self::from_fn(move |request| {
            let head = request.head("");
            let Some(rule) = rules.iter().find(|rule| rule.matches(&head)) else {
                return otherwise(request);
            };
            let host = request.header("host").unwrap_or_default();
            Answer::new(rule.next(), &values.clone().with("host", host))
        })
    }

    /// Lets a test choose each answer by the head of the request.
    pub fn from_fn(choose: impl Fn(&Received) -> Answer + Send + Sync + 'static) -> Self {
        Self(Arc::new(choose))
    }
}

impl Cell {
    /// Reads the cell as the script of a server.
    pub fn script(&self) -> Script {
        Script::new(self.raw(), self.values())
    }
}

/// A reserved port of [`address`], so that scripts can name a server before it runs.
#[derive(Debug)]
pub struct Port(TcpListener);

impl Port {
    /// Reserves a free port.
    pub fn take() -> Self {
        let listener = TcpListener::bind((address(), 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        Self(listener)
    }

    /// `127.0.0.1:PORT`.
    pub fn host(&self) -> String {
        self.0.local_addr().unwrap().to_string()
    }

    /// Serves a script on this port: https with a configuration, http without one.
    pub fn serve(self, tls: Option<ServerConfig>, script: Script) -> ScriptedServer {
        let address = self.0.local_addr().unwrap();
        let seen = Arc::<Mutex<Vec<Received>>>::default();
        let connections = Arc::new(AtomicUsize::new(0));
        let tls = tls.map(|config| TlsAcceptor::from(Arc::new(config)));
        let listener = tokio::net::TcpListener::from_std(self.0).unwrap();
        let (log, count) = (Arc::clone(&seen), Arc::clone(&connections));
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::SeqCst);
                let (script, tls, log) = (script.clone(), tls.clone(), Arc::clone(&log));
                tokio::spawn(async move {
                    match tls {
                        None => serve(stream, &script, &log).await,
                        Some(tls) => serve(tls.accept(stream).await.ok()?, &script, &log).await,
                    }
                });
            }
        });
        ScriptedServer {
            address,
            seen,
            connections,
            task,
        }
    }
}

/// A server that follows a script until it is dropped.
#[derive(Debug)]
pub struct ScriptedServer {
    /// The address that the server listens on.
    pub address: SocketAddr,
    seen: Arc<Mutex<Vec<Received>>>,
    connections: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Drop for ScriptedServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl ScriptedServer {
    /// Serves a script over http.
    pub fn start(script: Script) -> Self {
        Port::take().serve(None, script)
    }

    /// Reads a script without values, and serves it over http.
    pub fn follow(script: &str) -> Self {
        Self::start(Script::new(script, &Values::default()))
    }

    /// The URL of a path on a server without TLS.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// `127.0.0.1:PORT`.
    pub fn host(&self) -> String {
        self.address.to_string()
    }

    /// Requests whose head was read, with their bodies as far as the script requires.
    pub fn seen(&self) -> Vec<Received> {
        self.seen.lock().unwrap().clone()
    }

    /// The number of connections that clients opened.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

/// Serves one connection; `None` if the client closed it, which tests may expect.
async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    script: &Script,
    log: &Mutex<Vec<Received>>,
) -> Option<()> {
    let mut stream = BufReader::new(stream);
    let request = read_head(&mut stream).await?;
    let mut answer = (script.0)(&request);
    let number = {
        let mut log = log.lock().unwrap();
        log.push(request.clone());
        log.len() - 1
    };
    if let Ending::Pass(upstream, limit, without) = &answer.ending {
        stream.write_all(&answer.bytes).await.ok()?;
        // One request for each connection, so that the script chooses the answer to each.
        let close = " HTTP/1.1\r\nconnection: close\r\n";
        let without = without.as_ref().filter(|_| request.method != "RAW");
        let head = without.map(|name| request.head(name).replacen("\r\n", close, 1) + "\r\n");
        return pass(stream, upstream, *limit, &head.unwrap_or_default()).await;
    }
    match answer.most {
        None => {
            let body = read_body(&mut stream, &request, answer.is_slow).await?;
            if answer.is_echo {
                answer.bytes.extend(&body);
            }
            log.lock().unwrap()[number].body = body;
        }
        Some(most) => skip(&mut stream, most).await,
    }
    stream.write_all(&answer.bytes).await.ok()?;
    stream.flush().await.ok()?;
    match answer.ending {
        Ending::Stall if answer.most.is_some() => pending().await,
        Ending::Stall => skip(&mut stream, usize::MAX).await,
        Ending::Drip => loop {
            stream.write_all(b"x").await.ok()?;
            stream.flush().await.ok()?;
            sleep(Duration::from_millis(5)).await;
        },
        Ending::Repeat(bytes) => loop {
            stream.write_all(&bytes).await.ok()?;
        },
        Ending::Close | Ending::Pass(..) => stream.shutdown().await.ok()?,
    }
    Some(())
}

async fn read_head(stream: &mut (impl AsyncBufRead + Unpin)) -> Option<Received> {
    let mut request = Received::default();
    let first = stream.fill_buf().await.ok()?;
    if first.starts_with(b"SSH-") || !first.first()?.is_ascii_uppercase() {
        "RAW".clone_into(&mut request.method);
        return Some(request);
    }
    let first = read_line(stream).await?;
    let mut words = first.split(' ');
    words.next()?.clone_into(&mut request.method);
    words.next()?.clone_into(&mut request.target);
    while let Some((name, value)) = read_line(stream).await?.split_once(':') {
        let header = (name.to_owned(), value.trim().to_owned());
        request.headers.push(header);
    }
    Some(request)
}

async fn read_line(stream: &mut (impl AsyncBufRead + Unpin)) -> Option<String> {
    let mut line = String::new();
    let count = stream.read_line(&mut line).await.ok()?;
    line.truncate(line.trim_end().len());
    (count > 0).then_some(line)
}

async fn read_body(
    stream: &mut (impl AsyncBufRead + Unpin),
    request: &Received,
    is_slow: bool,
) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    if request.header("transfer-encoding") == Some("chunked") {
        loop {
            let size = usize::from_str_radix(&read_line(stream).await?, 16).ok()?;
            let mut chunk = vec![0; size];
            stream.read_exact(&mut chunk).await.ok()?;
            body.append(&mut chunk);
            if size == 0 {
                while !read_line(stream).await?.is_empty() {}
                return Some(body);
            }
            read_line(stream).await?;
        }
    }
    let length = request.header("content-length").unwrap_or("0");
    body = vec![0; length.parse().unwrap()];
    for piece in body.chunks_mut(1 << 16) {
        if is_slow {
            sleep(Duration::from_millis(1)).await;
        }
        stream.read_exact(piece).await.ok()?;
    }
    Some(body)
}

/// Reads a number of bytes, or all bytes until the client closes.
async fn skip(stream: &mut (impl AsyncRead + Unpin), most: usize) {
    let mut buffer = vec![0; 1 << 16];
    let mut read = 0;
    while read < most
        && let Ok(count @ 1..) = stream.read(&mut buffer).await
    {
        read += count;
    }
}

/// Connects the client with the upstream server until the upstream closes or the script's limit of bytes is reached.
async fn pass(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    upstream: &str,
    limit: u64,
    head: &str,
) -> Option<()> {
    let mut server = TcpStream::connect(upstream).await.ok()?;
    server.write_all(head.as_bytes()).await.ok()?;
    let (mut from_client, mut to_client) = split(stream);
    let (from_server, mut to_server) = server.split();
    let mut answer = from_server.take(limit);
    tokio::select! {
        _ = copy(&mut answer, &mut to_client) => {}
        () = async {
            let _ = copy(&mut from_client, &mut to_server).await;
            pending::<()>().await;
        } => {}
    }
    to_client.shutdown().await.ok()
}
