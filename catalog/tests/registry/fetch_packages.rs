//! Reading the data for decisions, from servers that end early, are slow, or send too much.

use catalog::registry::{
    Packages,
    proto::{self, Bundle, Deprecation, GetBundleRequest, GetPackageRequest, Package, Property},
};
use futures::{FutureExt as _, future::BoxFuture};
use http_body_util::BodyExt as _;

use crate::fixture::{Served, bundle, chained};
use crate::hostile_servers::{
    Body, Server, answered, body_of_frames, connect, data, framed, respond, trailers,
};
use crate::testing::{lines, object};
use crate::*;

type Answer = Arc<dyn Fn(GetBundleRequest) -> BoxFuture<'static, Body> + Send + Sync>;

#[derive(Clone)]
struct Script {
    listed: Vec<Bundle>,
    /// Frames after the list.
    end: Arc<dyn Fn() -> Body + Send + Sync>,
    /// Answers `GetPackage`, by the name of the package.
    describe: Arc<dyn Fn(&str) -> Package + Send + Sync>,
    /// Answers `GetBundle`.
    answer: Answer,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            listed: Vec::new(),
            end: Arc::new(|| body_of_frames(vec![trailers("0", "")])),
            describe: Arc::new(|_| Package::default()),
            answer: answer(|asked| async { good(&served_bundle(asked)) }),
        }
    }
}

fn answer<F: Future<Output = Body> + Send + 'static>(
    answer: impl Fn(GetBundleRequest) -> F + Send + Sync + 'static,
) -> Answer {
    Arc::new(move |asked| answer(asked).boxed())
}

async fn serve(script: Script) -> Server {
    respond(move |asked| {
        let script = script.clone();
        async move {
            let (head, body) = asked.into_parts();
            let body = body.collect().await.unwrap().to_bytes().slice(5..);
            answered(match head.uri.path() {
                "/api.Registry/ListBundles" => {
                    let frames = script.listed.iter().map(message).collect();
                    body_of_frames(frames).chain((script.end)()).boxed()
                }
                "/api.Registry/GetPackage" => {
                    let asked = GetPackageRequest::decode(body).unwrap();
                    good(&(script.describe)(&asked.name))
                }
                _ => (script.answer)(GetBundleRequest::decode(body).unwrap()).await,
            })
        }
    })
    .await
}

async fn read(script: Script, bounds: ClientLimits, requested: &str) -> Result<Packages, Error> {
    let client = connect(serve(script).await.address, bounds).await;
    packages(&client, &set(requested)).await
}

fn message(message: &impl Message) -> http_body::Frame<bytes::Bytes> {
    data(framed(&message.encode_to_vec()))
}

fn good(answer: &impl Message) -> Body {
    body_of_frames(vec![message(answer), trailers("0", "")])
}

fn listed(package: &str, count: usize) -> Vec<Bundle> {
    let (package_name, channel_name) = (package.to_owned(), "c".to_owned());
    let place = with!(Bundle, package_name, channel_name, bundle_path: "r/b@sha256:1".into());
    let bundle = |at| {
        let (csv_name, version) = (format!("{package}.v1.{at}.0"), format!("1.{at}.0"));
        with!(Bundle, csv_name, version; ..place.clone())
    };
    (0..count).map(bundle).collect()
}

