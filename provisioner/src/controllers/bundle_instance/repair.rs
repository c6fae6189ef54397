//! Repair of installed objects. Observed objects are compared with the inventory, drifted objects are applied again from
//! the recorded revision, and objects that have left the bundle are pruned. Neither the Bundle nor its content is needed.

pub(crate) mod form;
pub(super) mod observe;
pub(crate) mod prune;
mod reapply;

use std::{collections::BTreeSet, time::Duration};

use apply::{
    api_error, backoff::left, drift, informers::InstanceView, inventory::Inventory,
    managed_fields::Fingerprint, plan::DefinitionPolicy, revision::store,
};
use jiff::Timestamp;
use kube::{Resource as _, ResourceExt as _, runtime::events::EventType};
use manifests::{
    api::{
        bundle_instance::{BundleInstance, BundleInstanceStatus, RevisionStatus},
        condition::{self, reason},
    },
    object::{Identity, truncate},
};
use tracing::warn;

pub(crate) use self::observe::{health, unhealthy_of, watch};
use self::reapply::{DriftedObjects, repair};
use super::{
    outcome::{
        CompletedRollout, Failure, HealthState, Remedy, RepairedInventory, RetryClass, RolloutState,
    },
    policy,
    reconcile::earliest,
    revisions::{self, owner},
    rollout::{self, RolloutResult},
    state::{InstanceContext, InstanceState},
};

/// Time that an admin has to delete the last of several objects that block an upgrade.
const DELETION_TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum number of objects without a known fingerprint that one reconcile applies again. After a restart, an inventory
/// built from the records can have thousands of them.
const MAX_UNKNOWN: usize = 50;
/// Delay until a reconcile applies further objects without a known fingerprint.
const UNKNOWN_DELAY: Duration = Duration::from_secs(1);
/// Delay until an attempt creates an object that an admin has deleted for the attempt.
const ATTEMPT_DELAY: Duration = Duration::from_secs(1);
/// Delay until records that could not be read are read again.
const RECORD_DELAY: Duration = Duration::from_secs(15);

/// Result of the repairs in one reconcile.
struct RepairReport {
    /// Objects that are deferred from now on; `None` if the inventory has not changed.
    changed: Option<Vec<String>>,
    /// Failure of some of the repairs.
    failure: Option<Failure>,
    /// Number of a revision whose record cannot be used.
    lost: Option<i64>,
    /// Time until the next reconcile unless an event wakes the instance.
    requeue_after: Option<Duration>,
    /// Whether all objects match the recorded revisions.
    is_in_sync: bool,
}

/// Returns the policy of prunes for CRDs. An upgrade never deletes custom resources.
pub(crate) fn policy_of_upgrades(instance: &BundleInstance) -> DefinitionPolicy {
    match policy::crds(instance.spec.crd_deletion_policy) {
        DefinitionPolicy::Delete => DefinitionPolicy::DeleteIfUnused,
        policy => policy,
    }
}

