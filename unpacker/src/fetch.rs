//! What every source gives, and how far it has come.

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

/// A source that has been read to its end and checked.
#[derive(Debug)]
pub struct Fetched {
    /// The same source, named so that it can never mean anything else: by a digest or a commit where there is one.
    pub resolved: Source,
    /// The digest of what was transferred: of an image's manifest or of an archive as it came.
    pub digest: Option<Digest>,
    /// Its files, and the entries that are not regular files.
    pub tree: Tree,
    /// The number of entries that are not selected.
    pub unselected: usize,
    /// The labels of an image whose labels tell what is read of it ([`crate::Selection::Natural`]); else there are none.
    pub labels: BTreeMap<String, String>,
}

/// Fetches what a source holds. An archive may hold the bundle in a folder, which is taken off.
///
/// # Errors
/// When it cannot be reached or read, holds what is refused, or exceeds a limit.
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
            in_time(source, access, http::fetch(at, access, options, progress)).await
        }
        Source::Image(at) => {
            in_time(source, access, image::fetch(at, access, options, progress)).await
        }
    }
}

/// Names what a source means now in a form that means the same for ever: a tag becomes a digest, a branch a commit.
/// What cannot be pinned without fetching it stays as it is.
///
/// # Errors
/// When it cannot be reached, or there is no such thing.
pub async fn resolve(source: &Source, access: &Access) -> Result<Source> {
    match source {
        Source::Http(_) | Source::Local(_) => Ok(source.clone()),
        Source::Git(at) => git::resolve(at, access).await.map(Source::Git),
        Source::Image(at) => {
            let resolved = in_time(source, access, image::resolve(at, access)).await;
            resolved.map(Source::Image)
        }
    }
}

/// Waits no longer than is allowed for everything: each of many requests may stay just within its own time.
async fn in_time<T>(
    source: &Source,
    access: &Access,
    work: impl Future<Output = Result<T>>,
) -> Result<T> {
    let total = access.patience.total;
    let done = tokio::time::timeout(total, work).await;
    done.unwrap_or_else(|_| {
        Err(Error::Slow {
            what: source.to_string(),
            total,
        })
    })
}

/// Reads what is on this machine. The platform matters if it holds several images.
///
/// # Errors
/// As [`fetch`].
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

/// Does what would hold up everything else on a thread of its own.
async fn blocking(work: impl FnOnce() -> Result<Fetched> + Send + 'static) -> Result<Fetched> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => Err(Error::Open {
            path: "the source".into(),
            source: io::Error::other(error),
        }),
    }
}

/// Counts the bytes that have been transferred, for whoever shows them. Clones count together.
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
    /// Counts bytes that have arrived.
    pub fn add(&self, bytes: u64) {
        self.counts.done.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Forgets what has arrived, when a transfer begins once more.
    pub fn restart(&self) {
        self.counts.done.store(0, Ordering::Relaxed);
    }

    /// States how many bytes there will be, as soon as that is known.
    pub fn set_total(&self, bytes: u64) {
        self.counts.total.store(bytes, Ordering::Relaxed);
    }

    /// The bytes that have arrived.
    pub fn done(&self) -> u64 {
        self.counts.done.load(Ordering::Relaxed)
    }

    /// The bytes there will be; zero while that is not known.
    pub fn total(&self) -> u64 {
        self.counts.total.load(Ordering::Relaxed)
    }
}
