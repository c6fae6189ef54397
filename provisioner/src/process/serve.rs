//! Serves one catalog: what the pod of a catalog runs.

use std::{path::Path, process::ExitCode, sync::Arc};

use catalog::{
    Limits, Source,
    configmap::ConfigMap,
    registry::{
        self, Cache, Failed, Store,
        hosting::{self, last_words, listen},
    },
    source::{Files, Mounted},
    sqlite::{self, Database},
};
use tokio::sync::oneshot;
use tracing::{error, info, warn};

use super::{
    args::{CopyArgs, LogFormat, ServeArgs},
    log,
    signals::Signals,
};

/// What is told of a database, or a ConfigMap, that is left out.
const MOST_REASONS: usize = 20;

/// Why a catalog is not served.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Catalog(#[from] catalog::Error),
    #[error(transparent)]
    Database(#[from] sqlite::Error),
    #[error("the ConfigMap cannot be read")]
    ConfigMap(#[source] std::io::Error),
    #[error(transparent)]
    Store(#[from] hosting::Error),
    #[error(
        "the catalog cannot be served as a whole: {first} (1 of {count}); correct it, or serve without --strict"
    )]
    LeftOut { first: String, count: usize },
    #[error("failed to listen to signals")]
    Signals(#[source] std::io::Error),
    #[error("failed to listen on port {0}; is it taken?")]
    Listen(u16, #[source] std::io::Error),
    #[error(transparent)]
    Serve(#[from] Failed),
    #[error("the catalog was not read")]
    Unread,
    #[error("ended before the catalog was read")]
    Ended,
}

/// Runs until a signal comes, or something is wrong, and says in the log, and to the kubelet, what that is.
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
            let error = unpacker::job::chain(&error);
            error!(error, "failed");
            last_words(&args.termination_log, &error);
            ExitCode::FAILURE
        }
    }
}

async fn serve(args: &ServeArgs) -> Result<(), Error> {
    let mut signals = Signals::listen().map_err(Error::Signals)?;
    let (done, opened) = oneshot::channel();
    let (path, enforces) = (args.catalog.clone(), args.enforces());
    let (cache, made) = (args.cache_dir.clone(), args.cache_from.clone());
    // A thread that nobody waits for: a signal ends the process while a large catalog is read.
    std::thread::spawn(move || {
        let opened = files(&path).and_then(|files| {
            let source = Source::Files(&*files);
            let limits = Limits::default();
            if let Some(store) = made.and_then(|made| before(source, &limits, &made)) {
                return Ok(store);
            }
            Ok(hosting::open(source, &limits, cache.as_deref(), enforces)?)
        });
        drop(done.send(opened));
    });
    let store = tokio::select! {
        opened = opened => opened.map_err(|_| Error::Unread)??,
        _ = signals.next() => return Err(Error::Ended),
    };
    for reason in store.left_out() {
        warn!(reason, "left out");
    }
    if args.strict
        && let [first, ..] = store.left_out()
    {
        return Err(Error::LeftOut {
            first: first.clone(),
            count: store.left_out().len(),
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

/// Copies this program, and says in the log why it could not.
pub(super) fn copy(args: &CopyArgs) -> ExitCode {
    log::start(LogFormat::Text, "info");
    match unpacker::job::install(&args.folder, "provisioner") {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            error!(error = unpacker::job::chain(&error), "failed");
            ExitCode::FAILURE
        }
    }
}

/// What was made of the catalog before, if it is that.
fn before(source: Source<'_>, limits: &Limits, folder: &Path) -> Option<Store> {
    if !folder.is_dir() {
        info!("nothing was made before");
        return None;
    }
    let opened = Cache::open(folder).and_then(|cache| cache.load(source, limits));
    // In most images it is opm's, which is of no use here.
    opened
        .inspect_err(|error| {
            let error = unpacker::job::chain(error);
            info!(error, "what was made before is not used");
        })
        .ok()
}

/// What is to be served.
fn files(path: &Path) -> Result<Box<dyn Files>, Error> {
    let limits = Limits::default();
    // What cannot be read is told by whoever reads it.
    if !path.is_file() || !sqlite::is_database(path).unwrap_or_default() {
        let mounted = Mounted::open(path, &limits)?;
        let map = ConfigMap::mounted(&mounted, &limits).map_err(Error::ConfigMap)?;
        return Ok(match map {
            None => Box::new(mounted),
            Some(map) => {
                tell(map.left_out());
                Box::new(map)
            }
        });
    }
    let database = Database::open(path, &limits)?;
    tell(database.left_out());
    Ok(Box::new(database))
}

fn tell(left_out: &[String]) {
    for reason in left_out.iter().take(MOST_REASONS) {
        warn!(reason, "left out");
    }
}
