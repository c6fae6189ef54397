//! The PlatformOperator controller: what a PlatformOperator names is chosen from catalogs, installed by a BundleInstance
//! of the same name, and upgraded one edge at a time.
//!
//! ```text
//!  PlatformOperator, catalogs, cluster's version, OLM ─┐
//!  BundleInstance ── here: what is installed ──────────┴── plan ──┬── declare: the BundleInstance, where it differs
//!                                                                 └── status, where it differs
//! ```
//!
//! What was chosen stands in an annotation of the BundleInstance, and in the status and an annotation of the PlatformOperator
//! for a BundleInstance that is deleted: OpenShift's own definition of PlatformOperators drops that status. Nothing is asked at rest: watches of the five wake the operators they are about, or all of them.

pub mod declare;
#[cfg(test)]
pub(super) mod fixtures;
pub mod here;
mod instances;
mod olm;
pub mod plan;
mod reconcile;
pub mod record;
mod rights;
pub mod status;
mod version;

use std::{
    collections::HashMap,
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use futures::{StreamExt as _, future, stream};
use kube::{
    Api, ResourceExt as _,
    core::GroupVersionKind,
    runtime::{
        Controller, WatchStreamExt as _, controller,
        reflector::{self, ObjectRef, Store},
        watcher,
    },
};
use manifests::{
    api::platform::{PlatformOperator, PlatformOperatorStatus},
    object::shortened,
};
use tokio::sync::{
    mpsc::{self, UnboundedSender},
    watch,
};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use self::{instances::Instances, olm::Olm, rights::Answers};
use crate::{backoff::Backoff, context::Context, written::Written};
use apply::{
    api_error as answer,
    backoff::{NoPause, patient},
};

/// How many operators are looked at at once.
const CONCURRENCY: u16 = 8;

/// What all reconciles share.
struct Shared {
    ctx: Context,
    operators: Store<PlatformOperator>,
    instances: Instances,
    olm: Arc<Olm>,
    /// What was written last, and what became of it: a definition of others drops what it does not know.
    written: Mutex<HashMap<String, (PlatformOperatorStatus, PlatformOperatorStatus)>>,
    /// The versions of our writes.
    versions: Written,
    /// Looks that could not be finished, by the operator's uid.
    failures: Backoff,
    /// The rights of bundles that were looked at.
    answers: Answers,
}

// === impl Shared ===

impl Shared {
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

    /// What a cache may not have seen yet of what was written.
    fn recall(&self, name: &str, status: &mut PlatformOperatorStatus) {
        let written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((last, _)) = written.get(name) {
            status::recall(status, last);
        }
    }

    /// Reports whether a status was written as it is wanted, and nobody has changed it since.
    fn has_written(&self, operator: &PlatformOperator, wanted: &PlatformOperatorStatus) -> bool {
        let there = operator.status.clone().unwrap_or_default();
        let written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let last = written.get(&operator.name_any());
        last.is_some_and(|(last, stored)| last == wanted && *stored == there)
    }

    /// An operator is gone; who else wants its package may have it now.
    fn forget(
        &self,
        operator: &PlatformOperator,
        wake: &UnboundedSender<ObjectRef<PlatformOperator>>,
    ) {
        {
            let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
            written.remove(&operator.name_any());
        }
        let uid = operator.uid().unwrap_or_default();
        self.versions.forget(&uid);
        self.failures.forget(&uid);
        self.answers.forget(&uid);
        let package = &operator.spec.package.name;
        for other in self.operators.state() {
            if other.spec.package.name == *package {
                // The controller is there as long as this is, or the process ends.
                let _ = wake.send(ObjectRef::from_obj(&*other));
            }
        }
    }

    /// A look could not be finished: when to look again.
    fn again(&self, operator: &PlatformOperator) -> Duration {
        let uid = operator.uid().unwrap_or_default();
        self.failures
            .next(&uid, operator.metadata.generation, false, Instant::now())
    }

    /// Tells the catalogs which packages are wanted.
    fn want(&self) {
        let operators = self.operators.state();
        let instances = self.instances.labeled();
        let installed = instances.iter().filter_map(|instance| {
            let status = instance.status.as_ref()?;
            status.facts.package.clone()
        });
        // Whoever cannot be served asks for nothing.
        let served = operators.iter().filter(|it| it.check().is_ok());
        let named = served.map(|it| it.spec.package.name.clone());
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
    let (wake, woken) = mpsc::unbounded_channel();
    let (instances, following) = instances::follow(&ctx.client, wake.clone());
    let (operators, operators_writer) = reflector::store();
    let shared = Arc::new(Shared {
        ctx: ctx.clone(),
        operators: operators.clone(),
        instances,
        olm: Arc::default(),
        written: Mutex::default(),
        versions: Written::default(),
        failures: Backoff::default(),
        answers: Answers::default(),
    });
    let watched = tokio::spawn(following);
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
    // Before that each operator would look as if nothing was installed.
    tokio::select! {
        _ = shared.instances.are_listed() => {}
        () = stop.cancelled() => {}
    }
    let stream = patient(watcher(
        Api::<PlatformOperator>::all(ctx.client.clone()),
        watcher::Config::default(),
    ))
    .modify(|operator| operator.metadata.managed_fields = None)
    .reflect(operators_writer)
    .inspect({
        let shared = Arc::clone(&shared);
        move |event| {
            if let Err(error) = event
                && answer::is_outage(answer::code(error))
            {
                // The API server may come back as another version.
                shared.ctx.versions.doubt();
            }
            if let Ok(watcher::Event::Delete(operator)) = event {
                shared.forget(operator, &wake);
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
    let woken = {
        let shared = Arc::clone(&shared);
        stream::unfold(woken, |mut woken| async {
            woken.recv().await.map(|it| (it, woken))
        })
        .inspect(move |_| shared.want())
        .filter({
            let operators = operators.clone();
            move |name| future::ready(operators.get(name).is_some())
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

/// What a status takes, which counts characters of up to four bytes.
fn fit(text: &str, most: u32) -> String {
    let most = most as usize;
    if text.len() <= most {
        text.to_owned()
    } else {
        shortened(text, most / 4)
    }
}
