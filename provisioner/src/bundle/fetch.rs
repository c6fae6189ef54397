//! Bringing a Bundle's content into the store.

use std::{fmt::Debug, time::Duration};

use kube::{Api, ResourceExt};
use manifests::api::bundle::{Bundle, BundleSource, BundleStatus, SkippedEntries};
use serde::de::DeserializeOwned;
use tokio::{task::spawn_blocking, time};
use tracing::debug;
use unpacker::{Access, Digest, Progress, Source, Tree, configmaps, store::Stored};

use super::{
    access, config_maps, job,
    source::{self, Wanted},
    upload,
};
use crate::context::Context;

/// How long the API server may take for one request.
const PATIENCE: Duration = Duration::from_secs(30);

/// Content that is in the store.
#[derive(Debug)]
pub(super) struct Brought {
    /// The Bundle's source in its immutable form.
    pub(super) resolved: BundleSource,
    /// The content, held.
    pub(super) stored: Stored,
    /// Skipped entries of the source; `None` if no entry was skipped.
    pub(super) skipped: Option<SkippedEntries>,
}

/// How far content has come.
#[derive(Debug)]
pub(super) enum Fetched {
    /// It is in the store.
    Brought(Box<Brought>),
    /// Something has to happen elsewhere first.
    Waits {
        /// What.
        message: String,
        /// Whether it might not happen by itself.
        is_problem: bool,
        /// The time to look again, if nothing tells.
        again: Option<Duration>,
    },
    /// A node is bringing it.
    Unpacking,
}

impl Fetched {
    pub(super) fn brought(
        resolved: BundleSource,
        stored: Stored,
        skipped: Option<SkippedEntries>,
    ) -> Self {
        Self::Brought(Box::new(Brought {
            resolved,
            stored,
            skipped,
        }))
    }
}

/// The reason why content could not be brought into the store.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The source asks for nothing that could be fetched.
    #[error(transparent)]
    Source(#[from] source::Error),
    /// A Secret cannot be used.
    #[error(transparent)]
    Access(#[from] access::Error),
    /// A ConfigMap cannot be read.
    #[error(transparent)]
    ConfigMaps(#[from] config_maps::Error),
    /// It cannot be fetched.
    #[error(transparent)]
    Unpack(#[from] unpacker::Error),
    /// A node does not bring it.
    #[error(transparent)]
    Job(#[from] job::Error),
    /// It cannot be had back.
    #[error(transparent)]
    Upload(#[from] upload::Error),
    /// What was uploaded is gone.
    #[error("the upload is gone from the cluster and from the store; upload the content again")]
    Gone,
    /// The store lost it, and the source gives something else by now. The digest of that is only logged: authors of
    /// Bundles must not learn what a source gives.
    #[error(
        "the source gives other content than {expected}, which this Bundle was unpacked from; a Bundle does not change: \
         bring the old content back, or create a new Bundle for the new one"
    )]
    Changed {
        /// What the Bundle is pinned to.
        expected: Digest,
    },
    /// The process ends.
    #[error("the provisioner is about to end")]
    Cancelled,
}

impl Error {
    /// The kind of failure in one word, for metrics.
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Self::Source(_) => "SourceInvalid",
            Self::Access(_) => "SecretInvalid",
            Self::ConfigMaps(_) => "ConfigMapMissing",
            Self::Unpack(error) => error.reason(),
            Self::Job(error) => error.reason(),
            Self::Upload(_) | Self::Gone => "UploadUnavailable",
            Self::Changed { .. } => "ContentChanged",
            Self::Cancelled => "Cancelled",
        }
    }

    /// Reports whether trying again is of no use while nothing else changes.
    pub(super) fn is_terminal(&self) -> bool {
        match self {
            Self::Source(_) | Self::Changed { .. } | Self::Gone => true,
            Self::Access(error) => error.is_terminal(),
            Self::Unpack(error) => error.is_terminal(),
            Self::Job(error) => error.is_terminal(),
            Self::Upload(error) => error.is_terminal(),
            Self::ConfigMaps(_) | Self::Cancelled => false,
        }
    }
}

/// The reason why the API server did not tell.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// It said no.
    #[error(transparent)]
    Kube(#[from] kube::Error),
    /// It said nothing.
    #[error("the apiserver did not answer within {} s", PATIENCE.as_secs())]
    Silent,
}

/// Waits for the response to a request, for [`PATIENCE`] at most.
pub(super) async fn ask<T>(request: impl Future<Output = kube::Result<T>>) -> Result<T, ApiError> {
    match time::timeout(PATIENCE, request).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(ApiError::Silent),
    }
}

/// An object, if there is one.
pub(super) async fn get<K>(api: &Api<K>, name: &str) -> Result<Option<K>, ApiError>
where
    K: Clone + DeserializeOwned + Debug,
{
    ask(api.get_opt(name)).await
}

/// What a Bundle is known to hold, once it has been unpacked.
struct Pin<'a> {
    digest: Digest,
    resolved: &'a BundleSource,
    skipped: Option<&'a SkippedEntries>,
}

impl<'a> Pin<'a> {
    fn of(status: &'a BundleStatus) -> Option<Self> {
        Some(Self {
            digest: status.content_digest.as_ref()?.parse().ok()?,
            resolved: status.resolved_source.as_ref()?,
            skipped: status.skipped.as_ref(),
        })
    }
}

