//! Uninstall: deletes the objects of an instance before the instance itself is deleted.
//!
//! | policy for CRDs | order |
//! | --- | --- |
//! | `Retain`, `DeleteIfUnused` | the bundle's own custom resources, all other objects, CRDs |
//! | `Delete` | all custom resources, CRDs, all other objects: the operator processes finalizers while it still runs |
//!
//! The inventory lists the objects, so neither the Bundle nor its content is needed, nor a completed installation. The
//! watches end first, so that no object is repaired.
//!
//! `kube::runtime::finalizer` is not used: an uninstall takes several reconciles, which succeed while objects terminate, but
//! that function removes the finalizer after the first success, and does not compare the uid.

use std::{collections::BTreeSet, time::Duration};

use kube::{
    Api, Client, Resource as _, ResourceExt as _,
    api::{Patch, PatchParams},
    runtime::{controller::Action, events::EventType},
};
use manifests::api::{
    bundle_instance::{BundleInstance, ServiceAccountRef},
    labels,
};
use serde_json::json;
use tracing::{info, warn};

use super::{
    bundles, inventory_status,
    outcome::RetryClass,
    policy,
    reconcile::{Error, current_status, read_inventory},
    revisions::{self, owner},
    rollout::{self, describe_rejections, inventory},
    state::{InstanceContext, InstanceState},
    status,
    status_writer::{declaration, write_status},
    template,
};
use apply::{
    api_error,
    inventory::Inventory,
    plan::{self, DefinitionPolicy, PruneCandidate},
    ssa::{Applier, ApplyFailure, FailureKind, PruneReport},
};

/// Finalizer of the garbage collector for a deletion with `--cascade=orphan`, which keeps the dependents.
const ORPHAN: &str = "orphan";
/// Key of attempts to record that the objects are orphaned.
const RECORD: &str = "record orphaned";
/// Maximum delay between two checks of objects that are terminating.
const MAX_DELETION_DELAY: Duration = Duration::from_secs(5);
/// Maximum delay until a failed attempt is retried.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(30);

/// Executes the next steps of an uninstall.
pub(crate) async fn run(
    instance: &BundleInstance,
    shared: &InstanceContext,
    state: &mut InstanceState,
) -> Result<Action, Error> {
    let name = instance.name_any();
    shared.ctx.informers.forget(&name);
    state.is_watched = false;
    state.progress = None;
    if !has_finalizer(instance) {
        shared.forget(&name);
        return Ok(Action::await_change());
    }
    if state.is_finalizer_removed {
        return Ok(Action::await_change());
    }
    // The garbage collector removes its finalizer last, perhaps while no provisioner runs.
    let is_orphaned = is_orphaned(instance)
        || state.is_orphaned()
        || template::are_released(instance, &bundles::candidates(instance, shared));
    let now = (shared.ctx.now)();
    if is_orphaned {
        // The message of the API server may differ each time, and writing it wakes the instance.
        if let Some(left) = state.backoff.remaining_delay(RECORD, now) {
            return Ok(Action::requeue(left));
        }
        // After the deletion of the Bundles and of the finalizer, only this record shows that the objects are orphaned.
        if let Err(error) = record_orphaned(instance, shared).await {
            let error = api_error::chain(&error);
            warn!(
                name,
                error, "failed to record that the objects are orphaned; retrying"
            );
            let message = format!("failed to annotate BundleInstance {name}: {error}");
            report(instance, shared, state, &message, true).await?;
            state
                .backoff
                .record_failure(RECORD.to_owned(), RetryClass::Soon, now);
            return Ok(Action::requeue(
                state.backoff.cap_delay(MAX_RETRY_DELAY, now),
            ));
        }
    }
    // A changed policy starts another attempt.
    let attempt_key = format!("uninstall {:?}", instance.metadata.generation);
    if let Some(left) = state.backoff.remaining_delay(&attempt_key, now) {
        return Ok(Action::requeue(left));
    }
    let before = current_status(instance, state);
    read_inventory(instance, shared, state, &before)
        .await
        .map_err(Error::on("read the inventory", instance))?;
    let owner = owner(instance);
    let applied = revisions::account(instance, &before);
    let client = client(instance, shared, state, applied)?;
    let apply = Applier {
        client: &client,
        kinds: &shared.ctx.discovery,
        concurrency: shared.ctx.settings.concurrency,
        permits: &shared.ctx.repair_permits,
    };
    if is_orphaned {
        let empty = Inventory::new();
        let left = state.inventory.as_ref().unwrap_or(&empty);
        let left = plan::leaving(left, &BTreeSet::new());
        // After the deletion of the instance, the garbage collector deletes objects that it had not observed before.
        let failed = apply.orphan(&left, &owner).await;
        if !failed.is_empty() {
            return fail(instance, shared, state, attempt_key, &failed).await;
        }
        let at = revisions::store(&shared.ctx, &owner);
        inventory_status::trim(&at, before.inventory.as_ref(), None).await;
        return remove_finalizer(instance, shared, state, attempt_key).await;
    }
    let policy = policy::crds(instance.spec.crd_deletion_policy);
    for stage in stages(
        state.inventory.as_ref().unwrap_or(&Inventory::new()),
        policy,
    ) {
        if stage.is_empty() {
            continue;
        }
        let pruned = apply.prune(&stage, &owner, policy).await;
        if let Some(inventory) = state.inventory.as_mut() {
            inventory::remove_deleted(inventory, &pruned);
        }
        publish_released(instance, shared, &pruned).await;
        if pruned.failed.is_empty() && pruned.terminating.is_empty() {
            continue;
        }
        if !pruned.failed.is_empty() {
            return fail(instance, shared, state, attempt_key, &pruned.failed).await;
        }
        report(instance, shared, state, &waiting_message(&pruned), false).await?;
        state
            .backoff
            .record_failure(attempt_key, RetryClass::Soon, now);
        // No event reports the end of the deletion, since the watches have ended.
        let left = state.backoff.cap_delay(MAX_DELETION_DELAY, now);
        return Ok(Action::requeue(left));
    }
    remove_finalizer(instance, shared, state, attempt_key).await
}