/// Repairs the installed objects and prunes those that have left the bundle.
pub(crate) async fn run(
    instance: &BundleInstance,
    shared: &InstanceContext,
    state: &mut InstanceState,
    status: &BundleInstanceStatus,
) -> RolloutResult {
    let lost = state.lost.take();
    let lost = lost.filter(|lost| status.revisions.iter().any(|other| other.number == *lost));
    let repaired = repair_objects(instance, shared, state, status).await;
    let pruned = prune::run(instance, shared, state, status).await;
    let mut done = rollout::unchanged(instance, status);
    let mut is_changed = repaired.changed.is_some() || revisions::is_index_lost(status);
    done.waiting.extend(repaired.changed.into_iter().flatten());
    if let Some(pruned) = pruned.done {
        is_changed |= pruned.removing != done.removing || !pruned.released.is_empty();
        done.removing = pruned.removing;
        done.released.splice(0..0, pruned.released);
    }
    if revisions::is_index_lost(status) {
        let leftovers = rollout::lines_of(state.leftovers.iter());
        done.removing = listed_once(done.removing, leftovers);
    }
    let mut is_lost = false;
    // The loss of the revision changes the target of the rollout, so reconcile at once.
    let requeue_now = lost.map(|_| Duration::ZERO);
    if let Some(lost) = lost.or(repaired.lost).or(pruned.lost) {
        is_changed = true;
        is_lost = is_rolled_back_by_loss(status, lost);
        if is_newest_left(status, lost) {
            state.unread = None;
        }
        let lost: Vec<_> = done
            .revisions
            .extract_if(.., |revision| revision.number == lost)
            .collect();
        revisions::delete(shared, &owner(instance), &lost).await;
        if is_lost {
            restore_index(instance, shared, state, &done.revisions, status).await;
        }
    }
    if is_changed && state.inventory.is_some() {
        done.inventory = state.listed(status);
    }
    let health = health(instance, shared, state, &status.removing);
    let is_over = repaired.is_in_sync && is_status_stale(instance, status, &health);
    let change = is_changed.then(|| RepairedInventory {
        is_lost,
        ..RepairedInventory::from_done(&done)
    });
    let failure = repaired.failure.or(pruned.failure);
    let (install, changes) = concluded(status, done, failure, change, is_over);
    if let RolloutState::Done(done) = &install {
        state.await_apis(rollout::awaited(&done.waiting));
    }
    RolloutResult {
        install,
        health,
        conflicts: describe_conflicts(shared, state),
        repaired: changes,
        requeue_after: earliest(
            requeue_now,
            earliest(repaired.requeue_after, pruned.requeue_after),
        ),
    }
}