/// Brings a Bundle's content into the store, unless it is there. A Bundle that was unpacked before gets what it had, or
/// nothing.
pub(super) async fn fetch(ctx: &Context, bundle: &Bundle) -> Result<Fetched, Error> {
    let pin = bundle.status.as_ref().and_then(Pin::of);
    if let Some(pin) = &pin
        && let Some(stored) = hold(ctx, pin.digest).await?
    {
        let resolved = pin.resolved.clone();
        return Ok(Fetched::brought(resolved, stored, pin.skipped.cloned()));
    }
    let spec = &bundle.spec.source;
    let mut wanted = source::read(spec)?;
    if let Some(pin) = &pin {
        wanted = source::pinned(wanted, pin.resolved);
    }
    let fetched = match wanted {
        Wanted::Remote(Source::Image(image)) if job::pulls(&ctx.settings, spec) => {
            Box::pin(job::bring(ctx, bundle, &image)).await?
        }
        Wanted::Remote(from) => Fetched::Brought(Box::new(remote(ctx, spec, &from).await?)),
        Wanted::ConfigMaps(listed) => {
            let namespace = &ctx.settings.system_namespace;
            let maps = config_maps::read(&ctx.client, namespace, listed).await?;
            let options = ctx.settings.unpack.clone();
            let stored = store(ctx, move || {
                configmaps::read(&maps, &options).map(|(tree, _)| tree)
            });
            Fetched::brought(source::resolved(spec, None), stored.await?, None)
        }
        Wanted::Upload => match uploaded(ctx, bundle).await? {
            Some(brought) => Fetched::Brought(Box::new(brought)),
            None if pin.is_some() => return Err(Error::Gone),
            None => Fetched::Waits {
                message: "waiting for bundle to be uploaded".to_owned(),
                is_problem: true,
                again: None,
            },
        },
    };
    match (pin, fetched) {
        (Some(pin), Fetched::Brought(brought)) => {
            same(bundle, pin.digest, brought.stored.digest)?;
            let (resolved, skipped) = (pin.resolved.clone(), pin.skipped.cloned());
            Ok(Fetched::brought(resolved, brought.stored, skipped))
        }
        (_, fetched) => Ok(fetched),
    }
}

/// Checks that a source gives what its Bundle was unpacked from.
pub(super) fn same(bundle: &Bundle, expected: Digest, found: Digest) -> Result<(), Error> {
    if expected == found {
        return Ok(());
    }
    debug!(bundle = bundle.name_any(), %expected, %found, "the source gives other content");
    Err(Error::Changed { expected })
}

async fn remote(ctx: &Context, spec: &BundleSource, from: &Source) -> Result<Brought, Error> {
    let access: Access = access::of(ctx, spec).await?;
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
    Ok(Brought {
        resolved: source::resolved(spec, Some(&resolved)),
        stored: Stored { digest, size, hold },
        skipped: SkippedEntries::new(&skipped),
    })
}

async fn uploaded(ctx: &Context, bundle: &Bundle) -> Result<Option<Brought>, Error> {
    let resolved = source::resolved(&bundle.spec.source, None);
    let found = upload::find(&ctx.client, &ctx.settings, bundle).await?;
    let Some((digest, skipped)) = found else {
        return Ok(None);
    };
    // An earlier provisioner did not compare them when the upload came.
    upload::check(bundle, digest)?;
    let brought = |stored| Brought {
        resolved,
        stored,
        skipped: SkippedEntries::new(&skipped),
    };
    // As a rule the store has it since it came; the pieces need not be read then.
    if let Some(stored) = hold(ctx, digest).await? {
        return Ok(Some(brought(stored)));
    }
    let kept = upload::restore(&ctx.client, &ctx.settings, bundle).await?;
    let Some(kept) = kept else {
        return Ok(None);
    };
    let (store, options) = ((*ctx.store).clone(), ctx.settings.unpack.clone());
    let stored = spawn_blocking(move || kept.store(&store, &options)).await;
    let stored = stored.map_err(|_| Error::Cancelled)??;
    Ok(Some(brought(stored)))
}

/// Content that the store has.
pub(super) async fn hold(ctx: &Context, digest: Digest) -> Result<Option<Stored>, Error> {
    let store = ctx.store.clone();
    let held = spawn_blocking(move || store.hold(&digest)).await;
    let held = held.map_err(|_| Error::Cancelled)?;
    match held {
        Ok(hold) => Ok(Some(Stored {
            digest,
            size: hold.size(),
            hold,
        })),
        Err(unpacker::store::Error::Missing { .. }) => Ok(None),
        Err(error) => Err(Error::Unpack(error.into())),
    }
}

/// Stores what was read on a thread that may block.
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

/// The object as the API server has it now, unless it is gone or another one has taken its name.
pub(super) async fn fresh(ctx: &Context, bundle: &Bundle) -> Result<Option<Bundle>, ApiError> {
    let api: Api<Bundle> = Api::all(ctx.client.clone());
    let found = get(&api, &bundle.name_any()).await?;
    Ok(found.filter(|found| found.uid() == bundle.uid()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_content_is_reported_without_its_digest() {
        let bundle = object!({"metadata": {"name": "a"}});
        let (expected, found) = (Digest::of(b"expected"), Digest::of(b"found"));
        same(&bundle, expected, expected).unwrap();
        let error = same(&bundle, expected, found).unwrap_err();
        assert_rows!((error.reason(), error.is_terminal()) => ("ContentChanged", true));
        let message = error.to_string();
        assert!(message.contains(&expected.to_string()), "{message}");
        assert!(!message.contains(&found.hex()), "{message}");
    }
}
