//! Removing what an instance has installed, before it goes itself.
//!
//! | policy for definitions | order |
//! | --- | --- |
//! | `Retain`, `DeleteIfUnused` | the bundle's own custom resources, everything else, definitions |
//! | `Delete` | all custom resources, definitions, everything else: the operator finalizes them while it still runs |
//!
//! The inventory says what there is, so that neither the Bundle nor its content is needed, nor an installation that was
//! ever finished. Nothing is made again: the watches are forgotten first.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use kube::{
    Api, Client, Resource as _, ResourceExt as _,
    api::{Patch, PatchParams},
    runtime::{controller::Action, events::EventType},
};
use manifests::{
    api::{
        instance::{BundleInstance, ServiceAccountRef},
        labels,
    },
    object::Identity,
};
use serde_json::json;
use tracing::{info, warn};

use super::{
    bundles, index,
    install::{self, inventory, refusals},
    memory::{Memory, Shared},
    outcome::Retry,
    policy,
    reconcile::{Error, current_status, read_inventory},
    revisions::{self, owner},
    status, template,
    write::{declaration, write_status},
};
use apply::{
    inventory::Inventory,
    plan::{self, DefinitionPolicy, Leaving},
    ssa::{Apply, Cause, Failure, Pruned},
};

/// The garbage collector's mark on what is deleted with `--cascade=orphan`: what belongs to it stays.
const ORPHAN: &str = "orphan";
/// The name of attempts to record that the objects are orphaned.
const RECORD: &str = "record orphaned";
/// The longest time between two looks at what has finalizers.
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// The longest time until what failed is tried again.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Takes the next steps of a removal.
pub(super) async fn run(
    instance: &BundleInstance,
    shared: &Shared,
    memory: &mut Memory,
) -> Result<Action, Error> {
    let name = instance.name_any();
    shared.ctx.watches.forget(&name);
    memory.is_watched = false;
    memory.progress = None;
    if !is_awaited(instance) {
        shared.forget(&name);
        return Ok(Action::await_change());
    }
    if memory.is_let_go {
        return Ok(Action::await_change());
    }
    // The garbage collector removes its finalizer last, perhaps while no provisioner runs.
    let is_orphaned = is_orphaned(instance)
        || memory.is_orphaned()
        || template::are_released(instance, &bundles::candidates(instance, shared));
    let now = (shared.ctx.now)();
    if is_orphaned {
        // The message of the API server may be another one each time, and its write wakes the instance.
        if let Some(left) = memory.tries.must_wait(RECORD, now) {
            return Ok(Action::requeue(left));
        }
        // After their deletion, the Bundles and the finalizer do not show that the objects are orphaned.
        if let Err(error) = record_orphaned(instance, shared).await {
            warn!(name, %error, "failed to record that the objects are orphaned; retrying");
            let message = format!("failed to annotate BundleInstance {name}: {error}");
            report(instance, shared, memory, &message, true).await?;
            memory.tries.again(RECORD.to_owned(), Retry::Soon, now);
            return Ok(Action::requeue(
                memory.tries.wait_at_most(LONGEST_PAUSE, now),
            ));
        }
    }
    // Another policy is another try.
    let tried = format!("uninstall {:?}", instance.metadata.generation);
    if let Some(left) = memory.tries.must_wait(&tried, now) {
        return Ok(Action::requeue(left));
    }
    let before = current_status(instance, memory);
    read_inventory(instance, shared, memory, &before)
        .await
        .map_err(Error::on("read the inventory", instance))?;
    let owner = owner(instance);
    let applied = revisions::account(instance, &before);
    let client = client(instance, shared, memory, applied)?;
    let apply = Apply {
        client: &client,
        kinds: &shared.ctx.kinds,
        concurrency: shared.ctx.settings.concurrency,
        permits: &shared.ctx.repair_permits,
    };
    if is_orphaned {
        let nothing = Inventory::new();
        let left = memory.inventory.as_ref().unwrap_or(&nothing);
        let left = plan::leaving(left, &BTreeSet::new());
        // After the deletion of the instance, the garbage collector deletes objects that it had not observed before.
        let failed = apply.orphan(&left, &owner).await;
        if !failed.is_empty() {
            return fail(instance, shared, memory, tried, &failed).await;
        }
        let at = revisions::store(&shared.ctx, &owner);
        index::trim(&at, before.inventory.as_ref(), None).await;
        return finish(instance, shared, memory, tried).await;
    }
    let policy = policy::definitions(instance.spec.crd_deletion_policy);
    for stage in stages(
        memory.inventory.as_ref().unwrap_or(&Inventory::new()),
        policy,
    ) {
        if stage.is_empty() {
            continue;
        }
        let pruned = apply.prune(&stage, &owner, policy).await;
        if let Some(inventory) = memory.inventory.as_mut() {
            inventory::forget(inventory, &pruned);
        }
        release(instance, shared, &pruned).await;
        if pruned.failed.is_empty() && pruned.going.is_empty() {
            continue;
        }
        if !pruned.failed.is_empty() {
            return fail(instance, shared, memory, tried, &pruned.failed).await;
        }
        report(instance, shared, memory, &waits(&pruned), false).await?;
        memory.tries.again(tried, Retry::Soon, now);
        // Nothing tells when it goes on: the watches are forgotten.
        let left = memory.tries.wait_at_most(LONGEST_WAIT, now);
        return Ok(Action::requeue(left));
    }
    finish(instance, shared, memory, tried).await
}

