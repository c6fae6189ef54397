//! Rollout of a Bundle or of a recorded revision. All preflight checks pass before objects are changed.

pub(crate) mod attempt;
pub(super) mod digest;
mod installed;
pub(crate) mod inventory;
mod message;
mod migrate;
mod objects;
pub(crate) mod prepare;
pub(super) mod prune_candidates;
pub(crate) mod records;
pub(crate) mod recreate;
pub(crate) mod removed_apis;
mod render;
mod step;

use std::{collections::BTreeSet, time::Duration};

use apply::{api_error, informers::InstanceView};
use kube::{ResourceExt as _, core::GroupVersionKind};
use manifests::{
    api::{
        bundle::Bundle,
        bundle_instance::{BundleInstance, BundleInstanceStatus, RevisionStatus},
    },
    object::{Identity, group_version, truncate},
};
use tracing::{info, warn};

pub(crate) use self::render::Rendered;
use self::{attempt::attempt, objects::lacks_content, step::Stepped};
pub(super) use self::{
    installed::{is_as_declared, is_installed, is_ready, is_recorded, renamed, unchanged},
    inventory::{record_applied, remove_pruned},
    message::{api, describe_rejections, retry_class, waiting},
    migrate::migrate,
    prepare::plan,
    prune_candidates::{MAX_LISTED, lines_of, release_lines, terminating_objects},
    step::Progress,
};
use super::{
    bundles,
    choice::{Choices, Goal},
    outcome::{
        CompletedRollout, Failure, HealthState, Remedy, RepairedInventory, RetryClass, RolledBack,
        RolloutState,
    },
    reconcile::{current_status, earliest},
    repair,
    rollout_slots::Turn,
    state::{InstanceContext, InstanceState},
    template, trust,
    waiting::Api,
};

/// Delay until a rollout checks again whether the watches have delivered the installed objects. A watch event triggers the
/// check earlier.
const OBSERVATION_DELAY: Duration = Duration::from_secs(1);

/// Desired objects of a rollout.
pub(crate) struct Target<'a> {
    /// Origin of its objects.
    pub(crate) source: Source<'a>,
    /// Rollback that leads to it; `None` for other rollouts.
    pub(crate) rollback: Option<RolledBack>,
}

