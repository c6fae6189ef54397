//! Controller of PlatformOperators: chooses the bundle of a PlatformOperator from catalogs, installs it with a BundleInstance
//! of the same name, and upgrades it along one upgrade edge at a time.
//!
//! ```text
//! PlatformOperator, catalogs, version of the cluster, OLM ─┐
//! BundleInstance ── installed: installed bundle ───────────┴─ choose ──┬── instance_manifest: the BundleInstance, if it differs
//!                                                                     └── status, if it differs
//! ```
//!
//! An annotation of the BundleInstance records the choice. The status and an annotation of the PlatformOperator record it
//! for a deleted BundleInstance; OpenShift's CRD of PlatformOperators drops that status. Without changes no requests are
//! sent: watches of these objects wake the affected operators, or all of them.

use std::{
    collections::HashMap,
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{Stream, StreamExt as _, TryStreamExt as _, future, stream};
use kube::{
    Api, ResourceExt as _,
    core::GroupVersionKind,
    runtime::{
        Controller, WatchStreamExt as _, controller,
        reflector::{self, ObjectRef, Store, store::Writer},
        watcher,
    },
};
use manifests::{
    api::platform_operator::{PlatformOperator, PlatformOperatorStatus},
    object,
};
use parking_lot::Mutex;
use tokio::sync::{
    mpsc::{self, UnboundedSender},
    watch,
};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::{instances::Instances, new_permissions::PermissionCache, olm_packages::OlmPackages};
use crate::{
    cluster::written_versions::Written,
    controllers::{backoff::Backoff, context::Context},
    runtime::metrics::Controller as Of,
};
use apply::{
    api_error,
    backoff::{NoWatchBackoff, patient},
};

/// Maximum number of operators that are reconciled at the same time.
const CONCURRENCY: u16 = 8;

/// State that all reconciles share.
pub(super) struct Shared {
    pub(super) ctx: Context,
    pub(super) operators: Store<PlatformOperator>,
    pub(super) instances: Instances,
    pub(super) olm: Arc<OlmPackages>,
    /// Last written status and the stored one, by operator. The CRD of another product drops unknown fields.
    pub(super) written: Mutex<HashMap<String, (PlatformOperatorStatus, PlatformOperatorStatus)>>,
    /// resourceVersions of the controller's writes.
    pub(super) versions: Written,
    /// Back-off of failed reconciles, by UID of the operator.
    pub(super) failures: Backoff,
    /// Cached new permissions of bundles.
    pub(super) answers: PermissionCache,
}

// === impl Shared ===

impl Shared {
    pub(super) fn record_status(
        &self,
        name: &str,
        desired: &PlatformOperatorStatus,
        stored: Option<&PlatformOperatorStatus>,
    ) {
        let stored = stored.cloned().unwrap_or_default();
        let mut written = self.written.lock();
        written.insert(name.to_owned(), (desired.clone(), stored));
    }

    /// Adds the last written fields that the watch may not have delivered yet.
    pub(super) fn merge_written_status(&self, name: &str, status: &mut PlatformOperatorStatus) {
        let written = self.written.lock();
        if let Some((last, _)) = written.get(name) {
            super::status::restore_reasons(status, last);
        }
    }

    /// Reports whether this status was written, and no other client has changed the stored one since.
    pub(super) fn is_status_written(
        &self,
        operator: &PlatformOperator,
        desired: &PlatformOperatorStatus,
    ) -> bool {
        let stored_now = operator.status.clone().unwrap_or_default();
        let written = self.written.lock();
        let last = written.get(&operator.name_any());
        last.is_some_and(|(last, stored)| last == desired && *stored == stored_now)
    }

    /// Removes the state of a deleted operator, and wakes the operators that request its package.
    fn forget(
        &self,
        operator: &PlatformOperator,
        wake: &UnboundedSender<ObjectRef<PlatformOperator>>,
    ) {
        {
            let mut written = self.written.lock();
            written.remove(&operator.name_any());
        }
        let uid = operator.uid().unwrap_or_default();
        self.versions.forget(&uid);
        self.failures.reset(&uid);
        self.answers.remove(&uid);
        let package = &operator.spec.package.name;
        for other in self.operators.state() {
            if other.spec.package.name == *package {
                // The controller exists as long as this stream, or the process ends.
                let _ = wake.send(ObjectRef::from_obj(&*other));
            }
        }
    }

    /// Records a failed reconcile, and returns the delay until the next one.
    pub(super) fn requeue_after_error(&self, operator: &PlatformOperator) -> Duration {
        let uid = operator.uid().unwrap_or_default();
        self.failures
            .next(&uid, operator.metadata.generation, false, Instant::now())
    }

    /// Passes the needed packages to the catalogs.
    fn track_packages(&self) {
        let operators = self.operators.state();
        let instances = self.instances.labeled();
        let installed = instances.iter().filter_map(|instance| {
            let status = instance.status.as_ref()?;
            status.facts.package.clone()
        });
        // An operator with an invalid spec needs no package.
        let valid = operators.iter().filter(|operator| operator.check().is_ok());
        let named = valid.map(|operator| operator.spec.package.name.clone());
        self.ctx
            .catalogs
            .track_candidates(named.chain(installed).collect());
    }
}

/// Runs the controller while PlatformOperators are served, until `stop` is canceled.
pub(crate) async fn run(ctx: Context, stop: CancellationToken) {
    let kind = GroupVersionKind::gvk("platform.openshift.io", "v1alpha1", "PlatformOperator");
    let served = ctx
        .discovery
        .served(&kind)
        .filter(|served| future::ready(served.is_some()));
    let mut served = pin!(served);
    tokio::select! {
        _ = served.next() => {}
        () = stop.cancelled() => return,
    }
    control(&ctx, &stop).await;
}

/// Returns a function that counts a triggered operator as queued.
fn count_triggered(ctx: &Context) -> impl Fn(&str) + use<> {
    let metrics = Arc::clone(&ctx.metrics);
    move |name| metrics.queue(Of::Platform).triggered(name)
}

/// Returns the stream of changed operators, and fills their cache.
fn changed_operators(
    shared: &Arc<Shared>,
    operators_writer: Writer<PlatformOperator>,
    wake: UnboundedSender<ObjectRef<PlatformOperator>>,
) -> impl Stream<Item = Result<PlatformOperator, watcher::Error>> + Send + use<> {
    let ctx = &shared.ctx;
    patient(watcher(
        Api::<PlatformOperator>::all(ctx.client.clone()),
        watcher::Config::default(),
    ))
    .modify(|operator| operator.metadata.managed_fields = None)
    .reflect(operators_writer)
    .inspect({
        let shared = Arc::clone(shared);
        move |event| {
            if let Err(error) = event
                && api_error::is_outage(api_error::code(error))
            {
                // The API server may have another version after its restart.
                shared.ctx.versions.doubt();
            }
            if let Ok(watcher::Event::Delete(operator)) = event {
                shared.forget(operator, &wake);
            }
            if !matches!(event, Ok(watcher::Event::InitApply(_)) | Err(_)) {
                shared.track_packages();
            }
        }
    })
    .touched_objects()
    .inspect_ok({
        let triggered = count_triggered(ctx);
        move |operator| triggered(&operator.name_any())
    })
}

async fn control(ctx: &Context, stop: &CancellationToken) {
    let (wake, woken) = mpsc::unbounded_channel();
    let (instances, following) = super::instances::follow(&ctx.client, wake.clone());
    let (operators, operators_writer) = reflector::store();
    let shared = Arc::new(Shared {
        ctx: ctx.clone(),
        operators: operators.clone(),
        instances,
        olm: Arc::default(),
        written: Mutex::default(),
        versions: Written::default(),
        failures: Backoff::default(),
        answers: PermissionCache::default(),
    });
    let watched = tokio::spawn(following);
    let olm = {
        let (olm, client, kinds) = (
            Arc::clone(&shared.olm),
            ctx.client.clone(),
            Arc::clone(&ctx.discovery),
        );
        tokio::spawn(async move { olm.follow(&client, &kinds).await })
    };
    let version = {
        let ctx = ctx.clone();
        tokio::spawn(async move { super::version_watch::follow(&ctx).await })
    };
    // Before the first list, every operator would appear not to be installed.
    tokio::select! {
        _ = shared.instances.are_listed() => {}
        () = stop.cancelled() => {}
    }
    let stream = changed_operators(&shared, operators_writer, wake);
    let all = stream::select_all([
        changes_of(ctx.catalogs.changes()),
        changes_of(shared.olm.changes()),
        changes_of(ctx.versions.changes()),
    ])
    .inspect({
        let (triggered, operators) = (count_triggered(ctx), operators.clone());
        move |()| (operators.state().iter()).for_each(|operator| triggered(&operator.name_any()))
    });
    let woken = {
        let shared = Arc::clone(&shared);
        stream::unfold(woken, |mut woken| async {
            woken.recv().await.map(|operator| (operator, woken))
        })
        .inspect(move |_| shared.track_packages())
        .filter({
            let operators = operators.clone();
            move |name| future::ready(operators.get(name).is_some())
        })
        .inspect({
            let triggered = count_triggered(ctx);
            move |operator| triggered(&operator.name)
        })
    };
    Controller::for_stream(stream, operators)
        .reconcile_on(woken)
        .reconcile_all_on(all)
        .with_config(
            controller::Config::default()
                .concurrency(CONCURRENCY)
                .debounce(Duration::from_millis(20)),
        )
        .trigger_backoff(NoWatchBackoff)
        .graceful_shutdown_on(stop.clone().cancelled_owned())
        .run(
            super::reconcile::reconcile,
            super::reconcile::failed,
            Arc::clone(&shared),
        )
        .for_each(|result| {
            match result {
                Err(controller::Error::ObjectNotFound(deleted)) => {
                    ctx.metrics.queue(Of::Platform).dequeued(&deleted.name);
                }
                Err(error @ controller::Error::QueueError(_)) => {
                    let error = api_error::chain(&error);
                    warn!(error, "watch of PlatformOperators failed; reconnecting");
                }
                _ => {}
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

/// Truncates a text for the status, whose limits count characters of up to four bytes.
pub(super) fn truncate(text: &str, most: u32) -> String {
    let most = most as usize;
    if text.len() <= most {
        text.to_owned()
    } else {
        object::truncate(text, most / 4)
    }
}
