//! The reconcile of one instance.

pub(super) mod roll_out;

use std::{sync::Arc, time::Duration};

use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
    runtime::controller::Action,
};
use manifests::api::{
    Class,
    bundle::{Bundle, Phase},
    bundle_instance::{BundleInstance, BundleInstanceStatus, ready},
    condition, labels,
};
use serde_json::json;
use tracing::{Instrument as _, info_span, warn};

use self::roll_out::{retain_replaced, roll_out};
use super::{
    bundles,
    choice::{Choices, Goal},
    events, inventory_status,
    outcome::{Outcome, Remedy, RolloutState, TemplateState},
    repair,
    revisions::{self, owner},
    rollout, rollout_slots,
    state::{InstanceContext, InstanceState, version},
    status,
    status_writer::{Written, declaration, retry_token, write_status},
    template, trust, uninstall,
};
use crate::{cluster::overrides::ContentDigests, runtime::metrics::Controller};
use apply::{api_error, backoff::spread};

/// Delay before the next attempt after the inventory or the served APIs could not be read.
pub(crate) const READ_RETRY_DELAY: Duration = Duration::from_secs(15);

/// Error of a reconcile that was not finished. Problems of the instance itself are reported in its status.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// A request about the instance itself failed.
    #[error("failed to {what} of BundleInstance {name}: {}", api_error::chain(.source))]
    Kube {
        /// Action and its object, for example `add the finalizer`.
        what: &'static str,
        /// Name of the instance.
        name: String,
        /// Error of the request.
        #[source]
        source: Box<kube::Error>,
    },
    /// The instance was deleted, and possibly created again, while it was reconciled.
    #[error("BundleInstance {0} was deleted while it was reconciled")]
    Deleted(String),
}

