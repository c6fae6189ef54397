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
//! At rest nothing is asked of the API server: the inventory knows which fields are ours, the watches tell when they
//! change. The inventory is written before anything is applied, so that whatever happens in between, every object
//! that may exist is known.

mod bundles;
mod choice;
mod claims;
mod evidence;
mod index;
mod install;
mod maintain;
mod memory;
#[cfg(test)]
mod model;
pub mod outcome;
pub mod policy;
mod reconcile;
mod revisions;
mod rollback;
mod rollouts;
pub mod status;
mod tell;
pub mod template;
mod tries;
mod trust;
mod uninstall;
mod waiting;
mod write;

use std::{collections::HashSet, sync::Arc, time::Duration};

use futures::{Stream, StreamExt as _, future};
use kube::{
    Api, ResourceExt as _,
    core::GroupVersionKind,
    runtime::{
        Controller, WatchStreamExt as _, controller,
        reflector::{self, ObjectRef},
        watcher,
    },
};
use manifests::api::{bundle::Bundle, instance::BundleInstance};
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use self::memory::Shared;
use crate::{
    bundle::{BundleCache, Change},
    context::Context,
    metrics::Controller as Of,
};
use apply::backoff::{NoPause, Pauses};

/// How many instances are worked on at once.
const CONCURRENCY: u16 = 16;

/// Runs the controller until `stop`. `woken` names the instances whose objects have changed.
pub async fn run(
    ctx: Context,
    bundles: Arc<BundleCache>,
    woken: mpsc::UnboundedReceiver<String>,
    stop: CancellationToken,
) {
    let ready = ctx.ready.task("list BundleInstances");
    let (wake, called) = mpsc::unbounded_channel();
    let (listed, mut are_listed) = watch::channel(false);
    // They end with this.
    let mut beside = JoinSet::new();
    beside.spawn(wake_owners(bundles.subscribe(), listed, wake.clone()));
    let shared = Arc::new(Shared::new(ctx, bundles, wake));
    let (answer, mut is_answered) = watch::channel(false);
    beside.spawn(find_conditions(Arc::clone(&shared), answer));
    // Without the first list every instance would look as if it had no Bundle, and without the answer as if its operator
    // were to have no OperatorCondition.
    let known = async {
        let _ = are_listed.wait_for(|listed| *listed).await;
        let _ = is_answered.wait_for(|answered| *answered).await;
    };
    tokio::select! {
        () = known => {}
        () = stop.cancelled() => return,
    }
    let ctx = &shared.ctx;
    let (store, writer) = reflector::store();
    let mut ready = Some(ready);
    let instances = watcher(
        Api::<BundleInstance>::all(ctx.client.clone()),
        watcher::Config::default(),
    )
    .backoff(Pauses::default())
    .modify(|instance| instance.metadata.managed_fields = None)
    .reflect(writer)
    // Not by the store: of several who wait for it only one is woken, and its controller waits already.
    .inspect({
        let (shared, listed) = (Arc::clone(&shared), store.clone());
        move |event| match event {
            Ok(watcher::Event::InitDone) => {
                drop(ready.take());
                let listed: HashSet<String> = listed
                    .state()
                    .iter()
                    .map(|instance| instance.name_any())
                    .collect();
                shared.retain(|name| listed.contains(name));
            }
            Ok(watcher::Event::Delete(instance)) => shared.is_gone(instance),
            _ => {}
        }
    })
    .applied_objects()
    .inspect({
        let shared = Arc::clone(&shared);
        let metrics = Arc::clone(&ctx.metrics);
        move |instance| {
            if let Ok(instance) = instance {
                shared.sees(instance);
                metrics.queue(Of::Instance).triggered(&instance.name_any());
            }
        }
    });
    let metrics = Arc::clone(&ctx.metrics);
    let rollouts = Arc::clone(&shared.rollouts);
    let triggered = {
        let metrics = Arc::clone(&metrics);
        move |instance: &ObjectRef<BundleInstance>| {
            metrics.queue(Of::Instance).triggered(&instance.name);
        }
    };
    let controller = Controller::for_stream(instances, store)
        .reconcile_on(references(woken).inspect(triggered.clone()))
        .reconcile_on(received(called).inspect(triggered))
        .with_config(
            controller::Config::default()
                .concurrency(CONCURRENCY)
                .debounce(Duration::from_millis(5)),
        )
        .trigger_backoff(NoPause)
        .graceful_shutdown_on(stop.clone().cancelled_owned());
    beside.spawn(retry_when_apis_change(Arc::clone(&shared)));
    beside.spawn(retry_when_versions_change(Arc::clone(&shared)));
    controller
        .run(reconcile::reconcile, reconcile::failed, shared)
        .for_each(|result| {
            match result {
                Ok((instance, _)) => debug!(instance = %instance.name, "looked at"),
                Err(controller::Error::ObjectNotFound(gone)) => {
                    metrics.queue(Of::Instance).begun(&gone.name);
                    rollouts.forget(&gone.name);
                }
                // A reconcile's own errors were logged where they happened.
                Err(controller::Error::ReconcilerFailed(..)) => {}
                Err(error) => warn!(%error, "the watch of instances failed; it is taken up again"),
            }
            future::ready(())
        })
        .await;
}

