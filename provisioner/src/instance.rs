//! The BundleInstance controller: what an instance declares is installed, kept, replaced and removed.
//!
//! ```text
//!  reconcile ─┬─ uninstall          being deleted: custom resources, definitions, the rest, by policy
//!             └─ settle
//!                 ├─ template       which Bundle it should be; it is made when there is none
//!                 ├─ install        something new: convert ─ plan ─ preflight ─ note ─ apply ─ prune
//!                 ├─ maintain       nothing new: compare what the watches saw with the inventory, repair
//!                 └─ outcome ─ status::of ─ one write, when it differs
//! ```
//!
//! At rest nothing is asked of the apiserver: the inventory knows which fields are ours, the watches tell when they
//! change. The inventory is written before anything is applied, so that whatever happens in between, every object
//! that may exist is known.

mod install;
mod maintain;
mod memory;
pub mod outcome;
mod reconcile;
mod rollback;
pub mod status;
pub mod template;
mod uninstall;

use std::{sync::Arc, time::Duration};

use futures::{Stream, StreamExt as _};
use kube::{
    Api,
    runtime::{
        Controller, WatchStreamExt as _, controller,
        reflector::{self, ObjectRef},
        watcher,
    },
};
use manifests::api::{bundle::Bundle, instance::BundleInstance};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use self::memory::Shared;
use crate::context::Context;

/// How many instances are worked on at once.
const CONCURRENCY: u16 = 16;

/// Runs the controller until `stop`. `woken` names the instances whose objects have changed.
pub async fn run(
    ctx: Context,
    woken: mpsc::UnboundedReceiver<ObjectRef<BundleInstance>>,
    stop: CancellationToken,
) {
    let (bundles, writer) = reflector::store();
    let seen = watcher(
        Api::<Bundle>::all(ctx.client.clone()),
        watcher::Config::default(),
    )
    .default_backoff()
    .modify(|bundle| bundle.metadata.managed_fields = None)
    .reflect(writer)
    .touched_objects();
    let instances = Api::<BundleInstance>::all(ctx.client.clone());
    let ready = ctx.ready.task("list BundleInstances");
    let (wake, called) = mpsc::unbounded_channel();
    let controller = Controller::new(instances, watcher::Config::default())
        .owns_stream(seen)
        .reconcile_on(received(woken))
        .reconcile_on(received(called))
        .with_config(
            controller::Config::default()
                .concurrency(CONCURRENCY)
                .debounce(Duration::from_millis(5)),
        )
        .graceful_shutdown_on(stop.clone().cancelled_owned());
    let store = controller.store();
    let shared = Arc::new(Shared::new(ctx, bundles, wake));
    let waiting = tokio::spawn(retry_when_apis_change(Arc::clone(&shared), stop.clone()));
    let listed = {
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            // Without the first list every instance would look as if it had no Bundle.
            if store.wait_until_ready().await.is_ok() && shared.bundles_are_listed().await {
                ready.done();
            }
        })
    };
    controller
        .run(reconcile::reconcile, reconcile::failed, shared)
        .for_each(|result| async move {
            match result {
                Ok((instance, _)) => debug!(instance = %instance.name, "looked at"),
                // A reconcile's own errors were logged where they happened.
                Err(
                    controller::Error::ReconcilerFailed(..) | controller::Error::ObjectNotFound(_),
                ) => {}
                Err(error) => warn!(%error, "the watch of instances failed; it is taken up again"),
            }
        })
        .await;
    waiting.abort();
    listed.abort();
}

fn received<T: Send + 'static>(from: mpsc::UnboundedReceiver<T>) -> impl Stream<Item = T> + Send {
    futures::stream::unfold(from, |mut from| async {
        from.recv().await.map(|item| (item, from))
    })
}

/// Wakes the instances that miss an API whenever APIs come or go.
async fn retry_when_apis_change(shared: Arc<Shared>, stop: CancellationToken) {
    let mut changes = shared.ctx.kinds.changes();
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            changed = changes.changed() => if changed.is_err() { return },
        }
        shared.wake_those_missing_apis();
    }
}
