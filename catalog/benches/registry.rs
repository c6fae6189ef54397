//! A catalog of 10,000 bundles: building its store, opening it again, and listing it over TCP. `cli/benches/opm.rs`
//! compares the whole process with the real opm.
//!
//! `cargo bench -p catalog --features registry --bench registry`

#![allow(clippy::unwrap_used, reason = "a bench fails by panicking")]

use std::{
    fs,
    sync::Arc,
    time::{Duration, Instant},
};

use catalog::{
    Limits, Source,
    generate::CatalogShape,
    registry::{Cache, Client, ClientLimits, serve},
};
use futures::TryStreamExt;
use tokio::{net::TcpListener, runtime::Runtime};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const RUNS: usize = 5;

fn main() {
    let place = tempfile::tempdir().unwrap();
    let [catalog, dir] = ["catalog", "cache"].map(|name| place.path().join(name));
    CatalogShape::default().write(&catalog).unwrap();
    let (source, limits) = (Source::Directory(&catalog), Limits::default());
    best("cold: build", || {
        drop(fs::remove_dir_all(&dir));
        let cache = Cache::open(&dir).unwrap();
        drop(cache.load_or_build(source, &limits).unwrap());
    });
    let (now, most) = (memory("VmRSS:"), memory("VmHWM:"));
    println!("  memory after building: {now} MB, at most {most} MB");
    let cache = Cache::open(&dir).unwrap();
    best(
        "warm: digest of the catalog, opening and verifying the store",
        || {
            let (_, is_new) = cache.load_or_build(source, &limits).unwrap();
            assert!(!is_new);
        },
    );
    let (store, _) = cache.load_or_build(source, &limits).unwrap();
    let runtime = Runtime::new().unwrap();
    let client = runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        tokio::spawn(serve(Arc::new(store), listener, std::future::pending()));
        let client = Client::connect(&address, ClientLimits::default()).await;
        client.unwrap()
    });
    best("ListBundles", || {
        let count = client
            .list_bundles()
            .try_fold(0, |count, _| async move { Ok(count + 1) });
        // Half of the bundles are in two channels.
        assert_eq!(runtime.block_on(count).unwrap(), 15_000);
    });
    println!("  memory while serving: {} MB", memory("VmRSS:"));
}

fn best(name: &str, mut run: impl FnMut()) {
    let times = (0..RUNS).map(|_| {
        let since = Instant::now();
        run();
        since.elapsed()
    });
    let mut times: Vec<Duration> = times.collect();
    times.sort();
    let middle = times.get(RUNS / 2).unwrap();
    println!("{name}: {:.1} ms", middle.as_secs_f64() * 1000.0);
}

/// Returns a memory value of this process from `/proc/self/status`, in megabytes.
fn memory(name: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let value = status.lines().find_map(|line| line.strip_prefix(name));
    let kilobytes = value.unwrap().split_whitespace().next().unwrap();
    kilobytes.parse::<u64>().unwrap() / 1000
}