/// Reports failures, and tries again.
async fn fail(
    instance: &BundleInstance,
    shared: &Shared,
    memory: &mut Memory,
    tried: String,
    failed: &[Failure],
) -> Result<Action, Error> {
    let before = current_status(instance, memory);
    let applied = revisions::account(instance, &before);
    let is_refused = failed
        .iter()
        .any(|failure| failure.cause == Cause::Forbidden);
    if is_refused && applied != instance.spec.service_account.as_ref() {
        memory.is_refused_as_applied = !memory.is_refused_as_applied;
    }
    report(instance, shared, memory, &refusals(failed), true).await?;
    let now = (shared.ctx.now)();
    memory.tries.again(tried, install::retry(failed), now);
    let left = memory.tries.wait_at_most(LONGEST_PAUSE, now);
    Ok(Action::requeue(left))
}

/// Reports the progress of a removal in the status.
async fn report(
    instance: &BundleInstance,
    shared: &Shared,
    memory: &mut Memory,
    message: &str,
    failed: bool,
) -> Result<(), Error> {
    let before = current_status(instance, memory);
    let declaration = declaration(instance, memory);
    let now = (shared.ctx.now)();
    let status = status::uninstalling(&before, &declaration, message, failed, now);
    if status != before {
        write_status(instance, shared, memory, &status).await?;
    }
    Ok(())
}

/// Returns a client of the account that the objects were applied as; if that is not permitted to delete them, of the account
/// of the spec.
fn client(
    instance: &BundleInstance,
    shared: &Shared,
    memory: &Memory,
    applied: Option<&ServiceAccountRef>,
) -> Result<Client, Error> {
    let account = if memory.is_refused_as_applied {
        instance.spec.service_account.as_ref()
    } else {
        applied
    };
    let client = shared.ctx.accounts.client(account);
    client.map_err(Error::on("make a client for the account", instance))
}

/// Reports whether the objects of an instance stay in the cluster after its removal, as the instance shows.
pub(super) fn is_orphaned(instance: &BundleInstance) -> bool {
    instance.metadata.deletion_timestamp.is_some()
        && (instance.finalizers().iter().any(|f| f == ORPHAN) || is_recorded_orphaned(instance))
}

fn is_recorded_orphaned(instance: &BundleInstance) -> bool {
    let recorded = instance.annotations().get(labels::ORPHANED);
    recorded.is_some() && recorded == instance.metadata.uid.as_ref()
}

