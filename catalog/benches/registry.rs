//! A catalog of 10,000 bundles: made ready, opened again, and listed over TCP. The real `opm` beside it when
//! `RUKPAK_OPM` names the program.
//!
//! `cargo bench -p catalog --features registry --bench registry`

#![allow(clippy::unwrap_used, reason = "a bench fails by panicking")]

use std::{
    fs,
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use catalog::{
    Limits, Source,
    generate::Shape,
    registry::{Bounds, Cache, Client, Store, serve},
};
use futures::TryStreamExt;
use tokio::net::TcpListener;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const RUNS: usize = 5;

fn main() {
    let place = tempfile::tempdir().unwrap();
    let catalog = place.path().join("catalog");
    Shape::default().write(&catalog).unwrap();
    ours(&catalog, place.path());
    if let Ok(program) = std::env::var("RUKPAK_OPM") {
        theirs(Path::new(&program), &catalog, place.path());
    }
}

fn ours(catalog: &Path, place: &Path) {
    let (source, limits) = (Source::Folder(catalog), Limits::default());
    let folder = place.join("cache");
    best("cold: build", || {
        drop(fs::remove_dir_all(&folder));
        let cache = Cache::open(&folder).unwrap();
        drop(cache.load_or_build(source, &limits).unwrap());
    });
    println!(
        "  memory after building: {} MB, at most {} MB",
        memory("VmRSS:"),
        memory("VmHWM:")
    );
    let cache = Cache::open(&folder).unwrap();
    best("warm: digest of the catalog and opening", || {
        let (_, is_new) = cache.load_or_build(source, &limits).unwrap();
        assert!(!is_new);
    });
    best("warm: the same, and the store verified", || {
        drop(cache.load(source, &limits).unwrap());
    });
    let (store, _) = cache.load_or_build(source, &limits).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let address = runtime.block_on(start(store));
    list(&runtime, &address);
    println!("  memory while serving: {} MB", memory("VmRSS:"));
}

async fn start(store: Store) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(serve(Arc::new(store), listener, std::future::pending()));
    address
}

fn list(runtime: &tokio::runtime::Runtime, address: &str) {
    let client = runtime
        .block_on(Client::connect(address, Bounds::default()))
        .unwrap();
    best("ListBundles", || {
        let count = client
            .list_bundles()
            .try_fold(0, |count, _| async move { Ok(count + 1) });
        // Half of the bundles are in two channels.
        assert_eq!(runtime.block_on(count).unwrap(), 15_000);
    });
}

/// `opm serve`, killed in the end.
struct Opm(Child);

impl Drop for Opm {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn theirs(program: &Path, catalog: &Path, place: &Path) {
    let folder = place.join("opm-cache");
    let start = |more: &[&str]| {
        let mut command = Command::new(program);
        command
            .arg("serve")
            .arg(catalog)
            .arg("--cache-dir")
            .arg(&folder)
            .args(more);
        command
            .args(["--pprof-addr", "", "--termination-log"])
            .arg(place.join("log"));
        command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    };
    let since = Instant::now();
    assert!(start(&["--cache-only"]).wait().unwrap().success());
    println!("opm, cold: build {} ms", since.elapsed().as_millis());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let since = Instant::now();
    let opm = Opm(start(&["--port", &address.port().to_string()]));
    let address = address.to_string();
    let is_there = || {
        let client = runtime.block_on(Client::connect(&address, Bounds::default()));
        client.is_ok_and(|it| runtime.block_on(it.list_packages()).is_ok())
    };
    while !is_there() {
        assert!(
            since.elapsed() < Duration::from_secs(300),
            "opm does not serve"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
    println!("opm, warm: to serving {} ms", since.elapsed().as_millis());
    list(&runtime, &address);
    let status = fs::read_to_string(format!("/proc/{}/status", opm.0.id())).unwrap();
    println!(
        "  memory of opm while serving: {} MB",
        field(&status, "VmRSS:")
    );
}

fn best(what: &str, mut run: impl FnMut()) {
    let times = (0..RUNS).map(|_| {
        let since = Instant::now();
        run();
        since.elapsed()
    });
    let mut times: Vec<Duration> = times.collect();
    times.sort();
    let middle = times.get(RUNS / 2).unwrap();
    println!("{what}: {:.1} ms", middle.as_secs_f64() * 1000.0);
}

/// Of this process, in megabytes.
fn memory(name: &str) -> u64 {
    field(&fs::read_to_string("/proc/self/status").unwrap(), name)
}

fn field(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|it| it.strip_prefix(name)).unwrap();
    line.split_whitespace()
        .next()
        .unwrap()
        .parse::<u64>()
        .unwrap()
        / 1000
}
