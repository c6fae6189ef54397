//! Revisions of an instance: their records and their states.
//!
//! ```text
//! rendered objects ─ record ─► RollingOut ─ all applied and healthy, or the deadline ─► Active ─ a newer one ─► Archived
//! ```
//!
//! The status lists the revisions. Their objects are in Secrets ([`apply::revision::store`]), which are read for a repair,
//! a prune or a rollback, and never cached.

use std::time::Duration;

use apply::inventory::{Entry, Inventory};
use apply::managed_fields::Fingerprint;
use apply::plan::{ApplyStep, Plan};
use apply::preflight::ownership;
use apply::revision::{self, Encoded, Header, Revision, store};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{Client, ResourceExt as _};
use manifests::api::bundle_instance::{
    BundleInstance, BundleInstanceSpec, BundleInstanceStatus, Cause, RevisionState, RevisionStatus,
    ServiceAccountRef, ready,
};
use manifests::api::owner::InstanceOwner;
use manifests::api::revision::RevisionDetails;
use manifests::object::{Identity, group_version};
use tracing::warn;

use super::{
    inventory_status,
    outcome::{HealthState, Outcome, RolledBack},
    rollout::{Rendered, plan, prune_candidates::leaves_early},
    state::InstanceContext,
};
use crate::{cluster::impersonation, controllers::context::Context};

/// Default of `spec.revisionHistoryLimit`.
const DEFAULT_HISTORY: i64 = 3;
/// Number of additional archived revisions that are retained while objects of former revisions remain.
const WITH_LEFTOVERS: usize = 5;
/// Maximum number of revision numbers that are skipped because other clients have taken the names of their Secrets.
const MAX_TAKEN: i64 = 8;

/// Returns the newest live revision of a list.
pub(crate) fn newest_of(revisions: &mut [RevisionStatus]) -> Option<&mut RevisionStatus> {
    let mut revisions = revisions.iter_mut().rev();
    revisions.find(|revision| revision.is_live())
}

/// Reports whether the status has lost the inventory of the installed objects.
pub(crate) fn is_index_lost(status: &BundleInstanceStatus) -> bool {
    status.inventory.is_none() && status.newest().is_some()
}

/// Reports whether all objects of a live revision were applied.
pub(crate) fn was_applied(status: &BundleInstanceStatus, revision: &RevisionStatus) -> bool {
    match revision.state {
        RevisionState::Active => true,
        RevisionState::RollingOut => status.applied_digest.is_some(),
        RevisionState::Archived => false,
    }
}

/// Adds the objects of a revision to an inventory. A record has no fingerprints, so applied objects get an unknown one and
/// are applied again.
pub(crate) fn index(inventory: &mut Inventory, plan: &Plan, is_applied: bool) {
    let fields = is_applied.then_some(Fingerprint::UNKNOWN);
    for step in &plan.steps {
        let (_, version) = group_version(step.object.api_version());
        // A newer revision, which is added first, may have another version.
        let entry = inventory.entry(step.object.identity());
        let entry = entry.or_insert_with(|| Entry {
            version: version.to_owned(),
            ..Entry::default()
        });
        entry.fields = entry.fields.or(fields);
    }
}

/// Returns the objects of a revision that the newest revision does not have. The newest one must be applied and in the
/// inventory already.
pub(crate) fn leftovers(
    rebuilt: &Rebuilt,
    status: &BundleInstanceStatus,
    revision: &RevisionStatus,
    plan: &Plan,
) -> Vec<Identity> {
    let newest = status.newest().map(|newest| newest.number);
    let is_older = newest != Some(revision.number);
    if !is_older || status.applied_digest.is_none() || rebuilt.unread.is_some() {
        return Vec::new();
    }
    let identities = plan.steps.iter().map(|step| step.object.identity());
    identities
        .filter(|identity| !rebuilt.inventory.contains_key(identity))
        .collect()
}

/// Inventory that was built from the records.
#[derive(Debug, Default)]
pub(crate) struct Rebuilt {
    /// Objects of the revisions, and those that the status lists.
    pub(crate) inventory: Inventory,
    /// Number of a live revision whose record cannot be used.
    pub(crate) unread: Option<i64>,
    /// Number of recorded objects that the inventory lacks since their API is not served.
    pub(crate) absent: usize,
    /// Objects that the newest revision lacks. Some may have been pruned early.
    pub(crate) leftovers: Vec<Identity>,
}

