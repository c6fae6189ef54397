//! Our client against servers that stall, truncate, never end, lie, or lack the API.

use std::convert::Infallible;

use bytes::Bytes;
use catalog::registry::proto::{Bundle, Package};
use futures::stream;
use http::{HeaderMap, Request, Response};
use http_body::Frame;
use http_body_util::StreamBody;
use hyper::{body::Incoming, server::conn::http2, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};

use crate::*;

pub(crate) type Body = stream::BoxStream<'static, Result<Frame<Bytes>, std::io::Error>>;

const SHORT: Duration = Duration::from_millis(300);

fn bounds() -> ClientLimits {
    let (connect, list) = (Duration::from_secs(5), Duration::from_secs(60));
    with!(ClientLimits, connect, wait: SHORT, list, message: 64 << 10, messages: 1000, total: 1 << 20)
}

pub(crate) async fn server(body: impl Fn() -> Body + Send + Sync + Clone + 'static) -> SocketAddr {
    let server = respond(move |_| std::future::ready(answered(body())));
    server.await.address
}

pub(crate) fn answered(body: Body) -> Response<StreamBody<Body>> {
    let answer = Response::builder().header("content-type", "application/grpc");
    answer.body(StreamBody::new(body)).unwrap()
}

/// A server that runs until its connections have to fail.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) cut: Arc<Notify>,
}

pub(crate) async fn respond<F>(
    answer: impl Fn(Request<Incoming>) -> F + Send + Sync + Clone + 'static,
) -> Server
where
    F: Future<Output = Response<StreamBody<Body>>> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let cut = Arc::new(Notify::new());
    let broken = Arc::clone(&cut);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (answer, broken) = (answer.clone(), Arc::clone(&broken));
            let service = service_fn(move |asked: Request<Incoming>| {
                let answer = answer(asked);
                async { Ok::<_, Infallible>(answer.await) }
            });
            let connection = http2::Builder::new(TokioExecutor::new());
            let connection = connection.serve_connection(TokioIo::new(stream), service);
            tokio::spawn(async move {
                tokio::select! {
                    _ = connection => {}
                    () = broken.notified() => {}
                }
            });
        }
    });
    Server { address, cut }
}

fn message(name: &str) -> Bytes {
    framed(&with!(Bundle, csv_name: name.into()).encode_to_vec())
}

pub(crate) fn framed(message: &[u8]) -> Bytes {
    let mut frame = vec![0];
    frame.extend_from_slice(&u32::try_from(message.len()).unwrap().to_be_bytes());
    frame.extend_from_slice(message);
    frame.into()
}

pub(crate) fn trailers(status: &str, text: &str) -> Frame<Bytes> {
    let mut map = HeaderMap::new();
    map.insert("grpc-status", status.parse().unwrap());
    map.insert("grpc-message", text.parse().unwrap());
    Frame::trailers(map)
}

pub(crate) fn data(bytes: impl Into<Bytes>) -> Frame<Bytes> {
    Frame::data(bytes.into())
}

pub(crate) fn body_of_frames(frames: Vec<Frame<Bytes>>) -> Body {
    stream::iter(frames.into_iter().map(Ok)).boxed()
}

fn then_nothing(frames: Vec<Frame<Bytes>>) -> Body {
    body_of_frames(frames).chain(stream::pending()).boxed()
}

pub(crate) async fn connect(address: SocketAddr, bounds: ClientLimits) -> Client {
    Client::connect(&address.to_string(), bounds).await.unwrap()
}

/// Returns the received items and the end of the list; the test fails if the list does not end.
async fn list(address: SocketAddr, bounds: ClientLimits) -> (usize, Option<Error>) {
    let client = connect(address, bounds).await;
    let mut list = Box::pin(client.list_bundles());
    let mut count = 0;
    let drained = async {
        while list.try_next().await?.is_some() {
            count += 1;
        }
        Ok::<_, Error>(())
    };
    let end = timeout(Duration::from_secs(30), drained).await.unwrap();
    (count, end.err())
}