/// Adds the lines that the status does not have yet.
pub(crate) fn listed_once(mut lines: Vec<String>, more: Vec<String>) -> Vec<String> {
    for line in more {
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines.truncate(rollout::MAX_LISTED);
    lines
}

/// Adds the objects of the remaining revisions to the inventory, since the lost revision may have deleted objects early.
async fn restore_index(
    instance: &BundleInstance,
    shared: &InstanceContext,
    state: &mut InstanceState,
    revisions: &[RevisionStatus],
    status: &BundleInstanceStatus,
) {
    let status = BundleInstanceStatus {
        revisions: revisions.to_vec(),
        ..status.clone()
    };
    match revisions::inventory::rebuild_index(&shared.ctx, &owner(instance), &status).await {
        Ok(rebuilt) => {
            let inventory = state.inventory.get_or_insert_default();
            for (identity, entry) in rebuilt.inventory {
                inventory.entry(identity).or_insert(entry);
            }
            state.is_watched = false;
        }
        Err(error) => {
            let error = api_error::chain(&error);
            warn!(
                error,
                "failed to read the remaining revisions; the inventory may lack objects"
            );
        }
    }
}

/// Returns the failure for a record that cannot be used.
fn unusable(status: &BundleInstanceStatus, error: &store::Error) -> Failure {
    Failure {
        bundle: status.installed_bundle_name.clone().unwrap_or_default(),
        message: format!(
            "{error}; the provisioner records the objects again once the installed Bundle is unpacked"
        ),
        touched: false,
        retry: RetryClass::Soon,
        remedy: Remedy::World,
    }
}

/// Returns the outcome of repairs and prunes. `change` has their changes. `is_over` reports that a failure has ended that a
/// condition still reports.
pub(crate) fn concluded(
    status: &BundleInstanceStatus,
    done: CompletedRollout,
    failure: Option<Failure>,
    change: Option<RepairedInventory>,
    is_over: bool,
) -> (RolloutState, Option<RepairedInventory>) {
    let is_lost = change.as_ref().is_some_and(|change| change.is_lost);
    if let Some(failure) = failure {
        (RolloutState::Failed(failure), change)
    } else if status.applied_digest.is_some() && !is_lost && (is_over || change.is_some()) {
        (RolloutState::Done(Box::new(done)), None)
    } else {
        (RolloutState::Unchanged, change)
    }
}

/// Reports whether the loss of a record leaves only an older live revision, so that the applied state of the status is
/// wrong.
pub(crate) fn is_rolled_back_by_loss(status: &BundleInstanceStatus, lost: i64) -> bool {
    let mut live = status.live();
    live.next().is_some_and(|newest| newest.number == lost) && live.next().is_some()
}

/// Reports whether the newest live revision remains after the loss of the record of an older live one. All objects of the
/// newest revision are known.
pub(crate) fn is_newest_left(status: &BundleInstanceStatus, lost: i64) -> bool {
    let mut older = status.live().skip(1);
    older.any(|revision| revision.number == lost)
}

/// Returns the messages about field managers that repeatedly change the provisioner's fields.
pub(crate) fn describe_conflicts(
    shared: &InstanceContext,
    state: &mut InstanceState,
) -> Vec<String> {
    let verdicts = state.conflicts.active((shared.ctx.now)());
    verdicts.iter().map(ToString::to_string).collect()
}

/// Postpones the repair of objects that an admin deleted so that an upgrade creates them in their new form, while the
/// upgrade waits for the deletion of others.
pub(crate) fn postpone(state: &mut InstanceState, deleted: Vec<Identity>, now: Timestamp) {
    let until = now.checked_add(DELETION_TIMEOUT).unwrap_or(now);
    for identity in deleted {
        state.postponed.entry(identity).or_insert(until);
    }
}

/// Reports whether the applied fields of an object are not known.
fn is_unknown(state: &InstanceState, object: &Identity) -> bool {
    let inventory = state.inventory.as_ref();
    let entry = inventory.and_then(|inventory| inventory.get(object));
    entry.is_some_and(|entry| entry.fields == Some(Fingerprint::UNKNOWN))
}

/// Reports whether the next attempt of an upgrade comes before the repair of an object. The upgrade was blocked by the
/// object, and an admin has deleted it since, so that the upgrade can create the new form. `freed` has the objects whose
/// deletion the last attempt has observed.
fn is_for_next_attempt(
    object: &Identity,
    refused: &BTreeSet<Identity>,
    freed: &BTreeSet<Identity>,
    view: &InstanceView,
) -> bool {
    refused.contains(object) && !freed.contains(object) && view.absent.contains(object)
}

/// Returns the objects to repair.
pub(crate) fn drifted(
    inventory: &Inventory,
    unserved: &BTreeSet<Identity>,
    status: &BundleInstanceStatus,
    view: &InstanceView,
) -> Vec<Identity> {
    let mut drifted = drift::drifted(inventory, view);
    // An object whose kind is not served is missing as well.
    drifted.extend(unserved.iter().cloned());
    if status.applied_digest.is_none() {
        // The rollout applies these objects, with its back-off.
        drifted.retain(|identity| {
            let entry = inventory.get(identity);
            entry.is_some_and(|entry| entry.fields.is_some())
        });
    }
    drifted
}

/// Repairs the objects that differ from the recorded revisions, with a back-off for each object.
async fn repair_objects(
    instance: &BundleInstance,
    shared: &InstanceContext,
    state: &mut InstanceState,
    status: &BundleInstanceStatus,
) -> RepairReport {
    watch(instance, shared, state, status).await;
    let now = (shared.ctx.now)();
    let view = shared.ctx.informers.view(&instance.name_any());
    let drifted = match &state.inventory {
        Some(inventory) => drifted(inventory, &state.unserved, status, &view),
        None => Vec::new(),
    };
    state
        .repairs
        .retain(|identity, _| drifted.contains(identity));
    state.postponed.retain(|identity, until| {
        left(*until, DELETION_TIMEOUT, now).is_some() && drifted.contains(identity)
    });
    let mut report = RepairReport {
        changed: None,
        failure: None,
        lost: None,
        requeue_after: None,
        is_in_sync: drifted.is_empty(),
    };
    let attempt_key = format!("repair {}", state.served);
    let mut ready: Vec<Identity> = Vec::new();
    let mut unknown = 0;
    for identity in drifted {
        if is_for_next_attempt(&identity, &state.refused, &state.freed, &view) {
            report.requeue_after = earliest(report.requeue_after, Some(ATTEMPT_DELAY));
            continue;
        }
        let held = state.conflicts.suspended_until(&identity, now);
        let held = held
            .map(|verdict| verdict.until)
            .max(state.postponed.get(&identity).copied());
        let held = held.and_then(|until| Duration::try_from(until.duration_since(now)).ok());
        let backoff = state.repairs.get(&identity);
        let waits = backoff.and_then(|backoff| backoff.remaining_delay(&attempt_key, now));
        match held.max(waits) {
            Some(left) => report.requeue_after = earliest(report.requeue_after, Some(left)),
            None if view.objects.contains_key(&identity) && is_unknown(state, &identity) => {
                unknown += 1;
                if unknown <= MAX_UNKNOWN {
                    ready.push(identity);
                } else {
                    report.requeue_after = earliest(report.requeue_after, Some(UNKNOWN_DELAY));
                }
            }
            None => ready.push(identity),
        }
    }
    // A record that could not be used is read again, even if no object has drifted.
    let is_listed = |number| status.revisions.iter().any(|other| other.number == number);
    if ready.is_empty() && !state.unread.is_some_and(is_listed) {
        return report;
    }
    let drift = DriftedObjects {
        instance,
        status,
        objects: &ready,
        view: &view,
    };
    let repaired = Box::pin(repair(&drift, shared, state)).await;
    for identity in &ready {
        match repaired.failed.get(identity) {
            Some(retry) => {
                let backoff = state.repairs.entry(identity.clone()).or_default();
                let requeue_after = backoff.record_failure(attempt_key.clone(), *retry, now);
                report.requeue_after = earliest(report.requeue_after, Some(requeue_after));
            }
            None => {
                state.repairs.remove(identity);
            }
        }
    }
    report.is_in_sync = repaired.failed.is_empty() && report.requeue_after.is_none();
    report.changed = repaired.changed;
    report.lost = repaired.lost;
    if ready.is_empty() && repaired.lost.is_none() && repaired.failure.is_some() {
        report.requeue_after = earliest(report.requeue_after, Some(RECORD_DELAY));
    }
    report.failure = repaired.failure;
    report
}

/// Reports whether a condition still reports a failure that has ended.
pub(crate) fn is_status_stale(
    instance: &BundleInstance,
    status: &BundleInstanceStatus,
    health: &HealthState,
) -> bool {
    let is_healthy = *health == HealthState::Healthy;
    let is_given_up = revisions::is_given_up(instance, status);
    let expected = match revisions::rollback(&instance.spec, status, is_given_up) {
        Some(_) => reason::ROLLED_BACK,
        None if revisions::has_lost_rollback_target(status) && !is_healthy => {
            reason::UPGRADE_FAILED
        }
        None => reason::INSTALLATION_SUCCEEDED,
    };
    let mut conditions = status.conditions.iter();
    conditions.any(|c| c.type_ == condition::INSTALLED && c.reason != expected)
}

/// Reports a failed repair as an event, for a reconcile whose conditions are about another bundle.
pub(crate) async fn report_failure(
    instance: &BundleInstance,
    shared: &InstanceContext,
    install: &RolloutState,
) {
    let RolloutState::Failed(failure) = install else {
        return;
    };
    warn!(bundle = %failure.bundle, message = %truncate(&failure.message, 500), "failed to repair objects");
    shared
        .ctx
        .events
        .publish(
            &instance.object_ref(&()),
            EventType::Warning,
            "RepairFailed",
            "Repair",
            &failure.message,
        )
        .await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deleted_objects_wait_for_one_attempt() {
        let object = crate::fixtures::identity("", "ConfigMap", "shop", "fixed");
        let set = |is_in: bool| BTreeSet::from_iter(is_in.then(|| object.clone()));
        let view = |is_absent| with!(InstanceView::default() => absent: set(is_absent));
        assert_each!(|is_refused, was_freed, is_absent, expected|
            is_for_next_attempt(&object, &set(is_refused), &set(was_freed), &view(is_absent)) => expected;
            true, false, true => true;
            true, false, false => false;
            false, false, true => false;
            true, true, true => false;
        );
    }
}
