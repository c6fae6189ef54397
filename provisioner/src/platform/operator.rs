//! The PlatformOperator controller: what a PlatformOperator names is chosen from catalogs, installed by a BundleInstance
//! of the same name, and upgraded one edge at a time.
//!
//! ```text
//!  PlatformOperator, catalogs, cluster's version, OLM ─┐
//!  BundleInstance ── here: what is installed ──────────┴── plan ──┬── declare: the BundleInstance, where it differs
//!                                                                 └── status, where it differs
//! ```
//!
//! What was chosen stands in an annotation of the BundleInstance, for OpenShift's own definition of PlatformOperators drops
//! the status that says so. Nothing is asked at rest: watches of the five wake the operators they are about, or all of them.

pub mod declare;
pub mod here;
mod olm;
pub mod plan;
mod reconcile;
mod rights;
pub mod status;
mod version;

use std::{
    collections::{BTreeSet, HashMap},
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures::{StreamExt as _, future, stream};
use kube::{
    Api, ResourceExt as _,
    core::GroupVersionKind,
    runtime::{
        Controller, WatchStreamExt as _, controller,
        reflector::{self, ObjectRef, Store, store::Writer},
        watcher,
    },
};
use manifests::api::{
    instance::BundleInstance,
    labels,
    platform::{PlatformOperator, PlatformOperatorStatus},
};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use self::olm::Olm;
use crate::{
    catalogs,
    context::Context,
    watches::{NoPause, Pauses},
};

/// How many operators are looked at at once.
const CONCURRENCY: u16 = 8;

/// What all reconciles share.
struct Shared {
    ctx: Context,
    operators: Store<PlatformOperator>,
    instances: Store<BundleInstance>,
    olm: Arc<Olm>,
    /// What was written last, and what became of it: a definition of others drops what it does not know.
    written: Mutex<HashMap<String, (PlatformOperatorStatus, PlatformOperatorStatus)>>,
}

// === impl Shared ===

impl Shared {
    /// How the catalogs are that count for an operator.
    fn catalogs_of(&self, operator: &PlatformOperator) -> Vec<catalogs::State> {
        let offers = self
            .ctx
            .catalogs
            .offers(&operator.spec.package.name, operator.spec.catalog.as_ref());
        let named: BTreeSet<String> = offers
            .list()
            .iter()
            .map(|offer| offer.catalog.to_owned())
            .collect();
        let mut states = self.ctx.catalogs.states();
        states.retain(|state| named.contains(&state.catalog.to_string()));
        states
    }

    fn wrote(
        &self,
        name: &str,
        wanted: &PlatformOperatorStatus,
        stored: Option<&PlatformOperatorStatus>,
    ) {
        let stored = stored.cloned().unwrap_or_default();
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        written.insert(name.to_owned(), (wanted.clone(), stored));
    }

    /// Whether a status was written as it is wanted, and nobody has changed it since.
    fn has_written(&self, operator: &PlatformOperator, wanted: &PlatformOperatorStatus) -> bool {
        let there = operator.status.clone().unwrap_or_default();
        let written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let last = written.get(&operator.name_any());
        last.is_some_and(|(last, stored)| last == wanted && *stored == there)
    }

    fn forget(&self, name: &str) {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        written.remove(name);
    }

    /// Tells the catalogs which packages are wanted.
    fn want(&self) {
        let operators = self.operators.state();
        let instances = self.instances.state();
        let installed = instances.iter().filter_map(|instance| {
            let status = instance.status.as_ref()?;
            status.facts.package.clone()
        });
        let named = operators.iter().map(|it| it.spec.package.name.clone());
        self.ctx.catalogs.want(named.chain(installed).collect());
    }
}

/// Runs the controller while PlatformOperators are served, until `stop`.
pub(crate) async fn run(ctx: Context, stop: CancellationToken) {
    let wanted = GroupVersionKind::gvk("platform.openshift.io", "v1alpha1", "PlatformOperator");
    let served = ctx
        .kinds
        .served(&wanted)
        .filter(|kind| future::ready(kind.is_some()));
    let mut served = pin!(served);
    tokio::select! {
        _ = served.next() => {}
        () = stop.cancelled() => return,
    }
    control(&ctx, &stop).await;
}

async fn control(ctx: &Context, stop: &CancellationToken) {
    let (instances, instances_writer) = reflector::store();
    let (operators, operators_writer) = reflector::store();
    let shared = Arc::new(Shared {
        ctx: ctx.clone(),
        operators: operators.clone(),
        instances,
        olm: Arc::default(),
        written: Mutex::default(),
    });
    let (wake, woken) = mpsc::unbounded_channel();
    let (listed, mut are_listed) = watch::channel(false);
    let watched = tokio::spawn(watch_instances(
        Arc::clone(&shared),
        instances_writer,
        listed,
        wake,
    ));
    let olm = {
        let (olm, client, kinds) = (
            Arc::clone(&shared.olm),
            ctx.client.clone(),
            Arc::clone(&ctx.kinds),
        );
        tokio::spawn(async move { olm.follow(&client, &kinds).await })
    };
    let version = {
        let ctx = ctx.clone();
        tokio::spawn(async move { version::follow(&ctx).await })
    };
    // Without them each operator would look as if nothing was installed.
    tokio::select! {
        _ = are_listed.wait_for(|listed| *listed) => {}
        () = stop.cancelled() => {}
    }
    let stream = watcher(
        Api::<PlatformOperator>::all(ctx.client.clone()),
        watcher::Config::default(),
    )
    .backoff(Pauses::default())
    .modify(|operator| operator.metadata.managed_fields = None)
    .reflect(operators_writer)
    .inspect({
        let shared = Arc::clone(&shared);
        move |event| {
            if event.is_err() {
                // The apiserver may come back as another version.
                shared.ctx.versions.doubt();
            }
            if let Ok(watcher::Event::Delete(operator)) = event {
                shared.forget(&operator.name_any());
            }
            if !matches!(event, Ok(watcher::Event::InitApply(_)) | Err(_)) {
                shared.want();
            }
        }
    })
    .touched_objects();
    let all = stream::select_all([
        changes_of(ctx.catalogs.changes()),
        changes_of(shared.olm.changes()),
        changes_of(ctx.versions.changes()),
    ]);
    Controller::for_stream(stream, operators)
        .reconcile_on(stream::unfold(woken, |mut woken| async {
            woken.recv().await.map(|it| (it, woken))
        }))
        .reconcile_all_on(all)
        .with_config(
            controller::Config::default()
                .concurrency(CONCURRENCY)
                .debounce(Duration::from_millis(20)),
        )
        .trigger_backoff(NoPause)
        .graceful_shutdown_on(stop.clone().cancelled_owned())
        .run(reconcile::reconcile, reconcile::failed, Arc::clone(&shared))
        .for_each(|result| {
            if let Err(error @ controller::Error::QueueError(_)) = result {
                warn!(%error, "the watch of platform operators failed; it is taken up again");
            }
            future::ready(())
        })
        .await;
    watched.abort();
    olm.abort();
    version.abort();
}

fn changes_of(changes: watch::Receiver<u64>) -> stream::BoxStream<'static, ()> {
    stream::unfold(changes, |mut changes| async {
        changes.changed().await.ok()?;
        Some(((), changes))
    })
    .boxed()
}

/// Keeps the store of BundleInstances that belong to platform operators, tells when they are listed, and wakes the operators.
async fn watch_instances(
    shared: Arc<Shared>,
    writer: Writer<BundleInstance>,
    listed: watch::Sender<bool>,
    wake: mpsc::UnboundedSender<ObjectRef<PlatformOperator>>,
) {
    let labelled = watcher::Config::default().labels(labels::PLATFORM_OPERATOR);
    watcher(
        Api::<BundleInstance>::all(shared.ctx.client.clone()),
        labelled,
    )
    .backoff(Pauses::default())
    .modify(|instance| instance.metadata.managed_fields = None)
    .reflect(writer)
    .inspect(|event| {
        if matches!(event, Ok(watcher::Event::InitDone)) {
            listed.send_replace(true);
        }
    })
    .touched_objects()
    .for_each(|instance| {
        match instance {
            Ok(instance) => {
                shared.want();
                // The controller is there as long as this is, or the process ends.
                let _ = wake.send(ObjectRef::new(&instance.name_any()));
            }
            Err(error) => {
                warn!(%error, "the watch of BundleInstances failed; it is taken up again");
            }
        }
        future::ready(())
    })
    .await;
}