/// Reports failures, and schedules a retry.
async fn fail(
    instance: &BundleInstance,
    shared: &InstanceContext,
    state: &mut InstanceState,
    attempt_key: String,
    failed: &[ApplyFailure],
) -> Result<Action, Error> {
    let before = current_status(instance, state);
    let applied = revisions::account(instance, &before);
    let is_refused = failed
        .iter()
        .any(|failure| failure.cause == FailureKind::Forbidden);
    if is_refused && applied != instance.spec.service_account.as_ref() {
        state.is_refused_as_applied = !state.is_refused_as_applied;
    }
    report(instance, shared, state, &describe_rejections(failed), true).await?;
    let now = (shared.ctx.now)();
    state
        .backoff
        .record_failure(attempt_key, rollout::retry_class(failed), now);
    let left = state.backoff.cap_delay(MAX_RETRY_DELAY, now);
    Ok(Action::requeue(left))
}

/// Reports the progress of an uninstall in the status.
async fn report(
    instance: &BundleInstance,
    shared: &InstanceContext,
    state: &mut InstanceState,
    message: &str,
    failed: bool,
) -> Result<(), Error> {
    let before = current_status(instance, state);
    let declaration = declaration(instance, state);
    let now = (shared.ctx.now)();
    let status = status::uninstalling(&before, &declaration, message, failed, now);
    if status != before {
        write_status(instance, shared, state, &status).await?;
    }
    Ok(())
}

/// Returns a client of the service account that applied the objects, or of the account in the spec if the former is not
/// permitted to delete them.
fn client(
    instance: &BundleInstance,
    shared: &InstanceContext,
    state: &InstanceState,
    applied: Option<&ServiceAccountRef>,
) -> Result<Client, Error> {
    let account = if state.is_refused_as_applied {
        instance.spec.service_account.as_ref()
    } else {
        applied
    };
    let client = shared.ctx.clients.client(account);
    client.map_err(Error::on(
        "create a client for the service account",
        instance,
    ))
}

/// Reports whether the instance is deleted with `--cascade=orphan`, so that its objects remain in the cluster.
pub(crate) fn is_orphaned(instance: &BundleInstance) -> bool {
    instance.metadata.deletion_timestamp.is_some()
        && (instance.finalizers().iter().any(|f| f == ORPHAN) || is_recorded_orphaned(instance))
}

fn is_recorded_orphaned(instance: &BundleInstance) -> bool {
    let recorded = instance.annotations().get(labels::ORPHANED);
    recorded.is_some() && recorded == instance.metadata.uid.as_ref()
}

/// Records that the objects of an instance remain in the cluster, for a provisioner that continues the uninstall after a
/// restart.
async fn record_orphaned(
    instance: &BundleInstance,
    shared: &InstanceContext,
) -> Result<(), kube::Error> {
    if is_recorded_orphaned(instance) {
        return Ok(());
    }
    // The API server rejects a UID that is not that of the object.
    let patch = json!({"metadata": {
        "uid": instance.uid(),
        "annotations": {labels::ORPHANED: instance.uid()},
    }});
    let api = Api::<BundleInstance>::all(shared.ctx.client.clone());
    let params = PatchParams::default();
    let name = instance.name_any();
    match api
        .patch_metadata(&name, &params, &Patch::Merge(patch))
        .await
    {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(error) => Err(error),
    }
}

/// Reports whether an instance has the finalizer that waits for the deletion of its objects.
pub(crate) fn has_finalizer(instance: &BundleInstance) -> bool {
    let mut finalizers = instance.finalizers().iter();
    finalizers.any(|f| f == labels::UNINSTALL)
}

