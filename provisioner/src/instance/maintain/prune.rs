//! Pruning what has left the bundle, once the revision without it is active.

use std::{collections::BTreeMap, time::Duration};

use apply::{
    plan::Plan,
    revision::Revision,
    ssa::{Apply, Pruned},
};
use kube::ResourceExt as _;
use manifests::api::{
    instance::{BundleInstance, BundleInstanceStatus, RevisionState, RevisionStatus},
    revision::RevisionDetails,
};
use tracing::warn;

use super::{policy_of_upgrades, unusable};
use crate::instance::{
    install::{self, MAX_LISTED, lines_of, release_lines, removing, settle_inventory},
    memory::{Memory, Shared},
    outcome::{Failure, Retry},
    revisions::{self, owner},
};

/// The longest time between two attempts: the informers do not report when custom resources are gone.
const MAX_DELAY: Duration = Duration::from_secs(60);

/// The outcome.
#[derive(Default)]
pub(super) struct Outcome {
    /// The pruned objects, if an attempt was made.
    pub(super) done: Option<Lines>,
    /// The time to try again.
    pub(super) again: Option<Duration>,
    /// The number of the active revision, if its record cannot be used, and the failure to report.
    pub(super) lost: Option<i64>,
    pub(super) failure: Option<Failure>,
}

/// What the status says of pruned objects.
pub(super) struct Lines {
    /// Objects that are still in the cluster.
    pub(super) removing: Vec<String>,
    /// Objects that were released.
    pub(super) released: Vec<String>,
}

/// Prunes what the active revision does not have, if the status lists something.
pub(super) async fn run(
    instance: &BundleInstance,
    shared: &Shared,
    memory: &mut Memory,
    status: &BundleInstanceStatus,
) -> Outcome {
    let Some(active) = due(status) else {
        return Outcome::default();
    };
    let now = (shared.ctx.now)();
    let tried = attempted(memory, active);
    if let Some(left) = memory.prunes.must_wait(&tried, now) {
        return Outcome {
            again: Some(left),
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
        Ok(record) => prune(instance, shared, memory, active, record).await,
        Err(error) => Err(error),
    };
    let (pruned, plan) = match pruned {
        Ok(pruned) => pruned,
        Err(error) => {
            warn!(instance = %instance.name_any(), error, "failed to prune; retrying");
            return Outcome {
                again: Some(memory.prunes.again(tried, Retry::Soon, now)),
                ..Outcome::default()
            };
        }
    };
    if !pruned.deleted.is_empty() || !pruned.released.is_empty() {
        shared.released(&instance.name_any());
    }
    settle_inventory(memory, &pruned);
    let lines = remaining(&pruned, &plan);
    let again = if lines.is_empty() {
        memory.prunes.succeeded();
        None
    } else {
        memory
            .prunes
            .again(attempted(memory, active), Retry::Soon, now);
        Some(memory.prunes.wait_at_most(MAX_DELAY, now))
    };
    Outcome {
        done: Some(Lines {
            removing: lines,
            released: release_lines(&pruned).collect(),
        }),
        again,
        ..Outcome::default()
    }
}

/// Returns the active revision, if objects of former revisions are to be pruned now.
pub(in crate::instance) fn due(status: &BundleInstanceStatus) -> Option<&RevisionStatus> {
    let newest = status.newest();
    let active = newest.filter(|newest| newest.state == RevisionState::Active)?;
    let is_due = status.applied_digest.is_some() && !status.removing.is_empty();
    is_due.then_some(active)
}

/// Returns what distinguishes an attempt from the next: an object that is gone, or a revision, starts another one at once.
fn attempted(memory: &Memory, active: &RevisionStatus) -> String {
    let count = memory.inventory.as_ref().map_or(0, BTreeMap::len);
    format!("prune {} {count} {}", active.number, memory.turn())
}

/// Returns the lines of what is still in the cluster after an attempt.
pub(in crate::instance) fn remaining(pruned: &Pruned, plan: &Plan) -> Vec<String> {
    let mut lines = removing(pruned);
    let has_ended = |identity: &_| {
        pruned.deleted.contains(identity)
            || pruned.released.contains_key(identity)
            || pruned.going.contains(identity)
            || pruned
                .failed
                .iter()
                .any(|failure| failure.identity == *identity)
    };
    let unbegun = plan.leaving.iter().map(|leaving| &leaving.identity);
    let unbegun = unbegun.filter(|identity| !has_ended(identity));
    lines.extend(lines_of(unbegun));
    lines.truncate(MAX_LISTED);
    lines
}

/// Deletes, and returns what was to be deleted, too.
async fn prune(
    instance: &BundleInstance,
    shared: &Shared,
    memory: &Memory,
    active: &RevisionStatus,
    record: Revision<RevisionDetails>,
) -> Result<(Pruned, Plan), String> {
    let ctx = &shared.ctx;
    let owner = owner(instance);
    let had = memory.inventory.clone().unwrap_or_default();
    let namespace = &record.header.namespace;
    let plan = install::plan(ctx, record.objects, &had, &owner, namespace).await;
    let plan = plan.map_err(|error| format!("the served APIs cannot be listed: {error}"))?;
    let client = ctx.accounts.client(active.service_account.as_ref());
    let apply = Apply {
        client: &client.map_err(|error| format!("no client can be made: {error}"))?,
        kinds: &ctx.kinds,
        concurrency: ctx.settings.concurrency,
        permits: &ctx.permits,
    };
    let policy = policy_of_upgrades(instance);
    let pruned = apply.prune(&plan.leaving, &owner, policy).await;
    Ok((pruned, plan))
}
