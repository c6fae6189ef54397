//! Time and memory to serve a thousand CatalogSources that share twenty images: at the start, without changes, and when
//! one image or all images change.
//!
//! The Kubernetes objects are not included: they are two requests per CatalogSource, and one process holds them all.

#![allow(clippy::unwrap_used, reason = "benches may panic")]

use std::{
    io::{self, Read},
    net::TcpListener,
    sync::Arc,
    time::Instant,
};

use catalog::{
    registry::{Client, ClientLimits},
    source::FileSource,
};
use provisioner::{
    controllers::catalog_source::registry_server::{
        CatalogListener, CatalogStores, Error, ServedStore,
    },
    runtime::metrics::Metrics,
};
use serde_json::json;
use unpacker::Digest;

#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const SOURCES: usize = 1000;
const IMAGES: usize = 20;
const PACKAGES: usize = 25;
const BUNDLES: usize = 20;

/// A catalog of 500 bundles, as it is stored in an image.
#[derive(Debug)]
struct Image(Vec<u8>);

impl FileSource for Image {
    fn paths(&self) -> Vec<String> {
        vec!["catalog.json".to_owned()]
    }

    fn open<'a>(&'a self, _: &str) -> io::Result<Box<dyn Read + 'a>> {
        Ok(Box::new(self.0.as_slice()))
    }
}

/// Returns the catalog of an image in this round of changes.
fn image(number: usize, round: usize) -> Image {
    let mut bytes = Vec::new();
    let mut add = |document: serde_json::Value| {
        serde_json::to_writer(&mut bytes, &document).unwrap();
        bytes.push(b'\n');
    };
    for package in 0..PACKAGES {
        let package = format!("operator-{number}-{package}");
        add(json!({"schema": "olm.package", "name": package, "defaultChannel": "stable"}));
        let name = |at: usize| format!("{package}.v{round}.{at}.0");
        let entries: Vec<_> = (0..BUNDLES)
            .map(|at| json!({"name": name(at), "replaces": at.checked_sub(1).map(name)}))
            .collect();
        add(
            json!({"schema": "olm.channel", "package": package, "name": "stable", "entries": entries}),
        );
        for at in 0..BUNDLES {
            let crd = json!({
                "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "metadata": {"name": "widgets.example.com"}, "spec": {"description": "about a widget: ".repeat(500)},
            });
            add(json!({
                "schema": "olm.bundle", "package": package, "name": name(at), "image": format!("example.com/{package}:{at}"),
                "properties": [
                    {"type": "olm.package", "value": {"packageName": package, "version": format!("{round}.{at}.0")}},
                    {"type": "olm.gvk", "value": {"group": "example.com", "version": "v1", "kind": "Widget"}},
                    {"type": "olm.csv.metadata", "value": {"displayName": package, "annotations": {"about": crd.to_string()}}},
                ],
            }));
        }
    }
    Image(bytes)
}

async fn get(stores: &CatalogStores, number: usize, round: usize) -> Arc<ServedStore> {
    let digest = Digest::sha256(format!("{number} {round}").as_bytes());
    let files = move || Ok::<Box<dyn FileSource + Send>, Error>(Box::new(image(number, round)));
    stores.get(digest, None, files).await.unwrap()
}

/// Offers the content of each CatalogSource, as `follow` does after a poll, all at once.
async fn offer(
    stores: &CatalogStores,
    all: &mut [CatalogListener],
    round: impl Fn(usize) -> usize,
) -> usize {
    let served = (0..SOURCES).map(|at| get(stores, at % IMAGES, round(at % IMAGES)));
    let served = futures::future::join_all(served).await;
    let mut changed = 0;
    for (listening, served) in all.iter_mut().zip(served) {
        if !listening.is_serving(&served) {
            listening.serve(served).unwrap();
            changed += 1;
        }
    }
    changed
}

fn memory() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let mut lines = status.lines();
    let line = lines.find(|line| line.starts_with("VmRSS:")).unwrap();
    let kilobytes: f64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kilobytes / 1024.0
}

/// Prints the time of a step and the memory after it.
fn report(step: &str, start: Instant) {
    let milliseconds = start.elapsed().as_secs_f64() * 1000.0;
    println!("{step:<58} {milliseconds:>9.1} ms {:>8.1} MB", memory());
}

#[tokio::main]
async fn main() {
    // File descriptors: two per listener, and some for clients.
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let most = rustix::process::Rlimit {
        current: limit.maximum,
        ..limit
    };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, most).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let size = image(0, 1).0.len();
    println!(
        "{SOURCES} CatalogSources, {IMAGES} images of {} kB with {} bundles each\n",
        size / 1000,
        PACKAGES * BUNDLES
    );
    report("at the beginning", Instant::now());
    let stores = CatalogStores::new(dir.path(), Arc::new(Metrics::new()));
    let start = Instant::now();
    let listeners = (0..SOURCES).map(|_| {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        socket.set_nonblocking(true).unwrap();
        CatalogListener::new(socket).unwrap()
    });
    let mut all: Vec<CatalogListener> = listeners.collect();
    report("sockets", start);
    for (step, first, others) in [
        ("all offered, images made to be served", 1, 1),
        ("all offered again, nothing is new", 1, 1),
        ("all offered, every image is another one", 2, 2),
        ("all offered, one image is another one", 3, 2),
    ] {
        let start = Instant::now();
        let round = |image: usize| if image == 0 { first } else { others };
        let changed = offer(&stores, &mut all, round).await;
        report(&format!("{step} ({changed} switched)"), start);
    }

    let start = Instant::now();
    let mut clients = Vec::new();
    for listening in &all {
        let address = format!("127.0.0.1:{}", listening.port());
        let client = Client::connect(&address, ClientLimits::default()).await;
        let client = client.unwrap();
        assert_eq!(client.list_packages().await.unwrap().len(), PACKAGES);
        clients.push(client);
    }
    report("a connected client of each lists the packages", start);
    drop(clients);
    let files = std::fs::read_dir(dir.path().join("registries")).unwrap();
    println!("\nfiles to serve from: {}", files.count());

    // Opened again, as after a restart in the same pod.
    drop((all, stores));
    let stores = CatalogStores::new(dir.path(), Arc::new(Metrics::new()));
    let start = Instant::now();
    for number in 1..IMAGES {
        drop(get(&stores, number, 2).await);
    }
    report("19 files taken over after a restart", start);
}
