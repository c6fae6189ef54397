//! Changes of the inventory during a rollout: objects before they are applied, after that, and after they are pruned.

use apply::{
    inventory::{Entry, Inventory},
    plan::{ApplyStep, Plan},
    ssa::{ApplyReport, PruneReport},
};
use kube::ResourceExt as _;
use manifests::{
    api::bundle_instance::{BundleInstance, BundleInstanceStatus, RevisionStatus},
    object::group_version,
};

use super::{Target, attempt::failure_for};
use crate::controllers::bundle_instance::{
    outcome::{Failure, RetryClass},
    state::{InstanceContext, InstanceState},
    status,
    status_writer::{declaration, write_status},
};

/// Records the objects of a plan in the inventory before they are applied, so that no object is lost after a crash.
pub(super) async fn record_intent(
    instance: &BundleInstance,
    shared: &InstanceContext,
    state: &mut InstanceState,
    before: &BundleInstanceStatus,
    target: &Target<'_>,
    plan: &Plan,
    revisions: &[RevisionStatus],
) -> Result<(), Failure> {
    let inventory = state.inventory.get_or_insert_default();
    intend(inventory, plan);
    let listed = state.listed(before);
    let mut status = status::applying(
        before,
        &declaration(instance, state),
        &target.bundle_name(),
        plan.steps.len(),
        listed,
        (shared.ctx.now)(),
    );
    status.revisions = revisions.to_vec();
    write_status(instance, shared, state, &status)
        .await
        .map(drop)
        .map_err(|error| {
            let message = format!("failed to write the status: {error}");
            failure_for(target)(message, RetryClass::Soon)
        })
}

/// Adds the objects of a plan to an inventory.
pub(crate) fn intend(inventory: &mut Inventory, plan: &Plan) {
    for step in &plan.steps {
        let identity = step.object.identity();
        let version = group_version(step.object.api_version()).1.to_owned();
        inventory.entry(identity).or_default().version = version;
    }
}

/// Records the applied objects in the inventory, and passes them to the watches, which deliver them later.
pub(crate) fn record_applied(
    instance: &BundleInstance,
    shared: &InstanceContext,
    state: &mut InstanceState,
    steps: &[ApplyStep],
    report: &ApplyReport,
) {
    state.is_watched = false;
    shared
        .ctx
        .informers
        .record_applied(&instance.name_any(), &report.applied);
    let inventory = state.inventory.get_or_insert_default();
    for step in steps {
        let identity = step.object.identity();
        if let Some(applied) = report.applied.get(&identity) {
            let entry: &mut Entry = inventory.entry(identity).or_default();
            entry.fields = applied.fields;
            entry.recreating = false;
        }
    }
}

/// Removes deleted and released objects from the inventory. Objects that were not deleted yet or could not be deleted
/// remain.
pub(crate) fn remove_pruned(state: &mut InstanceState, pruned: &PruneReport) {
    state.is_watched = false;
    remove_deleted(state.inventory.get_or_insert_default(), pruned);
}

/// Removes deleted and released objects from an inventory.
pub(crate) fn remove_deleted(inventory: &mut Inventory, pruned: &PruneReport) {
    for identity in pruned.deleted.iter().chain(pruned.released.keys()) {
        inventory.remove(identity);
    }
}