/// Returns the answer of a valid server for a bundle.
fn served_bundle(asked: GetBundleRequest) -> Bundle {
    let (csv_name, package_name) = (asked.csv_name, asked.pkg_name);
    with!(Bundle, csv_name, package_name, csv_json: r#"{"spec": {}}"#.into())
}

fn set(names: &str) -> BTreeSet<String> {
    names.split(' ').map(str::to_owned).collect()
}

#[tokio::test]
async fn shutdown_does_not_reject_requested_bundles() {
    let (count, enough) = (AtomicUsize::new(0), Arc::new(Notify::new()));
    let asked_enough = Arc::clone(&enough);
    let answer: Answer = Arc::new(move |asked| {
        if count.fetch_add(1, Ordering::SeqCst) < 16 {
            return async move { good(&served_bundle(asked)) }.boxed();
        }
        asked_enough.notify_one();
        futures::future::pending().boxed()
    });
    let server = serve(with!(Script, listed: listed("tide", 20), answer)).await;
    let client = connect(server.address, ClientLimits::default()).await;
    let requested = set("tide");
    let (read, ()) = tokio::join!(packages(&client, &requested), async {
        enough.notified().await;
        // By then, the requests for all of the last bundles are sent.
        sleep(Duration::from_millis(200)).await;
        server.cut.notify_waiters();
    });
    let error = read.unwrap_err();
    let is_broken = matches!(&error, Error::Disconnected { rpc, .. } if *rpc == "GetBundle");
    assert!(is_broken && error.is_temporary(), "{error:?}");
}

#[tokio::test]
async fn unavailable_answer_is_not_a_rejection() {
    for (status, is_rejected) in [("2", true), ("5", true), ("4", false), ("14", false)] {
        let answer = answer(move |_| async move { body_of_frames(vec![trailers(status, "no")]) });
        let script = with!(Script, listed: listed("tide", 1), answer);
        let read = read(script, ClientLimits::default(), "tide").await;
        assert_eq!(read.is_ok(), is_rejected, "{status}: {read:?}");
    }
}

#[tokio::test]
async fn packages_beyond_the_time_limit_are_broken() {
    let answer = answer(|asked| async move {
        if asked.pkg_name == "slow" {
            sleep(Duration::from_millis(200)).await;
        }
        good(&served_bundle(asked))
    });
    let bounds = with!(ClientLimits, read: Duration::from_secs(3));
    let script = with!(Script, listed: [listed("slow", 800), listed("tide", 2)].concat(), answer);
    let read = read(script, bounds, "slow tide").await.unwrap();
    assert_eq!(read.packages["tide"].bundles.len(), 2);
    let slow = "timed out after 3 s while reading the requested packages, and this package is incomplete; the catalog server \
                is too slow";
    assert_eq!(read.broken["slow"], slow);
    assert!(read.retained_bytes < 10_000, "{}", read.retained_bytes);
}

#[tokio::test]
async fn packages_beyond_the_size_limit_are_broken() {
    let answer = answer(|asked| async move {
        let mut bundle = served_bundle(asked);
        if bundle.package_name == "large" {
            let api = json!({"group": "4".repeat(100_000), "kind": "K", "version": "v1"});
            let (r#type, value) = ("olm.gvk".into(), api.to_string());
            bundle.properties.push(Property { r#type, value });
        }
        good(&bundle)
    });
    let mut long = listed("long", 1);
    long[0].skips = vec!["s".repeat(1 << 20); 2];
    let all = [listed("large", 30), listed("tide", 2), long].concat();
    let script = with!(Script, listed: all, answer);
    for (bounds, broken) in tests::rows![
        with!(ClientLimits, max_retained: 1 << 20) => "with this package, the requested packages of the catalog exceed 1048576 bytes";
        // The size of the list counts by itself.
        with!(ClientLimits, total: 2_200_000) => "the responses for the requested packages exceed 2200000 bytes";
    ] {
        let read = read(script.clone(), bounds, "large tide long").await;
        let read = read.unwrap();
        assert_eq!(read.broken["large"], broken);
        assert_eq!(read.packages["tide"].bundles.len(), 2);
        let is_kept = bounds.max_retained > 2 << 20;
        assert_eq!(read.packages.contains_key("long"), is_kept);
        let size = read.retained_bytes;
        assert_eq!(size > 2 << 20, is_kept, "{size}");
    }
}

#[tokio::test]
async fn present_packages_are_not_requested_again() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let names = Arc::clone(&asked);
    let answer = answer(move |asked| {
        names.lock().unwrap().push(asked.csv_name.clone());
        async { good(&served_bundle(asked)) }
    });
    let all = [listed("tide", 2), listed("buoy", 1), listed("other", 1)].concat();
    let server = serve(with!(Script, listed: all, answer)).await;
    let client = connect(server.address, ClientLimits::default()).await;
    let first = packages(&client, &set("tide none")).await.unwrap();
    assert_eq!(asked.lock().unwrap().len(), 2);
    let both = first.merge(&client, &set("buoy tide")).await.unwrap();
    assert_eq!(asked.lock().unwrap()[2..], ["buoy.v1.0.0"]);
    assert_eq!(both.requested, set("buoy none tide"));
    assert!(both.packages.keys().eq(["buoy", "tide"]));
    assert!(both.retained_bytes > first.retained_bytes);
    assert!(Arc::ptr_eq(&both.packages["tide"], &first.packages["tide"]));
    assert_rows!(both.merge(&client, &set("none")).await.unwrap() => both);
    assert_eq!(asked.lock().unwrap().len(), 3);
}

// parity: openshift-15
#[tokio::test]
async fn failed_list_is_not_a_catalog() {
    type Row = (&'static str, fn() -> Body, fn(&Error) -> bool);
    let ends: [Row; 5] = tests::rows![
        "no trailers", || body_of_frames(Vec::new()) => |error| matches!(error, Error::Disconnected { .. });
        "8", || body_of_frames(vec![trailers("8", "enough")]) => |error| matches!(error, Error::Refused { .. });
        "14", || body_of_frames(vec![trailers("14", "later")]) => |error| matches!(error, Error::Refused { .. });
        "2", || body_of_frames(vec![trailers("2", "what?")]) => |error| matches!(error, Error::Refused { .. });
        "a stall", || futures::stream::pending().boxed() => |error| matches!(error, Error::Timeout { .. });
    ];
    for (name, end, is_expected) in ends {
        let listed = [listed("tide", 3), listed("buoy", 1)].concat();
        let server = serve(with!(Script, listed, end: Arc::new(end))).await;
        let bounds = with!(ClientLimits, wait: Duration::from_millis(500));
        let client = connect(server.address, bounds).await;
        let error = packages(&client, &set("tide")).await.unwrap_err();
        assert!(is_expected(&error), "{name}: {error:?}");
        assert!(error.to_string().contains("ListBundles"), "{error}");
        // The content that was read before is neither changed nor extended.
        let merged = Packages::default().merge(&client, &set("buoy")).await;
        assert!(merged.is_err(), "{name}");
    }
}

#[tokio::test]
async fn endless_package_is_discarded() {
    // One bundle in very many channels with long edges, and very many bundles.
    let mut long = listed("tide", 1);
    long[0].skips = vec!["s".repeat(1 << 20)];
    for (listed, problem) in tests::rows![
        vec![long.remove(0); 100] => "the bundles and edges of the package exceed 67108864 bytes";
        listed("tide", 6000) => "the package has more than 5000 bundles";
    ] {
        let read = read(with!(Script, listed), ClientLimits::default(), "tide");
        let read = read.await.unwrap();
        assert!(read.packages.is_empty());
        assert_eq!(read.broken["tide"], problem);
    }
}

#[tokio::test]
async fn package_texts_are_counted_and_truncated() {
    let text = |letter: &str| {
        let message = letter.repeat(1 << 20);
        Some(Deprecation { message })
    };
    let describe = move |name: &str| match name {
        "wordy" => {
            let channel = with!(proto::Channel, name: "c".into(), deprecation: text("c"));
            with!(Package, deprecation: text("p"), channels: vec![channel])
        }
        "large" => with!(Package, default_channel_name: "d".repeat(1 << 20)),
        _ => Package::default(),
    };
    let answer = answer(move |asked| async move {
        let deprecation = text("b").filter(|_| asked.pkg_name == "wordy");
        good(&with!(Bundle, deprecation; ..served_bundle(asked)))
    });
    let listed = [listed("wordy", 1), listed("large", 1), listed("tide", 1)].concat();
    let bounds = with!(ClientLimits, max_retained: 512 << 10);
    let script = with!(Script, listed, describe: Arc::new(describe), answer);
    let read = read(script, bounds, "wordy large tide").await.unwrap();
    let large = "with this package, the requested packages of the catalog exceed 524288 bytes";
    assert_eq!(read.broken["large"], large);
    assert!(read.packages.contains_key("tide"));
    let wordy = &read.packages["wordy"];
    for (text, letter) in [
        (&wordy.deprecation, 'p'),
        (&wordy.channels["c"].deprecation, 'c'),
        (&wordy.bundles["wordy.v1.0.0"].deprecation, 'b'),
    ] {
        let text = text.as_ref().unwrap();
        assert!(text.starts_with(letter) && text.ends_with('…'));
        assert_eq!(text.chars().count(), 32 * 1024 + 1);
    }
    let sizes = [read.retained_bytes, wordy.size()];
    assert!(sizes.iter().all(|size| *size > 3 * 32 * 1024), "{sizes:?}");
}

// parity: max-4
#[tokio::test(flavor = "multi_thread")]
async fn served_packages_are_those_of_the_files() {
    let annotation = "operators.coreos.com/maxOpenShiftVersion";
    let number = json!({"type": "olm.maxOpenShiftVersion", "value": "4.10"});
    let list = json!([number]).to_string();
    let annotated = |key: &str, text: &str| json!({"type": "olm.csv.metadata", "value": {"annotations": {key: text}}});
    let csv = json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": {"name": "tide.v1.3.0", "annotations": {annotation: "4.10"}},
    });
    let metadata = json!({"type": "olm.csv.metadata", "value": {}});
    let mut keyed = bundle("tide", "1.4.0", std::slice::from_ref(&metadata));
    keyed[annotation] = "4.10".into();
    let bundles = [
        bundle("tide", "1.0.0", &[number, metadata]),
        bundle("tide", "1.1.0", &[annotated(annotation, "4.10")]),
        bundle("tide", "1.2.0", &[annotated("olm.properties", &list)]),
        bundle("tide", "1.3.0", &[object(&csv.to_string())]),
        keyed,
    ];
    // A number, which JSON libraries of other programs shorten.
    let text = lines(&chained("tide", "stable", &bundles));
    let text = text.replacen("\"value\":\"4.10\"", "\"value\":4.10", 1);
    let directory = tempfile::tempdir().unwrap();
    tests::write(directory.path(), "tide.json", text);
    let read = load(Source::Directory(directory.path()), &Limits::default()).unwrap();
    let served = Served::start(directory.path()).await;
    let client = served.client().await;
    let packages = packages(&client, &set("tide")).await.unwrap();
    let tide = &read.packages["tide"];
    let declared = tide.bundles.values();
    assert_rows!(declared.map(|bundle| bundle.max_openshift.as_ref().unwrap().text()).collect::<Vec<_>>() => ["4.10"; 5]);
    assert_eq!(*packages.packages["tide"], *tide);
}