/// Formats an error in short, such as `Stalled ListBundles 300ms, temporary`.
fn short(error: &Error) -> String {
    let kind = match error {
        Error::Timeout { rpc, after, .. } => format!("Stalled {rpc} {after:?}"),
        Error::TooLarge { limit, unit, .. } => format!("TooLarge {limit} {unit}"),
        Error::Refused { rpc, code, .. } => format!("Refused {rpc} {code:?}"),
        Error::Disconnected { rpc, .. } => format!("Broken {rpc}"),
        other => format!("{other:?}"),
    };
    kind + ["", ", temporary"][usize::from(error.is_temporary())]
}

fn ended((count, error): (usize, Option<Error>)) -> String {
    let end = error.map_or_else(|| "end".to_owned(), |error| short(&error));
    format!("{count}: {end}")
}

// parity: grpc-12
#[tokio::test]
async fn list_error_names_the_fault_of_the_server() {
    type Row = (&'static str, fn() -> Body, &'static str);
    let rows: [Row; 16] = tests::rows![
        "good", || body_of_frames(vec![data(message("a")), data(message("b")), trailers("0", "")]) => "2: end";
        "stalls at once", || then_nothing(Vec::new()) => "0: Stalled ListBundles 300ms, temporary";
        "stalls after one", || then_nothing(vec![data(message("a"))]) => "1: Stalled ListBundles 300ms, temporary";
        "stalls after three", || then_nothing(vec![data(message("a")), data(message("a")), data(message("a"))]) => "3: Stalled ListBundles 300ms, temporary";
        "stalls in a message", || then_nothing(vec![data(message("a").slice(..4))]) => "0: Stalled ListBundles 300ms, temporary";
        "has no status", || body_of_frames(vec![data(message("a"))]) => "1: Broken ListBundles, temporary";
        "breaks", || {
            let broken = stream::once(async { Err(std::io::Error::other("broken")) });
            body_of_frames(vec![data(message("a"))]).chain(broken).boxed()
        } => "*: Broken ListBundles, temporary";
        "ends in a message", || body_of_frames(vec![data(message("a")), data(message("b").slice(..6))])
            => "1: Refused ListBundles Internal, temporary";
        "ends with an error", || body_of_frames(vec![data(message("a")), trailers("8", "enough")])
            => "1: Refused ListBundles ResourceExhausted, temporary";
        "claims a large message", || body_of_frames(vec![data(vec![0, 0x7f, 0xff, 0xff, 0xff])]) => "0: TooLarge 65536 bytes in one message";
        "has a large message", || body_of_frames(vec![data(message(&"x".repeat(70 << 10))), trailers("0", "")])
            => "0: TooLarge 65536 bytes in one message";
        "is garbage", || body_of_frames(vec![data(framed(&[0xff; 40])), trailers("0", "")])
            => "0: Refused ListBundles Internal, temporary";
        "has unknown flags", || body_of_frames(vec![data(vec![9, 0, 0, 0, 0]), trailers("0", "")])
            => "0: Refused ListBundles Internal, temporary";
        "is refused permanently", || body_of_frames(vec![trailers("2", "no")]) => "0: Refused ListBundles Unknown";
        "is refused at length", || body_of_frames(vec![trailers("2", &"x".repeat(8000))]) => "0: Refused ListBundles Unknown";
        "is not known", || body_of_frames(vec![trailers("12", "")]) => "0: Refused ListBundles Unimplemented";
    ];
    for (row, body, expected) in rows {
        let (count, error) = list(server(body).await, bounds()).await;
        let text = error.as_ref().map(ToString::to_string).unwrap_or_default();
        let found = ended((count, error));
        assert!(tests::table::matches(expected, &found), "{row}: {found}");
        // An error contains the server's message, but truncated.
        let is_told = text.contains("ListBundles") && text.contains("enough");
        assert!(is_told || !row.contains("error"), "{text}");
        assert!(text.len() < 1000, "{row}: {} bytes", text.len());
    }
}

