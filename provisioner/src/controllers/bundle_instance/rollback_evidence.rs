//! Evidence for an automatic rollback, from the objects that the informers have observed.

use apply::informers::InstanceView;
use kube::ResourceExt as _;
use manifests::api::bundle_instance::{BundleInstance, BundleInstanceStatus};

use super::{
    choice::Choices,
    reconcile::{current_status, earliest},
    repair,
    revisions::{self, owner},
    rollback::{self, Evidence, Unhealthy},
    rollout::{RolloutResult, Target},
    state::{InstanceContext, InstanceState},
};

/// Returns the reason why the rollout of the template's revision is given up, or `None` if it continues. Without a target,
/// the revision is applied already. Shortens the delay of `settled` if an object may still report an earlier timeout.
pub(crate) async fn failure(
    instance: &BundleInstance,
    shared: &InstanceContext,
    state: &InstanceState,
    choices: &Choices<'_>,
    target: Option<&Target<'_>>,
    settled: &mut RolloutResult,
) -> Option<String> {
    let status = current_status(instance, state);
    if !rollback::is_possible(choices, target, &status) {
        return None;
    }
    let now = (shared.ctx.now)();
    let view = shared.ctx.informers.view(&instance.name_any());
    let mut found = repair::unhealthy_of(state.inventory.as_ref(), &view, &status.removing);
    let newest = status.rolling_out();
    let applied = newest.and_then(|newest| newest.applied.as_ref());
    let applied = applied.map(|applied| applied.0);
    let left = rollback::defer_timeouts(&mut found, &view, applied, now);
    settled.requeue_after = earliest(settled.requeue_after, left);
    if !rollback::is_late(instance, &status, now) {
        found.slow.clear();
    }
    let excused = excused(instance, shared, state, &status, &view, &found).await;
    let evidence = Evidence {
        install: &settled.install,
        health: &settled.health,
        found: &found,
        excused: &excused,
        hash: choices.hash,
        lacks_content: state.lacks_content,
    };
    rollback::rollback_reason(instance, &status, &evidence, now)
}

/// Returns the unhealthy objects that the rollout neither changed nor broke. After a restart, or if the
/// informers were not synced when the rollout started, these are all unhealthy objects that it did not change.
async fn excused(
    instance: &BundleInstance,
    shared: &InstanceContext,
    state: &InstanceState,
    status: &BundleInstanceStatus,
    view: &InstanceView,
    found: &Unhealthy,
) -> Unhealthy {
    let newest = status.newest().map(|newest| newest.number);
    if let Some((number, excused)) = &state.excused
        && Some(*number) == newest
    {
        return excused.clone();
    }
    let active = status.active().filter(|_| *found != Unhealthy::default());
    let Some(active) = active else {
        return Unhealthy::default();
    };
    let Ok(record) = revisions::read(shared, &owner(instance), active).await else {
        return found.clone();
    };
    rollback::unchanged(&record.objects, view, found)
}
