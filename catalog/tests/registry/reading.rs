//! What decisions need, read from servers that end, drag on and give too much.

use std::{
    collections::BTreeSet,
    convert::Infallible,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use catalog::registry::{
    Bounds,
    client::Error,
    packages,
    wire::{Bundle, GetBundleRequest, Package},
};
use futures::{FutureExt as _, future::BoxFuture};
use http::{Request, Response};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::{body::Incoming, server::conn::http2, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use tokio::{net::TcpListener, sync::Notify};

use crate::suspicion::{Body, connect, data, framed, of, trailers};

/// Answers `GetBundle`.
type Answer = Arc<dyn Fn(GetBundleRequest) -> BoxFuture<'static, Body> + Send + Sync>;

/// A server of these bundles, until its connections are to break.
struct Server {
    address: SocketAddr,
    cut: Arc<Notify>,
}

impl Server {
    async fn new(listed: Vec<Bundle>, answer: Answer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let cut = Arc::new(Notify::new());
        let (listed, broken) = (Arc::new(listed), Arc::clone(&cut));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (listed, answer) = (Arc::clone(&listed), Arc::clone(&answer));
                let service = service_fn(move |asked: Request<Incoming>| {
                    let (listed, answer) = (Arc::clone(&listed), Arc::clone(&answer));
                    async move {
                        let (head, body) = asked.into_parts();
                        let body = body.collect().await.unwrap().to_bytes();
                        let answer = match head.uri.path() {
                            "/api.Registry/ListBundles" => {
                                let mut frames: Vec<_> = listed.iter().map(message).collect();
                                frames.push(trailers("0", ""));
                                of(frames)
                            }
                            "/api.Registry/GetPackage" => good(&Package::default()),
                            _ => answer(GetBundleRequest::decode(body.slice(5..)).unwrap()).await,
                        };
                        let response = Response::builder()
                            .header("content-type", "application/grpc")
                            .body(StreamBody::new(answer));
                        Ok::<_, Infallible>(response.unwrap())
                    }
                });
                let connection = http2::Builder::new(TokioExecutor::new())
                    .serve_connection(TokioIo::new(stream), service);
                let broken = Arc::clone(&broken);
                tokio::spawn(async move {
                    tokio::select! {
                        _ = connection => {}
                        () = broken.notified() => {}
                    }
                });
            }
        });
        Self { address, cut }
    }
}

fn message(message: &impl Message) -> http_body::Frame<bytes::Bytes> {
    data(framed(&message.encode_to_vec()))
}

fn good(answer: &impl Message) -> Body {
    of(vec![message(answer), trailers("0", "")])
}

fn listed(package: &str, count: usize) -> Vec<Bundle> {
    let bundle = |at| Bundle {
        csv_name: format!("{package}.v1.{at}.0"),
        package_name: package.into(),
        channel_name: "c".into(),
        version: format!("1.{at}.0"),
        bundle_path: "r/b@sha256:1".into(),
        ..Bundle::default()
    };
    (0..count).map(bundle).collect()
}

/// What a good server says of a bundle.
fn told(asked: GetBundleRequest) -> Bundle {
    Bundle {
        csv_name: asked.csv_name,
        package_name: asked.pkg_name,
        csv_json: r#"{"spec": {}}"#.into(),
        ..Bundle::default()
    }
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|&it| it.to_owned()).collect()
}

#[tokio::test]
async fn a_server_that_ends_meanwhile_has_not_refused_the_bundles_that_were_asked_for() {
    let (count, enough) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    let answer: Answer = {
        let enough = Arc::clone(&enough);
        Arc::new(move |asked| {
            if count.fetch_add(1, Ordering::SeqCst) < 16 {
                return async move { good(&told(asked)) }.boxed();
            }
            enough.notify_one();
            futures::future::pending().boxed()
        })
    };
    let server = Server::new(listed("tide", 20), answer).await;
    let client = connect(server.address, Bounds::default()).await;
    let wanted = set(&["tide"]);
    let (read, ()) = tokio::join!(packages(&client, &wanted), async {
        enough.notified().await;
        // All of the last ones are on their way by then.
        tokio::time::sleep(Duration::from_millis(200)).await;
        server.cut.notify_waiters();
    });
    let error = read.unwrap_err();
    assert!(
        matches!(
            error,
            Error::Broken {
                rpc: "GetBundle",
                ..
            }
        ) && error.is_temporary(),
        "{error:?}"
    );
}

#[tokio::test]
async fn what_a_server_cannot_say_in_time_is_no_refusal() {
    for (status, is_refused) in [("2", true), ("5", true), ("4", false), ("14", false)] {
        let answer: Answer =
            Arc::new(move |_| async move { of(vec![trailers(status, "no")]) }.boxed());
        let server = Server::new(listed("tide", 1), answer).await;
        let client = connect(server.address, Bounds::default()).await;
        let read = packages(&client, &set(&["tide"])).await;
        assert_eq!(read.is_ok(), is_refused, "{status}: {read:?}");
    }
}