/// Deletes the Bundles and the records of the instance, and removes the finalizer.
async fn remove_finalizer(
    instance: &BundleInstance,
    shared: &InstanceContext,
    state: &mut InstanceState,
    attempt_key: String,
) -> Result<Action, Error> {
    let name = instance.name_any();
    // The Bundles have no use without the instance, and the garbage collector does not delete orphaned ones.
    bundles::delete_all(instance, shared).await;
    let status = current_status(instance, state);
    if let Err(error) = revisions::delete_all(shared, &owner(instance), &status).await {
        warn!(name, %error, "failed to delete the revisions; retrying");
        report(instance, shared, state, &error.to_string(), true).await?;
        let now = (shared.ctx.now)();
        return Ok(Action::requeue(state.backoff.record_failure(
            attempt_key,
            RetryClass::Soon,
            now,
        )));
    }
    let mut finalizers = instance.finalizers().iter();
    if let Some(position) = finalizers.position(|f| f == labels::UNINSTALL) {
        // Tests the finalizer instead of the resourceVersion: clients that write the instance continuously cannot delay its
        // deletion, and no other finalizer is lost or restored.
        let path = format!("/metadata/finalizers/{position}");
        let patch = json!([
            {"op": "test", "path": "/metadata/uid", "value": instance.uid()},
            {"op": "test", "path": path, "value": labels::UNINSTALL},
            {"op": "remove", "path": path},
        ]);
        let patch = serde_json::from_value(patch).map_err(kube::Error::SerdeError);
        let patch = patch.map_err(Error::on("remove the finalizer", instance))?;
        let api = Api::<BundleInstance>::all(shared.ctx.client.clone());
        let patch = Patch::Json::<()>(patch);
        match api.patch(&name, &PatchParams::default(), &patch).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            // The watch delivers the newer version, and a retry follows. 422 is the result of a failed test.
            Err(kube::Error::Api(status)) if matches!(status.code, 409 | 422) => {
                let now = (shared.ctx.now)();
                return Ok(Action::requeue(state.backoff.record_failure(
                    attempt_key,
                    RetryClass::Soon,
                    now,
                )));
            }
            Err(error) => return Err(Error::on("remove the finalizer", instance)(error)),
        }
    }
    info!("uninstalled");
    // Until the watch shows the deletion, another reconcile would start the uninstall again.
    state.is_finalizer_removed = true;
    shared.released(&name);
    Ok(Action::await_change())
}

/// Returns the objects in the order of their deletion. A stage starts once the objects of the previous one are deleted.
pub(crate) fn stages(inventory: &Inventory, policy: DefinitionPolicy) -> Vec<Vec<PruneCandidate>> {
    // The name of a CRD is `<plural>.<group>`.
    let groups: BTreeSet<&str> = inventory
        .keys()
        .filter(|identity| plan::is_definition(identity))
        .filter_map(|identity| identity.name.split_once('.').map(|(_, group)| group))
        .collect();
    let [mut resources, mut crds, mut others] = [const { Vec::new() }; 3];
    // Workloads are deleted before the permissions that they need, and namespaces last.
    for leaving in plan::leaving(inventory, &BTreeSet::new()) {
        if plan::is_definition(&leaving.identity) {
            crds.push(leaving);
        } else if groups.contains(leaving.identity.group.as_str()) {
            resources.push(leaving);
        } else {
            others.push(leaving);
        }
    }
    match policy {
        DefinitionPolicy::Delete => vec![resources, crds, others],
        DefinitionPolicy::Retain | DefinitionPolicy::DeleteIfUnused => {
            vec![resources, others, crds]
        }
    }
}

/// Returns the message about terminating objects.
fn waiting_message(pruned: &PruneReport) -> String {
    const MAX_NAMED: usize = 10;
    let count = pruned.terminating.len();
    let mut lines = vec![format!(
        "waiting for {count} object{} to be deleted:",
        if count == 1 { "" } else { "s" }
    )];
    lines.extend(
        pruned
            .terminating
            .iter()
            .take(MAX_NAMED)
            .map(|identity| pruned.line(identity)),
    );
    if count > MAX_NAMED {
        lines.push(format!("and {} more", count - MAX_NAMED));
    }
    lines.join("\n")
}

/// Publishes an event for each released object, up to a limit, and one with the number of the others. Events remain readable
/// after the deletion of the instance.
async fn publish_released(
    instance: &BundleInstance,
    shared: &InstanceContext,
    pruned: &PruneReport,
) {
    for note in released_notes(pruned) {
        shared
            .ctx
            .events
            .publish(
                &instance.object_ref(&()),
                EventType::Normal,
                "Released",
                "Uninstall",
                &note,
            )
            .await;
    }
}

fn released_notes(pruned: &PruneReport) -> Vec<String> {
    const MAX_NAMED: usize = 20;
    let released = &pruned.released;
    let mut notes: Vec<String> = released
        .iter()
        .take(MAX_NAMED)
        .map(|(identity, why)| format!("{identity} is kept: {why}"))
        .collect();
    match released.len().saturating_sub(MAX_NAMED) {
        0 => {}
        1 => notes.push("1 more object is kept".to_owned()),
        more => notes.push(format!("{more} more objects are kept")),
    }
    notes
}

#[cfg(test)]
mod tests;