/// Builds an inventory from the records, for a status that has lost the inventory or lists only a part of it.
///
/// # Errors
/// Returns an error if the API server does not answer.
pub(crate) async fn rebuild_index(
    ctx: &Context,
    owner: &InstanceOwner,
    status: &BundleInstanceStatus,
) -> Result<Rebuilt, kube::Error> {
    let mut rebuilt = Rebuilt::default();
    for revision in status.indexed() {
        let store = store(ctx, owner);
        let record = match store.read::<RevisionDetails>(reference(revision)).await {
            Ok(record) => record,
            Err(store::Error::Request { source, .. }) => return Err(*source),
            Err(error) => {
                warn!(number = revision.number, %error, "failed to read the record of a revision; the inventory lacks its objects");
                if revision.is_live() {
                    rebuilt.unread = Some(revision.number);
                }
                continue;
            }
        };
        let namespace = &record.header.namespace;
        let empty = Inventory::new();
        let mut plan = plan(ctx, record.objects, &empty, owner, namespace).await?;
        let client = ctx.clients.client(revision.service_account.as_ref())?;
        leave_out_shared(ctx, &client, owner, &mut plan).await?;
        if status.applied_digest.is_some() && !rebuilt.inventory.is_empty() {
            leave_out_deleted(ctx, &client, &rebuilt.inventory, &mut plan).await?;
        }
        let needing = plan.missing.iter().map(|absent| absent.needed_by.len());
        rebuilt.absent += needing.sum::<usize>();
        let leftovers = leftovers(&rebuilt, status, revision, &plan);
        rebuilt.leftovers.extend(leftovers);
        index(&mut rebuilt.inventory, &plan, was_applied(status, revision));
    }
    add_listed(&mut rebuilt, status);
    Ok(rebuilt)
}

/// Removes the objects that a rollout uses unchanged from a plan: Namespaces and default ServiceAccounts of other owners.
///
/// # Errors
/// Returns an error if the API server does not answer.
pub(crate) async fn leave_out_shared(
    ctx: &Context,
    client: &Client,
    owner: &InstanceOwner,
    plan: &mut Plan,
) -> Result<(), kube::Error> {
    let concurrency = ctx.settings.concurrency;
    let shared = ownership::shared(client, &plan.steps, owner, concurrency).await?;
    plan.steps
        .retain(|step| !shared.contains(&step.object.identity()));
    Ok(())
}

/// Removes objects from the plan of an older revision that the rollout of a newer one deleted early.
async fn leave_out_deleted(
    ctx: &Context,
    client: &Client,
    newer: &Inventory,
    plan: &mut Plan,
) -> Result<(), kube::Error> {
    let may_leave = |step: &&ApplyStep| {
        let identity = step.object.identity();
        leaves_early(&identity) && !newer.contains_key(&identity)
    };
    let steps: Vec<&ApplyStep> = plan.steps.iter().filter(may_leave).collect();
    let absent = ownership::absent(client, &steps, ctx.settings.concurrency).await?;
    plan.steps
        .retain(|step| !absent.contains(&step.object.identity()));
    Ok(())
}

/// Adds the objects that the status lists to an inventory that was built from the records.
pub(crate) fn add_listed(rebuilt: &mut Rebuilt, status: &BundleInstanceStatus) {
    if let Some(listed) = &status.inventory {
        rebuilt
            .inventory
            .extend(inventory_status::parse(&listed.kinds));
    }
}

/// Adds objects that only ConfigMaps of an older provisioner list.
pub(crate) fn add_config_maps(rebuilt: &mut Rebuilt, read: Inventory) {
    for (identity, entry) in read {
        rebuilt.inventory.entry(identity).or_insert(entry);
    }
}

/// Returns the service account for watches and repairs of the installed objects. A changed `spec.serviceAccount` takes
/// effect once a revision was rolled out with it.
pub(crate) fn account<'a>(
    instance: &'a BundleInstance,
    status: &'a BundleInstanceStatus,
) -> Option<&'a ServiceAccountRef> {
    let rolled = status
        .rolling_out()
        .filter(|_| status.applied_digest.is_some());
    match rolled
        .or_else(|| status.active())
        .or_else(|| status.revisions.last())
    {
        Some(revision) => revision.service_account.as_ref(),
        None => instance.spec.service_account.as_ref(),
    }
}

/// Returns the rollback in effect: the newest revision comes from one, and `spec.rollbackTo` or a failed template still
/// requires it.
pub(crate) fn rollback(
    spec: &BundleInstanceSpec,
    status: &BundleInstanceStatus,
) -> Option<RolledBack> {
    let newest = status.newest()?;
    let to = newest
        .rollback_of
        .filter(|_| newest.cause == Cause::Rollback)?;
    let is_pinned = spec
        .rollback_to
        .is_some_and(|number| number == to || number == newest.number);
    (is_pinned || status.failed_template_hash.is_some()).then(|| RolledBack {
        template_hash: status.failed_template_hash.clone(),
        why: None,
        to,
    })
}

