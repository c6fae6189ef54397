//! Prunes the objects that have left the bundle, once the revision without them is active.

use std::{collections::BTreeMap, time::Duration};

use apply::{
    api_error,
    plan::Plan,
    revision::Revision,
    ssa::{Applier, PruneReport},
};
use kube::ResourceExt as _;
use manifests::api::{
    bundle_instance::{BundleInstance, BundleInstanceStatus, RevisionState, RevisionStatus},
    revision::RevisionDetails,
};
use tracing::warn;

use super::{policy_of_upgrades, unusable};
use crate::controllers::bundle_instance::{
    outcome::{Failure, RetryClass},
    revisions::{self, owner},
    rollout::{self, MAX_LISTED, lines_of, release_lines, remove_pruned, terminating_objects},
    state::{InstanceContext, InstanceState},
};

/// Maximum delay between two attempts, since the informers do not report the deletion of custom resources.
const MAX_DELAY: Duration = Duration::from_secs(60);

/// Outcome of a prune.
#[derive(Default)]
pub(super) struct Outcome {
    /// Lines about the pruned objects; `None` if no attempt was made.
    pub(super) done: Option<Lines>,
    /// Time until the next attempt.
    pub(super) requeue_after: Option<Duration>,
    /// Number of the active revision if its record cannot be used; `failure` has the message.
    pub(super) lost: Option<i64>,
    pub(super) failure: Option<Failure>,
}

/// Lines of the status about pruned objects.
pub(super) struct Lines {
    /// Objects that are still in the cluster.
    pub(super) removing: Vec<String>,
    /// Objects that were released.
    pub(super) released: Vec<String>,
}

/// Prunes the objects that the active revision does not have, if the status lists any.
pub(super) async fn run(
    instance: &BundleInstance,
    shared: &InstanceContext,
    state: &mut InstanceState,
    status: &BundleInstanceStatus,
) -> Outcome {
    let Some(active) = due(status) else {
        return Outcome::default();
    };
    let now = (shared.ctx.now)();
    let attempt_key = attempted(state, active);
    if let Some(left) = state.prunes.remaining_delay(&attempt_key, now) {
        return Outcome {
            requeue_after: Some(left),
            ..Outcome::default()
        };
    }
    let record = match revisions::read(shared, &owner(instance), active).await {
        Err(error) if !error.is_transient() => {
            return Outcome {
                lost: Some(active.number),
                failure: Some(unusable(status, &error)),
                ..Outcome::default()
            };
        }
        record => record.map_err(|error| error.to_string()),
    };
    let pruned = match record {
        Ok(record) => prune(instance, shared, state, active, record).await,
        Err(error) => Err(error),
    };
    let (pruned, plan) = match pruned {
        Ok(pruned) => pruned,
        Err(error) => {
            warn!(instance = %instance.name_any(), error, "failed to prune; retrying");
            return Outcome {
                requeue_after: Some(state.prunes.record_failure(
                    attempt_key,
                    RetryClass::Soon,
                    now,
                )),
                ..Outcome::default()
            };
        }
    };
    if !pruned.deleted.is_empty() || !pruned.released.is_empty() {
        shared.released(&instance.name_any());
    }
    remove_pruned(state, &pruned);
    let lines = remaining(&pruned, &plan);
    let requeue_after = if lines.is_empty() {
        state.prunes.succeeded();
        None
    } else {
        state
            .prunes
            .record_failure(attempted(state, active), RetryClass::Soon, now);
        Some(state.prunes.cap_delay(MAX_DELAY, now))
    };
    Outcome {
        done: Some(Lines {
            removing: lines,
            released: release_lines(&pruned).collect(),
        }),
        requeue_after,
        ..Outcome::default()
    }
}

/// Returns the active revision if objects of former revisions are to be pruned now.
pub(crate) fn due(status: &BundleInstanceStatus) -> Option<&RevisionStatus> {
    let newest = status.newest();
    let active = newest.filter(|newest| newest.state == RevisionState::Active)?;
    let is_due = status.applied_digest.is_some() && !status.removing.is_empty();
    is_due.then_some(active)
}

/// Returns the key of an attempt. It changes with the revision and with each deleted object, so that another attempt starts
/// at once.
fn attempted(state: &InstanceState, active: &RevisionStatus) -> String {
    let count = state.inventory.as_ref().map_or(0, BTreeMap::len);
    format!("prune {} {count} {}", active.number, state.retry_epoch())
}

/// Returns the lines of objects that are still in the cluster after an attempt.
pub(crate) fn remaining(pruned: &PruneReport, plan: &Plan) -> Vec<String> {
    let mut lines = terminating_objects(pruned);
    let has_ended = |identity: &_| {
        pruned.deleted.contains(identity)
            || pruned.released.contains_key(identity)
            || pruned.terminating.contains(identity)
            || pruned
                .failed
                .iter()
                .any(|failure| failure.identity == *identity)
    };
    let pending = plan.leaving.iter().map(|leaving| &leaving.identity);
    let pending = pending.filter(|identity| !has_ended(identity));
    lines.extend(lines_of(pending));
    lines.truncate(MAX_LISTED);
    lines
}

/// Deletes the prune candidates, and returns the report with the plan that has them.
async fn prune(
    instance: &BundleInstance,
    shared: &InstanceContext,
    state: &InstanceState,
    active: &RevisionStatus,
    record: Revision<RevisionDetails>,
) -> Result<(PruneReport, Plan), String> {
    let ctx = &shared.ctx;
    let owner = owner(instance);
    let had = state.inventory.clone().unwrap_or_default();
    let namespace = &record.header.namespace;
    let plan = rollout::plan(ctx, record.objects, &had, &owner, namespace).await;
    let plan = plan.map_err(|error| {
        let error = api_error::chain(&error);
        format!("failed to list the served APIs: {error}")
    })?;
    let client = ctx.clients.client(active.service_account.as_ref());
    let client = client.map_err(|error| {
        let error = api_error::chain(&error);
        format!("failed to create a client: {error}")
    })?;
    let apply = Applier {
        client: &client,
        kinds: &ctx.discovery,
        concurrency: ctx.settings.concurrency,
        permits: &ctx.write_permits,
    };
    let policy = policy_of_upgrades(instance);
    let pruned = apply.prune(&plan.leaving, &owner, policy).await;
    Ok((pruned, plan))
}
