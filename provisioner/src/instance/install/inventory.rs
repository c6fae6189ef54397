//! The inventory during a rollout: what is about to be applied, what is applied, and what has left.

use apply::{
    inventory::{Entry, Inventory},
    plan::{Plan, Step},
    ssa::{Pruned, Report},
};
use kube::ResourceExt as _;
use manifests::{
    api::instance::{BundleInstance, BundleInstanceStatus, RevisionStatus},
    object::group_version,
};

use super::{Target, attempt::failing};
use crate::instance::{
    memory::{Memory, Shared},
    outcome::{Failure, Retry},
    status,
    write::{declaration, write_status},
};

/// Writes down what is about to be applied, beside what is there: whatever happens next, nothing is forgotten.
pub(super) async fn note_intent(
    instance: &BundleInstance,
    shared: &Shared,
    memory: &mut Memory,
    before: &BundleInstanceStatus,
    target: &Target<'_>,
    plan: &Plan,
    revisions: &[RevisionStatus],
) -> Result<(), Failure> {
    let inventory = memory.inventory.get_or_insert_default();
    intend(inventory, plan);
    let listed = memory.listed(before);
    let mut status = status::applying(
        before,
        &declaration(instance, memory),
        &target.bundle_name(),
        plan.steps.len(),
        listed,
        (shared.ctx.now)(),
    );
    status.revisions = revisions.to_vec();
    write_status(instance, shared, memory, &status)
        .await
        .map(drop)
        .map_err(|error| {
            let message = format!("failed to write the status: {error}");
            failing(target)(message, Retry::Soon)
        })
}

/// Adds what is about to be applied to an inventory.
pub(in crate::instance) fn intend(inventory: &mut Inventory, plan: &Plan) {
    for step in &plan.steps {
        let identity = step.object.identity();
        let version = group_version(step.object.api_version()).1.to_owned();
        inventory.entry(identity).or_default().version = version;
    }
}

/// Remembers what is in place, and tells the watches, which hear of it later.
pub(in crate::instance) fn take_over(
    instance: &BundleInstance,
    shared: &Shared,
    memory: &mut Memory,
    steps: &[Step],
    report: &Report,
) {
    memory.is_watched = false;
    shared
        .ctx
        .watches
        .applied(&instance.name_any(), &report.applied);
    let inventory = memory.inventory.get_or_insert_default();
    for step in steps {
        let identity = step.object.identity();
        if let Some(applied) = report.applied.get(&identity) {
            let entry: &mut Entry = inventory.entry(identity).or_default();
            entry.fields = applied.fields;
            entry.recreating = false;
        }
    }
}

/// Forgets what has left, and gives what remains: also what has not been begun, or could not be deleted.
pub(in crate::instance) fn settle_inventory(memory: &mut Memory, pruned: &Pruned) {
    memory.is_watched = false;
    forget(memory.inventory.get_or_insert_default(), pruned);
}

/// Removes the objects that are deleted or released from an inventory.
pub(in crate::instance) fn forget(inventory: &mut Inventory, pruned: &Pruned) {
    for identity in pruned.deleted.iter().chain(pruned.released.keys()) {
        inventory.remove(identity);
    }
}
