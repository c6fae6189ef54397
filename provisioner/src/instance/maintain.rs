//! Keeping what is installed: what the watches saw is compared with the inventory, and what differs is applied again.

mod repair;
mod watched;

use std::time::Duration;

use kube::{Resource as _, ResourceExt as _, runtime::events::EventType};
use manifests::{
    api::{
        bundle::Bundle,
        condition::{self, reason},
        instance::{BundleInstance, BundleInstanceSpec, BundleInstanceStatus, Inventory as Listed},
    },
    object::{Identity, shortened},
};
use tracing::warn;

use self::repair::{Drift, repair};
pub(super) use self::watched::{health, watch};
use super::{
    install::{self, Settled, Target},
    memory::{Memory, Shared},
    outcome::{Failure, Install},
    reconcile::{overflow, owner, sooner},
};
use crate::{drift, inventory};

/// What came of keeping objects as they were declared.
pub(super) struct Keeping {
    /// When that has changed the inventory: which objects wait for an API from now on.
    pub(super) changed: Option<Vec<String>>,
    /// Why something could not be repaired.
    pub(super) failure: Option<Failure>,
    /// When to look again, unless something happens.
    pub(super) again: Option<Duration>,
    /// Whether nothing is left that is otherwise.
    is_as_declared: bool,
}

/// Keeps the target, and says how it is.
pub(super) async fn run(
    instance: &BundleInstance,
    shared: &Shared,
    memory: &mut Memory,
    status: &BundleInstanceStatus,
    target: &Target<'_>,
) -> Settled {
    let kept = keep(instance, &instance.spec, shared, memory, target.bundle).await;
    let is_over = kept.is_as_declared && says_otherwise(status, target);
    let install = if let Some(failure) = kept.failure {
        Install::Failed(failure)
    } else if kept.changed.is_some() || is_over {
        let mut done = install::renamed(status, target);
        if let Some(inventory) = written(instance, shared, memory).await {
            done.inventory = inventory;
        }
        done.waiting.extend(kept.changed.into_iter().flatten());
        memory.misses_apis(!done.waiting.is_empty());
        Install::Done(Box::new(done))
    } else {
        Install::Unchanged
    };
    Settled {
        install,
        health: health(instance, shared, memory),
        fights: fights(shared, memory),
        kept: None,
        again: kept.again,
    }
}

/// Who does not leave the objects alone.
pub(super) fn fights(shared: &Shared, memory: &mut Memory) -> Vec<String> {
    let verdicts = memory.fights.verdicts((shared.ctx.now)());
    verdicts.iter().map(ToString::to_string).collect()
}

/// Repairs what is not as it was applied, with that spec.
pub(super) async fn keep(
    instance: &BundleInstance,
    spec: &BundleInstanceSpec,
    shared: &Shared,
    memory: &mut Memory,
    bundle: &Bundle,
) -> Keeping {
    watch(instance, shared, memory).await;
    let now = (shared.ctx.now)();
    let view = shared.ctx.watches.view(&instance.name_any());
    let mut drifted = match &memory.inventory {
        Some(inventory) => drift::drifted(inventory, &view),
        None => Vec::new(),
    };
    // What cannot exist is missing as well.
    drifted.extend(memory.unserved.iter().cloned());
    let mut keeping = Keeping {
        changed: None,
        failure: None,
        again: None,
        is_as_declared: drifted.is_empty(),
    };
    let (ready, held): (Vec<Identity>, Vec<Identity>) = drifted
        .into_iter()
        .partition(|identity| memory.fights.held(identity, now).is_none());
    keeping.again = held
        .iter()
        .filter_map(|identity| memory.fights.held(identity, now))
        .filter_map(|verdict| Duration::try_from(verdict.until.duration_since(now)).ok())
        .min();
    if ready.is_empty() {
        return keeping;
    }
    let tried = format!("repair {}", memory.served);
    if let Some(left) = memory.repairs.must_wait(&tried, now) {
        keeping.again = sooner(keeping.again, Some(left));
        return keeping;
    }
    let drift = Drift {
        instance,
        spec,
        bundle,
        objects: &ready,
        view: &view,
    };
    match Box::pin(repair(&drift, shared, memory)).await {
        Ok(changed) => {
            memory.repairs.succeeded();
            keeping.is_as_declared = held.is_empty();
            keeping.changed = changed;
        }
        Err(failure) => {
            let again = memory.repairs.again(tried, failure.retry, now);
            keeping.again = sooner(keeping.again, Some(again));
            keeping.failure = Some(failure);
        }
    }
    keeping
}

/// Whether a condition still tells of a failure that is over.
fn says_otherwise(status: &BundleInstanceStatus, target: &Target<'_>) -> bool {
    let expected = match target.way_back_from {
        Some(_) => reason::ROLLED_BACK,
        None => reason::INSTALLATION_SUCCEEDED,
    };
    let mut conditions = status.conditions.iter();
    conditions.any(|c| c.type_ == condition::INSTALLED && c.reason != expected)
}

/// What the status says of the inventory after a repair; `None` when it could not be written.
pub(super) async fn written(
    instance: &BundleInstance,
    shared: &Shared,
    memory: &Memory,
) -> Option<Listed> {
    let owner = owner(instance);
    match inventory::write(&overflow(shared, &owner), memory.inventory.as_ref()?).await {
        Ok(listed) => Some(listed),
        Err(error) => {
            // The old fingerprints are repaired once more after a restart, which does no harm.
            warn!(%error, "the inventory cannot be written");
            None
        }
    }
}

/// Says why what is installed could not be repaired, while the conditions tell of another bundle.
pub(super) async fn tell_failure(instance: &BundleInstance, shared: &Shared, failure: &Failure) {
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
