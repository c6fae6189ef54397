//! Recording what an older provisioner has installed.

use std::time::Duration;

use kube::ResourceExt as _;
use manifests::api::{
    bundle::Bundle,
    holder::Owner,
    instance::{BundleInstance, BundleInstanceStatus, Cause, RevisionState},
};
use tracing::warn;

use super::{
    Source, Target, applied,
    converted::{Rendered, render},
    key,
    leaving::lines_of,
    prepare::plan,
};
use crate::instance::{
    memory::{Memory, Shared},
    outcome::{Failure, Remedy, Retry},
    reconcile::current_status,
    revisions::{self, owner},
    write::write_status,
};

/// A failed attempt to record the installed objects.
pub(in crate::instance) struct Migration {
    /// The failure, if the conditions report it.
    pub(in crate::instance) failure: Option<Failure>,
    /// The time until the next attempt.
    pub(in crate::instance) again: Duration,
}

/// Records the objects that an older provisioner has installed, as revision 1. Nothing is applied: the objects are rendered
/// from the installed Bundle by the same inputs. As long as that is not possible (the content is missing, or the spec has
/// changed), nothing is recorded, and the next rollout records its own revision.
pub(in crate::instance) async fn migrate(
    instance: &BundleInstance,
    shared: &Shared,
    memory: &mut Memory,
    status: &mut BundleInstanceStatus,
    installed: &Bundle,
) -> Option<Migration> {
    let target = Target {
        source: Source::Bundle(installed),
        rollback: None,
    };
    let now = (shared.ctx.now)();
    let tried = format!("migrate {:?}", instance.metadata.generation);
    if let Some(again) = memory.migrations.must_wait(&tried, now) {
        return Some(Migration {
            failure: None,
            again,
        });
    }
    match key(instance, shared, &target).await {
        Ok(key) if status.applied_digest.as_deref().map(applied) == Some(&*key) => {}
        _ => return None,
    }
    let rendered = render(instance, shared, installed).await;
    let owner = owner(instance);
    let mut leftovers = Vec::new();
    let inventory = memory.inventory.clone();
    let mut is_reported = false;
    let recorded = match rendered {
        Ok(rendered) => {
            let why = (Cause::Migration, None);
            match leaving(shared, memory, &rendered, &owner).await {
                Ok(lines) => {
                    leftovers = lines;
                    let recorded = revisions::record(shared, &owner, status, &rendered, why).await;
                    is_reported = recorded.is_err();
                    recorded.map_err(|error| error.to_string())
                }
                Err(error) => Err(error.to_string()),
            }
        }
        // The loss of content changes no condition.
        Err(failure) => Err(failure.message),
    };
    match recorded {
        Ok(mut revision) => {
            revision.state = RevisionState::Active;
            status.revisions.push(revision);
            let mut written = current_status(instance, memory);
            written.revisions.clone_from(&status.revisions);
            if memory.inventory != inventory && memory.inventory.is_some() {
                status.inventory = Some(memory.listed(status));
                written.inventory.clone_from(&status.inventory);
            }
            status.removing.extend(leftovers);
            written.removing.clone_from(&status.removing);
            if let Err(error) = write_status(instance, shared, memory, &written).await {
                warn!(%error, "failed to record the installed objects; retrying");
                status.revisions.pop();
            }
            None
        }
        Err(error) => {
            warn!(error, "failed to record the installed objects; retrying");
            let again = memory.migrations.again(tried, Retry::Soon, now);
            let failure = is_reported.then(|| Failure {
                bundle: installed.name_any(),
                message: format!(
                    "failed to record the installed objects; retrying, and repairing no object before that: {error}"
                ),
                touched: false,
                retry: Retry::Soon,
                remedy: Remedy::World,
            });
            Some(Migration { failure, again })
        }
    }
}

/// Returns the lines of objects that the older provisioner has not pruned yet. Objects that the inventory lacks are added.
async fn leaving(
    shared: &Shared,
    memory: &mut Memory,
    rendered: &Rendered,
    owner: &Owner,
) -> Result<Vec<String>, kube::Error> {
    let had = memory.inventory.clone().unwrap_or_default();
    let objects = rendered.objects.clone();
    let mut plan = plan(&shared.ctx, objects, &had, owner, &rendered.namespace).await?;
    let client = shared.ctx.accounts.client(rendered.account.as_ref())?;
    revisions::leave_out_shared(&shared.ctx, &client, owner, &mut plan).await?;
    if let Some(inventory) = memory.inventory.as_mut() {
        revisions::index(inventory, &plan, true);
        memory.is_watched = false;
        memory.unread = None;
    }
    let leaving = plan.leaving.iter().map(|leaving| &leaving.identity);
    Ok(lines_of(leaving))
}
