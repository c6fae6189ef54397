//! A Bundle's content for whoever installs or serves it.

use std::sync::Arc;

use kube::ResourceExt;
use manifests::{api::bundle::Bundle, content::Content};
use tokio::task::spawn_blocking;
use unpacker::{Digest, store};

use super::fetch::{self, Brought, Fetched};
use crate::context::Context;

/// Why content cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// It has never been unpacked.
    #[error(
        "Bundle {bundle} has not been unpacked yet; wait for its condition Unpacked, or see what it says"
    )]
    NotUnpacked {
        /// Which.
        bundle: String,
    },
    /// The store has lost it, and it cannot be fetched again.
    #[error("failed to fetch the content of Bundle {bundle} again")]
    Fetch {
        /// Whose.
        bundle: String,
        /// Why.
        #[source]
        source: fetch::Error,
    },
    /// The store does not give it.
    #[error("failed to load the content of Bundle {bundle}")]
    Store {
        /// Whose.
        bundle: String,
        /// Why.
        #[source]
        source: store::Error,
    },
}

impl LoadError {
    /// Whether trying again is of no use while nothing else changes.
    pub fn is_terminal(&self) -> bool {
        match self {
            Self::NotUnpacked { .. } => false,
            Self::Fetch { source, .. } => source.is_terminal(),
            Self::Store { source, .. } => source.is_terminal(),
        }
    }
}

/// The content of a Bundle that has been unpacked. If the store has lost it, it is fetched once more, and is the same.
///
/// # Errors
/// When it never was unpacked, or is nowhere to be had.
pub async fn load(ctx: &Context, bundle: &Bundle) -> Result<Arc<Content>, LoadError> {
    let name = || bundle.name_any();
    let status = bundle.status.as_ref();
    let digest = status.and_then(|status| status.content_digest.as_ref());
    let digest = digest.and_then(|digest| digest.parse::<Digest>().ok());
    let not_unpacked = || LoadError::NotUnpacked { bundle: name() };
    let digest = digest.ok_or_else(not_unpacked)?;
    let failed = |source| LoadError::Store {
        bundle: name(),
        source,
    };
    match get(ctx, digest).await {
        // What was damaged has been removed, too.
        Err(store::Error::Missing { .. } | store::Error::Damaged { .. }) => {}
        found => return found.map_err(failed),
    }
    let fetched = fetched(ctx, bundle).await?;
    let content = get(ctx, fetched.stored.digest).await;
    drop(fetched); // held until here
    content.map_err(failed)
}

/// Fetches a Bundle's content once more for a store that does not have it on its disk.
///
/// # Errors
/// When it never was unpacked, or is nowhere to be had.
pub async fn fetch_again(ctx: &Context, bundle: &Bundle) -> Result<(), LoadError> {
    fetched(ctx, bundle).await.map(drop)
}

async fn fetched(ctx: &Context, bundle: &Bundle) -> Result<Brought, LoadError> {
    let fetched = Box::pin(fetch::fetch(ctx, bundle)).await;
    let fetched = fetched.map_err(|source| LoadError::Fetch {
        bundle: bundle.name_any(),
        source,
    });
    match fetched? {
        Fetched::Brought(brought) => Ok(*brought),
        Fetched::Waits { .. } | Fetched::Unpacking => Err(LoadError::NotUnpacked {
            bundle: bundle.name_any(),
        }),
    }
}

async fn get(ctx: &Context, digest: Digest) -> store::Result<Arc<Content>> {
    let (store, limits) = (ctx.store.clone(), ctx.settings.unpack.limits);
    let found = spawn_blocking(move || store.get(&digest, &limits)).await;
    found.unwrap_or(Err(store::Error::Cancelled))
}
