//! Fetching and resolving of all kinds of sources.

use std::{
    collections::BTreeMap,
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use crate::{
    Access, Digest, Error, Options, Result, Source, Tree, git, http, image, open_tree,
    source::Local, stream_tree,
};

/// A completely fetched and verified source.
#[derive(Debug)]
pub struct Fetched {
    /// The source with a digest or commit, if it can be pinned.
    pub resolved: Source,
    /// Digest of the transferred data: of the image manifest, or of the archive as received.
    pub digest: Option<Digest>,
    /// Regular files, and the entries that are not regular files.
    pub tree: Tree,
    /// Number of entries that are not selected.
    pub unselected: usize,
    /// Labels of an image, if they determined the selection ([`crate::Selection::Natural`]); otherwise empty.
    pub labels: BTreeMap<String, String>,
}

/// Fetches the content of a source. If an archive has one top-level directory with the bundle, its contents are
/// returned.
///
/// # Errors
/// Returns an error if the source is unreachable or rejected, cannot be read, or exceeds a limit.
pub async fn fetch(
    source: &Source,
    access: &Access,
    options: &Options,
    progress: &Progress,
) -> Result<Fetched> {
    match source {
        Source::Local(at) => {
            let (at, options) = (at.clone(), options.clone());
            blocking(move || local(&at, None, &options)).await
        }
        Source::Git(at) => git::fetch(at, access, options, progress).await,
        Source::Http(at) => {
            with_timeout(source, access, http::fetch(at, access, options, progress)).await
        }
        Source::Image(at) => {
            with_timeout(source, access, image::fetch(at, access, options, progress)).await
        }
    }
}

/// Pins a source: resolves a tag to a digest, and a branch to a commit. Sources that can be pinned only by a fetch
/// are returned unchanged.
///
/// # Errors
/// Returns an error if the source is unreachable or does not exist.
pub async fn resolve(source: &Source, access: &Access) -> Result<Source> {
    match source {
        Source::Http(_) | Source::Local(_) => Ok(source.clone()),
        Source::Git(at) => git::resolve(at, access).await.map(Source::Git),
        Source::Image(at) => {
            let resolved = with_timeout(source, access, image::resolve(at, access)).await;
            resolved.map(Source::Image)
        }
    }
}

/// Applies the total timeout to all requests of a source together.
async fn with_timeout<T>(
    source: &Source,
    access: &Access,
    work: impl Future<Output = Result<T>>,
) -> Result<T> {
    let total = access.patience.total;
    let result = tokio::time::timeout(total, work).await;
    result.unwrap_or_else(|_| {
        Err(Error::Slow {
            what: source.to_string(),
            total,
        })
    })
}

/// Reads a local source. The platform selects one of several images.
///
/// # Errors
/// Returns the errors of [`fetch`].
pub fn local(local: &Local, platform: Option<&str>, options: &Options) -> Result<Fetched> {
    let (tree, unselected) = match local {
        Local::Stdin => {
            let (tree, unselected) =
                stream_tree(io::stdin().lock(), options).map_err(|source| Error::Unpack {
                    path: "-".into(),
                    source: Box::new(source),
                })?;
            (tree.strip_top_folder(), unselected)
        }
        Local::Path(path) => {
            let (tree, unselected) = open_tree(path, options)?;
            if path.is_dir() {
                (tree, unselected)
            } else {
                (tree.strip_top_folder(), unselected)
            }
        }
        image => return crate::local::image(image, platform, options),
    };
    Ok(Fetched {
        resolved: Source::Local(local.clone()),
        digest: None,
        tree,
        unselected,
        labels: BTreeMap::new(),
    })
}

/// Runs blocking code on a separate thread.
async fn blocking(work: impl FnOnce() -> Result<Fetched> + Send + 'static) -> Result<Fetched> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => Err(Error::Open {
            path: "the source".into(),
            source: io::Error::other(error),
        }),
    }
}

/// Counts transferred bytes, for display. Clones share the counters.
#[derive(Debug, Clone, Default)]
pub struct Progress {
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    done: AtomicU64,
    total: AtomicU64,
}

impl Progress {
    /// Adds received bytes.
    pub fn add(&self, bytes: u64) {
        self.counts.done.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Resets the received bytes when a transfer restarts.
    pub fn restart(&self) {
        self.counts.done.store(0, Ordering::Relaxed);
    }

    /// Sets the total number of bytes, once known.
    pub fn set_total(&self, bytes: u64) {
        self.counts.total.store(bytes, Ordering::Relaxed);
    }

    /// Returns the received bytes.
    pub fn done(&self) -> u64 {
        self.counts.done.load(Ordering::Relaxed)
    }

    /// Returns the total number of bytes, or zero if it is unknown.
    pub fn total(&self) -> u64 {
        self.counts.total.load(Ordering::Relaxed)
    }
}
