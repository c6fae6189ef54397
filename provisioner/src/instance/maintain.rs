//! Keeping what is installed: what the informers observe is compared with the inventory, what differs is repaired from the
//! recorded revision, and what has left the bundle is pruned. Neither the Bundle nor its content is needed for that.

pub(super) mod form;
pub(super) mod prune;
mod repair;
pub(super) mod watched;

use std::{collections::BTreeSet, time::Duration};

use apply::{
    backoff::left,
    drift::{self, Fingerprint},
    informers::View,
    inventory::Inventory,
    plan::DefinitionPolicy,
    revision::store,
};
use jiff::Timestamp;
use kube::{Resource as _, ResourceExt as _, runtime::events::EventType};
use manifests::{
    api::{
        condition::{self, reason},
        instance::{BundleInstance, BundleInstanceStatus, RevisionStatus},
    },
    object::{Identity, shortened},
};
use tracing::warn;

use self::repair::{Drift, repair};
pub(super) use self::watched::{health, unhealthy, watch};
use super::{
    install::{self, Settled},
    memory::{Memory, Shared},
    outcome::{Done, Failure, Install, Kept, Remedy, Retry},
    policy,
    reconcile::sooner,
    revisions::{self, owner},
};

/// The time that an admin has to delete the last of several objects that block an upgrade.
const DELETION_TIMEOUT: Duration = Duration::from_secs(60);

/// The maximum number of objects without a known fingerprint that one reconcile applies again. After a restart, an inventory
/// from the records can have thousands of them.
const MAX_UNKNOWN: usize = 50;
/// The delay until a reconcile applies further objects without a known fingerprint.
const UNKNOWN_DELAY: Duration = Duration::from_secs(1);
/// The time until an attempt creates an object that an admin has deleted for the attempt.
const ATTEMPT_DELAY: Duration = Duration::from_secs(1);
/// The time until records that cannot be read are read again.
const RECORD_DELAY: Duration = Duration::from_secs(15);

/// The outcome of repairing objects.
struct Keeping {
    /// The objects that are deferred from now on, if the inventory has changed.
    changed: Option<Vec<String>>,
    /// The reason why some objects could not be repaired.
    failure: Option<Failure>,
    /// The number of a revision whose record cannot be used.
    lost: Option<i64>,
    /// The time to look again, unless something happens.
    again: Option<Duration>,
    /// Whether nothing is left that differs.
    is_as_declared: bool,
}

/// Returns what prunes do with CustomResourceDefinitions: no upgrade deletes custom resources.
pub(super) fn policy_of_upgrades(instance: &BundleInstance) -> DefinitionPolicy {
    match policy::definitions(instance.spec.crd_deletion_policy) {
        DefinitionPolicy::Delete => DefinitionPolicy::DeleteIfUnused,
        policy => policy,
    }
}

/// Repairs the installed objects and prunes what has left the bundle.
pub(super) async fn run(
    instance: &BundleInstance,
    shared: &Shared,
    memory: &mut Memory,
    status: &BundleInstanceStatus,
) -> Settled {
    let kept = keep(instance, shared, memory, status).await;
    let pruned = prune::run(instance, shared, memory, status).await;
    let mut done = install::unchanged(instance, status);
    let mut is_changed = kept.changed.is_some() || revisions::is_index_lost(status);
    done.waiting.extend(kept.changed.into_iter().flatten());
    if let Some(pruned) = pruned.done {
        is_changed |= pruned.removing != done.removing || !pruned.released.is_empty();
        done.removing = pruned.removing;
        done.released.splice(0..0, pruned.released);
    }
    if revisions::is_index_lost(status) {
        let leftovers = install::lines_of(memory.leftovers.iter());
        done.removing = listed_once(done.removing, leftovers);
    }
    let mut is_lost = false;
    if let Some(lost) = kept.lost.or(pruned.lost) {
        is_changed = true;
        is_lost = is_rolled_back_by_loss(status, lost);
        if is_newest_left(status, lost) {
            memory.unread = None;
        }
        let lost: Vec<_> = done
            .revisions
            .extract_if(.., |revision| revision.number == lost)
            .collect();
        revisions::delete(shared, &owner(instance), &lost).await;
        if is_lost {
            restore_index(instance, shared, memory, &done.revisions, status).await;
        }
    }
    if is_changed && memory.inventory.is_some() {
        done.inventory = memory.listed(status);
    }
    let is_over =
        kept.is_as_declared && status.applied_digest.is_some() && says_otherwise(instance, status);
    let change = is_changed.then(|| Kept {
        is_lost,
        ..Kept::of(&done)
    });
    let failure = kept.failure.or(pruned.failure);
    let (install, changes) = concluded(status, done, failure, change, is_over);
    if let Install::Done(done) = &install {
        memory.await_apis(install::awaited(&done.waiting));
    }
    Settled {
        install,
        health: health(instance, shared, memory, &status.removing),
        fights: fights(shared, memory),
        kept: changes,
        again: sooner(kept.again, pruned.again),
    }
}

