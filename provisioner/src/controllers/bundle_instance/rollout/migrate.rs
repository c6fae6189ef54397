//! Records the objects that an older provisioner has installed.

use std::time::Duration;

use apply::api_error;
use kube::ResourceExt as _;
use manifests::api::{
    bundle::Bundle,
    bundle_instance::{BundleInstance, BundleInstanceStatus, Cause, RevisionState},
    owner::InstanceOwner,
};
use tracing::warn;

use super::{
    Source, Target, applied, key,
    prepare::plan,
    prune_candidates::lines_of,
    render::{Rendered, render},
};
use crate::controllers::bundle_instance::{
    outcome::{Failure, Remedy, RetryClass},
    reconcile::current_status,
    revisions::{self, owner},
    state::{InstanceContext, InstanceState},
    status_writer::write_status,
};

/// A failed attempt to record the installed objects.
pub(crate) struct Migration {
    /// The failure if a condition has to report it.
    pub(crate) failure: Option<Failure>,
    /// Time until the next attempt.
    pub(crate) requeue_after: Duration,
}

/// Records the objects that an older provisioner has installed as revision 1, without applying them: the installed Bundle
/// is rendered with the same inputs. While that is not possible because the content is missing or the spec has changed,
/// nothing is recorded, and the next rollout records its own revision.
pub(crate) async fn migrate(
    instance: &BundleInstance,
    shared: &InstanceContext,
    state: &mut InstanceState,
    status: &mut BundleInstanceStatus,
    installed: &Bundle,
) -> Option<Migration> {
    let target = Target {
        source: Source::Bundle(installed),
        rollback: None,
    };
    let now = (shared.ctx.now)();
    let attempt_key = format!("migrate {:?}", instance.metadata.generation);
    if let Some(requeue_after) = state.migrations.remaining_delay(&attempt_key, now) {
        return Some(Migration {
            failure: None,
            requeue_after,
        });
    }
    let key = key(instance, shared, &target).await.ok();
    if key.is_none() || key.as_deref() != status.applied_digest.as_deref().map(applied) {
        return None;
    }
    let rendered = render(instance, shared, installed).await;
    let owner = owner(instance);
    let mut leftovers = Vec::new();
    let inventory = state.inventory.clone();
    let mut is_reported = false;
    let recorded = match rendered {
        Ok(mut rendered) => {
            rendered.details.key = key;
            let why = (Cause::Migration, None);
            match leaving(shared, state, &rendered, &owner).await {
                Ok(lines) => {
                    leftovers = lines;
                    let recorded = revisions::record(shared, &owner, status, &rendered, why).await;
                    is_reported = recorded.is_err();
                    recorded.map_err(|error| error.to_string())
                }
                Err(error) => Err(api_error::chain(&error)),
            }
        }
        // The loss of content changes no condition.
        Err(error) => Err(error.into_failure().message),
    };
    match recorded {
        Ok(mut revision) => {
            revision.state = RevisionState::Active;
            status.revisions.push(revision);
            let mut written = current_status(instance, state);
            written.revisions.clone_from(&status.revisions);
            if state.inventory != inventory && state.inventory.is_some() {
                status.inventory = Some(state.listed(status));
                written.inventory.clone_from(&status.inventory);
            }
            status.removing.extend(leftovers);
            written.removing.clone_from(&status.removing);
            if let Err(error) = write_status(instance, shared, state, &written).await {
                warn!(%error, "failed to record the installed objects; retrying");
                status.revisions.pop();
            }
            None
        }
        Err(error) => {
            warn!(error, "failed to record the installed objects; retrying");
            let requeue_after = state
                .migrations
                .record_failure(attempt_key, RetryClass::Soon, now);
            let failure = is_reported.then(|| Failure {
                bundle: installed.name_any(),
                message: format!(
                    "failed to record the installed objects, and no object is repaired until this succeeds: {error}"
                ),
                touched: false,
                retry: RetryClass::Soon,
                remedy: Remedy::World,
            });
            Some(Migration {
                failure,
                requeue_after,
            })
        }
    }
}

/// Returns the lines of objects that the older provisioner has not pruned yet. Objects that the inventory lacks are added
/// to it.
async fn leaving(
    shared: &InstanceContext,
    state: &mut InstanceState,
    rendered: &Rendered,
    owner: &InstanceOwner,
) -> Result<Vec<String>, kube::Error> {
    let had = state.inventory.clone().unwrap_or_default();
    let objects = rendered.objects.clone();
    let mut plan = plan(&shared.ctx, objects, &had, owner, &rendered.namespace).await?;
    let client = shared.ctx.clients.client(rendered.account.as_ref())?;
    revisions::inventory::leave_out_shared(&shared.ctx, &client, owner, &mut plan).await?;
    if let Some(inventory) = state.inventory.as_mut() {
        revisions::inventory::index(inventory, &plan, true);
        state.is_watched = false;
        state.unread = None;
    }
    let leaving = plan.leaving.iter().map(|leaving| &leaving.identity);
    Ok(lines_of(leaving))
}
