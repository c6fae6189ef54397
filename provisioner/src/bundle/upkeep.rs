//! Content that no Bundle names any more leaves the store.

use std::{collections::BTreeSet, pin::pin, sync::Arc, time::Duration};

use futures::{StreamExt as _, channel::mpsc::UnboundedReceiver, future};
use kube::ResourceExt as _;
use manifests::api::bundle::Bundle;
use tokio::{
    task::spawn_blocking,
    time::{self, Instant},
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};
use unpacker::{Digest, store};

use super::{
    cache::{Change, content},
    job,
    reconcile::Shared,
    source, uid, upload,
};

/// How long after content was in use it is tried again to remove it.
const AGAIN: Duration = Duration::from_secs(5);

/// Removes content as Bundles go, and content that was stored for deleted Bundles, until the process ends.
pub(super) async fn run(
    shared: Arc<Shared>,
    mut abandoned: UnboundedReceiver<Digest>,
    stop: CancellationToken,
) {
    let changes = shared.bundles.subscribe();
    let changes = changes.filter(|change| future::ready(!matches!(change, Change::Applied(_))));
    let mut changes = pin!(changes);
    // Content that was in use when it was to be removed.
    let mut leaving: BTreeSet<Digest> = BTreeSet::new();
    let mut again = Instant::now();
    loop {
        let change = tokio::select! {
            () = stop.cancelled() => return,
            change = changes.next() => match change {
                Some(change) => Some(change),
                None => return,
            },
            Some(digest) = abandoned.next() => {
                leaving.insert(digest);
                None
            }
            () = time::sleep_until(again), if !leaving.is_empty() => None,
        };
        let was_empty = leaving.is_empty();
        match change {
            Some(Change::Deleted(bundle)) => {
                let stored = shared.forget(uid(&bundle));
                let content = content(&bundle).into_iter().chain(stored).collect();
                leaving.append(&mut remove(&shared, content).await);
            }
            Some(_) => {
                shared.retain(|uid| shared.bundles.has(uid));
                leaving.append(&mut unnamed(&shared).await);
                leaving = remove(&shared, leaving).await;
            }
            None => {
                leaving = remove(&shared, leaving).await;
                again = Instant::now() + AGAIN;
            }
        }
        if was_empty {
            again = Instant::now() + AGAIN;
        }
    }
}

/// The content of the store that no Bundle names: of those that were deleted while this process did not run, too.
async fn unnamed(shared: &Shared) -> BTreeSet<Digest> {
    let bundles = shared.bundles.all();
    let store = shared.ctx.store.clone();
    // Before the uploads are looked at: what comes later is not in it.
    let digests = match spawn_blocking(move || store.digests()).await {
        Ok(Ok(digests)) => digests,
        Ok(Err(error)) => {
            warn!(%error, "cannot look for content that no Bundle names");
            return BTreeSet::new();
        }
        Err(_) => return BTreeSet::new(),
    };
    let mut unnamed: BTreeSet<Digest> = digests.into_iter().collect();
    let settings = &shared.ctx.settings;
    let waits = |bundle: &Arc<Bundle>| {
        content(bundle).is_none() && job::pulls(settings, &bundle.spec.source)
    };
    if !unnamed.is_empty() && bundles.iter().any(waits) {
        match job::all_handed_over(&shared.ctx).await {
            Ok(handed_over) => unnamed.retain(|digest| !handed_over.contains(digest)),
            Err(error) => {
                warn!(%error, "cannot tell what Jobs have handed over; keeping all content");
                return BTreeSet::new();
            }
        }
    }
    for bundle in &bundles {
        if source::is_upload(&bundle.spec.source) && content(bundle).is_none() {
            let ctx = &shared.ctx;
            match upload::find(&ctx.client, &ctx.settings, bundle).await {
                Ok(uploaded) => {
                    uploaded.map(|(digest, _)| unnamed.remove(&digest));
                }
                Err(upload::Error::Damaged { .. }) => {}
                Err(error) => {
                    warn!(bundle = bundle.name_any(), %error, "cannot tell whether content is an upload; keeping all");
                    return BTreeSet::new();
                }
            }
        }
    }
    unnamed
}

/// Removes content, save what other Bundles have, and returns what is in use.
async fn remove(shared: &Shared, mut leaving: BTreeSet<Digest>) -> BTreeSet<Digest> {
    let contents = &shared.ctx.contents;
    leaving.retain(|digest| !shared.bundles.names(*digest) && !contents.has(*digest));
    for digest in leaving.clone() {
        let store = shared.ctx.store.clone();
        let removed = spawn_blocking(move || store.remove(&digest)).await;
        match removed {
            // Somebody reads it, or a Bundle is about to name it.
            Ok(Err(store::Error::Held { .. })) => continue,
            Ok(Err(error)) => warn!(%digest, %error, "cannot remove content that no Bundle names"),
            Ok(Ok(())) => info!(%digest, "removed content that no Bundle names"),
            Err(_) => return leaving,
        }
        leaving.remove(&digest);
    }
    leaving
}
