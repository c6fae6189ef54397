//! Fetches the content of a Bundle into the content store.

use std::{fmt::Debug, time::Duration};

use apply::api_error;
use kube::{Api, ResourceExt};
use manifests::api::bundle::{Bundle, BundleSource, BundleStatus, SkippedEntries};
use serde::de::DeserializeOwned;
use tokio::{task::spawn_blocking, time};
use tracing::debug;
use unpacker::{Access, Digest, Progress, Source, Tree, config_maps, store::Stored};

use super::{
    config_map_source, credentials, job,
    source::{self, SourceRequest},
    upload,
};
use crate::controllers::context::Context;

/// Timeout of one request to the API server.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Content that was fetched into the store, and its resolved source.
#[derive(Debug)]
pub(super) struct FetchedContent {
    /// Resolved source of the Bundle.
    pub(super) resolved: BundleSource,
    /// Stored content with a hold.
    pub(super) stored: Stored,
    /// Skipped entries of the source; `None` if no entry was skipped.
    pub(super) skipped: Option<SkippedEntries>,
}

/// State of a fetch.
#[derive(Debug)]
pub(super) enum FetchState {
    /// The content is in the store.
    Ready(Box<FetchedContent>),
    /// The fetch waits for an upload or a Job.
    Waiting {
        /// Message for the condition.
        message: String,
        /// True if a person may have to act.
        is_problem: bool,
        /// Delay before the next attempt. `None` if an event triggers it.
        requeue_after: Option<Duration>,
    },
    /// A node is pulling the image.
    Unpacking,
}

impl FetchState {
    pub(super) fn ready(
        resolved: BundleSource,
        stored: Stored,
        skipped: Option<SkippedEntries>,
    ) -> Self {
        Self::Ready(Box::new(FetchedContent {
            resolved,
            stored,
            skipped,
        }))
    }
}

/// Reason why content could not be fetched into the store.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The source of the Bundle is invalid.
    #[error(transparent)]
    Source(#[from] source::Error),
    /// A Secret cannot be used.
    #[error(transparent)]
    Access(#[from] credentials::Error),
    /// A ConfigMap cannot be read.
    #[error(transparent)]
    ConfigMaps(#[from] config_map_source::Error),
    /// The content cannot be fetched or unpacked.
    #[error(transparent)]
    Unpack(#[from] unpacker::Error),
    /// The unpack Job failed.
    #[error(transparent)]
    Job(#[from] job::Error),
    /// The upload cannot be restored.
    #[error(transparent)]
    Upload(#[from] upload::Error),
    /// The upload exists neither in the cluster nor in the store.
    #[error("uploaded content is missing from the cluster and from the store; upload it again")]
    UploadLost,
    /// The store has lost the content, and the source now provides other content. The digest of that content is only
    /// logged: bundle authors must not learn what a source provides.
    #[error(
        "the source no longer provides {expected}, to which this Bundle is pinned; restore the old content, or create \
         a new Bundle"
    )]
    ContentChanged {
        /// Digest that the Bundle is pinned to.
        expected: Digest,
    },
    /// The process is shutting down.
    #[error("the provisioner is shutting down")]
    Cancelled,
}

impl Error {
    /// Returns the kind of failure as one word, for metrics.
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Self::Source(_) => "SourceInvalid",
            Self::Access(_) => "SecretInvalid",
            Self::ConfigMaps(_) => "ConfigMapMissing",
            Self::Unpack(error) => error.reason(),
            Self::Job(error) => error.reason(),
            Self::Upload(_) | Self::UploadLost => "UploadUnavailable",
            Self::ContentChanged { .. } => "ContentChanged",
            Self::Cancelled => "Cancelled",
        }
    }

    /// Reports whether a retry is pointless until something else changes.
    pub(super) fn is_terminal(&self) -> bool {
        match self {
            Self::Source(_) | Self::ContentChanged { .. } | Self::UploadLost => true,
            Self::Access(error) => error.is_terminal(),
            Self::Unpack(error) => error.is_terminal(),
            Self::Job(error) => error.is_terminal(),
            Self::Upload(error) => error.is_terminal(),
            Self::ConfigMaps(_) | Self::Cancelled => false,
        }
    }
}

/// Failure of a request to the API server.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// The request failed.
    #[error("{}", api_error::chain(.0))]
    Kube(#[from] kube::Error),
    /// The API server did not respond in time.
    #[error("the API server did not respond within {} s", REQUEST_TIMEOUT.as_secs())]
    Timeout,
}

/// Waits for the response to a request, for at most [`REQUEST_TIMEOUT`].
pub(super) async fn with_timeout<T>(
    request: impl Future<Output = kube::Result<T>>,
) -> Result<T, ApiError> {
    match time::timeout(REQUEST_TIMEOUT, request).await {
        Ok(response) => Ok(response?),
        Err(_) => Err(ApiError::Timeout),
    }
}

/// Returns an object, or `None` if it does not exist.
pub(super) async fn get<K>(api: &Api<K>, name: &str) -> Result<Option<K>, ApiError>
where
    K: Clone + DeserializeOwned + Debug,
{
    with_timeout(api.get_opt(name)).await
}

/// Content that the status of an unpacked Bundle is pinned to.
struct PinnedContent<'a> {
    digest: Digest,
    resolved: &'a BundleSource,
    skipped: Option<&'a SkippedEntries>,
}

