//! One look at an instance.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use kube::{
    Api, Resource as _, ResourceExt as _,
    api::{Patch, PatchParams},
    runtime::controller::Action,
};
use manifests::api::{
    Class,
    bundle::{Bundle, Phase},
    condition,
    instance::{BundleInstance, BundleInstanceStatus},
    labels,
};
use serde_json::json;
use tracing::{Instrument as _, info_span, warn};

use super::{
    bundles,
    choice::Known,
    install::{self, Target},
    maintain,
    memory::{Memory, Shared, version},
    outcome::{Install, Outcome, Valid},
    rollback, status, tell, template, trust, uninstall,
};
use crate::{
    apply::MANAGER, inventory, metrics::Controller, overrides::Digests, plan::Owner,
    watches::spread,
};

/// Why a look at an instance could not be finished. What is wrong with the instance itself stands in its status.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// The apiserver did not take something that only concerns the instance itself.
    #[error("failed to {what} of BundleInstance {name}: {source}")]
    Kube {
        /// What was tried.
        what: &'static str,
        /// Whose.
        name: String,
        /// What it said.
        #[source]
        source: Box<kube::Error>,
    },
}

impl Error {
    pub(super) fn on(
        what: &'static str,
        instance: &BundleInstance,
    ) -> impl Fn(kube::Error) -> Self + use<> {
        let name = instance.name_any();
        move |source| Self::Kube {
            what,
            name: name.clone(),
            source: Box::new(source),
        }
    }
}

/// Looks at an instance: drives the cluster towards what it declares, and says how it is.
pub(super) async fn reconcile(
    instance: Arc<BundleInstance>,
    shared: Arc<Shared>,
) -> Result<Action, Error> {
    let span = info_span!("instance", name = %instance.name_any(), generation = instance.metadata.generation);
    let metrics = &shared.ctx.metrics;
    metrics
        .queue(Controller::Instance)
        .begun(&instance.name_any());
    let _measure = metrics.reconcile(Controller::Instance);
    let memory = shared.memory(&instance);
    let mut memory = memory.lock().await;
    memory.has_seen(&instance);
    async {
        if instance.metadata.deletion_timestamp.is_some() {
            return uninstall::run(&instance, &shared, &mut memory).await;
        }
        let is_ours = Class::parse(&instance.spec.provisioner_class_name).is_some();
        if is_ours && !instance.finalizers().iter().any(|f| f == labels::UNINSTALL) {
            add_finalizer(&instance, &shared).await?;
        }
        bundles::adopt(&instance, &shared, &mut memory).await;
        let (outcome, again) = settle(&instance, &shared, &mut memory).await;
        let before = current_status(&instance, &memory);
        // A record that is not written is news.
        if let Some(left) = memory.has_nothing_to_say(&before, &outcome)
            && memory.bundles.is_none()
        {
            return Ok(Action::requeue(left));
        }
        let mut status = status::of(
            &before,
            instance.metadata.generation,
            &outcome,
            (shared.ctx.now)(),
        );
        status.overrides = Digests::of_installed(&status)
            .of(&instance.spec.overrides)
            .cloned()
            .collect();
        if let Some(left) = memory.has_just_said(&before, &outcome)
            && memory.bundles.is_none()
        {
            return Ok(Action::requeue(sooner(Some(left), again).unwrap_or(left)));
        }
        if status != before || memory.bundles.is_some() {
            write_status(&instance, &shared, &mut memory, &status).await?;
            let (old, new) = (before.inventory.as_ref(), status.inventory.as_ref());
            inventory::trim(&overflow(&shared, &owner(&instance)), old, new).await;
            tell::changes(&instance, &shared, &before, &status).await;
        }
        memory.rest(&status);
        Ok(again.map_or_else(
            || Action::requeue(spread(shared.ctx.settings.resync)),
            Action::requeue,
        ))
    }
    .instrument(span)
    .await
}

/// After an error of the reconcile itself: soon, but not at once.
#[expect(clippy::needless_pass_by_value)] // kube's signature
pub(super) fn failed(instance: Arc<BundleInstance>, error: &Error, shared: Arc<Shared>) -> Action {
    warn!(instance = %instance.name_any(), %error, "could not be finished; it is tried again");
    shared
        .ctx
        .metrics
        .failed(Controller::Instance, condition::reason::RECONCILE_FAILED);
    Action::requeue(spread(Duration::from_secs(2)))
}

