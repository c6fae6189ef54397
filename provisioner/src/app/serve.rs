//! Serves one catalog; the program of registry pods.

use std::{path::Path, process::ExitCode, sync::Arc};

use catalog::{
    Limits, Source,
    configmap::ConfigMap,
    registry::{
        self, Cache, ServeError, Store,
        startup::{self, listen, write_termination_log},
    },
    source::{FileSource, MountedDir},
    sqlite::{self, Database},
};
use tokio::sync::oneshot;
use tracing::{error, info, warn};

use super::args::{CopyArgs, ServeArgs};
use crate::runtime::{log, log::LogFormat, signals::Signals};

/// Maximum number of logged reasons for skipped parts of a database or ConfigMap.
const MAX_REASONS: usize = 20;

/// Reason why a catalog is not served.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Catalog(#[from] catalog::Error),
    #[error(transparent)]
    Database(#[from] sqlite::Error),
    #[error("failed to read the ConfigMap")]
    ConfigMap(#[source] std::io::Error),
    #[error(transparent)]
    Store(#[from] startup::Error),
    #[error(
        "the catalog cannot be served completely: {first} (1 of {count}); fix the catalog, or remove --strict"
    )]
    Incomplete { first: String, count: usize },
    #[error("failed to listen for signals")]
    Signals(#[source] std::io::Error),
    #[error("failed to listen on port {0}; check that it is free")]
    Listen(u16, #[source] std::io::Error),
    #[error(transparent)]
    Serve(#[from] ServeError),
    #[error("the catalog was not read")]
    NotLoaded,
    #[error("stopped before the catalog was read")]
    Ended,
}

/// Serves until a signal or a failure. Reports the failure in the log and in the termination log of the kubelet.
pub(super) fn run(args: &ServeArgs) -> ExitCode {
    let level = if args.debug { "debug" } else { "info" };
    log::start(LogFormat::Text, level);
    let runtime = match super::runtime() {
        Ok(runtime) => runtime,
        Err(error) => {
            error!(%error, "failed to start");
            return ExitCode::FAILURE;
        }
    };
    let outcome = runtime.block_on(serve(args));
    runtime.shutdown_background();
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let error = manifests::error::chain(&error);
            error!(error, "failed");
            write_termination_log(&args.termination_log, &error);
            ExitCode::FAILURE
        }
    }
}

async fn serve(args: &ServeArgs) -> Result<(), Error> {
    let mut signals = Signals::listen().map_err(Error::Signals)?;
    let (done, opened) = oneshot::channel();
    let (path, enforces) = (args.catalog.clone(), args.enforces());
    let (cache, cache_from) = (args.cache_dir.clone(), args.cache_from.clone());
    // A detached thread: a signal ends the process while a large catalog is being read.
    std::thread::spawn(move || {
        let opened = files(&path).and_then(|files| {
            let source = Source::Files(&*files);
            let limits = Limits::default();
            if let Some(store) =
                cache_from.and_then(|cache_from| prebuilt(source, &limits, &cache_from))
            {
                return Ok(store);
            }
            Ok(startup::open(source, &limits, cache.as_deref(), enforces)?)
        });
        drop(done.send(opened));
    });
    let store = tokio::select! {
        opened = opened => opened.map_err(|_| Error::NotLoaded)??,
        _ = signals.next() => return Err(Error::Ended),
    };
    for reason in store.skipped() {
        warn!(reason, "skipped a part of the catalog");
    }
    if args.strict
        && let [first, ..] = store.skipped()
    {
        return Err(Error::Incomplete {
            first: first.clone(),
            count: store.skipped().len(),
        });
    }
    if args.cache_only {
        return Ok(());
    }
    let failed = |error| Error::Listen(args.port, error);
    let listener = listen(args.port).await.map_err(failed)?;
    info!(
        address = %listener.local_addr().map_err(failed)?,
        packages = store.packages(),
        digest = %store.digest(),
        "serving registry"
    );
    let shutdown = async {
        let (signal, _) = signals.next().await;
        info!(signal, "shutting down server");
    };
    Ok(registry::serve(Arc::new(store), listener, shutdown).await?)
}

/// Copies this program, and logs a failure.
pub(super) fn copy(args: &CopyArgs) -> ExitCode {
    log::start(LogFormat::Text, "info");
    match unpacker::job::install(&args.folder, "provisioner") {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            error!(error = manifests::error::chain(&error), "failed");
            ExitCode::FAILURE
        }
    }
}

/// Opens a prebuilt cache, if it exists and belongs to this catalog.
fn prebuilt(source: Source<'_>, limits: &Limits, directory: &Path) -> Option<Store> {
    if !directory.is_dir() {
        info!("no existing cache found");
        return None;
    }
    let opened = Cache::open(directory).and_then(|cache| cache.load(source, limits));
    // In most images it is the cache of opm, which cannot be used here.
    opened
        .inspect_err(|error| {
            let error = manifests::error::chain(error);
            info!(error, "the existing cache is not used");
        })
        .ok()
}

/// Opens the files of the catalog.
fn files(path: &Path) -> Result<Box<dyn FileSource>, Error> {
    let limits = Limits::default();
    // Opening the directory reports the error of an unreadable path.
    if !path.is_file() || !sqlite::is_database(path).unwrap_or_default() {
        let mounted = MountedDir::open(path, &limits)?;
        let map = ConfigMap::mounted(&mounted, &limits).map_err(Error::ConfigMap)?;
        return Ok(match map {
            None => Box::new(mounted),
            Some(map) => {
                log_skipped(map.left_out());
                Box::new(map)
            }
        });
    }
    let database = Database::open(path, &limits)?;
    log_skipped(database.left_out());
    Ok(Box::new(database))
}

fn log_skipped(left_out: &[String]) {
    for reason in left_out.iter().take(MAX_REASONS) {
        warn!(reason, "skipped a part of the catalog");
    }
}
