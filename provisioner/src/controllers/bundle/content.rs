//! Content of a Bundle, for the controllers and the content service.

use kube::ResourceExt;
use manifests::{api::bundle::Bundle, content::Content, yaml};
use tokio::task::JoinError;
use unpacker::store::{self, Hold};

use super::{
    cache::content,
    fetch::{self, FetchState, FetchedContent},
    job,
};
use crate::controllers::context::Context;

/// Reason why the content of a Bundle is unavailable.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The Bundle was never unpacked.
    #[error(
        "Bundle {bundle} is not unpacked yet; wait for its condition Unpacked, or check its message"
    )]
    NotUnpacked {
        /// Name of the Bundle.
        bundle: String,
    },
    /// The store has lost the content, and it cannot be fetched again.
    #[error("failed to fetch the content of Bundle {bundle} again")]
    Fetch {
        /// Name of the Bundle.
        bundle: String,
        /// Failure of the fetch.
        #[source]
        source: fetch::Error,
    },
    /// The store cannot read the content.
    #[error("failed to load the content of Bundle {bundle}")]
    Store {
        /// Name of the Bundle.
        bundle: String,
        /// Error of the content store.
        #[source]
        source: store::Error,
    },
}

impl LoadError {
    /// Reports whether a retry is pointless until something else changes.
    pub fn is_terminal(&self) -> bool {
        match self {
            Self::NotUnpacked { .. } => false,
            Self::Fetch { source, .. } => source.is_terminal(),
            Self::Store { source, .. } => source.is_terminal(),
        }
    }
}

/// Converts the content of an unpacked Bundle. Content that the store has lost is fetched again, and must be the same. A
/// conversion slot is acquired before the content is read, which limits the content in memory.
///
/// # Errors
/// Returns an error if a thread panics or is cancelled. The inner result is an error if the Bundle was never unpacked, or
/// its content is unavailable.
pub async fn convert<T: Send + 'static>(
    ctx: &Context,
    bundle: &Bundle,
    convert: impl FnOnce(&Content, yaml::Limits) -> T + Clone + Send + 'static,
) -> Result<Result<T, LoadError>, JoinError> {
    let name = || bundle.name_any();
    let Some(digest) = content(bundle) else {
        return Ok(Err(LoadError::NotUnpacked { bundle: name() }));
    };
    let failed = |source| LoadError::Store {
        bundle: name(),
        source,
    };
    let load = || {
        let (store, limits) = (ctx.store.clone(), ctx.settings.unpack.limits);
        move || store.get(&digest, &limits)
    };
    match ctx.conversions.run(load(), convert.clone()).await? {
        // The store has removed corrupt content.
        Err(store::Error::Missing { .. } | store::Error::Corrupt { .. }) => {}
        converted => return Ok(converted.map_err(failed)),
    }
    let fetched = match fetched(ctx, bundle).await {
        Ok(fetched) => fetched,
        Err(error) => {
            ctx.contents.demand(bundle);
            return Ok(Err(error));
        }
    };
    if let Err(source) = fetch::same(bundle, digest, fetched.stored.digest) {
        let bundle = name();
        return Ok(Err(LoadError::Fetch { bundle, source }));
    }
    let converted = ctx.conversions.run(load(), convert).await;
    drop(fetched); // held until here
    Ok(converted?.map_err(failed))
}

/// Reports whether the content store has the content of a Bundle. Evicted content is fetched again; content that cannot be
/// fetched now is left to the Bundle controller.
pub async fn is_available(ctx: &Context, bundle: &Bundle) -> bool {
    let is_pulled = job::uses_job(&ctx.settings, &bundle.spec.source);
    let is_available = match hold(ctx, bundle).await {
        Ok(Some(_)) => true,
        Ok(None) if !is_pulled && ctx.contents.may_be_evicted(bundle) => {
            refetch(ctx, bundle).await.is_ok()
        }
        Ok(None) | Err(_) => false,
    };
    if !is_available {
        ctx.contents.demand(bundle);
    }
    is_available
}

/// Holds the content of a Bundle, if the content store has it.
///
/// # Errors
/// Returns an error if the content store cannot be read.
pub(super) async fn hold(ctx: &Context, bundle: &Bundle) -> Result<Option<Hold>, fetch::Error> {
    let Some(digest) = content(bundle) else {
        return Ok(None);
    };
    let stored = fetch::hold(ctx, digest).await?;
    Ok(stored.map(|stored| stored.hold))
}

/// Fetches the content of a Bundle again, for a store that has lost it.
///
/// # Errors
/// Returns an error if the Bundle was never unpacked, or its content is unavailable.
pub async fn refetch(ctx: &Context, bundle: &Bundle) -> Result<(), LoadError> {
    fetched(ctx, bundle).await.map(drop)
}

async fn fetched(ctx: &Context, bundle: &Bundle) -> Result<FetchedContent, LoadError> {
    let fetched = Box::pin(fetch::fetch(ctx, bundle)).await;
    let fetched = fetched.map_err(|source| LoadError::Fetch {
        bundle: bundle.name_any(),
        source,
    });
    match fetched? {
        FetchState::Ready(content) => Ok(*content),
        FetchState::Waiting { .. } | FetchState::Unpacking => Err(LoadError::NotUnpacked {
            bundle: bundle.name_any(),
        }),
    }
}
