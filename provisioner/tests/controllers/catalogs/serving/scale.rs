//! A thousand CatalogSources that share twenty images.

use std::{collections::BTreeSet, time::Duration};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use parking_lot::Mutex;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

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

/// A proxy to a registry that records the answered requests. On a busy machine, the client repeats requests that get no
/// answer in time.
struct Proxy {
    host: String,
    bytes: Arc<Mutex<Vec<u8>>>,
}

impl Proxy {
    async fn new(registry: &Registry) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let host = listener.local_addr().unwrap().to_string();
        let bytes: Arc<Mutex<Vec<u8>>> = Arc::default();
        let (upstream, record) = (registry.host().to_owned(), Arc::clone(&bytes));
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let upstream = TcpStream::connect(&upstream).await.unwrap();
                tokio::spawn(forward(client, upstream, Arc::clone(&record)));
            }
        });
        Self { host, bytes }
    }

    /// Returns all requests so far, without other bytes on the connections: a client that falls back from HTTPS has begun
    /// a handshake before.
    fn requests(&self) -> Vec<String> {
        let bytes = self.bytes.lock();
        let text = String::from_utf8_lossy(&bytes);
        let lines = text.lines().filter(|line| line.ends_with("HTTP/1.1"));
        let request = |line: &str| {
            let mut methods = ["HEAD /", "GET /"].iter();
            let begin = methods.find_map(|method| line.rfind(method))?;
            Some(line[begin..].to_owned())
        };
        lines.filter_map(request).collect()
    }
}

/// Forwards one connection until one side closes it. A request is recorded with the first bytes of its answer.
async fn forward(mut client: TcpStream, mut upstream: TcpStream, record: Arc<Mutex<Vec<u8>>>) {
    let (mut request, mut answer) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    // A TLS handshake ends without a line break.
    let mut unanswered = vec![b'\n'];
    loop {
        let sent = tokio::select! {
            read = client.read(&mut request) => {
                let Ok(read @ 1..) = read else { return };
                unanswered.extend_from_slice(&request[..read]);
                upstream.write_all(&request[..read]).await
            }
            read = upstream.read(&mut answer) => {
                let Ok(read @ 1..) = read else { return };
                record.lock().append(&mut unanswered);
                client.write_all(&answer[..read]).await
            }
        };
        if sent.is_err() {
            return;
        }
    }
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
    let proxy = Proxy::new(&registry).await;
    let leader = Leader::start(&shelf.cluster, HERE);
    let writes_before = service_writes(&shelf).await;
    declare_all(&shelf, &proxy.host, 0).await;
    until("read", || polled(&leader, "new")).await;
    let is_served = |line: &&String| line.ends_with(" 1");
    let served = || leader.served().iter().filter(is_served).count();
    until("served", served).await;
    // Services that are created all at once take so long that requests time out and are repeated.
    let writes = service_writes(&shelf).await - writes_before;
    tests::assert_rows!((SOURCES..SOURCES * 3 / 2).contains(&writes) => true, "{writes} writes of Services");
    // The content of an image was fetched once, into one file; each CatalogSource has resolved its digest with its own
    // credentials.
    let before = proxy.requests();
    let blobs = before.iter().filter(|request| request.contains("/blobs/"));
    let blobs: Vec<&String> = blobs.collect();
    let different: BTreeSet<&&String> = blobs.iter().collect();
    assert_eq!(blobs.len(), different.len(), "{blobs:?}");
    let heads = before.iter().filter(|request| request.starts_with("HEAD "));
    let polls = ["new", "same", "failed"].map(|outcome| polled(&leader, outcome));
    assert_eq!(heads.count(), SOURCES, "resolved tags; polls: {polls:?}");
    tests::assert_rows!(std::fs::read_dir(leader.store.path().join("registries")).unwrap().count() => IMAGES);

    // A poll without a change is one request.
    declare_all(&shelf, &proxy.host, 1).await;
    until("polled again", || polled(&leader, "same")).await;
    let mut requests = proxy.requests().split_off(before.len());
    // A registry without authentication may also be one without HTTPS, which is tried first.
    requests.retain(|request| !request.ends_with("GET /v2/ HTTP/1.1"));
    let is_head = |request: &String| request.starts_with("HEAD /v2/org/catalog/manifests/v");
    assert!(requests.iter().all(is_head), "{requests:?}");
    assert_eq!(requests.len(), SOURCES, "polled tags");
    shelf.serves("c7", &["tide.v1.7.0"]).await;
}