#[tokio::test]
async fn silent_server_times_out() {
    let address = respond(|_| std::future::pending()).await.address;
    assert_rows!(ended(list(address, bounds()).await) => "0: Stalled ListBundles 300ms, temporary");
    let client = connect(address, bounds()).await;
    assert_rows!(short(&client.get_package("a").await.unwrap_err()) => "Stalled GetPackage 300ms, temporary");

    // A server that does not speak HTTP.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let silent = tokio::spawn(async move {
        let connection = listener.accept().await;
        std::future::pending::<()>().await;
        drop(connection);
    });
    let bounds = with!(ClientLimits, connect: SHORT; ..bounds());
    let package = async {
        let client = Client::connect(&address.to_string(), bounds).await?;
        client.get_package("a").await
    };
    let package = timeout(Duration::from_secs(30), package).await;
    let error = package.unwrap().unwrap_err();
    assert!(error.is_temporary(), "{error:?}");
    silent.abort();
}

// parity: grpc-12
#[tokio::test]
async fn endless_list_is_bounded() {
    let endless = |size: usize| {
        server(move || {
            let message = message(&"x".repeat(size));
            stream::repeat_with(move || Ok(data(message.clone()))).boxed()
        })
    };
    // These servers are busy and therefore slow.
    let patient = with!(ClientLimits, wait: Duration::from_secs(30); ..bounds());
    assert_rows!(ended(list(endless(10).await, patient).await) => "1000: TooLarge 1000 messages");
    let (count, error) = list(endless(10_000).await, patient).await;
    assert!(count < 105, "{count}");
    assert_eq!(short(&error.unwrap()), "TooLarge 1048576 bytes");
    // Each message arrives just before the timeout.
    let slow = server(|| {
        let next = |()| async {
            sleep(SHORT / 3).await;
            Some((Ok(data(message("a"))), ()))
        };
        stream::unfold((), next).boxed()
    })
    .await;
    let bounds = with!(ClientLimits, list: Duration::from_secs(1); ..bounds());
    let (count, error) = list(slow, bounds).await;
    assert!((1..=20).contains(&count), "{count}");
    assert_rows!(short(&error.unwrap()) => "Stalled ListBundles 1s, temporary");
}

#[tokio::test]
async fn foreign_server_is_rejected() {
    let page = respond(|_| {
        let page = StreamBody::new(body_of_frames(vec![data("<html>")]));
        let answer = Response::builder().header("content-type", "text/html");
        std::future::ready(answer.status(404).body(page).unwrap())
    });
    let client = connect(page.await.address, bounds()).await;
    let error = client.get_package("a").await.unwrap_err();
    assert!(matches!(error, Error::Refused { .. }), "{error:?}");
    let unknown = respond(|_| {
        let mut answer = answered(body_of_frames(Vec::new()));
        let status = "12".parse().unwrap();
        answer.headers_mut().insert("grpc-status", status);
        std::future::ready(answer)
    });
    let client = connect(unknown.await.address, bounds()).await;
    assert!(client.list_packages().await.unwrap_err().is_unimplemented());
}

#[tokio::test]
async fn closed_port_is_a_connect_error() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    let error = Client::connect(&address, bounds()).await.unwrap_err();
    assert!(matches!(error, Error::Connect { .. }), "{error:?}");
    assert!(error.to_string().contains(&address) && error.is_temporary());
}

#[tokio::test]
async fn list_is_requested_on_first_read() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let address = server(move || {
        count.fetch_add(1, Ordering::SeqCst);
        let package = with!(Package, name: "a".into());
        let package = data(framed(&package.encode_to_vec()));
        body_of_frames(vec![package, trailers("0", "")])
    })
    .await;
    let client = connect(address, bounds()).await;
    let unread = client.list_bundles();
    assert_eq!(client.list_packages().await.unwrap(), ["a"]);
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    drop(unread);
}
