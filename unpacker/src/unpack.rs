//! From any source to content in the store, fetched only if it is not there.
//!
//! ```text
//!  source ── resolve ──> pinned source ── find ──> content, held
//!                              └── not there: fetch ── put ── remember ──┘   once for all who wait for it
//! ```
//!
//! ```
//! use unpacker::{Access, Options, Progress, Source, Store, store::Budget};
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let bundle = folder.path().join("bundle");
//! # std::fs::create_dir_all(bundle.join("manifests"))?;
//! # std::fs::write(bundle.join("manifests/csv.yaml"), "kind: ClusterServiceVersion")?;
//! # let bundle = bundle.display();
//! let store = Store::open(&folder.path().join("store"), Budget { disk: 1 << 30, memory: 64 << 20 })?;
//! let source = Source::parse(&format!("{bundle}"), |_| false)?;
//! let options = Options::default();
//! let pinned = unpacker::unpack(&store, &source, &Access::default(), &options, &Progress::default()).await?;
//! let content = store.get(&pinned.digest, &options.limits)?;
//! assert!(content.has_folder("manifests"));
//! # Ok(())
//! # }
//! ```

mod flights;

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use tokio::task::spawn_blocking;
use tracing::warn;

pub(crate) use flights::Flights;

use crate::{
    Access, Digest, Options, Progress, Result, SkippedEntries, Source, Store,
    fetch::{self, Fetched},
    store::{self, Hold, Stored},
};

/// A source's content in the store.
#[derive(Debug, Clone)]
pub struct Pinned {
    /// The same source, named so that it can never mean anything else.
    pub resolved: Source,
    /// By which the store gives its content.
    pub digest: Digest,
    /// The bytes of its tar.
    pub size: u64,
    /// Entries of the source that are not regular files, and that a bundle does not need.
    pub skipped: SkippedEntries,
    /// Keeps the content in the store.
    pub hold: Hold,
}

/// Brings what a source holds into the store, unless it is there. Callers who want the same with the same credentials,
/// trust and patience and under the same limits at the same time share one fetch, which goes on as long as one of them
/// waits, and all get its outcome. Who joins one sees its progress only at the end.
///
/// Content that is there is neither read nor checked against the limits; [`Store::get`] does both. Without
/// [`Options::spool`], what is too large for memory waits beside the store.
///
/// # Errors
/// Returns an error if the source cannot be resolved, reached or read, contains a rejected entry, lacks a manifest of a
/// bundle because the entry is not a regular file, exceeds a limit, or does not fit into the store.
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
    let wanted = Arc::new(Wanted {
        source: fetch::resolve(source, &access).await?,
        access,
        options: Options {
            spool: options.spool.clone().or_else(|| Some(store.spool().into())),
            ..options.clone()
        },
        progress: progress.clone(),
    });
    find_or_fetch(store, wanted, |wanted| async move {
        let Wanted {
            source,
            access,
            options,
            progress,
        } = &*wanted;
        fetch::fetch(source, access, options, progress).await
    })
    .await
}

/// All that a fetch needs: it may outlive the caller who began it.
#[derive(Debug)]
struct Wanted {
    source: Source,
    access: Access,
    options: Options,
    progress: Progress,
}

async fn find_or_fetch<F>(
    store: &Store,
    wanted: Arc<Wanted>,
    fetch: impl FnOnce(Arc<Wanted>) -> F + Send + 'static,
) -> Result<Pinned>
where
    F: Future<Output = Result<Fetched>> + Send + 'static,
{
    let Wanted {
        source,
        access,
        options,
        progress,
    } = &*wanted;
    let asked = store.asked(source, options, access);
    let asked = asked.map(|key| flights::Id::new(key, source, access, options));
    let progress = progress.clone();
    let work = {
        let store = store.clone();
        async move {
            // The callers share the lookup, too: one before it could miss what another caller stores meanwhile.
            if let Some(found) = find(&store, &wanted).await? {
                return Ok(found);
            }
            let fetched = fetch(Arc::clone(&wanted)).await?;
            keep(&store, fetched, wanted).await
        }
    };
    match asked {
        Some(id) => store.fetches().join(id, &progress, work).await,
        None => work.await,
    }
}

/// Finds content that the store has of a source.
async fn find(store: &Store, wanted: &Wanted) -> Result<Option<Pinned>> {
    let Wanted {
        source,
        access,
        options,
        ..
    } = wanted;
    let Some(key) = store.key(source, options, access) else {
        return Ok(None);
    };
    let found = blocking(store, move |store| store.find(&key)).await?;
    Ok(found.map(|(stored, skipped)| Pinned::new(source.clone(), stored, skipped)))
}

/// Stores what has been fetched, and notes where it came from.
async fn keep(store: &Store, fetched: Fetched, wanted: Arc<Wanted>) -> Result<Pinned> {
    let Fetched { resolved, tree, .. } = fetched;
    let key = store.key(&resolved, &wanted.options, &wanted.access);
    let given_up = GivenUp::default();
    let stop = Arc::clone(&given_up.0);
    let stored = blocking(store, move |store| {
        let skipped = tree.ensure_regular()?;
        let stored = store.put_until(&tree, &stop)?;
        // Without the note it is fetched once more: no reason to fail now.
        if let Some(key) = key
            && let Err(error) = store.remember(&key, &stored.digest, &skipped)
        {
            warn!(%error, "cannot note which content a source has");
        }
        Ok::<_, crate::Error>((stored, skipped))
    });
    let (stored, skipped) = stored.await??;
    Ok(Pinned::new(resolved, stored, skipped))
}

impl Pinned {
    fn new(resolved: Source, stored: Stored, skipped: SkippedEntries) -> Self {
        let Stored { digest, size, hold } = stored;
        Self {
            resolved,
            digest,
            size,
            skipped,
            hold,
        }
    }
}

/// Tells a thread that cannot be interrupted that nobody waits for it, by being dropped.
#[derive(Default)]
struct GivenUp(Arc<AtomicBool>);

impl Drop for GivenUp {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Uses the store on a thread that may block.
async fn blocking<T: Send + 'static>(
    store: &Store,
    work: impl FnOnce(Store) -> T + Send + 'static,
) -> Result<T, store::Error> {
    let store = store.clone();
    let done = spawn_blocking(move || work(store)).await;
    done.map_err(|_| store::Error::Cancelled) // the runtime ends
}

#[cfg(test)]
mod tests;