impl Error {
    pub(crate) fn on(
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

/// Reconciles an instance: drives the cluster towards its spec, and writes its status.
pub(crate) async fn reconcile(
    instance: Arc<BundleInstance>,
    shared: Arc<InstanceContext>,
) -> Result<Action, Error> {
    let span = info_span!("instance", name = %instance.name_any(), generation = instance.metadata.generation);
    let metrics = &shared.ctx.metrics;
    metrics
        .queue(Controller::Instance)
        .dequeued(&instance.name_any());
    let _measure = metrics.reconcile(Controller::Instance);
    let _turn = shared.rollouts.reconcile(&instance.name_any());
    let state = shared.state(&instance);
    let mut state = state.lock().await;
    state.observe_status(&instance);
    // A revision may be late now.
    let (newest, status) = state.newest_status(&instance);
    let rollouts = &shared.rollouts;
    rollouts.observe(&instance, newest, status, (shared.ctx.now)());
    state.retry.get_or_insert_with(|| retry_token(&instance));
    async {
        if instance.metadata.deletion_timestamp.is_some() {
            return Box::pin(uninstall::run(&instance, &shared, &mut state)).await;
        }
        let is_ours = Class::parse(&instance.spec.provisioner_class_name).is_some();
        if is_ours && !instance.finalizers().iter().any(|f| f == labels::UNINSTALL) {
            state.version = add_finalizer(&instance, &shared).await?;
        }
        bundles::adopt(&instance, &shared, &mut state).await;
        let (outcome, requeue_after) = Box::pin(run_steps(&instance, &shared, &mut state)).await?;
        let requeue_after = earliest(requeue_after, state.watch_retry_delay);
        let before = current_status(&instance, &state);
        if let Some(left) = state.quiet_period(&instance, &before, &outcome) {
            return Ok(Action::requeue(left));
        }
        let now = (shared.ctx.now)();
        let declaration = declaration(&instance, &state);
        let mut status = status::build(&before, &declaration, &outcome, now);
        let left = ready::time_left(&status, declaration.deadline, now);
        let mut requeue_after = earliest(requeue_after, left.filter(|left| !left.is_zero()));
        if left_alone(&instance).is_none() {
            finish_rollout(
                &instance,
                &shared,
                &mut state,
                &mut status,
                &outcome,
                &mut requeue_after,
            )
            .await;
        }
        requeue_after = earliest(
            requeue_after,
            rollout_slots::time_until_late(&instance, &status, now),
        );
        status.overrides = ContentDigests::of_installed(&status)
            .of_content(&instance.spec.overrides)
            .cloned()
            .collect();
        if let Some(left) = state.status_throttle(&before, &outcome)
            && state.bundles.is_none()
        {
            return Ok(Action::requeue(
                earliest(Some(left), requeue_after).unwrap_or(left),
            ));
        }
        if is_ours {
            rollout::removed_apis::complete(&instance, &shared, &mut state, &mut status).await;
        }
        if status != before || state.bundles.is_some() {
            let written = write_status(&instance, &shared, &mut state, &status).await?;
            if written == Written::Withheld {
                requeue_after = earliest(requeue_after, Some(Duration::from_secs(1)));
            }
        }
        // The deletion precedes the Events, because the Events API may delay each of them by its timeout.
        bundles::delete_unused(&instance, &shared, &status, &outcome).await;
        if status != before {
            events::publish_changes(&instance, &shared, &before, &status).await;
        }
        state.release_memory(&status);
        Ok(requeue_after.map_or_else(
            || Action::requeue(spread(shared.ctx.settings.resync)),
            Action::requeue,
        ))
    }
    .instrument(span)
    .await
}

/// Makes the newest revision active once it is rolled out, and deletes archived revisions beyond the limit.
async fn finish_rollout(
    instance: &BundleInstance,
    shared: &InstanceContext,
    state: &mut InstanceState,
    status: &mut BundleInstanceStatus,
    outcome: &Outcome,
    requeue_after: &mut Option<Duration>,
) {
    let now = (shared.ctx.now)();
    revisions::follow_clock(status, now);
    if revisions::is_rolled_out(&instance.spec, status, outcome, now)
        && !revisions::awaits_rollback(&instance.spec, status, &template::hash(instance))
    {
        revisions::promote(status);
        state.excused = None;
        // The service account may have changed.
        state.is_watched = false;
        if !status.removing.is_empty() {
            *requeue_after = Some(Duration::ZERO);
        }
    }
    let surplus = revisions::surplus(&instance.spec, status);
    if !surplus.is_empty() {
        let deleted = revisions::delete(shared, &owner(instance), &surplus).await;
        status
            .revisions
            .retain(|revision| !deleted.contains(&revision.number));
    }
}

/// Logs an error of the reconcile itself, and schedules a retry after a short delay.
#[expect(clippy::needless_pass_by_value)] // kube's signature
pub(crate) fn failed(
    instance: Arc<BundleInstance>,
    error: &Error,
    shared: Arc<InstanceContext>,
) -> Action {
    warn!(instance = %instance.name_any(), %error, "reconcile failed; retrying");
    shared
        .ctx
        .metrics
        .failed(Controller::Instance, condition::reason::RECONCILE_FAILED);
    Action::requeue(spread(Duration::from_secs(2)))
}

/// Returns the newest known status: the last written one, or else the one that the watch delivered, with the Bundles that
/// the next write records.
pub(crate) fn current_status(
    instance: &BundleInstance,
    state: &InstanceState,
) -> BundleInstanceStatus {
    let (_, status) = state.newest_status(instance);
    let mut status = status.cloned().unwrap_or_default();
    if let Some(created) = &state.bundles {
        status.bundles.clone_from(created);
    }
    status
}

/// Executes the steps of a reconcile, and returns the outcome and the time until the next reconcile.
async fn run_steps(
    instance: &BundleInstance,
    shared: &InstanceContext,
    state: &mut InstanceState,
) -> Result<(Outcome, Option<Duration>), Error> {
    let mut status = current_status(instance, state);
    let found = status.installed_bundle_name.as_ref();
    let found = found.and_then(|name| shared.bundles.get(name));
    let installed = trust::installed(&status, instance, found.as_deref());
    let replaced = installed.replaced().map(str::to_owned);
    // The next status does not report the pause any longer, and records the new deadline.
    if left_alone(instance).is_none()
        && revisions::restart_deadline(&mut status, (shared.ctx.now)())
    {
        state.store_unwritten(instance, status.clone());
    }
    if let Err(error) = read_inventory(instance, shared, state, &status).await {
        let message = inventory_error_message(
            &instance.name_any(),
            &error,
            &shared.ctx.settings.system_namespace,
        );
        let outcome = Outcome {
            replaced,
            ..inventory_error_outcome(instance, message)
        };
        return Ok((outcome, Some(READ_RETRY_DELAY)));
    }
    if let Some((valid, install)) = left_alone(instance) {
        state.progress = None;
        repair::watch(instance, shared, state, &status).await;
        let is_declared = install == RolloutState::Paused
            && rollout::is_applied(instance, shared, &status, installed.trusted()).await;
        let outcome = Outcome {
            is_declared,
            install,
            health: repair::health(instance, shared, state, &status.removing),
            ..Outcome::of_bundle(valid)
        };
        return Ok((outcome, None));
    }
    let hash = template::hash(instance);
    let bundles = bundles::owned_by(instance, shared);
    let desired = bundles::template_bundle(instance, shared, state, &bundles, &hash, &status).await;
    if let Some(created) = &state.bundles {
        status.bundles.clone_from(created);
    }
    let (valid, recheck_after) = match &desired {
        // A Bundle that is deleted before the watch delivers it would wake no instance in time.
        Ok(bundle) => (
            template_state(bundle),
            state.created_bundle.is_some().then_some(bundles::WATCH_LAG),
        ),
        Err((problem, requeue_after)) => {
            let bundles::Problem { message, remedy } = problem.clone();
            (
                TemplateState::Unknown { message, remedy },
                Some(*requeue_after),
            )
        }
    };
    let mut migration = None;
    if status.newest().is_none()
        && let Some(installed) = installed.trusted()
    {
        migration = rollout::migrate(instance, shared, state, &mut status, installed).await;
    }
    let choices = Choices {
        spec: &instance.spec,
        status: &status,
        hash: &hash,
        desired: desired.as_ref().ok().map(AsRef::as_ref),
        installed: installed.trusted(),
    };
    let mut settled = roll_out(instance, shared, state, &choices).await?;
    if replaced.is_some() && choices.goal() == Goal::Keep {
        let current = current_status(instance, state);
        retain_replaced(&mut settled, current.applied_digest.as_deref());
    }
    if let Some(migration) = migration {
        settled.requeue_after = earliest(settled.requeue_after, Some(migration.requeue_after));
        if let (Some(failure), RolloutState::Unchanged) = (migration.failure, &settled.install) {
            settled.install = RolloutState::Failed(failure);
        }
    }
    let requeue_after = earliest(settled.requeue_after, recheck_after);
    let outcome = Outcome {
        valid,
        install: settled.install,
        is_declared: choices.is_declared(),
        health: settled.health,
        conflicts: settled.conflicts,
        repaired: settled.repaired,
        replaced,
    };
    Ok((outcome, requeue_after))
}

/// Returns the outcome of a reconcile that could not read the inventory. A paused instance remains paused: the next reconcile
/// derives the end of the pause from the conditions.
pub(crate) fn inventory_error_outcome(instance: &BundleInstance, message: String) -> Outcome {
    let unknown = TemplateState::Unknown {
        message,
        remedy: Remedy::World,
    };
    match left_alone(instance) {
        Some((class @ TemplateState::UnknownClass(_), _)) => Outcome::of_bundle(class),
        Some((_, install)) => Outcome {
            install,
            ..Outcome::of_bundle(unknown)
        },
        None => Outcome::of_bundle(unknown),
    }
}

/// Returns the state of an instance that is not changed: paused, or of an unknown provisioner class.
pub(crate) fn left_alone(instance: &BundleInstance) -> Option<(TemplateState, RolloutState)> {
    if Class::parse(&instance.spec.provisioner_class_name).is_none() {
        // Objects that were installed with another class are not repaired, but their health is reported.
        let class = instance.spec.provisioner_class_name.clone();
        return Some((TemplateState::UnknownClass(class), RolloutState::Unchanged));
    }
    (instance.spec.paused).then_some((TemplateState::Unchanged, RolloutState::Paused))
}

/// Returns the shorter of two delays.
pub(crate) fn earliest(one: Option<Duration>, other: Option<Duration>) -> Option<Duration> {
    one.into_iter().chain(other).min()
}

/// Returns the state of a Bundle from its status.
pub(crate) fn template_state(bundle: &Bundle) -> TemplateState {
    let name = bundle.name_any();
    let status = bundle.status.clone().unwrap_or_default();
    let of = |type_| condition::find(&status.conditions, type_);
    let unpacked = of(condition::UNPACKED);
    let message = unpacked.map(|c| c.message.clone()).unwrap_or_default();
    let is_stalled = of(condition::STALLED).is_some()
        || unpacked.is_some_and(|c| c.reason == condition::reason::UNKNOWN_CLASS);
    match status.phase {
        Some(Phase::Unpacked) => TemplateState::Unpacked { bundle: name },
        Some(Phase::Failing) => TemplateState::Failed {
            bundle: name,
            message,
            remedy: if is_stalled {
                Remedy::Own
            } else {
                Remedy::World
            },
        },
        _ => TemplateState::Pending {
            bundle: name,
            message,
        },
    }
}

/// Describes a failed read of the inventory. Recorded revisions replace a lost inventory, except for the part that an older
/// provisioner stored in ConfigMaps.
fn inventory_error_message(instance: &str, error: &kube::Error, system_namespace: &str) -> String {
    let remedy = match error {
        kube::Error::Api(status) if status.code == 404 => {
            format!("restore its ConfigMaps in namespace {system_namespace}")
        }
        _ => "retrying".to_owned(),
    };
    let error = api_error::chain(error);
    format!("failed to read the inventory of BundleInstance {instance}: {error}; {remedy}")
}

/// Reads the inventory once and stores it in `state`. Objects that the status does not list are added from the recorded
/// revisions.
pub(crate) async fn read_inventory(
    instance: &BundleInstance,
    shared: &InstanceContext,
    state: &mut InstanceState,
    status: &BundleInstanceStatus,
) -> Result<(), kube::Error> {
    if state.absent > 0 && state.served != *shared.ctx.discovery.changes().borrow() {
        // The API of an object that the inventory lacks may be served now.
        state.inventory = None;
        state.absent = 0;
        state.is_watched = false;
    }
    if state.inventory.is_some() {
        return Ok(());
    }
    let owner = owner(instance);
    let at = revisions::store(&shared.ctx, &owner);
    let listed = status.inventory.clone().unwrap_or_default();
    let is_deleted = instance.metadata.deletion_timestamp.is_some();
    let read = inventory_status::read(&at, &listed, is_deleted).await;
    let has_records = status.newest().is_some();
    let is_missing = matches!(&read, Err(kube::Error::Api(answer)) if answer.code == 404);
    let mut inventory = if (is_missing || !status.lists_all()) && has_records {
        let mut rebuilt = revisions::inventory::rebuild_index(&shared.ctx, &owner, status).await?;
        state.unread = rebuilt.unread;
        if !is_missing {
            revisions::inventory::add_config_maps(&mut rebuilt, read?);
        }
        state.absent = rebuilt.absent;
        state.leftovers = rebuilt.leftovers;
        rebuilt.inventory
    } else {
        if !listed.is_whole() {
            let last = status.revisions.last();
            state.unread = Some(last.map_or(1, |last| last.number));
        }
        read?
    };
    if is_deleted && state.unread.is_some() {
        inventory_status::find_unreferenced(&at, &mut inventory).await?;
    }
    state.inventory = Some(inventory);
    Ok(())
}

/// Adds the provisioner's finalizer, and returns the resourceVersion of the instance after the write.
async fn add_finalizer(instance: &BundleInstance, shared: &InstanceContext) -> Result<u64, Error> {
    let mut all = instance.finalizers().to_vec();
    all.push(labels::UNINSTALL.to_owned());
    // With the observed resourceVersion, so that the finalizers of other clients are not overwritten.
    let patch = json!({"metadata": {
        "finalizers": all,
        "resourceVersion": instance.resource_version(),
    }});
    let written = Api::<BundleInstance>::all(shared.ctx.client.clone())
        .patch(
            &instance.name_any(),
            &PatchParams::default(),
            &Patch::Merge(patch),
        )
        .await
        .map_err(Error::on("add the finalizer", instance))?;
    Ok(version(&written))
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn inventory_errors_ask_for_config_maps_only_if_one_is_missing() {
        let message = |text: &str, code| {
            let error = kube::Error::Api(Box::new(Status::failure(text, "").with_code(code)));
            inventory_error_message("etcd", &error, "rukpak-system")
        };
        let failed = "failed to read the inventory of BundleInstance etcd:";
        let missing = "configmaps \"etcd-1\" not found";
        assert_rows! {
            message(missing, 404) => format!("{failed} {missing}; restore its ConfigMaps in namespace rukpak-system");
            message("etcd is unavailable", 503) => format!("{failed} etcd is unavailable; retrying");
        }
    }
}
