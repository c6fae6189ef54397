//! Controller of BundleInstances: watches them and the objects that they depend on, and triggers their reconciles.

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
use manifests::api::{bundle::Bundle, bundle_instance::BundleInstance};
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::state::InstanceContext;
use crate::{
    controllers::{
        bundle::{BundleCache, Change},
        context::Context,
    },
    runtime::metrics::Controller as Of,
};
use apply::{
    api_error,
    backoff::{NoWatchBackoff, WatchBackoff},
};

/// Maximum number of instances that are reconciled at the same time.
const CONCURRENCY: u16 = 16;

/// Runs the controller until `stop` is canceled. `woken` yields the names of the instances whose objects have changed.
pub async fn run(
    ctx: Context,
    bundles: Arc<BundleCache>,
    woken: mpsc::UnboundedReceiver<String>,
    stop: CancellationToken,
) {
    let ready = ctx.ready.task("list BundleInstances");
    let (wake, wake_requests) = mpsc::unbounded_channel();
    let (listed, mut are_listed) = watch::channel(false);
    // Dropped with this function, which ends the tasks.
    let mut tasks = JoinSet::new();
    tasks.spawn(wake_owners(bundles.subscribe(), listed, wake.clone()));
    let shared = Arc::new(InstanceContext::new(ctx, bundles, wake));
    let (answer, mut is_answered) = watch::channel(false);
    tasks.spawn(watch_operator_conditions(Arc::clone(&shared), answer));
    // Before the first list of Bundles, every instance would appear to have no Bundle. Before the first answer about the
    // API of OperatorConditions, no operator would get one.
    let synced = async {
        let _ = are_listed.wait_for(|listed| *listed).await;
        let _ = is_answered.wait_for(|answered| *answered).await;
    };
    tokio::select! {
        () = synced => {}
        () = stop.cancelled() => return,
    }
    let ctx = &shared.ctx;
    let (store, writer) = reflector::store();
    let mut ready = Some(ready);
    let instances = watcher(
        Api::<BundleInstance>::all(ctx.client.clone()),
        watcher::Config::default(),
    )
    .backoff(WatchBackoff::default())
    .modify(|instance| instance.metadata.managed_fields = None)
    .reflect(writer)
    // The store cannot signal this: it wakes only one of its waiters, and the controller is waiting already.
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
            Ok(watcher::Event::Delete(instance)) => shared.forget_deleted(instance),
            _ => {}
        }
    })
    .applied_objects()
    .inspect({
        let shared = Arc::clone(&shared);
        let metrics = Arc::clone(&ctx.metrics);
        move |instance| {
            if let Ok(instance) = instance {
                shared.observe(instance);
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
        .reconcile_on(into_stream(wake_requests).inspect(triggered))
        .with_config(
            controller::Config::default()
                .concurrency(CONCURRENCY)
                .debounce(Duration::from_millis(5)),
        )
        .trigger_backoff(NoWatchBackoff)
        .graceful_shutdown_on(stop.clone().cancelled_owned());
    tasks.spawn(retry_when_apis_change(Arc::clone(&shared)));
    tasks.spawn(retry_when_versions_change(Arc::clone(&shared)));
    controller
        .run(
            super::reconcile::reconcile,
            super::reconcile::failed,
            shared,
        )
        .for_each(|result| {
            match result {
                Ok((instance, _)) => debug!(instance = %instance.name, "reconciled"),
                Err(controller::Error::ObjectNotFound(deleted)) => {
                    metrics.queue(Of::Instance).dequeued(&deleted.name);
                    rollouts.forget(&deleted.name);
                }
                // A reconcile's own errors were logged where they happened.
                Err(controller::Error::ReconcilerFailed(..)) => {}
                Err(error) => {
                    let error = api_error::chain(&error);
                    warn!(error, "watch of BundleInstances failed; reconnecting");
                }
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

/// Returns the instance that controls a Bundle.
fn owner(bundle: &Bundle) -> Option<ObjectRef<BundleInstance>> {
    let mut owners = bundle.owner_references().iter();
    let owner = owners.find(|owner| owner.controller == Some(true))?;
    ObjectRef::from_owner_ref(None, owner, ())
}

/// Returns references to the instances that the informers name.
fn references(
    names: mpsc::UnboundedReceiver<String>,
) -> impl Stream<Item = ObjectRef<BundleInstance>> + Send {
    into_stream(names).map(|name| ObjectRef::new(&name))
}

fn into_stream<T: Send + 'static>(
    from: mpsc::UnboundedReceiver<T>,
) -> impl Stream<Item = T> + Send {
    futures::stream::unfold(from, |mut from| async {
        from.recv().await.map(|item| (item, from))
    })
}

/// Wakes the instances that wait for an API whenever the served APIs change.
async fn retry_when_apis_change(shared: Arc<InstanceContext>) {
    let mut changes = shared.ctx.discovery.changes();
    while changes.changed().await.is_ok() {
        shared.wake_missing_apis().await;
    }
}

/// Wakes the instances that the version of the cluster blocks, whenever that version or the constraints that catalogs
/// declare change.
async fn retry_when_versions_change(shared: Arc<InstanceContext>) {
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
        shared.wake_blocked();
    }
}

/// Follows whether the cluster serves OperatorConditions, and reports when the first answer is recorded.
async fn watch_operator_conditions(shared: Arc<InstanceContext>, answered: watch::Sender<bool>) {
    let condition_kind = GroupVersionKind::gvk("operators.coreos.com", "v2", "OperatorCondition");
    let served = shared.ctx.discovery.served(&condition_kind);
    let mut served = std::pin::pin!(served);
    while let Some(kind) = served.next().await {
        shared.set_conditions_served(kind.is_some());
        answered.send_replace(true);
    }
}
