//! Revisions of an instance: their records and their states.
//!
//! ```text
//! rendered objects ─ record ─► RollingOut ─ all applied and healthy, or the deadline ─► Active ─ a newer one ─► Archived
//! ```
//!
//! The status lists the revisions. Their objects are in Secrets ([`apply::revision::store`]), which are read for a repair,
//! a prune or a rollback, and never cached.

pub(super) mod inventory;

use std::time::Duration;

use apply::revision::{self, Encoded, Header, Revision, store};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use manifests::api::{
    bundle_instance::{
        BundleInstance, BundleInstanceSpec, BundleInstanceStatus, Cause, RevisionState,
        RevisionStatus, Rollback, ServiceAccountRef, ready,
    },
    condition,
    owner::InstanceOwner,
    revision::RevisionDetails,
};
use tracing::warn;

use super::{
    outcome::{HealthState, Outcome, RolledBack},
    rollout::Rendered,
    state::InstanceContext,
    template,
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

/// Records the Bundle and the configuration that rendered objects equal to those of the newest revision. An older live revision
/// of the same template gets the new template hash, too, so that the two revisions still differ only in their configuration.
pub(crate) fn rename(
    revisions: &mut [RevisionStatus],
    bundle: &str,
    template_hash: Option<&String>,
    configuration_hash: Option<String>,
) {
    let Some(newest) = newest_of(revisions) else {
        return;
    };
    bundle.clone_into(&mut newest.bundle);
    newest.configuration_hash = configuration_hash;
    let former = std::mem::replace(&mut newest.template_hash, template_hash.cloned());
    if former.is_none() {
        return;
    }
    for revision in revisions {
        if revision.is_live() && revision.template_hash == former {
            revision.template_hash = template_hash.cloned();
        }
    }
}

/// Reports whether the template of the instance failed and was rolled back.
pub(crate) fn is_given_up(instance: &BundleInstance, status: &BundleInstanceStatus) -> bool {
    let failed = status.failed_template_hash.as_ref();
    failed.is_some_and(|failed| *failed == template::hash(instance))
}

/// Returns the rollback in effect: a rollback created the newest revision, and `spec.rollbackTo` or a failed template still
/// requires the rollback. The record of the rollback may be lost while the template is given up. The target of the rollback is
/// then the newest revision of another template.
pub(crate) fn rollback(
    spec: &BundleInstanceSpec,
    status: &BundleInstanceStatus,
    is_given_up: bool,
) -> Option<RolledBack> {
    let failed = &status.failed_template_hash;
    let (to, number) = match status.newest() {
        Some(newest) => {
            let recorded = newest
                .rollback_of
                .filter(|_| newest.cause == Cause::Rollback);
            let is_older = is_given_up && newest.template_hash != *failed;
            let to = recorded.or(is_older.then_some(newest.number))?;
            (to, newest.number)
        }
        None if is_given_up => {
            let last = status.revisions.last().map_or(0, |last| last.number);
            (last, last)
        }
        None => return None,
    };
    let is_pinned = spec
        .rollback_to
        .is_some_and(|pinned| pinned == to || pinned == number);
    (is_pinned || failed.is_some()).then(|| RolledBack {
        template_hash: failed.clone(),
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
                warn!(number, %error, "skipped a revision number because another client uses the name of its Secret");
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
        configuration_hash: rendered.configuration_hash.clone(),
        digest: rendered.digest.clone(),
        checksum: encoded.checksum.clone(),
        parts: i64::try_from(encoded.parts.len()).unwrap_or(i64::MAX),
        service_account: rendered.account.clone(),
        created: Time(now),
        applied: None,
        resumed: None,
        removed_apis: rendered.removed_apis.clone(),
    }
}

/// Returns the cause of a revision that is created from a rendered Bundle. `is_same` reports that the newest revision comes from
/// this Bundle with the configuration of the spec.
pub(crate) fn cause(status: &BundleInstanceStatus, rendered: &Rendered, is_same: bool) -> Cause {
    let Some(newest) = status.newest() else {
        return match &status.installed_bundle_name {
            None => Cause::Install,
            Some(name) if *name == rendered.details.bundle.name => Cause::Configuration,
            Some(_) => Cause::Upgrade,
        };
    };
    let bundle = &rendered.details.bundle;
    // A Bundle that was created again, with the new content of a tag, has the same name.
    let has_other_content = status.installed.as_ref().is_some_and(|installed| {
        installed.name == bundle.name && installed.content_digest != bundle.content_digest
    });
    if newest.bundle != bundle.name || has_other_content {
        Cause::Upgrade
    } else if !is_same {
        Cause::Configuration
    } else if newest.state == RevisionState::RollingOut && status.applied_digest.is_none() {
        // Another rendering continues the interrupted rollout.
        match newest.cause {
            Cause::Rollback | Cause::Migration => Cause::Configuration,
            cause => cause,
        }
    } else {
        Cause::Platform
    }
}

/// Records that the newest revision may not have the configuration of the spec: a missing hash becomes an empty one, which
/// equals no other hash. Without a hash, an observed generation would count as the same configuration.
pub(crate) fn mark_changed(revisions: &mut [RevisionStatus]) {
    if let Some(newest) = newest_of(revisions) {
        newest.configuration_hash.get_or_insert_default();
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

/// Reports whether the newest revision of the template with this hash was given up, and the rollback to the active revision
/// has not started. The active revision remains active until then.
pub(crate) fn awaits_rollback(
    spec: &BundleInstanceSpec,
    status: &BundleInstanceStatus,
    hash: &str,
) -> bool {
    let newest = status.rolling_out();
    spec.rollback_to.is_none()
        && spec.rollback == Rollback::OnFailure
        && status.failed_template_hash.as_deref() == Some(hash)
        && status.active().is_some()
        && newest.is_some_and(|newest| newest.cause != Cause::Rollback)
}

/// Reports whether the only live revision is that of the failed template. The record of the previous revision was lost, so a
/// rollback is not possible.
pub(crate) fn has_lost_rollback_target(status: &BundleInstanceStatus) -> bool {
    let mut live = status.live();
    let newest = live.next().filter(|_| live.next().is_none());
    let failed = status.failed_template_hash.as_ref();
    newest.is_some_and(|newest| {
        newest.cause != Cause::Rollback
            && failed.is_some()
            && newest.template_hash.as_ref() == failed
    })
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

/// Restarts the deadline of the newest revision if the instance was paused, or if its class was unknown. Returns false if
/// neither applies, or if no revision is being rolled out.
pub(crate) fn restart_deadline(status: &mut BundleInstanceStatus, now: Timestamp) -> bool {
    let progressing = condition::find(&status.conditions, condition::PROGRESSING);
    let reasons = [condition::reason::PAUSED, condition::reason::UNKNOWN_CLASS];
    let was_left_alone =
        progressing.is_some_and(|progressing| reasons.contains(&progressing.reason.as_str()));
    let is_rolling_out = status.rolling_out().is_some();
    let newest = newest_of(&mut status.revisions);
    let Some(newest) = newest.filter(|_| was_left_alone && is_rolling_out) else {
        return false;
    };
    newest.resumed = Some(Time(now));
    true
}

/// Restarts the deadline of the newest revision if the clock was set back.
pub(crate) fn follow_clock(status: &mut BundleInstanceStatus, now: Timestamp) {
    let Some(newest) = newest_of(&mut status.revisions) else {
        return;
    };
    let starts = newest.state == RevisionState::RollingOut && newest.applied.is_none();
    let created = starts.then_some(&mut newest.created);
    let times = [newest.applied.as_mut(), newest.resumed.as_mut(), created];
    for time in times.into_iter().flatten() {
        time.0 = time.0.min(now);
    }
}

/// Returns the time until the progress deadline of a rollout; `None` without a deadline.
pub(crate) fn time_left(
    spec: &BundleInstanceSpec,
    revision: &RevisionStatus,
    now: Timestamp,
) -> Option<Duration> {
    Some(left(revision, ready::deadline(spec)?, now))
}

/// Returns the time until a rollout takes longer than a limit. The time starts when all objects are applied, and again at the end
/// of a pause. While some objects are not applied, it starts with the creation of the revision.
pub(crate) fn left(revision: &RevisionStatus, limit: Duration, now: Timestamp) -> Duration {
    let applied = revision.applied.as_ref().unwrap_or(&revision.created);
    let since = revision
        .resumed
        .as_ref()
        .map_or(applied.0, |resumed| resumed.0.max(applied.0));
    ready::left(since, limit, now)
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
