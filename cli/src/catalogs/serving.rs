//! `rukpak catalog serve`.

use std::{
    fs, io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    path::Path,
    sync::Arc,
};

use anyhow::{Context, bail};
use catalog::{
    Limits, Source,
    registry::{self, Cache, Store},
    web::{self, Put, Shelf},
};
use tempfile::TempDir;
use tokio::{
    net::TcpListener,
    runtime::Builder,
    signal::unix::{Signal, SignalKind, signal},
    sync::{oneshot, watch},
};
use tracing::{info, warn};
use tracing_subscriber::EnvFilter;

use crate::{
    Exit,
    args::{CatalogServeArgs, TERMINATION_LOG, usage},
};

/// What a kubelet reads of a termination log, in bytes.
const LAST_WORDS: usize = 4096;

pub(crate) fn run(args: &CatalogServeArgs) -> anyhow::Result<Exit> {
    if args.cache_enforce_integrity == Some(true) && args.cache_dir.is_none() {
        usage("--cache-dir must be specified with --cache-enforce-integrity");
    }
    log(args.debug);
    let runtime = Builder::new_multi_thread().enable_all().build();
    let result = runtime
        .context("failed to start what serves")
        .and_then(|it| it.block_on(serve(args)));
    if let Err(error) = &result {
        last_words(&args.termination_log, &format!("{error:#}"));
    }
    result
}

async fn serve(args: &CatalogServeArgs) -> anyhow::Result<Exit> {
    let mut signals = Signals::new().context("failed to listen to signals")?;
    let (done, opened) = oneshot::channel();
    let (folder, cache, enforces) = (args.folder.clone(), args.cache_dir.clone(), args.enforces());
    let name = args.http_port.map(|_| args.http_name.clone());
    // A thread that nobody waits for: a signal ends the process while a large catalog is read.
    std::thread::spawn(move || {
        let opened = open(&folder, cache.as_deref(), enforces).and_then(|store| {
            let lines = name.map(|name| write(&folder, &name)).transpose()?;
            Ok((store, lines))
        });
        drop(done.send(opened));
    });
    let (store, lines) = tokio::select! {
        opened = opened => opened.context("the catalog was not opened")??,
        () = signals.next() => {
            info!("ended before the catalog was read");
            return Ok(Exit::Failed);
        }
    };
    for reason in store.left_out() {
        warn!(reason, "left out");
    }
    match store.left_out() {
        [first, ..] if args.strict => {
            let count = store.left_out().len();
            bail!(
                "the catalog cannot be served as a whole: {first} (1 of {count}); correct it, or serve without --strict"
            );
        }
        _ => {}
    }
    if args.cache_only {
        return Ok(Exit::Done);
    }
    let listener = listen(args.port).await.context("failed to listen")?;
    let address = listener.local_addr().context("failed to listen")?;
    info!(
        %address,
        packages = store.packages(),
        digest = %store.digest(),
        "serving registry"
    );
    let (stop, mut stopped) = watch::channel(false);
    let until_then = async move { drop(stopped.wait_for(|stopped| *stopped).await) };
    let over_http = async {
        if let (Some(lines), Some(port)) = (lines, args.http_port) {
            serve_lines(lines, port, &args.http_name, until_then).await?;
        }
        anyhow::Ok(())
    };
    let over_grpc = async {
        let shutdown = async {
            signals.next().await;
            stop.send_replace(true);
        };
        registry::serve(Arc::new(store), listener, shutdown).await?;
        anyhow::Ok(())
    };
    tokio::try_join!(over_grpc, over_http)?;
    Ok(Exit::Done)
}

/// The lines of a catalog, in a folder that goes with them.
struct Lines {
    shelf: Shelf,
    _folder: TempDir,
}

fn write(catalog: &Path, name: &str) -> anyhow::Result<Lines> {
    let failed = "failed to write what is served over HTTP";
    let folder = tempfile::Builder::new()
        .prefix("rukpak-serve-lines-")
        .tempdir()
        .context(failed)?;
    let shelf = Shelf::open(folder.path()).context(failed)?;
    let put = shelf.put(name, None, Source::Folder(catalog), &Limits::default());
    if let Put::Written(written) = put.context(failed)? {
        for reason in written.faults {
            warn!(%reason, "left out of what is served over HTTP");
        }
    }
    Ok(Lines {
        shelf,
        _folder: folder,
    })
}

async fn serve_lines(
    lines: Lines,
    port: u16,
    name: &str,
    stop: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let listener = listen(port).await.context("failed to listen for HTTP")?;
    let address = listener.local_addr().context("failed to listen for HTTP")?;
    info!(%address, path = %format!("/catalogs/{name}/api/v1/all"), "serving HTTP");
    web::serve(listener, lines.shelf.clone(), stop).await;
    Ok(())
}

fn open(folder: &Path, cache: Option<&Path>, enforces: bool) -> anyhow::Result<Store> {
    let (source, limits) = (Source::Folder(folder), Limits::default());
    if enforces && let Some(place) = cache {
        let load = || Cache::open(place)?.load(source, &limits);
        return load().context("integrity check failed");
    }
    let build = |place: &Path| {
        let (store, is_new) = Cache::open(place)?.load_or_build(source, &limits)?;
        info!(is_new, "opened the cache");
        Ok::<_, registry::Error>(store)
    };
    let failed = "failed to load or rebuild cache";
    if let Some(place) = cache {
        return build(place).context(failed);
    }
    // What is open stays when its name is gone, so nothing is left behind however the process ends.
    let place = tempfile::Builder::new()
        .prefix("rukpak-serve-cache-")
        .tempdir();
    build(place.context(failed)?.path()).context(failed)
}

/// On all addresses, of both families where there are both.
async fn listen(port: u16) -> io::Result<TcpListener> {
    match TcpListener::bind(SocketAddr::from((Ipv6Addr::UNSPECIFIED, port))).await {
        Ok(listener) => Ok(listener),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => Err(error),
        Err(_) => TcpListener::bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port))).await,
    }
}

/// What tells this process to end. From now on it does not just die.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

// === impl Signals ===

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

fn log(debug: bool) {
    let level = if debug {
        "info,catalog=debug,rukpak=debug"
    } else {
        "info"
    };
    let lines = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(level))
        .with_writer(io::stderr)
        .with_ansi(false)
        .compact();
    // Nothing else logs in this process.
    drop(lines.try_init());
}

/// Leaves a message where the kubelet finds it. That there is none is no other failure.
fn last_words(path: &Path, text: &str) {
    if path == Path::new(TERMINATION_LOG) && !path.exists() {
        return;
    }
    let mut end = text.len().min(LAST_WORDS);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    if let Err(error) = fs::write(path, text.get(..end).unwrap_or_default()) {
        warn!(%error, path = %path.display(), "the termination log was not written");
    }
}