/// Wakes the instances of changed Bundles, and reports when the first list of Bundles is complete.
async fn wake_owners(
    changes: impl Stream<Item = Change>,
    listed: watch::Sender<bool>,
    wake: mpsc::UnboundedSender<ObjectRef<BundleInstance>>,
) {
    changes
        .for_each(|change| {
            let bundles = match change {
                Change::Listed(bundles) => {
                    listed.send_replace(true);
                    bundles
                }
                Change::Applied(bundle) | Change::Deleted(bundle) => vec![bundle],
            };
            for instance in bundles.iter().filter_map(|bundle| owner(bundle)) {
                // The controller exists as long as this task, or the process ends.
                let _ = wake.send(instance);
            }
            future::ready(())
        })
        .await;
}

/// The instance that a Bundle was made for.
fn owner(bundle: &Bundle) -> Option<ObjectRef<BundleInstance>> {
    let mut owners = bundle.owner_references().iter();
    let owner = owners.find(|owner| owner.controller == Some(true))?;
    ObjectRef::from_owner_ref(None, owner, ())
}

/// Returns references to the instances that the informers name.
fn references(
    names: mpsc::UnboundedReceiver<String>,
) -> impl Stream<Item = ObjectRef<BundleInstance>> + Send {
    received(names).map(|name| ObjectRef::new(&name))
}

fn received<T: Send + 'static>(from: mpsc::UnboundedReceiver<T>) -> impl Stream<Item = T> + Send {
    futures::stream::unfold(from, |mut from| async {
        from.recv().await.map(|item| (item, from))
    })
}

/// Wakes the instances that miss an API whenever APIs come.
async fn retry_when_apis_change(shared: Arc<Shared>) {
    let mut changes = shared.ctx.kinds.changes();
    while changes.changed().await.is_ok() {
        shared.wake_those_missing_apis().await;
    }
}

/// Wakes the instances that were refused whenever the cluster may be another one, or catalogs say something new of how long
/// bundles run.
async fn retry_when_versions_change(shared: Arc<Shared>) {
    let mut catalogs = shared.ctx.catalogs.changes();
    let mut versions = shared.ctx.versions.changes();
    loop {
        let changed = tokio::select! {
            changed = catalogs.changed() => changed,
            changed = versions.changed() => changed,
        };
        if changed.is_err() {
            return;
        }
        shared.wake_those_refused();
    }
}

/// Follows whether the cluster has OperatorConditions, and tells once that is known.
async fn find_conditions(shared: Arc<Shared>, answered: watch::Sender<bool>) {
    let wanted = GroupVersionKind::gvk("operators.coreos.com", "v2", "OperatorCondition");
    let served = shared.ctx.kinds.served(&wanted);
    let mut served = std::pin::pin!(served);
    while let Some(kind) = served.next().await {
        shared.find_conditions(kind.is_some());
        answered.send_replace(true);
    }
}
