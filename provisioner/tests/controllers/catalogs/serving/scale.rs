//! A thousand CatalogSources that share twenty images.

use std::{collections::BTreeSet, time::Duration};

use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use parking_lot::Mutex;
use tests::Site;

use super::*;
use crate::support::until_within;

const SOURCES: usize = 1000;
const IMAGES: usize = 20;
const MAX_CONCURRENT: usize = 32;

/// Writes all CatalogSources, with another priority in each round: each change causes a poll of the image.
async fn declare_all(shelf: &Shelf, host: &str, round: usize) {
    let sources = shelf.sources("catalogs");
    let params = PatchParams::apply("test").force();
    let writes = (0..SOURCES).map(async |at| {
        let name = format!("c{at}");
        let image = format!("{host}/org/catalog:v{}", at % IMAGES);
        let spec = json!({"sourceType": "grpc", "image": image, "priority": round});
        let patch = Patch::Apply(catalog_source("catalogs", &name, &spec));
        sources.patch(&name, &params, &patch).await.map(drop)
    });
    let writes = stream::iter(writes).buffer_unordered(MAX_CONCURRENT);
    writes.try_collect::<()>().await.unwrap();
}

/// Waits until the count is that of the CatalogSources, longer than for one catalog.
async fn until(description: &str, count: impl Fn() -> usize) {
    let limit = Duration::from_secs(600);
    let counted = async || count();
    until_within(limit, description, counted, |count| *count >= SOURCES).await;
}

fn polled(leader: &Leader, outcome: &str) -> usize {
    let line = format!("rukpak_catalog_polls_total{{outcome=\"{outcome}\"}} ");
    metric(&leader.ctx, &line).map_or(0, |count| count.parse().unwrap())
}

/// Starts a proxy to a registry, and returns it with its record of answered requests. On a busy machine, the client repeats
/// requests that get no answer in time.
fn recorded(registry: &Registry) -> (Site, Arc<Mutex<Vec<String>>>) {
    let (client, upstream) = (reqwest::Client::new(), registry.host().to_owned());
    let requests: Arc<Mutex<Vec<String>>> = Arc::default();
    let record = Arc::clone(&requests);
    let proxy = Site::start(None, move |request: http::Request<Bytes>| {
        let (method, path) = (request.method().clone(), request.uri().to_string());
        let line = format!("{method} {path}");
        let sent = client.request(method, format!("http://{upstream}{path}"));
        let sent = sent.headers(request.headers().clone()).send();
        let record = Arc::clone(&record);
        async move {
            let answer = sent.await.unwrap();
            let mut response = http::Response::new(Bytes::new());
            *response.status_mut() = answer.status();
            *response.headers_mut() = answer.headers().clone();
            *response.body_mut() = answer.bytes().await.unwrap();
            record.lock().push(line);
            response
        }
    });
    (proxy, requests)
}

async fn service_writes(shelf: &Shelf) -> usize {
    let parts = r#"apiserver_request_total{ resource="services" verb="APPLY""#;
    apiserver_metric(shelf, parts).await
}

// parity: serve-23, serve-24, platform-12, complaint-5
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_catalog_sources_load_each_of_twenty_images_once() {
    // Each CatalogSource has a listener of two descriptors.
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let most = rustix::process::Rlimit {
        current: limit.maximum,
        ..limit
    };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, most).unwrap();
    let shelf = stage().await;
    let registry = Registry::plain();
    for at in 0..IMAGES {
        let documents = tide(&[&format!("1.{at}.0")]);
        push_documents(&registry, &format!("org/catalog:v{at}"), &documents, None);
    }
    let (proxy, requests) = recorded(&registry);
    let leader = Leader::start(&shelf.cluster, HERE);
    let writes_before = service_writes(&shelf).await;
    declare_all(&shelf, &proxy.host(), 0).await;
    until("read", || polled(&leader, "new")).await;
    let is_served = |line: &&String| line.ends_with(" 1");
    let served = || leader.served().iter().filter(is_served).count();
    until("served", served).await;
    // Services that are created all at once take so long that requests time out and are repeated.
    let writes = service_writes(&shelf).await - writes_before;
    tests::assert_rows!((SOURCES..SOURCES * 3 / 2).contains(&writes) => true, "{writes} writes of Services");
    // The content of an image was fetched once, into one file; each CatalogSource has resolved its digest with its own
    // credentials.
    let before = requests.lock().clone();
    let blobs = before.iter().filter(|request| request.contains("/blobs/"));
    let blobs: Vec<&String> = blobs.collect();
    let different: BTreeSet<&&String> = blobs.iter().collect();
    assert_eq!(blobs.len(), different.len(), "{blobs:?}");
    let heads = before.iter().filter(|request| request.starts_with("HEAD "));
    let polls = ["new", "same", "failed"].map(|outcome| polled(&leader, outcome));
    assert_eq!(heads.count(), SOURCES, "resolved tags; polls: {polls:?}");
    tests::assert_rows!(std::fs::read_dir(leader.store.path().join("registries")).unwrap().count() => IMAGES);

    // A poll without a change is one request.
    declare_all(&shelf, &proxy.host(), 1).await;
    until("polled again", || polled(&leader, "same")).await;
    let mut requests = requests.lock().split_off(before.len());
    // A registry without authentication may also be one without HTTPS, which is tried first.
    requests.retain(|request| request != "GET /v2/");
    let is_head = |request: &String| request.starts_with("HEAD /v2/org/catalog/manifests/v");
    assert!(requests.iter().all(is_head), "{requests:?}");
    assert_eq!(requests.len(), SOURCES, "polled tags");
    shelf.serves("c7", &["tide.v1.7.0"]).await;
}