/// Adds lines to those that the status has already.
pub(super) fn listed_once(mut lines: Vec<String>, more: Vec<String>) -> Vec<String> {
    for line in more {
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines.truncate(install::MAX_LISTED);
    lines
}

/// Adds what the remaining revisions record to the inventory: the lost one may have deleted objects early.
async fn restore_index(
    instance: &BundleInstance,
    shared: &Shared,
    memory: &mut Memory,
    revisions: &[RevisionStatus],
    status: &BundleInstanceStatus,
) {
    let status = BundleInstanceStatus {
        revisions: revisions.to_vec(),
        ..status.clone()
    };
    match revisions::rebuild_index(&shared.ctx, &owner(instance), &status).await {
        Ok(rebuilt) => {
            let inventory = memory.inventory.get_or_insert_default();
            for (identity, entry) in rebuilt.inventory {
                inventory.entry(identity).or_insert(entry);
            }
            memory.is_watched = false;
        }
        Err(error) => {
            warn!(%error, "failed to read the remaining revisions; the inventory may lack objects");
        }
    }
}

/// Returns the failure of a record that cannot be used.
fn unusable(status: &BundleInstanceStatus, error: &store::Error) -> Failure {
    Failure {
        bundle: status.installed_bundle_name.clone().unwrap_or_default(),
        message: format!(
            "{error}; the provisioner records the objects again once the installed Bundle is unpacked"
        ),
        touched: false,
        retry: Retry::Soon,
        remedy: Remedy::World,
    }
}

/// Returns the outcome of repairs and prunes: `change` is what they have changed, `is_over` says that a failure has ended
/// that a condition still reports.
pub(super) fn concluded(
    status: &BundleInstanceStatus,
    done: Done,
    failure: Option<Failure>,
    change: Option<Kept>,
    is_over: bool,
) -> (Install, Option<Kept>) {
    if let Some(failure) = failure {
        (Install::Failed(failure), change)
    } else if is_over || change.is_some() && status.applied_digest.is_some() {
        (Install::Done(Box::new(done)), None)
    } else {
        (Install::Unchanged, change)
    }
}

/// Reports whether the loss of a record leaves only an older live revision, which is not what the status says is applied.
pub(super) fn is_rolled_back_by_loss(status: &BundleInstanceStatus, lost: i64) -> bool {
    let mut live = status.live();
    live.next().is_some_and(|newest| newest.number == lost) && live.next().is_some()
}

/// Reports whether the newest live revision remains after the loss of a record: all objects of that revision are known.
pub(super) fn is_newest_left(status: &BundleInstanceStatus, lost: i64) -> bool {
    let newest = status.newest();
    newest.is_some_and(|newest| newest.number != lost)
}

/// Returns the field managers that change our fields again and again.
pub(super) fn fights(shared: &Shared, memory: &mut Memory) -> Vec<String> {
    let verdicts = memory.fights.verdicts((shared.ctx.now)());
    verdicts.iter().map(ToString::to_string).collect()
}

/// Postpones the repair of objects that an admin deleted for an upgrade to create them in their new form, while the upgrade
/// waits for the deletion of others.
pub(super) fn postpone(memory: &mut Memory, deleted: Vec<Identity>, now: Timestamp) {
    let until = now.checked_add(DELETION_TIMEOUT).unwrap_or(now);
    for identity in deleted {
        memory.postponed.entry(identity).or_insert(until);
    }
}

/// Reports whether it is unknown how an object was applied.
fn is_unknown(memory: &Memory, object: &Identity) -> bool {
    let inventory = memory.inventory.as_ref();
    let entry = inventory.and_then(|inventory| inventory.get(object));
    entry.is_some_and(|entry| entry.fields == Some(Fingerprint::UNKNOWN))
}

/// Reports whether the next attempt of an upgrade comes before the repair of an object: the upgrade was refused because of the
/// object, and an admin has deleted the object since, so that the upgrade can create the new form. `freed` are the objects
/// whose deletion the last attempt has observed.
fn is_for_next_attempt(
    object: &Identity,
    refused: &BTreeSet<Identity>,
    freed: &BTreeSet<Identity>,
    view: &View,
) -> bool {
    refused.contains(object) && !freed.contains(object) && view.absent.contains(object)
}

/// Returns the objects to repair.
pub(super) fn drifted(
    inventory: &Inventory,
    unserved: &BTreeSet<Identity>,
    status: &BundleInstanceStatus,
    view: &View,
) -> Vec<Identity> {
    let mut drifted = drift::drifted(inventory, view);
    // An object that cannot exist is missing as well.
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

/// Repairs what differs from the recorded revisions, with a back-off for each object.
async fn keep(
    instance: &BundleInstance,
    shared: &Shared,
    memory: &mut Memory,
    status: &BundleInstanceStatus,
) -> Keeping {
    watch(instance, shared, memory, status).await;
    let now = (shared.ctx.now)();
    let view = shared.ctx.watches.view(&instance.name_any());
    let drifted = match &memory.inventory {
        Some(inventory) => drifted(inventory, &memory.unserved, status, &view),
        None => Vec::new(),
    };
    memory
        .repairs
        .retain(|identity, _| drifted.contains(identity));
    memory.postponed.retain(|identity, until| {
        left(*until, DELETION_TIMEOUT, now).is_some() && drifted.contains(identity)
    });
    let mut keeping = Keeping {
        changed: None,
        failure: None,
        lost: None,
        again: None,
        is_as_declared: drifted.is_empty(),
    };
    let tried = format!("repair {}", memory.served);
    let mut ready: Vec<Identity> = Vec::new();
    let mut unknown = 0;
    for identity in drifted {
        if is_for_next_attempt(&identity, &memory.refused, &memory.freed, &view) {
            keeping.again = sooner(keeping.again, Some(ATTEMPT_DELAY));
            continue;
        }
        let held = memory.fights.held(&identity, now);
        let held = held
            .map(|verdict| verdict.until)
            .max(memory.postponed.get(&identity).copied());
        let held = held.and_then(|until| Duration::try_from(until.duration_since(now)).ok());
        let tries = memory.repairs.get(&identity);
        let waits = tries.and_then(|tries| tries.must_wait(&tried, now));
        match held.max(waits) {
            Some(left) => keeping.again = sooner(keeping.again, Some(left)),
            None if view.objects.contains_key(&identity) && is_unknown(memory, &identity) => {
                unknown += 1;
                if unknown <= MAX_UNKNOWN {
                    ready.push(identity);
                } else {
                    keeping.again = sooner(keeping.again, Some(UNKNOWN_DELAY));
                }
            }
            None => ready.push(identity),
        }
    }
    // Some of the records cannot be used.
    let is_listed = |number| status.revisions.iter().any(|other| other.number == number);
    if ready.is_empty() && !memory.unread.is_some_and(is_listed) {
        return keeping;
    }
    let drift = Drift {
        instance,
        status,
        objects: &ready,
        view: &view,
    };
    let repaired = Box::pin(repair(&drift, shared, memory)).await;
    for identity in &ready {
        match repaired.failed.get(identity) {
            Some(retry) => {
                let tries = memory.repairs.entry(identity.clone()).or_default();
                let again = tries.again(tried.clone(), *retry, now);
                keeping.again = sooner(keeping.again, Some(again));
            }
            None => {
                memory.repairs.remove(identity);
            }
        }
    }
    keeping.is_as_declared = repaired.failed.is_empty() && keeping.again.is_none();
    keeping.changed = repaired.changed;
    keeping.lost = repaired.lost;
    if ready.is_empty() && repaired.lost.is_none() && repaired.failure.is_some() {
        keeping.again = sooner(keeping.again, Some(RECORD_DELAY));
    }
    keeping.failure = repaired.failure;
    keeping
}

/// Reports whether a condition still reports a failure that has ended.
pub(super) fn says_otherwise(instance: &BundleInstance, status: &BundleInstanceStatus) -> bool {
    let expected = match revisions::rollback(&instance.spec, status) {
        Some(_) => reason::ROLLED_BACK,
        None => reason::INSTALLATION_SUCCEEDED,
    };
    let mut conditions = status.conditions.iter();
    conditions.any(|c| c.type_ == condition::INSTALLED && c.reason != expected)
}

/// Reports why installed objects could not be repaired, while the conditions are about another bundle.
pub(super) async fn tell_failure(instance: &BundleInstance, shared: &Shared, install: &Install) {
    let Install::Failed(failure) = install else {
        return;
    };
    warn!(bundle = %failure.bundle, message = %shortened(&failure.message, 500), "not repaired");
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
        for (is_refused, was_freed, is_absent, expected) in [
            (true, false, true, true),
            (true, false, false, false),
            (false, false, true, false),
            (true, true, true, false),
        ] {
            let view = with!(View::default() => absent: set(is_absent));
            let found = is_for_next_attempt(&object, &set(is_refused), &set(was_freed), &view);
            assert_eq!(found, expected, "{is_refused} {was_freed} {is_absent}");
        }
    }
}