/// Records that the objects of an instance stay in the cluster, for a provisioner that continues the removal.
async fn record_orphaned(instance: &BundleInstance, shared: &Shared) -> Result<(), kube::Error> {
    if is_recorded_orphaned(instance) {
        return Ok(());
    }
    // The API server rejects a uid that is not the one of the object.
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

/// Reports whether an instance cannot go before its objects are removed.
pub(super) fn is_awaited(instance: &BundleInstance) -> bool {
    let mut finalizers = instance.finalizers().iter();
    finalizers.any(|f| f == labels::UNINSTALL)
}

/// Lets the instance go.
async fn finish(
    instance: &BundleInstance,
    shared: &Shared,
    memory: &mut Memory,
    tried: String,
) -> Result<Action, Error> {
    let name = instance.name_any();
    // Of no use without the instance. The garbage collector leaves them where it leaves everything.
    bundles::delete_all(instance, shared).await;
    let status = current_status(instance, memory);
    if let Err(error) = revisions::delete_all(shared, &owner(instance), &status).await {
        warn!(name, %error, "failed to delete the revisions; retrying");
        report(instance, shared, memory, &error.to_string(), true).await?;
        let now = (shared.ctx.now)();
        return Ok(Action::requeue(memory.tries.again(tried, Retry::Soon, now)));
    }
    let mut finalizers = instance.finalizers().iter();
    if let Some(position) = finalizers.position(|f| f == labels::UNINSTALL) {
        // A test of the finalizer, not of the resource version: clients that write the instance all the time cannot keep
        // it from going, and no other finalizer is lost or comes back.
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
            // The watch delivers the newer version, and this is tried again. 422 is a test that failed.
            Err(kube::Error::Api(status)) if matches!(status.code, 409 | 422) => {
                let now = (shared.ctx.now)();
                return Ok(Action::requeue(memory.tries.again(tried, Retry::Soon, now)));
            }
            Err(error) => return Err(Error::on("remove the finalizer", instance)(error)),
        }
    }
    info!("uninstalled");
    // Until the watch has shown it, whatever wakes the instance would have it removed once more.
    memory.is_let_go = true;
    shared.released(&name);
    Ok(Action::await_change())
}

/// What is deleted before what: a stage begins when the one before has gone.
pub(super) fn stages(inventory: &Inventory, policy: DefinitionPolicy) -> Vec<Vec<Leaving>> {
    // `<plural>.<group>` is the name of a definition.
    let groups: BTreeSet<&str> = inventory
        .keys()
        .filter(|identity| plan::is_definition(identity))
        .filter_map(|identity| identity.name.split_once('.').map(|(_, group)| group))
        .collect();
    let [mut resources, mut definitions, mut others] = [const { Vec::new() }; 3];
    // Workloads before the rights they need, and namespaces last.
    for leaving in plan::leaving(inventory, &BTreeSet::new()) {
        if plan::is_definition(&leaving.identity) {
            definitions.push(leaving);
        } else if groups.contains(leaving.identity.group.as_str()) {
            resources.push(leaving);
        } else {
            others.push(leaving);
        }
    }
    match policy {
        DefinitionPolicy::Delete => vec![resources, definitions, others],
        DefinitionPolicy::Retain | DefinitionPolicy::DeleteIfUnused => {
            vec![resources, others, definitions]
        }
    }
}

/// What has been deleted and is still there.
fn waits(pruned: &Pruned) -> String {
    const MOST: usize = 10;
    let count = pruned.going.len();
    let mut lines = vec![format!(
        "waiting for {count} object{} to go:",
        if count == 1 { "" } else { "s" }
    )];
    lines.extend(
        pruned
            .going
            .iter()
            .take(MOST)
            .map(|identity| pruned.line(identity)),
    );
    if count > MOST {
        lines.push(format!("and {} more", count - MOST));
    }
    lines.join("\n")
}

/// Says what stays, where it can still be read when the instance is gone.
async fn release(instance: &BundleInstance, shared: &Shared, pruned: &Pruned) {
    let released: BTreeMap<&Identity, &String> = pruned.released.iter().collect();
    for (identity, why) in released.into_iter().take(20) {
        shared
            .ctx
            .events
            .publish(
                &instance.object_ref(&()),
                EventType::Normal,
                "Released",
                "Uninstall",
                &format!("{identity} stays in the cluster: {why}"),
            )
            .await;
    }
}

#[cfg(test)]
mod tests;
