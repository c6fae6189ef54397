//! Unpacking of any source into the store. Content is fetched only if the store does not have it.
//!
//! ```text
//!  source ── resolve ──> pinned source ── find ──> content, held
//!                              └── missing: fetch ── put ── remember ────┘   once for all waiting callers
//! ```
//!
//! ```
//! use unpacker::{Access, Options, Progress, Source, Store, store::Budget};
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let bundle = directory.path().join("bundle");
//! # std::fs::create_dir_all(bundle.join("manifests"))?;
//! # std::fs::write(bundle.join("manifests/csv.yaml"), "kind: ClusterServiceVersion")?;
//! # let bundle = bundle.display();
//! let store = Store::open(&directory.path().join("store"), Budget { disk: 1 << 30, memory: 64 << 20 })?;
//! let source = Source::parse(&format!("{bundle}"), |_| false)?;
//! let options = Options::default();
//! let pinned = unpacker::unpack(&store, &source, &Access::default(), &options, &Progress::default()).await?;
//! let content = store.get(&pinned.digest, &options.limits)?;
//! assert!(content.has_folder("manifests"));
//! # Ok(())
//! # }
//! ```

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use tokio::task::spawn_blocking;
use tracing::warn;

use crate::{
    Access, Fetched, Options, Progress, Result, Source, Store, fetch,
    store::{
        shared_fetches::{FetchKey, Pinned},
        {self},
    },
};

/// Fetches a source into the store, unless the store has its content. Concurrent callers share one fetch if they have
/// the same source, credentials, trust, timeouts and limits. The fetch continues as long as one of them waits, and
/// all get its result. Callers that join a fetch see its progress only at the end.
///
/// Existing content is neither read nor checked against the limits; [`Store::get`] does both. Without
/// [`Options::spool`], large content is temporarily stored in the directory of the store.
///
/// # Errors
/// Returns an error if the source cannot be resolved, reached or read, contains a rejected entry, or exceeds a limit.
/// Also returns an error if a required entry of a bundle is not a regular file, or if the store is full.
pub async fn unpack(
    store: &Store,
    source: &Source,
    access: &Access,
    options: &Options,
    progress: &Progress,
) -> Result<Pinned> {
    let mut access = access.clone();
    if let Source::Image(image) = source
        && !image.reference.is_pinned()
    {
        access.mirrors = access.mirrors.of_tag(&image.reference);
    }
    let request = Arc::new(FetchRequest {
        source: fetch::resolve(source, &access).await?,
        access,
        options: Options {
            spool: options.spool.clone().or_else(|| Some(store.spool().into())),
            ..options.clone()
        },
        progress: progress.clone(),
    });
    find_or_fetch(store, request, |request| async move {
        let FetchRequest {
            source,
            access,
            options,
            progress,
        } = &*request;
        fetch::fetch(source, access, options, progress).await
    })
    .await
}

/// The parameters of a fetch. The fetch may outlive the caller that started it.
#[derive(Debug)]
struct FetchRequest {
    source: Source,
    access: Access,
    options: Options,
    progress: Progress,
}

async fn find_or_fetch<F>(
    store: &Store,
    request: Arc<FetchRequest>,
    fetch: impl FnOnce(Arc<FetchRequest>) -> F + Send + 'static,
) -> Result<Pinned>
where
    F: Future<Output = Result<Fetched>> + Send + 'static,
{
    let FetchRequest {
        source,
        access,
        options,
        progress,
    } = &*request;
    let key = store.request_key(source, options, access);
    let key = key.map(|key| FetchKey::new(key, source, access, options));
    let progress = progress.clone();
    let work = {
        let store = store.clone();
        Box::pin(async move {
            // The lookup is a part of the shared work. A separate lookup before it could miss content that another
            // caller stores in the meantime.
            if let Some(existing) = find(&store, &request).await? {
                return Ok(existing);
            }
            let fetched = fetch(Arc::clone(&request)).await?;
            store_fetched(&store, fetched, request).await
        })
    };
    match key {
        Some(id) => store.fetches().get_or_start(id, &progress, work).await,
        None => work.await,
    }
}

/// Finds the stored content of a source.
async fn find(store: &Store, request: &FetchRequest) -> Result<Option<Pinned>> {
    let FetchRequest {
        source,
        access,
        options,
        ..
    } = request;
    let Some(key) = store.key(source, options, access) else {
        return Ok(None);
    };
    let stored = blocking(store, move |store| store.find(&key)).await?;
    Ok(stored.map(|(stored, skipped)| Pinned::new(source.clone(), stored, skipped)))
}

/// Stores fetched content and records its source.
async fn store_fetched(
    store: &Store,
    fetched: Fetched,
    request: Arc<FetchRequest>,
) -> Result<Pinned> {
    let Fetched { resolved, tree, .. } = fetched;
    let key = store.key(&resolved, &request.options, &request.access);
    let cancel = CancelOnDrop::default();
    let stop = Arc::clone(&cancel.0);
    let stored = blocking(store, move |store| {
        let skipped = tree.ensure_regular()?;
        let stored = store.put_until(&tree, &stop)?;
        // Without the record, the source is only fetched again, so this is not an error.
        if let Some(key) = key
            && let Err(error) = store.remember(&key, &stored.digest, &skipped)
        {
            warn!(%error, "failed to record the content of a source");
        }
        Ok::<_, crate::Error>((stored, skipped))
    });
    let (stored, skipped) = stored.await??;
    Ok(Pinned::new(resolved, stored, skipped))
}

/// Cancels a blocking thread when it is dropped, which means that all callers gave up.
#[derive(Default)]
struct CancelOnDrop(Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Calls the store on a thread that may block.
async fn blocking<T: Send + 'static>(
    store: &Store,
    work: impl FnOnce(Store) -> T + Send + 'static,
) -> Result<T, store::Error> {
    let store = store.clone();
    let result = spawn_blocking(move || work(store)).await;
    result.map_err(|_| store::Error::Cancelled) // the runtime ends
}

#[cfg(test)]
mod tests;