/// What is known of the status: what was written last, or else what the watch delivered.
pub(super) fn current_status(instance: &BundleInstance, memory: &Memory) -> BundleInstanceStatus {
    let written = memory.status.as_ref().map(|(_, status)| status);
    written
        .or(instance.status.as_ref())
        .cloned()
        .unwrap_or_default()
}

/// Finds out what there is to do, does it, and says what came of it and when to look again.
async fn settle(
    instance: &BundleInstance,
    shared: &Shared,
    memory: &mut Memory,
) -> (Outcome, Option<Duration>) {
    let mut status = current_status(instance, memory);
    if let Some(created) = &memory.bundles {
        status.bundles.clone_from(created);
    }
    let found = status.installed_bundle_name.as_ref();
    let found = found.and_then(|name| shared.bundle(name));
    let installed = trust::installed(&status, instance, found.as_deref());
    let replaced = installed.replaced().map(str::to_owned);
    if let Err(error) = read_inventory(instance, shared, memory, &status).await {
        let message = format!(
            "the inventory of BundleInstance {} cannot be read: {error}; restore its ConfigMaps in namespace {}",
            instance.name_any(),
            shared.ctx.settings.system_namespace
        );
        let outcome = Outcome {
            replaced,
            ..Outcome::of_bundle(Valid::Unknown(message))
        };
        return (outcome, Some(Duration::from_secs(15)));
    }
    if let Some((valid, install)) = left_alone(instance) {
        maintain::watch(instance, shared, memory).await;
        let outcome = Outcome {
            install,
            health: maintain::health(instance, shared, memory),
            ..Outcome::of_bundle(valid)
        };
        return (outcome, None);
    }
    let hash = template::hash(instance);
    let bundles = shared.bundles_of(instance);
    let wanted = bundles::wanted(instance, shared, memory, &bundles, &hash, &mut status).await;
    let (valid, make_again) = match &wanted {
        // One that goes before it was seen wakes nobody in time.
        Ok(bundle) => (
            valid(bundle),
            memory.made.is_some().then_some(bundles::LATE),
        ),
        Err((message, again)) => (Valid::Unknown(message.clone()), Some(*again)),
    };
    let known = Known {
        status: &status,
        hash: &hash,
        wanted: wanted.as_ref().ok().map(AsRef::as_ref),
        installed: installed.trusted(),
        previous: trust::previous(&status, &bundles),
    };
    let target = known.target(memory);
    let Some(target) = target else {
        maintain::watch(instance, shared, memory).await;
        let outcome = Outcome {
            health: maintain::health(instance, shared, memory),
            replaced,
            ..Outcome::of_bundle(valid)
        };
        return (outcome, make_again);
    };
    let installed = known.installed;
    let mut settled = install::run(instance, shared, memory, &status, &target, installed).await;
    let mut way_back = target.way_back_from.clone();
    if let Some((failure, back)) = known.way_back(instance, &target, &settled) {
        // The first try has changed it. From now on this template is not tried again, whatever becomes of the way back.
        let mut status = current_status(instance, memory);
        status.failed_template_hash = Some(hash.clone());
        if let Err(error) = write_status(instance, shared, memory, &status).await {
            warn!(%error, "the way back begins later");
            settled.again = sooner(settled.again, Some(Duration::from_secs(1)));
        } else {
            memory.gave_up = Some((hash.clone(), failure.clone()));
            way_back = Some((hash.clone(), failure));
            let target = Target {
                bundle: back,
                way_back_from: way_back.clone(),
            };
            settled = install::run(instance, shared, memory, &status, &target, installed).await;
        }
    }
    if let (Some((_, why)), Install::Failed(failure)) = (way_back, &mut settled.install) {
        failure.message = rollback::blocked(&failure.message, &why);
    }
    let again = sooner(settled.again, make_again);
    let outcome = Outcome {
        valid,
        install: settled.install,
        health: settled.health,
        fights: settled.fights,
        kept: settled.kept,
        replaced,
    };
    if let Ok(wanted) = &wanted {
        bundles::clean_up(instance, shared, &bundles, wanted, &status, &outcome).await;
    }
    (outcome, again)
}

