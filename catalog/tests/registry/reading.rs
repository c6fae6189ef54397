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
    wire::{Bundle, GetBundleRequest, Package, Property},
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

#[tokio::test]
async fn what_time_does_not_suffice_for_is_broken_and_the_rest_is_not() {
    let answer: Answer = Arc::new(|asked| {
        async move {
            if asked.pkg_name == "slow" {
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
            good(&told(asked))
        }
        .boxed()
    });
    let all = [listed("slow", 800), listed("tide", 2)].concat();
    let server = Server::new(all, answer).await;
    let bounds = Bounds {
        read: Duration::from_secs(3),
        ..Bounds::default()
    };
    let client = connect(server.address, bounds).await;
    let read = packages(&client, &set(&["slow", "tide"])).await.unwrap();
    assert_eq!(read.packages["tide"].bundles.len(), 2);
    assert_eq!(
        read.broken["slow"],
        "what is wanted of the catalog could not be read within 3 s, and this package not to its end; its server is too slow"
    );
    assert!(read.kept < 10_000, "{}", read.kept);
}

#[tokio::test]
async fn what_room_does_not_suffice_for_is_broken_and_the_rest_is_not() {
    let answer: Answer = Arc::new(|asked| {
        async move {
            let mut bundle = told(asked);
            if bundle.package_name == "large" {
                bundle.properties.push(Property {
                    r#type: "olm.maxOpenShiftVersion".into(),
                    value: format!("\"{}\"", "4".repeat(100_000)),
                });
            }
            good(&bundle)
        }
        .boxed()
    });
    let mut all = [listed("large", 30), listed("tide", 2)].concat();
    let mut long = listed("long", 1);
    long[0].skips = vec!["s".repeat(1 << 20); 2];
    all.extend(long);
    let server = Server::new(all, answer).await;
    for (bounds, broken) in [
        (
            Bounds {
                kept: 1 << 20,
                ..Bounds::default()
            },
            "with it, what is wanted of the catalog takes more than 1048576 bytes",
        ),
        (
            Bounds {
                // What the list has is counted by itself.
                total: 2_200_000,
                ..Bounds::default()
            },
            "what is wanted of the catalog comes in more than 2200000 bytes",
        ),
    ] {
        let client = connect(server.address, bounds).await;
        let read = packages(&client, &set(&["large", "tide", "long"])).await;
        let read = read.unwrap();
        assert_eq!(read.broken["large"], broken);
        assert_eq!(read.packages["tide"].bundles.len(), 2);
        let is_kept = bounds.kept > 2 << 20;
        assert_eq!(read.packages.contains_key("long"), is_kept);
        assert_eq!(read.kept > 2 << 20, is_kept, "{}", read.kept);
    }
}

#[tokio::test]
async fn what_is_here_is_not_asked_for_again() {
    let asked = Arc::new(std::sync::Mutex::new(Vec::new()));
    let answer: Answer = {
        let asked = Arc::clone(&asked);
        Arc::new(move |it| {
            asked.lock().unwrap().push(it.csv_name.clone());
            async move { good(&told(it)) }.boxed()
        })
    };
    let all = [listed("tide", 2), listed("buoy", 1), listed("other", 1)].concat();
    let server = Server::new(all, answer).await;
    let client = connect(server.address, Bounds::default()).await;
    let first = packages(&client, &set(&["tide", "none"])).await.unwrap();
    assert_eq!(asked.lock().unwrap().len(), 2);
    let both = first.and(&client, &set(&["buoy", "tide"])).await.unwrap();
    assert_eq!(asked.lock().unwrap()[2..], ["buoy.v1.0.0"]);
    assert_eq!(both.asked, set(&["buoy", "none", "tide"]));
    let names: Vec<&str> = both.packages.keys().map(String::as_str).collect();
    assert_eq!(names, ["buoy", "tide"]);
    assert!(both.kept > first.kept);
    assert!(Arc::ptr_eq(&both.packages["tide"], &first.packages["tide"]));
    let same = both.and(&client, &set(&["none"])).await.unwrap();
    assert_eq!(same, both);
    assert_eq!(asked.lock().unwrap().len(), 3);
}
