//! Keeping what is installed: what the informers observe is compared with the inventory, what differs is repaired from the
//! recorded revision, and what has left the bundle is pruned. Neither the Bundle nor its content is needed for that.

mod form;
mod prune;
mod repair;
mod watched;

use std::time::Duration;

use apply::{drift, inventory};
use jiff::Timestamp;
use kube::{Resource as _, ResourceExt as _, runtime::events::EventType};
use manifests::{
    api::{
        condition::{self, reason},
        instance::{BundleInstance, BundleInstanceStatus, CrdDeletionPolicy, Inventory as Listed},
    },
    object::{Identity, shortened},
};
use tracing::warn;

use self::repair::{Drift, repair};
pub(super) use self::watched::{health, unhealthy, watch};
use super::{
    install::{self, Settled},
    memory::{Memory, Shared},
    outcome::{Failure, Install, Kept, Retry},
    reconcile::{overflow, sooner},
    revisions::{self, owner},
};

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
pub(super) fn policy_of_upgrades(instance: &BundleInstance) -> CrdDeletionPolicy {
    match instance.spec.crd_deletion_policy {
        CrdDeletionPolicy::Delete => CrdDeletionPolicy::DeleteIfUnused,
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
    memory.removing.clone_from(&status.removing);
    let kept = keep(instance, shared, memory, status).await;
    let pruned = prune::run(instance, shared, memory, status).await;
    let mut done = install::unchanged(instance, status);
    let mut is_changed = kept.changed.is_some();
    done.waiting.extend(kept.changed.into_iter().flatten());
    if let Some(pruned) = pruned.done {
        is_changed |= pruned.removing != done.removing || !pruned.released.is_empty();
        done.removing = pruned.removing;
        done.released.splice(0..0, pruned.released);
    }
    if is_changed && let Some(inventory) = written(instance, shared, memory).await {
        done.inventory = inventory;
    }
    let mut is_lost = false;
    if let Some(lost) = kept.lost {
        is_changed = true;
        // Another live revision is not what the status says is applied.
        is_lost = revisions::live(status)
            .next()
            .is_some_and(|newest| newest.number == lost)
            && revisions::live(status).count() > 1;
        let lost: Vec<_> = done
            .revisions
            .extract_if(.., |revision| revision.number == lost)
            .collect();
        revisions::delete(shared, &owner(instance), &lost).await;
    }
    let is_over =
        kept.is_as_declared && status.applied_digest.is_some() && says_otherwise(instance, status);
    let mut changes = None;
    let install = if let Some(failure) = kept.failure {
        changes = is_changed.then(|| Kept {
            is_lost,
            ..Kept::of(&done)
        });
        Install::Failed(failure)
    } else if is_over || is_changed && status.applied_digest.is_some() {
        memory.await_apis(install::awaited(&done.waiting));
        Install::Done(Box::new(done))
    } else {
        changes = is_changed.then(|| Kept::of(&done));
        Install::Unchanged
    };
    Settled {
        install,
        health: health(instance, shared, memory),
        fights: fights(shared, memory),
        kept: changes,
        again: sooner(kept.again, pruned.again),
    }
}

/// Returns the field managers that change our fields again and again.
pub(super) fn fights(shared: &Shared, memory: &mut Memory) -> Vec<String> {
    let verdicts = memory.fights.verdicts((shared.ctx.now)());
    verdicts.iter().map(ToString::to_string).collect()
}

/// Postpones the repair of objects that were deleted for an upgrade to create them in their new form: several objects are not
/// deleted at the same time.
pub(super) fn postpone(memory: &mut Memory, deleted: Vec<Identity>, now: Timestamp) {
    for identity in deleted {
        let tries = memory.repairs.entry(identity).or_default();
        tries.again(tried(memory.served), Retry::Slowly, now);
    }
}

/// Returns what a back-off of a repair depends on.
fn tried(served: u64) -> String {
    format!("repair {served}")
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
    let mut drifted = match &memory.inventory {
        Some(inventory) => drift::drifted(inventory, &view),
        None => Vec::new(),
    };
    // What cannot exist is missing as well.
    drifted.extend(memory.unserved.iter().cloned());
    if status.applied_digest.is_none() {
        // The rollout applies these objects, with its back-off.
        let was_applied = |identity: &Identity| {
            let inventory = memory.inventory.as_ref();
            inventory.is_some_and(|all| {
                all.get(identity)
                    .is_some_and(|entry| entry.fields.is_some())
            })
        };
        drifted.retain(was_applied);
    }
    memory
        .repairs
        .retain(|identity, _| drifted.contains(identity));
    let mut keeping = Keeping {
        changed: None,
        failure: None,
        lost: None,
        again: None,
        is_as_declared: drifted.is_empty(),
    };
    let tried = tried(memory.served);
    let mut ready: Vec<Identity> = Vec::new();
    for identity in drifted {
        let held = memory.fights.held(&identity, now);
        let held =
            held.and_then(|verdict| Duration::try_from(verdict.until.duration_since(now)).ok());
        let tries = memory.repairs.get(&identity);
        let waits = tries.and_then(|tries| tries.must_wait(&tried, now));
        match held.max(waits) {
            Some(left) => keeping.again = sooner(keeping.again, Some(left)),
            None => ready.push(identity),
        }
    }
    if ready.is_empty() {
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
    keeping.failure = repaired.failure;
    keeping
}

/// Reports whether a condition still reports a failure that has ended.
fn says_otherwise(instance: &BundleInstance, status: &BundleInstanceStatus) -> bool {
    let expected = match revisions::rollback(&instance.spec, status) {
        Some(_) => reason::ROLLED_BACK,
        None => reason::INSTALLATION_SUCCEEDED,
    };
    let mut conditions = status.conditions.iter();
    conditions.any(|c| c.type_ == condition::INSTALLED && c.reason != expected)
}

/// Returns what the status says of the inventory after a repair; `None` if the inventory cannot be written.
async fn written(instance: &BundleInstance, shared: &Shared, memory: &Memory) -> Option<Listed> {
    let owner = owner(instance);
    match inventory::write(&overflow(shared, &owner), memory.inventory.as_ref()?).await {
        Ok(listed) => Some(listed),
        Err(error) => {
            // The old fingerprints are repaired once more after a restart, which does no harm.
            warn!(%error, "failed to write the inventory");
            None
        }
    }
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