/// What there is to say of an instance that is left as it is.
fn left_alone(instance: &BundleInstance) -> Option<(Valid, Install)> {
    if Class::parse(&instance.spec.provisioner_class_name).is_none() {
        // What was installed with another class is not kept any more; how it is can still be said.
        let class = instance.spec.provisioner_class_name.clone();
        return Some((Valid::Unserved(class), Install::Unchanged));
    }
    (instance.spec.paused).then_some((Valid::Unchanged, Install::Paused))
}

/// The shorter of two times to wait.
pub(super) fn sooner(one: Option<Duration>, other: Option<Duration>) -> Option<Duration> {
    one.into_iter().chain(other).min()
}

/// How it is with the wanted Bundle, by what it says itself.
fn valid(bundle: &Bundle) -> Valid {
    let name = bundle.name_any();
    let status = bundle.status.clone().unwrap_or_default();
    let message = status
        .conditions
        .iter()
        .find(|c| c.type_ == condition::UNPACKED)
        .map(|c| c.message.clone())
        .unwrap_or_default();
    match status.phase {
        Some(Phase::Unpacked) => Valid::Unpacked { bundle: name },
        Some(Phase::Failing) => Valid::Failed {
            bundle: name,
            message,
        },
        _ => Valid::Pending {
            bundle: name,
            message,
        },
    }
}

/// Reads the inventory once; after that it is in memory.
pub(super) async fn read_inventory(
    instance: &BundleInstance,
    shared: &Shared,
    memory: &mut Memory,
    status: &BundleInstanceStatus,
) -> Result<(), kube::Error> {
    if memory.inventory.is_none() {
        let owner = owner(instance);
        let at = overflow(shared, &owner);
        let listed = status.inventory.clone().unwrap_or_default();
        let read = if instance.metadata.deletion_timestamp.is_some() {
            inventory::read_left(&at, &listed).await
        } else {
            inventory::read(&at, &listed).await
        };
        memory.inventory = Some(read?);
    }
    Ok(())
}

/// The instance as owner.
pub(super) fn owner(instance: &BundleInstance) -> Owner {
    Owner {
        name: instance.name_any(),
        uid: instance.uid().unwrap_or_default(),
    }
}

/// Where large inventories are kept.
pub(super) fn overflow<'a>(shared: &'a Shared, owner: &'a Owner) -> inventory::Overflow<'a> {
    inventory::Overflow {
        client: &shared.ctx.client,
        namespace: &shared.ctx.settings.system_namespace,
        owner,
    }
}

async fn add_finalizer(instance: &BundleInstance, shared: &Shared) -> Result<(), Error> {
    let mut all = instance.finalizers().to_vec();
    all.push(labels::UNINSTALL.to_owned());
    // With the version that was seen, so that nobody else's finalizer is lost.
    let patch = json!({"metadata": {
        "finalizers": all,
        "resourceVersion": instance.resource_version(),
    }});
    Api::<BundleInstance>::all(shared.ctx.client.clone())
        .patch(
            &instance.name_any(),
            &PatchParams::default(),
            &Patch::Merge(patch),
        )
        .await
        .map_err(Error::on("add the finalizer", instance))?;
    Ok(())
}

/// Writes the status: all of it is ours. The records of created Bundles are written along, so that they are in the
/// cluster before anything is applied.
pub(super) async fn write_status(
    instance: &BundleInstance,
    shared: &Shared,
    memory: &mut Memory,
    status: &BundleInstanceStatus,
) -> Result<(), Error> {
    let mut status = status.clone();
    if let Some(created) = &memory.bundles {
        status.bundles.clone_from(created);
    }
    let body = json!({
        "apiVersion": BundleInstance::api_version(&()),
        "kind": BundleInstance::kind(&()),
        // With its uid, so that no instance is made of a status that comes too late.
        "metadata": {"name": instance.name_any(), "uid": instance.uid()},
        "status": status,
    });
    let written = Api::<BundleInstance>::all(shared.ctx.client.clone())
        .patch_status(
            &instance.name_any(),
            &PatchParams::apply(MANAGER).force(),
            &Patch::Apply(body),
        )
        .await
        .map_err(Error::on("write the status", instance))?;
    memory.status = Some((version(&written), status));
    memory.bundles = None;
    memory.said = Some(Instant::now());
    Ok(())
}
