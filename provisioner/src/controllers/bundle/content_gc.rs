//! Garbage collection of the content store: removes content that neither a Bundle nor a catalog references.

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
    reconcile::BundleContext,
    source, uid, upload,
};
use crate::controllers::catalog_source;

/// Delay before removing content that was in use is retried.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// Removes the content of deleted Bundles, and content that was stored for Bundles deleted during a fetch, until the
/// process ends.
pub(super) async fn run(
    shared: Arc<BundleContext>,
    mut abandoned: UnboundedReceiver<Digest>,
    stop: CancellationToken,
) {
    let changes = shared.bundles.subscribe();
    let changes = changes.filter(|change| future::ready(!matches!(change, Change::Applied(_))));
    let mut changes = pin!(changes);
    // Content that was in use when its removal was attempted.
    let mut pending: BTreeSet<Digest> = BTreeSet::new();
    let mut retry_at = Instant::now();
    loop {
        let change = tokio::select! {
            () = stop.cancelled() => return,
            change = changes.next() => match change {
                Some(change) => Some(change),
                None => return,
            },
            Some(digest) = abandoned.next() => {
                pending.insert(digest);
                None
            }
            () = time::sleep_until(retry_at), if !pending.is_empty() => None,
        };
        let was_empty = pending.is_empty();
        match change {
            Some(Change::Deleted(bundle)) => {
                let stored = shared.forget(uid(&bundle));
                let content = content(&bundle).into_iter().chain(stored).collect();
                pending.append(&mut remove(&shared, content).await);
            }
            Some(_) => {
                shared.retain(|uid| shared.bundles.has(uid));
                pending.append(&mut unreferenced(&shared).await);
                pending = remove(&shared, pending).await;
            }
            None => {
                pending = remove(&shared, pending).await;
                retry_at = Instant::now() + RETRY_INTERVAL;
            }
        }
        if was_empty {
            retry_at = Instant::now() + RETRY_INTERVAL;
        }
    }
}

/// Returns the content of the store that no Bundle references, including content of Bundles deleted while no provisioner
/// was running.
async fn unreferenced(shared: &BundleContext) -> BTreeSet<Digest> {
    let bundles = shared.bundles.all();
    let store = shared.ctx.store.clone();
    // Listed before the uploads are checked, so that content uploaded later is not in the list.
    let digests = match spawn_blocking(move || store.digests()).await {
        Ok(Ok(digests)) => digests,
        Ok(Err(error)) => {
            warn!(%error, "failed to list unreferenced content");
            return BTreeSet::new();
        }
        Err(_) => return BTreeSet::new(),
    };
    let mut unreferenced: BTreeSet<Digest> = digests.into_iter().collect();
    let settings = &shared.ctx.settings;
    let waits_for_job = |bundle: &Arc<Bundle>| {
        content(bundle).is_none() && job::uses_job(settings, &bundle.spec.source)
    };
    if !unreferenced.is_empty() && bundles.iter().any(waits_for_job) {
        match job::list_delivered(&shared.ctx).await {
            Ok(delivered) => unreferenced.retain(|digest| !delivered.contains(digest)),
            Err(error) => {
                warn!(
                    %error,
                    "failed to determine the content that Jobs uploaded; keeping all content"
                );
                return BTreeSet::new();
            }
        }
    }
    for bundle in &bundles {
        if source::is_upload(&bundle.spec.source) && content(bundle).is_none() {
            let ctx = &shared.ctx;
            match upload::find(&ctx.client, &ctx.settings, bundle).await {
                Ok(uploaded) => {
                    uploaded.map(|(digest, _)| unreferenced.remove(&digest));
                }
                Err(upload::Error::Damaged { .. }) => {}
                Err(error) => {
                    warn!(
                        bundle = bundle.name_any(),
                        %error,
                        "failed to determine whether content is an upload; keeping all content"
                    );
                    return BTreeSet::new();
                }
            }
        }
    }
    unreferenced
}

/// Removes content that no other Bundle and no catalog uses, and returns the content that is in use.
async fn remove(shared: &BundleContext, mut pending: BTreeSet<Digest>) -> BTreeSet<Digest> {
    if pending.is_empty() {
        return pending;
    }
    // Each attempt reads the records: the content of a catalog is held during the pull, and recorded before the hold ends.
    let store = shared.ctx.store.clone();
    match spawn_blocking(move || catalog_source::recorded_digests(&store)).await {
        Ok(Ok(recorded)) => pending.retain(|digest| !recorded.contains(digest)),
        Ok(Err(error)) => {
            warn!(%error, "failed to determine the content of catalogs; keeping all content");
            return BTreeSet::new();
        }
        Err(_) => return pending,
    }
    let contents = &shared.ctx.contents;
    pending.retain(|digest| !shared.bundles.names(*digest) && !contents.has(*digest));
    for digest in pending.clone() {
        let store = shared.ctx.store.clone();
        let removed = spawn_blocking(move || store.remove(&digest)).await;
        match removed {
            // The content is being read, or a Bundle is about to reference it.
            Ok(Err(store::Error::InUse { .. })) => continue,
            Ok(Err(error)) => warn!(%digest, %error, "failed to delete unreferenced content"),
            Ok(Ok(())) => info!(%digest, "deleted unreferenced content"),
            Err(_) => return pending,
        }
        pending.remove(&digest);
    }
    pending
}