impl<'a> PinnedContent<'a> {
    fn from_status(status: &'a BundleStatus) -> Option<Self> {
        Some(Self {
            digest: status.content_digest.as_ref()?.parse().ok()?,
            resolved: status.resolved_source.as_ref()?,
            skipped: status.skipped.as_ref(),
        })
    }
}

/// Fetches the content of a Bundle into the store, unless the store has it. For an unpacked Bundle, the content must be the
/// same as before.
pub(super) async fn fetch(ctx: &Context, bundle: &Bundle) -> Result<FetchState, Error> {
    let pin = bundle.status.as_ref().and_then(PinnedContent::from_status);
    if let Some(pin) = &pin
        && let Some(stored) = hold(ctx, pin.digest).await?
    {
        let resolved = pin.resolved.clone();
        return Ok(FetchState::ready(resolved, stored, pin.skipped.cloned()));
    }
    let spec = &bundle.spec.source;
    let mut request = source::parse(spec)?;
    if let Some(pin) = &pin {
        request = source::pinned(request, pin.resolved);
    }
    let fetched = match request {
        SourceRequest::Remote(Source::Image(image)) if job::uses_job(&ctx.settings, spec) => {
            Box::pin(job::fetch_with_job(ctx, bundle, &image)).await?
        }
        SourceRequest::Remote(from) => FetchState::Ready(Box::new(remote(ctx, spec, &from).await?)),
        SourceRequest::ConfigMaps(listed) => {
            let namespace = &ctx.settings.system_namespace;
            let maps = config_map_source::read(&ctx.client, namespace, listed).await?;
            let options = ctx.settings.unpack.clone();
            let stored = store(ctx, move || {
                config_maps::read(&maps, &options).map(|(tree, _)| tree)
            });
            FetchState::ready(source::resolved(spec, None), stored.await?, None)
        }
        SourceRequest::Upload => match uploaded(ctx, bundle).await? {
            Some(content) => FetchState::Ready(Box::new(content)),
            None if pin.is_some() => return Err(Error::UploadLost),
            None => FetchState::Waiting {
                message: "waiting for bundle to be uploaded".to_owned(),
                is_problem: true,
                requeue_after: None,
            },
        },
    };
    match (pin, fetched) {
        (Some(pin), FetchState::Ready(content)) => {
            same(bundle, pin.digest, content.stored.digest)?;
            let (resolved, skipped) = (pin.resolved.clone(), pin.skipped.cloned());
            Ok(FetchState::ready(resolved, content.stored, skipped))
        }
        (_, fetched) => Ok(fetched),
    }
}

/// Returns an error if a source provides other content than the Bundle was unpacked from.
pub(super) fn same(bundle: &Bundle, expected: Digest, found: Digest) -> Result<(), Error> {
    if expected == found {
        return Ok(());
    }
    debug!(bundle = bundle.name_any(), %expected, %found, "the source provides different content");
    Err(Error::ContentChanged { expected })
}

