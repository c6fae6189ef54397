//! `rukpak catalog serve`.

use std::{io, path::PathBuf, sync::Arc};

use anyhow::{Context, bail};
use catalog::{
    Limits, Source,
    http::{self, ContentStore, PutOutcome},
    registry,
    registry::startup::{listen, open, write_termination_log},
};
use tempfile::TempDir;
use tokio::{
    runtime::Builder,
    signal::unix::{Signal, SignalKind, signal},
    sync::{oneshot, watch},
};
use tracing::{info, warn};
use tracing_subscriber::EnvFilter;

use super::image::{CatalogFiles, is_database};
use crate::{
    ExitStatus,
    args::{CatalogServeArgs, usage},
};

pub(crate) fn run(args: &CatalogServeArgs) -> anyhow::Result<ExitStatus> {
    if args.cache_enforce_integrity == Some(true) && args.cache_dir.is_none() {
        usage("--cache-dir must be specified with --cache-enforce-integrity");
    }
    log(args.debug);
    let runtime = Builder::new_multi_thread().enable_all().build();
    let result = runtime
        .context("failed to start the server runtime")
        .and_then(|runtime| runtime.block_on(serve(args)));
    if let Err(error) = &result {
        write_termination_log(&args.termination_log, &format!("{error:#}"));
    }
    result
}

async fn serve(args: &CatalogServeArgs) -> anyhow::Result<ExitStatus> {
    let mut signals = Signals::new().context("failed to listen for signals")?;
    let (done, opened) = oneshot::channel();
    let (folder, cache, enforces_integrity) = (
        args.folder.clone(),
        args.cache_dir.clone(),
        args.enforces_integrity(),
    );
    let name = args.http_port.map(|_| args.http_name.clone());
    // The thread is not joined, so that a signal ends the process while a large catalog is read.
    std::thread::spawn(move || {
        let opened = ServeInput::open(folder).and_then(|input| {
            let store = open(
                input.source(),
                &Limits::default(),
                cache.as_deref(),
                enforces_integrity,
            )?;
            let lines = name.map(|name| write(input.source(), &name)).transpose()?;
            Ok((store, lines))
        });
        drop(done.send(opened));
    });
    let (store, lines) = tokio::select! {
        opened = opened => opened.context("failed to open the catalog")??,
        () = signals.next() => {
            info!("stopped before the catalog was read");
            return Ok(ExitStatus::Failed);
        }
    };
    for reason in store.skipped() {
        warn!(reason, "skipped");
    }
    match store.skipped() {
        [first, ..] if args.strict => {
            let count = store.skipped().len();
            bail!(
                "the catalog cannot be served completely: {first} (1 of {count}); fix the catalog, or remove --strict"
            );
        }
        _ => {}
    }
    if args.cache_only {
        return Ok(ExitStatus::Done);
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
    let until_stopped = async move { drop(stopped.wait_for(|stopped| *stopped).await) };
    let over_http = async {
        if let (Some(lines), Some(port)) = (lines, args.http_port) {
            serve_lines(lines, port, &args.http_name, until_stopped).await?;
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
    Ok(ExitStatus::Done)
}

/// Content to be served.
enum ServeInput {
    Directory(PathBuf),
    Database(Box<CatalogFiles>),
}

// === impl ServeInput ===

impl ServeInput {
    fn open(path: PathBuf) -> anyhow::Result<Self> {
        if !is_database(&path) {
            return Ok(Self::Directory(path));
        }
        let found = CatalogFiles::open(&path, &Limits::default())?;
        for text in found.warnings() {
            warn!("{text}");
        }
        Ok(Self::Database(Box::new(found)))
    }

    fn source(&self) -> Source<'_> {
        match self {
            Self::Directory(path) => Source::Directory(path),
            Self::Database(found) => found.source(),
        }
    }
}

/// Content for HTTP, in a temporary directory that is deleted with it.
struct HttpContent {
    shelf: ContentStore,
    _directory: TempDir,
}

fn write(source: Source<'_>, name: &str) -> anyhow::Result<HttpContent> {
    let failed = "failed to write the content for HTTP";
    let directory = tempfile::Builder::new()
        .prefix("rukpak-serve-lines-")
        .tempdir()
        .context(failed)?;
    let shelf = ContentStore::open(directory.path()).context(failed)?;
    let put = shelf.put(name, None, source, &Limits::default());
    if let PutOutcome::Written(written) = put.context(failed)? {
        for reason in written.faults {
            warn!(%reason, "skipped a part of the content for HTTP");
        }
    }
    Ok(HttpContent {
        shelf,
        _directory: directory,
    })
}

async fn serve_lines(
    lines: HttpContent,
    port: u16,
    name: &str,
    stop: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let listener = listen(port).await.context("failed to listen for HTTP")?;
    let address = listener.local_addr().context("failed to listen for HTTP")?;
    info!(%address, path = %format!("/catalogs/{name}/api/v1/all"), "serving HTTP");
    http::serve(listener, lines.shelf.clone(), stop).await;
    Ok(())
}

/// Signals that end this process. They no longer kill it when this value exists.
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
    // This process has no other logger, so the initialization cannot fail.
    drop(lines.try_init());
}
