//! The revisions of an instance: which are live, how they are recorded, and when they end.
//!
//! ```text
//!  rendered objects ─ record ─► RollingOut ─ all applied and healthy, or the deadline ─► Active ─ a newer one ─► Archived
//! ```
//!
//! The status lists the revisions; their objects are in Secrets ([`apply::revision::store`]), which are read when an object
//! has to be repaired, pruned or rolled back, and never cached.

use std::time::Duration;

use apply::{
    drift::Fingerprint,
    inventory::{Entry, Inventory},
    plan::{Plan, Step},
    preflight::ownership,
    revision::{self, Encoded, Header, Revision, store},
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{Client, ResourceExt as _};
use manifests::{
    api::{
        holder::Owner,
        instance::{
            BundleInstance, BundleInstanceSpec, BundleInstanceStatus, Cause, RevisionState,
            RevisionStatus, ServiceAccountRef, ready,
        },
        revision::RevisionDetails,
    },
    object::{Identity, group_version},
};
use tracing::warn;

use super::{
    index,
    install::{Rendered, leaving::leaves_early, plan},
    memory::Shared,
    outcome::{Health, Outcome, RolledBack},
};
use crate::{account, context::Context};

/// How many archived revisions are kept unless the spec says otherwise.
const DEFAULT_HISTORY: i64 = 3;
/// The number of more archived revisions are kept while objects of former revisions remain.
const WITH_LEFTOVERS: usize = 5;
/// The number of revision numbers that are skipped because other clients have taken the names of their Secrets.
const MAX_TAKEN: i64 = 8;

/// Returns the newest live revision of a list.
pub(super) fn newest_of(revisions: &mut [RevisionStatus]) -> Option<&mut RevisionStatus> {
    let mut revisions = revisions.iter_mut().rev();
    revisions.find(|revision| revision.is_live())
}

/// Reports whether the status has lost the index of the installed objects.
pub(super) fn is_index_lost(status: &BundleInstanceStatus) -> bool {
    status.inventory.is_none() && status.newest().is_some()
}

/// Reports whether all objects of a revision were applied, and are still to be installed.
pub(super) fn was_applied(status: &BundleInstanceStatus, revision: &RevisionStatus) -> bool {
    match revision.state {
        RevisionState::Active => true,
        RevisionState::RollingOut => status.applied_digest.is_some(),
        RevisionState::Archived => false,
    }
}

/// Adds the objects of a revision to an inventory. A record has no fingerprints, so that applied objects are applied again.
pub(super) fn index(inventory: &mut Inventory, plan: &Plan, is_applied: bool) {
    let fields = is_applied.then_some(Fingerprint::UNKNOWN);
    for step in &plan.steps {
        let (_, version) = group_version(step.object.api_version());
        // A newer revision may have another version.
        let entry = inventory.entry(step.object.identity());
        let entry = entry.or_insert_with(|| Entry {
            version: version.to_owned(),
            ..Entry::default()
        });
        entry.fields = entry.fields.or(fields);
    }
}

/// Returns the objects of a revision that a newer one, which is applied and indexed already, has no more.
pub(super) fn leftovers(
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

/// An index that was built from the records.
#[derive(Debug, Default)]
pub(super) struct Rebuilt {
    /// The objects of the revisions, and those that the status lists.
    pub(super) inventory: Inventory,
    /// A live revision whose record cannot be used.
    pub(super) unread: Option<i64>,
    /// The number of recorded objects whose API is not served: the inventory lacks these.
    pub(super) absent: usize,
    /// The objects that the newest revision lacks. Some may have been pruned early.
    pub(super) leftovers: Vec<Identity>,
}

/// Builds an inventory from the records: the status has lost the inventory, or lists only a part of it.
///
/// # Errors
/// Returns an error if the API server does not answer.
pub(super) async fn rebuild_index(
    ctx: &Context,
    owner: &Owner,
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
        let nothing = Inventory::new();
        let mut plan = plan(ctx, record.objects, &nothing, owner, namespace).await?;
        let client = ctx.accounts.client(revision.service_account.as_ref())?;
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

/// Removes objects from a plan that a rollout uses as they are: Namespaces and default ServiceAccounts of other clients.
///
/// # Errors
/// Returns an error if the API server does not answer.
pub(super) async fn leave_out_shared(
    ctx: &Context,
    client: &Client,
    owner: &Owner,
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
    let may_leave = |step: &&Step| {
        let identity = step.object.identity();
        leaves_early(&identity) && !newer.contains_key(&identity)
    };
    let steps: Vec<&Step> = plan.steps.iter().filter(may_leave).collect();
    let absent = ownership::absent(client, &steps, ctx.settings.concurrency).await?;
    plan.steps
        .retain(|step| !absent.contains(&step.object.identity()));
    Ok(())
}

/// Adds what the status lists of an index that was built from the records.
pub(super) fn add_listed(rebuilt: &mut Rebuilt, status: &BundleInstanceStatus) {
    if let Some(listed) = &status.inventory {
        rebuilt.inventory.extend(index::parse(&listed.kinds));
    }
}

/// Adds objects that only ConfigMaps of an older provisioner list.
pub(super) fn add_config_maps(rebuilt: &mut Rebuilt, read: Inventory) {
    for (identity, entry) in read {
        rebuilt.inventory.entry(identity).or_insert(entry);
    }
}

/// Returns the account that the installed objects are watched and repaired with: a changed `spec.serviceAccount` counts once
/// a revision was rolled out with it.
pub(super) fn account<'a>(
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

/// Returns the rollback that is in effect: the newest revision came from one, and its reason still holds.
pub(super) fn rollback(
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

/// Returns where the records of an instance are.
pub(super) fn store<'a>(ctx: &'a Context, owner: &'a Owner) -> store::Store<'a> {
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
pub(super) async fn read(
    shared: &Shared,
    owner: &Owner,
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

/// The reason why a revision cannot be recorded.
#[derive(Debug, thiserror::Error)]
pub(super) enum RecordError {
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
pub(super) async fn record(
    shared: &Shared,
    owner: &Owner,
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
pub(super) fn encode(
    owner: &Owner,
    number: i64,
    rendered: &Rendered,
) -> Result<Encoded, revision::EncodeError> {
    let header = Header {
        owner: owner.uid.clone(),
        number,
        namespace: rendered.namespace.clone(),
        account: rendered.account.as_ref().map(account::from_reference),
        details: &rendered.details,
    };
    revision::encode(&header, &rendered.objects)
}

/// Returns a recorded revision as the status lists it.
pub(super) fn listed(
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

/// Returns why a revision is created from a rendered Bundle.
pub(super) fn cause(status: &BundleInstanceStatus, rendered: &Rendered) -> Cause {
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

/// Adds a revision. An older one whose rollout has not ended is superseded.
pub(super) fn add(revisions: &mut Vec<RevisionStatus>, revision: RevisionStatus) {
    for older in revisions.iter_mut() {
        if older.state == RevisionState::RollingOut {
            older.archive();
        }
    }
    revisions.push(revision);
}

/// Marks the newest revision as active, and the others as archived.
pub(super) fn promote(status: &mut BundleInstanceStatus) {
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

/// Reports whether a rollout ends with this outcome: every object is applied, and healthy or late.
pub(super) fn is_rolled_out(
    spec: &BundleInstanceSpec,
    status: &BundleInstanceStatus,
    outcome: &Outcome,
    now: Timestamp,
) -> bool {
    // Whatever became of an attempt at a newer one.
    let is_applied = status.applied_digest.is_some();
    let Some(revision) = status.rolling_out().filter(|_| is_applied) else {
        return false;
    };
    match &outcome.health {
        Health::Healthy => true,
        Health::Progressing(_) | Health::Failed(_) | Health::Unknown(_) => {
            time_left(spec, revision, now).is_some_and(|left| left.is_zero())
        }
        Health::NotLooked => false,
    }
}

/// Starts the deadline of the newest revision again if the clock was set back since.
pub(super) fn follow_clock(status: &mut BundleInstanceStatus, now: Timestamp) {
    let newest = newest_of(&mut status.revisions);
    if let Some(applied) = newest.and_then(|newest| newest.applied.as_mut()) {
        applied.0 = applied.0.min(now);
    }
}

/// Returns how long the objects of a rollout may still take; `None` without a limit.
pub(super) fn time_left(
    spec: &BundleInstanceSpec,
    revision: &RevisionStatus,
    now: Timestamp,
) -> Option<Duration> {
    let since = revision.applied.as_ref().unwrap_or(&revision.created);
    Some(ready::left(since.0, ready::deadline(spec)?, now))
}

/// Returns the archived revisions that exceed the history, the oldest first. As long as objects of former revisions may remain,
/// some more are recorded.
pub(super) fn surplus(
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

/// Deletes the records of revisions, and returns the numbers of those that are gone.
pub(super) async fn delete(
    shared: &Shared,
    owner: &Owner,
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

/// Deletes all records, also the next one: its writer may have been killed before the status named it. What an older
/// provisioner has left, whose status names no revision, the garbage collector removes with the instance.
///
/// # Errors
/// Returns an error if a Secret cannot be deleted.
pub(super) async fn delete_all(
    shared: &Shared,
    owner: &Owner,
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
pub(super) fn owner(instance: &BundleInstance) -> Owner {
    Owner {
        name: instance.name_any(),
        uid: instance.uid().unwrap_or_default(),
    }
}

#[cfg(test)]
pub(super) mod tests;