async fn remote(
    ctx: &Context,
    spec: &BundleSource,
    from: &Source,
) -> Result<FetchedContent, Error> {
    let access: Access = credentials::load(ctx, spec).await?;
    let progress = Progress::default();
    let unpacked =
        unpacker::unpack(&ctx.store, from, &access, &ctx.settings.unpack, &progress).await;
    ctx.metrics.unpacked(progress.done());
    let unpacker::Pinned {
        resolved,
        digest,
        size,
        skipped,
        hold,
    } = unpacked?;
    Ok(FetchedContent {
        resolved: source::resolved(spec, Some(&resolved)),
        stored: Stored { digest, size, hold },
        skipped: SkippedEntries::new(&skipped),
    })
}

async fn uploaded(ctx: &Context, bundle: &Bundle) -> Result<Option<FetchedContent>, Error> {
    let resolved = source::resolved(&bundle.spec.source, None);
    let bundle_upload = upload::find(&ctx.client, &ctx.settings, bundle).await?;
    let Some((digest, skipped)) = bundle_upload else {
        return Ok(None);
    };
    // An earlier provisioner did not compare the digests when the upload was received.
    upload::check(bundle, digest)?;
    let content = |stored| FetchedContent {
        resolved,
        stored,
        skipped: SkippedEntries::new(&skipped),
    };
    // Usually the store still has the content, so that the chunks need not be read.
    if let Some(stored) = hold(ctx, digest).await? {
        return Ok(Some(content(stored)));
    }
    let upload = upload::restore(&ctx.client, &ctx.settings, bundle).await?;
    let Some(upload) = upload else {
        return Ok(None);
    };
    let (store, options) = ((*ctx.store).clone(), ctx.settings.unpack.clone());
    let stored = spawn_blocking(move || upload.store(&store, &options)).await;
    let stored = stored.map_err(|_| Error::Cancelled)??;
    Ok(Some(content(stored)))
}

/// Holds content that the store has. Returns `None` if the store does not have it.
pub(super) async fn hold(ctx: &Context, digest: Digest) -> Result<Option<Stored>, Error> {
    let store = ctx.store.clone();
    let result = spawn_blocking(move || store.hold(&digest)).await;
    let result = result.map_err(|_| Error::Cancelled)?;
    match result {
        Ok(hold) => Ok(Some(Stored {
            digest,
            size: hold.size(),
            hold,
        })),
        Err(unpacker::store::Error::Missing { .. }) => Ok(None),
        Err(error) => Err(Error::Unpack(error.into())),
    }
}

/// Stores content that a blocking thread reads.
async fn store(
    ctx: &Context,
    read: impl FnOnce() -> unpacker::Result<Tree> + Send + 'static,
) -> Result<Stored, Error> {
    let store = ctx.store.clone();
    let stored = spawn_blocking(move || {
        let tree = read()?;
        store.put(&tree).map_err(unpacker::Error::from)
    });
    Ok(stored.await.map_err(|_| Error::Cancelled)??)
}

/// Reads a Bundle from the API server. Returns `None` if the Bundle was deleted or replaced.
pub(super) async fn read_current(
    ctx: &Context,
    bundle: &Bundle,
) -> Result<Option<Bundle>, ApiError> {
    let api: Api<Bundle> = Api::all(ctx.client.clone());
    let current = get(&api, &bundle.name_any()).await?;
    Ok(current.filter(|current| current.uid() == bundle.uid()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_content_is_reported_without_its_digest() {
        let bundle = object!({"metadata": {"name": "a"}});
        let (expected, found) = (Digest::sha256(b"expected"), Digest::sha256(b"found"));
        same(&bundle, expected, expected).unwrap();
        let error = same(&bundle, expected, found).unwrap_err();
        assert_rows!((error.reason(), error.is_terminal()) => ("ContentChanged", true));
        let message = error.to_string();
        assert!(message.contains(&expected.to_string()), "{message}");
        assert!(!message.contains(&found.hex()), "{message}");
    }
}