/// Returns the store of the records of an instance.
pub(crate) fn store<'a>(ctx: &'a Context, owner: &'a InstanceOwner) -> store::Store<'a> {
    store::Store {
        client: &ctx.client,
        namespace: &ctx.settings.system_namespace,
        owner,
    }
}

/// Reads the record of a revision.
///
/// # Errors
/// Returns an error if the record is missing or altered, or the API server does not answer.
pub(crate) async fn read(
    shared: &InstanceContext,
    owner: &InstanceOwner,
    revision: &RevisionStatus,
) -> Result<Revision<RevisionDetails>, store::Error> {
    store(&shared.ctx, owner).read(reference(revision)).await
}

fn reference(revision: &RevisionStatus) -> store::Reference<'_> {
    store::Reference {
        number: revision.number,
        parts: revision.parts,
        checksum: &revision.checksum,
    }
}

/// Error of recording a revision.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RecordError {
    /// The record is too large.
    #[error(transparent)]
    Encode(#[from] revision::EncodeError),
    /// A Secret cannot be written.
    #[error(transparent)]
    Store(#[from] store::Error),
}

/// Records a revision. The record is ignored until the status names the revision. If another client has taken the name of a
/// Secret, the number of the revision is skipped.
///
/// # Errors
/// Returns an error if the record is too large, or a Secret cannot be written.
pub(crate) async fn record(
    shared: &InstanceContext,
    owner: &InstanceOwner,
    status: &BundleInstanceStatus,
    rendered: &Rendered,
    why: (Cause, Option<i64>),
) -> Result<RevisionStatus, RecordError> {
    let store = store(&shared.ctx, owner);
    let first = status.revisions.last().map_or(0, |newest| newest.number) + 1;
    let mut number = first;
    loop {
        let encoded = encode(owner, number, rendered)?;
        match store.write(number, &encoded).await {
            Ok(()) => return Ok(listed(number, rendered, &encoded, why, (shared.ctx.now)())),
            Err(error @ store::Error::Taken { .. }) if number < first + MAX_TAKEN => {
                warn!(number, %error, "skipped the number of a revision; another client has taken the name of a Secret");
                let parts = i64::try_from(encoded.parts.len()).unwrap_or(i64::MAX);
                store.delete(number, parts).await?;
                number += 1;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Encodes the record of a revision.
///
/// # Errors
/// Returns an error if the record is too large.
pub(crate) fn encode(
    owner: &InstanceOwner,
    number: i64,
    rendered: &Rendered,
) -> Result<Encoded, revision::EncodeError> {
    let header = Header {
        owner: owner.uid.clone(),
        number,
        namespace: rendered.namespace.clone(),
        account: rendered.account.as_ref().map(impersonation::from_reference),
        details: &rendered.details,
    };
    revision::encode(&header, &rendered.objects)
}

/// Returns a recorded revision as the status lists it.
pub(crate) fn listed(
    number: i64,
    rendered: &Rendered,
    encoded: &Encoded,
    (cause, rollback_of): (Cause, Option<i64>),
    now: Timestamp,
) -> RevisionStatus {
    let details = &rendered.details;
    RevisionStatus {
        number,
        state: RevisionState::RollingOut,
        cause,
        rollback_of,
        version: details.facts.version.clone(),
        max_open_shift_version: details.facts.max_open_shift_version.clone(),
        bundle: details.bundle.name.clone(),
        template_hash: details.template_hash.clone(),
        digest: rendered.digest.clone(),
        checksum: encoded.checksum.clone(),
        parts: i64::try_from(encoded.parts.len()).unwrap_or(i64::MAX),
        service_account: rendered.account.clone(),
        created: Time(now),
        applied: None,
        removed_apis: rendered.removed_apis.clone(),
    }
}

/// Returns the cause of a revision that is created from a rendered Bundle.
pub(crate) fn cause(status: &BundleInstanceStatus, rendered: &Rendered) -> Cause {
    let Some(newest) = status.newest() else {
        return match &status.installed_bundle_name {
            None => Cause::Install,
            Some(name) if *name == rendered.details.bundle.name => Cause::Configuration,
            Some(_) => Cause::Upgrade,
        };
    };
    if newest.bundle != rendered.details.bundle.name {
        Cause::Upgrade
    } else if newest.service_account != rendered.account
        || status.observed().is_none()
        || !rendered.is_same_generation
    {
        Cause::Configuration
    } else {
        Cause::Platform
    }
}

/// Adds a revision, and archives an older one whose rollout has not ended.
pub(crate) fn add(revisions: &mut Vec<RevisionStatus>, revision: RevisionStatus) {
    for older in revisions.iter_mut() {
        if older.state == RevisionState::RollingOut {
            older.archive();
        }
    }
    revisions.push(revision);
}

/// Marks the newest revision as active, and the others as archived.
pub(crate) fn promote(status: &mut BundleInstanceStatus) {
    let newest = status.newest().map(|newest| newest.number);
    for revision in &mut status.revisions {
        if Some(revision.number) == newest {
            revision.state = RevisionState::Active;
        } else {
            revision.archive();
        }
    }
    status.previous_bundle_name = None;
    status.previous = None;
}

/// Reports whether a rollout ends with this outcome: every object is applied, and all are healthy or the deadline has
/// passed.
pub(crate) fn is_rolled_out(
    spec: &BundleInstanceSpec,
    status: &BundleInstanceStatus,
    outcome: &Outcome,
    now: Timestamp,
) -> bool {
    // Independent of an attempt to roll out a newer revision.
    let is_applied = status.applied_digest.is_some();
    let Some(revision) = status.rolling_out().filter(|_| is_applied) else {
        return false;
    };
    match &outcome.health {
        HealthState::Healthy => true,
        HealthState::Progressing(_) | HealthState::Failed(_) | HealthState::Unknown(_) => {
            time_left(spec, revision, now).is_some_and(|left| left.is_zero())
        }
        HealthState::NotObserved => false,
    }
}

/// Restarts the deadline of the newest revision if the clock was set back.
pub(crate) fn follow_clock(status: &mut BundleInstanceStatus, now: Timestamp) {
    let newest = newest_of(&mut status.revisions);
    if let Some(applied) = newest.and_then(|newest| newest.applied.as_mut()) {
        applied.0 = applied.0.min(now);
    }
}

/// Returns the time until the progress deadline of a rollout; `None` without a deadline.
pub(crate) fn time_left(
    spec: &BundleInstanceSpec,
    revision: &RevisionStatus,
    now: Timestamp,
) -> Option<Duration> {
    let since = revision.applied.as_ref().unwrap_or(&revision.created);
    Some(ready::left(since.0, ready::deadline(spec)?, now))
}

/// Returns the archived revisions that exceed the history limit, the oldest first. The limit is larger while objects of
/// former revisions may remain.
pub(crate) fn surplus(
    spec: &BundleInstanceSpec,
    status: &BundleInstanceStatus,
) -> Vec<RevisionStatus> {
    let limit = spec.revision_history_limit.unwrap_or(DEFAULT_HISTORY);
    let limit = usize::try_from(limit).unwrap_or_default().max(1);
    let archived = status
        .revisions
        .iter()
        .filter(|revision| revision.state == RevisionState::Archived);
    let may_have_leftovers = !status.removing.is_empty() || status.rolling_out().is_some();
    let limit = if may_have_leftovers {
        limit + WITH_LEFTOVERS
    } else {
        limit
    };
    let surplus = archived.clone().count().saturating_sub(limit);
    archived
        .filter(|revision| spec.rollback_to != Some(revision.number))
        .take(surplus)
        .cloned()
        .collect()
}

/// Deletes the records of revisions, and returns the numbers of the deleted ones.
pub(crate) async fn delete(
    shared: &InstanceContext,
    owner: &InstanceOwner,
    revisions: &[RevisionStatus],
) -> Vec<i64> {
    let mut deleted = Vec::new();
    for revision in revisions {
        match store(&shared.ctx, owner)
            .delete(revision.number, revision.parts)
            .await
        {
            Ok(()) => deleted.push(revision.number),
            Err(error) => {
                warn!(number = revision.number, %error, "failed to delete a revision; retrying");
            }
        }
    }
    deleted
}

/// Deletes all records, including that of the next revision, whose writer may have been killed before the status named it.
/// If the status of an older provisioner names no revision, the garbage collector deletes the records with the instance.
///
/// # Errors
/// Returns an error if a Secret cannot be deleted.
pub(crate) async fn delete_all(
    shared: &InstanceContext,
    owner: &InstanceOwner,
    status: &BundleInstanceStatus,
) -> Result<(), store::Error> {
    let store = store(&shared.ctx, owner);
    for revision in &status.revisions {
        store.delete(revision.number, revision.parts).await?;
    }
    let newest = status.revisions.last().map_or(0, |newest| newest.number);
    store.delete_stray(newest + 1).await
}

/// Returns the owner of an instance's objects.
pub(crate) fn owner(instance: &BundleInstance) -> InstanceOwner {
    InstanceOwner {
        name: instance.name_any(),
        uid: instance.uid().unwrap_or_default(),
    }
}

#[cfg(test)]
pub(crate) mod tests;
