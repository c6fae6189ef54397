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

use base64::{Engine as _, engine::general_purpose::STANDARD};
use catalog::{
    Limits, Source, load,
    registry::{
        Bounds,
        client::Error,
        packages,
        wire::{self, Bundle, Deprecation, GetBundleRequest, GetPackageRequest, Package, Property},
    },
};
use futures::{FutureExt as _, StreamExt as _, future::BoxFuture, stream};
use http::{Request, Response};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::{body::Incoming, server::conn::http2, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use serde_json::json;
use tokio::{net::TcpListener, sync::Notify};

use crate::{
    fixture::{Served, bundle, folder},
    suspicion::{Body, connect, data, framed, of, trailers},
};

/// Answers `GetBundle`.
type Answer = Arc<dyn Fn(GetBundleRequest) -> BoxFuture<'static, Body> + Send + Sync>;

/// Answers `GetPackage`, by the name of the package.
type Describe = Arc<dyn Fn(String) -> Package + Send + Sync>;

/// Ends a list.
type End = Arc<dyn Fn() -> Body + Send + Sync>;

/// What a server says.
#[derive(Clone)]
struct Script {
    listed: Vec<Bundle>,
    /// What comes after the list.
    end: End,
    describe: Describe,
    answer: Answer,
}

/// A server of these bundles, until its connections are to break.
struct Server {
    address: SocketAddr,
    cut: Arc<Notify>,
}

impl Server {
    async fn new(listed: Vec<Bundle>, answer: Answer) -> Self {
        Self::of(Script {
            listed,
            end: Arc::new(|| of(vec![trailers("0", "")])),
            describe: Arc::new(|_| Package::default()),
            answer,
        })
        .await
    }

    async fn of(script: Script) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let cut = Arc::new(Notify::new());
        let (script, broken) = (Arc::new(script), Arc::clone(&cut));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let script = Arc::clone(&script);
                let service = service_fn(move |asked: Request<Incoming>| {
                    let script = Arc::clone(&script);
                    async move {
                        let (head, body) = asked.into_parts();
                        let body = body.collect().await.unwrap().to_bytes().slice(5..);
                        let answer = match head.uri.path() {
                            "/api.Registry/ListBundles" => {
                                let frames = script.listed.iter().map(message).collect();
                                of(frames).chain((script.end)()).boxed()
                            }
                            "/api.Registry/GetPackage" => {
                                let asked = GetPackageRequest::decode(body).unwrap();
                                good(&(script.describe)(asked.name))
                            }
                            _ => (script.answer)(GetBundleRequest::decode(body).unwrap()).await,
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
                let api = json!({"group": "4".repeat(100_000), "kind": "K", "version": "v1"});
                bundle.properties.push(Property {
                    r#type: "olm.gvk".into(),
                    value: api.to_string(),
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
    for (bounds, broken) in tests::rows![
        Bounds { kept: 1 << 20, ..Bounds::default() } => "with it, what is wanted of the catalog takes more than 1048576 bytes";
        Bounds {
            // What the list has is counted by itself.
            total: 2_200_000,
            ..Bounds::default()
        } => "what is wanted of the catalog comes in more than 2200000 bytes";
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

/// A server that has nothing but good things to say of bundles.
fn good_answer() -> Answer {
    Arc::new(|asked| async move { good(&told(asked)) }.boxed())
}

// parity: openshift-15
#[tokio::test]
async fn a_list_that_does_not_end_well_is_no_catalog() {
    let ends: [(&str, End); 5] = [
        ("no trailers", Arc::new(|| of(Vec::new()))),
        ("8", Arc::new(|| of(vec![trailers("8", "enough")]))),
        ("14", Arc::new(|| of(vec![trailers("14", "later")]))),
        ("2", Arc::new(|| of(vec![trailers("2", "what?")]))),
        ("a stall", Arc::new(|| stream::pending().boxed())),
    ];
    for (name, end) in ends {
        let script = Script {
            listed: [listed("tide", 3), listed("buoy", 1)].concat(),
            end,
            describe: Arc::new(|_| Package::default()),
            answer: good_answer(),
        };
        let server = Server::of(script).await;
        let bounds = Bounds {
            wait: Duration::from_millis(500),
            ..Bounds::default()
        };
        let client = connect(server.address, bounds).await;
        let error = packages(&client, &set(&["tide"])).await.unwrap_err();
        let is_as_expected = match name {
            "no trailers" => matches!(error, Error::Broken { .. }),
            "a stall" => matches!(error, Error::Stalled { .. }),
            _ => matches!(error, Error::Refused { .. }),
        };
        assert!(is_as_expected, "{name}: {error:?}");
        assert!(error.to_string().contains("ListBundles"), "{error}");
        // Neither is what was read before touched, nor anything added to it.
        let read = catalog::registry::Packages::default();
        assert!(read.and(&client, &set(&["buoy"])).await.is_err(), "{name}");
    }
}

#[tokio::test]
async fn what_packages_say_of_themselves_is_counted_and_cut() {
    let text = |letter: &str, count| {
        let message = letter.repeat(count);
        Some(Deprecation { message })
    };
    let describe: Describe = Arc::new(move |name| {
        let channel = |deprecation| wire::Channel {
            name: "c".into(),
            deprecation,
            ..wire::Channel::default()
        };
        match name.as_str() {
            "wordy" => Package {
                deprecation: text("p", 1 << 20),
                channels: vec![channel(text("c", 1 << 20))],
                ..Package::default()
            },
            "large" => Package {
                default_channel_name: "d".repeat(1 << 20),
                ..Package::default()
            },
            _ => Package::default(),
        }
    });
    let answer: Answer = Arc::new(move |asked| {
        async move {
            let mut bundle = told(asked);
            if bundle.package_name == "wordy" {
                bundle.deprecation = text("b", 1 << 20);
            }
            good(&bundle)
        }
        .boxed()
    });
    let script = Script {
        listed: [listed("wordy", 1), listed("large", 1), listed("tide", 1)].concat(),
        end: Arc::new(|| of(vec![trailers("0", "")])),
        describe,
        answer,
    };
    let server = Server::of(script).await;
    let bounds = Bounds {
        kept: 512 << 10,
        ..Bounds::default()
    };
    let client = connect(server.address, bounds).await;
    let read = packages(&client, &set(&["wordy", "large", "tide"])).await;
    let read = read.unwrap();
    assert_eq!(
        read.broken["large"],
        "with it, what is wanted of the catalog takes more than 524288 bytes"
    );
    assert!(read.packages.contains_key("tide"));
    let wordy = &read.packages["wordy"];
    let cut = [
        (&wordy.deprecation, 'p'),
        (&wordy.channels["c"].deprecation, 'c'),
        (&wordy.bundles["wordy.v1.0.0"].deprecation, 'b'),
    ];
    for (text, letter) in cut {
        let text = text.as_ref().unwrap();
        assert!(text.starts_with(letter) && text.ends_with('…'));
        assert_eq!(text.chars().count(), 32 * 1024 + 1);
    }
    let texts = 3 * 32 * 1024;
    assert!(read.kept > texts && wordy.size() > texts, "{}", read.kept);
}

/// The rows of the spellings are those of `load::tests::max_openshift`.
// parity: max-4
#[tokio::test(flavor = "multi_thread")]
async fn served_max_openshift_is_that_of_the_file() {
    let annotation = "operators.coreos.com/maxOpenShiftVersion";
    let list = json!([{"type": "olm.maxOpenShiftVersion", "value": "4.10"}]).to_string();
    let annotated = |key: &str, text: &str| json!({"type": "olm.csv.metadata", "value": {"annotations": {key: text}}});
    let csv = json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": {"name": "tide.v1.3.0", "annotations": {annotation: "4.10"}},
    });
    let data = STANDARD.encode(csv.to_string());
    let metadata = json!({"type": "olm.csv.metadata", "value": {}});
    let mut keyed = bundle("tide", "1.4.0", std::slice::from_ref(&metadata));
    keyed[annotation] = "4.10".into();
    let bundles = [
        bundle(
            "tide",
            "1.0.0",
            &[
                json!({"type": "olm.maxOpenShiftVersion", "value": "4.10"}),
                metadata,
            ],
        ),
        bundle("tide", "1.1.0", &[annotated(annotation, "4.10")]),
        bundle("tide", "1.2.0", &[annotated("olm.properties", &list)]),
        bundle(
            "tide",
            "1.3.0",
            &[json!({"type": "olm.bundle.object", "value": {"data": data}})],
        ),
        keyed,
    ];
    let entries: Vec<_> = bundles
        .iter()
        .enumerate()
        .map(|(at, it)| match at.checked_sub(1) {
            Some(before) => json!({"name": it["name"], "replaces": bundles[before]["name"]}),
            None => json!({"name": it["name"]}),
        })
        .collect();
    let mut documents = vec![
        json!({"schema": "olm.package", "name": "tide", "defaultChannel": "stable"}),
        json!({"schema": "olm.channel", "package": "tide", "name": "stable", "entries": entries}),
    ];
    documents.extend(bundles);
    let folder = folder(&[("tide.json", &documents)]);
    // A number, which JSON of other programs shortens.
    let path = folder.path().join("tide.json");
    let text = std::fs::read_to_string(&path).unwrap();
    let text = text.replacen("\"value\": \"4.10\"", "\"value\": 4.10", 1);
    std::fs::write(&path, text).unwrap();

    let read = load(Source::Folder(folder.path()), &Limits::default()).unwrap();
    let served = Served::of(folder.path()).await;
    let client = served.client().await;
    let packages = packages(&client, &set(&["tide"])).await.unwrap();
    let declared = |package: &catalog::model::Package| {
        let bundles = package.bundles.values();
        let declared = bundles.map(|bundle| bundle.max_openshift.as_ref().unwrap().text());
        declared.collect::<Vec<_>>()
    };
    assert_eq!(declared(&read.packages["tide"]), ["4.10"; 5]);
    assert_eq!(*packages.packages["tide"], read.packages["tide"]);
}
