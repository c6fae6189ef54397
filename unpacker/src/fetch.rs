//! Fetching and resolving of all kinds of sources.

use std::{collections::BTreeMap, io};

use crate::{
    Access, Error, Fetched, Options, Progress, Result, Source, git, http_archive, image, open_tree,
    source::Local, stream_tree,
};

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
            with_timeout(
                source,
                access,
                http_archive::fetch(at, access, options, progress),
            )
            .await
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
    let total = access.timeouts.total;
    let result = tokio::time::timeout(total, work).await;
    result.unwrap_or_else(|_| {
        Err(Error::Timeout {
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