/// Origin of the objects of a revision.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Source<'a> {
    /// Rendered from a Bundle.
    Bundle(&'a Bundle),
    /// Recorded by an earlier revision, and recorded again with the current service account.
    Revision(&'a RevisionStatus),
    /// Recorded by the newest revision, whose rollout continues.
    Newest(&'a RevisionStatus),
}

impl<'a> Target<'a> {
    /// Returns the name of the Bundle that the objects come from.
    pub(crate) fn bundle_name(&self) -> String {
        match self.source {
            Source::Bundle(bundle) => bundle.name_any(),
            Source::Revision(revision) | Source::Newest(revision) => revision.bundle.clone(),
        }
    }

    /// Returns the Bundle that the objects are rendered from.
    pub(crate) fn bundle(&self) -> Option<&'a Bundle> {
        match self.source {
            Source::Bundle(bundle) => Some(bundle),
            Source::Revision(_) | Source::Newest(_) => None,
        }
    }
}

/// Result of a rollout and of the repairs in the same reconcile.
pub(crate) struct RolloutResult {
    pub(crate) install: RolloutState,
    pub(crate) health: HealthState,
    pub(crate) conflicts: Vec<String>,
    pub(crate) repaired: Option<RepairedInventory>,
    /// Time until the next reconcile unless an event wakes the instance; `None` for the resync interval.
    pub(crate) requeue_after: Option<Duration>,
}

/// Rolls the target out unless it is rolled out already, and repairs the installed objects.
pub(crate) async fn run(
    instance: &BundleInstance,
    shared: &InstanceContext,
    state: &mut InstanceState,
    status: &BundleInstanceStatus,
    target: &Target<'_>,
) -> RolloutResult {
    let now = (shared.ctx.now)();
    let key = match key(instance, shared, target).await {
        Ok(key) => key,
        Err(failure) => {
            return failed(instance, shared, state, failure, "version".to_owned()).await;
        }
    };
    let has_api = is_deferred_api_served(shared, status).await;
    if is_up_to_date(status, &key) && !has_api {
        state.refused.clear();
        state.await_apis(awaited(&status.waiting));
        return repair_installed(instance, shared, state, status, target).await;
    }
    let view = shared.ctx.informers.view(&instance.name_any());
    let freed = freed(&state.refused, &view);
    let apis = *shared.ctx.discovery.changes().borrow();
    let releases = state.retry_epoch();
    let attempt_key = digest::attempt_key(instance, target, &key, apis, releases, &freed);
    if let Some(left) = state.backoff.remaining_delay(&attempt_key, now) {
        let mut settled = repair::run(instance, shared, state, status).await;
        settled.requeue_after = earliest(settled.requeue_after, Some(left));
        if state.remedy.is_none() && is_installed(status, target) {
            return settled;
        }
        repair::report_failure(instance, shared, &settled.install).await;
        return waiting_after(settled, state.remedy.unwrap_or_default());
    }
    state.freed = freed.iter().cloned().collect();
    // Objects whose API is served now are in the record.
    let is_rendered_again = !is_up_to_date(status, &key);
    state.lacks_content =
        is_rendered_again && lacks_content(instance, shared, status, target, &key).await;
    if state.lacks_content {
        state.remedy = None;
        let mut settled = repair::run(instance, shared, state, status).await;
        let requeue_after = state
            .backoff
            .record_failure(attempt_key, RetryClass::Soon, now);
        settled.requeue_after = earliest(settled.requeue_after, Some(requeue_after));
        return settled;
    }
    let is_freed = !freed.is_empty();
    if state.platform.as_ref() == Some(&key) {
        // Not rendered and checked again before the rollout gets a slot.
        let turn = shared.rollouts.begin_platform(&instance.name_any());
        if turn != Turn::Granted {
            return queued(instance, shared, state, status, (turn, is_freed)).await;
        }
    }
    let Some(_permit) = shared.rollouts.begin(&instance.name_any()) else {
        return queued(instance, shared, state, status, (Turn::Queued, is_freed)).await;
    };
    let repaired = repair_between_steps(instance, shared, state, status).await;
    let attempt = attempt(instance, shared, state, status, target, &key, has_api);
    match Box::pin(attempt).await {
        Ok(Stepped::Next(applying)) => {
            state.reset_backoff();
            RolloutResult {
                health: repair::health(instance, shared, state, &status.removing),
                install: RolloutState::Applying(applying),
                conflicts: Vec::new(),
                repaired,
                requeue_after: Some(Duration::ZERO),
            }
        }
        Ok(Stepped::Waits(turn)) => queued(instance, shared, state, status, (turn, is_freed)).await,
        Ok(Stepped::Unobserved) => unobserved(instance, shared, state, status).await,
        Ok(Stepped::Done(done)) => finish_rollout(instance, shared, state, status, done).await,
        Err(mut failure) => {
            // If an earlier attempt changed objects, the previous bundle is only partly installed.
            failure.touched |=
                status.installed_bundle_name.is_some() && status.applied_digest.is_none();
            if !state.refused.is_empty()
                && freed.iter().all(|object| !state.refused.contains(object))
            {
                // Other objects have to be deleted as well.
                repair::postpone(state, freed, now);
            }
            failed(instance, shared, state, failure, attempt_key).await
        }
    }
}

/// Updates the state after all objects of a rollout were applied, and returns the result.
async fn finish_rollout(
    instance: &BundleInstance,
    shared: &InstanceContext,
    state: &mut InstanceState,
    status: &BundleInstanceStatus,
    done: Box<CompletedRollout>,
) -> RolloutResult {
    info!(bundle = %done.bundle, objects = done.inventory.count, "installed");
    repair::watch(instance, shared, state, status).await;
    // The service account may have changed.
    state.is_watched = false;
    state.reset_backoff();
    state.await_apis(awaited(&done.waiting));
    RolloutResult {
        // An object that left an earlier revision may be part of this one.
        health: repair::health(instance, shared, state, &done.removing),
        install: RolloutState::Done(done),
        conflicts: Vec::new(),
        repaired: None,
        requeue_after: None,
    }
}

/// Reports whether a target is rolled out already, by its key.
pub(crate) fn is_up_to_date(status: &BundleInstanceStatus, key: &str) -> bool {
    status.applied_digest.as_deref() == Some(key) && status.newest().is_some()
}

/// Returns the objects that could not be changed and whose deletion is complete. The next attempt creates them in their new
/// form.
pub(crate) fn freed(refused: &BTreeSet<Identity>, view: &InstanceView) -> Vec<Identity> {
    refused.intersection(&view.absent).cloned().collect()
}

/// Reports whether the watches have not delivered the installed objects yet, as after a restart. A rollout at that time would
/// apply unchanged objects again, and could not distinguish new failures from earlier ones.
async fn is_unobserved(
    instance: &BundleInstance,
    shared: &InstanceContext,
    state: &mut InstanceState,
    status: &BundleInstanceStatus,
) -> bool {
    if status.newest().is_none() {
        return false;
    }
    repair::watch(instance, shared, state, status).await;
    let view = shared.ctx.informers.view(&instance.name_any());
    // A rollout does not wait for a watch that fails.
    state.is_watched && !view.synced && view.failing.is_empty()
}

/// Repairs objects until the watches have delivered the installed objects, except those that were deleted so that the rollout
/// creates them.
async fn unobserved(
    instance: &BundleInstance,
    shared: &InstanceContext,
    state: &mut InstanceState,
    status: &BundleInstanceStatus,
) -> RolloutResult {
    state.freed.clear();
    let mut settled = repair::run(instance, shared, state, status).await;
    settled.requeue_after = earliest(settled.requeue_after, Some(OBSERVATION_DELAY));
    with_waiting_rollout(settled, RolloutState::Unobserved)
}

/// Repairs an installation that the target does not change.
async fn repair_installed(
    instance: &BundleInstance,
    shared: &InstanceContext,
    state: &mut InstanceState,
    status: &BundleInstanceStatus,
    target: &Target<'_>,
) -> RolloutResult {
    let mut settled = repair::run(instance, shared, state, status).await;
    if matches!(settled.install, RolloutState::Unchanged)
        && let Some(bundle) = target.bundle()
        && !is_recorded(status, bundle)
    {
        // Another Bundle with the same content; no objects to apply.
        settled.install = RolloutState::Done(Box::new(renamed(instance, status, bundle)));
    }
    settled
}

/// Repairs drifted objects before the next step of a rollout.
async fn repair_between_steps(
    instance: &BundleInstance,
    shared: &InstanceContext,
    state: &mut InstanceState,
    status: &BundleInstanceStatus,
) -> Option<RepairedInventory> {
    state.progress.as_ref()?;
    let result = repair::run(instance, shared, state, status).await;
    repair::report_failure(instance, shared, &result.install).await;
    changes(result.repaired, &result.install)
}

/// Repairs objects while a rollout waits for a slot, except those that were deleted so that this rollout creates them.
async fn queued(
    instance: &BundleInstance,
    shared: &InstanceContext,
    state: &mut InstanceState,
    status: &BundleInstanceStatus,
    (turn, is_freed): (Turn, bool),
) -> RolloutResult {
    let waits = match turn {
        Turn::Stopped(unhealthy) => RolloutState::Stopped(unhealthy),
        Turn::Granted | Turn::Queued => RolloutState::Queued,
    };
    if is_freed && matches!(waits, RolloutState::Queued) {
        // The rollout creates these objects.
        state.freed.clear();
    }
    with_waiting_rollout(repair::run(instance, shared, state, status).await, waits)
}

/// Returns the result of a repair with the state of the waiting rollout, unless the repair failed.
fn with_waiting_rollout(settled: RolloutResult, waits: RolloutState) -> RolloutResult {
    RolloutResult {
        repaired: changes(settled.repaired, &settled.install),
        install: match settled.install {
            RolloutState::Failed(failure) => RolloutState::Failed(failure),
            _ => waits,
        },
        ..settled
    }
}

/// Reports that the next attempt is delayed. The changes by repairs are reported next to that.
pub(crate) fn waiting_after(settled: RolloutResult, remedy: Remedy) -> RolloutResult {
    RolloutResult {
        repaired: changes(settled.repaired, &settled.install),
        install: RolloutState::Waiting(remedy),
        ..settled
    }
}

/// Returns the changes that repairs made to the inventory, for an outcome whose conditions are about another bundle.
pub(crate) fn changes(
    repaired: Option<RepairedInventory>,
    install: &RolloutState,
) -> Option<RepairedInventory> {
    match install {
        RolloutState::Done(done) => Some(RepairedInventory::from_done(done)),
        _ => repaired,
    }
}

/// Returns the key that determines whether the target is rolled out already.
async fn key(
    instance: &BundleInstance,
    shared: &InstanceContext,
    target: &Target<'_>,
) -> Result<String, Failure> {
    let bundle = match target.source {
        Source::Bundle(bundle) => bundle,
        Source::Revision(revision) | Source::Newest(revision) => {
            return Ok(digest::revision_key(revision));
        }
    };
    let version = shared.ctx.versions.kubernetes().await;
    let version = version.map_err(|error| {
        let error = api_error::chain(&error);
        Failure {
            bundle: target.bundle_name(),
            message: format!("failed to determine the Kubernetes version: {error}"),
            touched: false,
            retry: RetryClass::Soon,
            remedy: Remedy::World,
        }
    })?;
    let has_conditions = shared.has_conditions();
    Ok(digest::digest_of(
        &instance.spec,
        bundle,
        version,
        has_conditions,
    ))
}

/// Reports whether all objects are applied that the spec of a paused instance declares. Makes no changes.
pub(crate) async fn is_applied(
    instance: &BundleInstance,
    shared: &InstanceContext,
    status: &BundleInstanceStatus,
    installed: Option<&Bundle>,
) -> bool {
    let Some(applied) = &status.applied_digest else {
        return false;
    };
    let hash = template::hash(instance);
    let bundles = bundles::owned_by(instance, shared);
    let desired = trust::of_template(status, instance, &hash, &bundles);
    let choices = Choices {
        spec: &instance.spec,
        status,
        hash: &hash,
        desired: desired.map(AsRef::as_ref),
        installed,
    };
    if !choices.is_declared() {
        return false;
    }
    match choices.goal() {
        Goal::Bundle(bundle) => {
            let target = Target {
                source: Source::Bundle(bundle),
                rollback: None,
            };
            let key = key(instance, shared, &target).await;
            key.is_ok_and(|key| key == *applied)
        }
        Goal::Keep => true,
        Goal::Revision(_) | Goal::Unrecorded(_) => false,
    }
}

/// Returns the digest without the suffix that an older provisioner added while objects were pruned.
pub(crate) fn applied(digest: &str) -> &str {
    digest.strip_suffix(" (removing)").unwrap_or(digest)
}

/// Records a failed attempt, and repairs the installed objects.
async fn failed(
    instance: &BundleInstance,
    shared: &InstanceContext,
    state: &mut InstanceState,
    failure: Failure,
    attempt_key: String,
) -> RolloutResult {
    let now = (shared.ctx.now)();
    warn!(bundle = %failure.bundle, message = %truncate(&failure.message, 500), "failed to install a bundle");
    shared.ctx.metrics.failed(
        crate::runtime::metrics::Controller::Instance,
        manifests::api::condition::reason::INSTALL_FAILED,
    );
    let requeue_after = state
        .backoff
        .record_failure(attempt_key, failure.retry, now);
    state.remedy = Some(failure.remedy);
    // An attempt that changed objects has also changed the status.
    let status = current_status(instance, state);
    let result = repair::run(instance, shared, state, &status).await;
    repair::report_failure(instance, shared, &result.install).await;
    RolloutResult {
        requeue_after: earliest(Some(requeue_after), result.requeue_after),
        repaired: changes(result.repaired, &result.install),
        install: RolloutState::Failed(failure),
        health: result.health,
        conflicts: result.conflicts,
    }
}

/// Reports whether the API of deferred objects is served now.
pub(crate) async fn is_deferred_api_served(
    shared: &InstanceContext,
    status: &BundleInstanceStatus,
) -> bool {
    let kinds = awaited_kinds(&status.waiting);
    if kinds.is_empty() {
        return false;
    }
    match shared.ctx.discovery.find(kinds).await {
        Ok(found) => found.values().any(Option::is_some),
        Err(_) => false,
    }
}

/// Returns the kinds of the deferred objects that the status lists.
fn awaited_kinds(waiting: &[String]) -> Vec<GroupVersionKind> {
    let kinds = waiting.iter().filter_map(|text| {
        let mut parts = text.split(' ');
        let (kind, api_version) = (parts.next()?, parts.next()?);
        let (group, version) = group_version(api_version);
        Some(GroupVersionKind::gvk(group, version, kind))
    });
    kinds.collect()
}

/// Returns the APIs of the deferred objects that the status lists.
pub(crate) fn awaited(waiting: &[String]) -> Vec<Api> {
    awaited_kinds(waiting).iter().map(Api::from).collect()
}
