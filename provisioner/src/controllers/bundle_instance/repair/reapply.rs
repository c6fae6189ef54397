//! Repairs: drifted objects are applied again in the form that the live revisions record.

use std::collections::{BTreeMap, BTreeSet};

use apply::{
    api_error,
    field_conflicts::ConflictingManager,
    informers::InstanceView,
    plan::{ApplyStep, MissingKind, Plan},
    preflight::ownership::{self, ObjectOwner},
    revision::store,
    ssa::{AppliedObject, Applier, ApplyReport},
};
use kube::{Resource as _, runtime::events::EventType};
use manifests::{
    api::{
        bundle_instance::{
            BundleInstance, BundleInstanceStatus, RevisionStatus, ServiceAccountRef,
        },
        labels,
        owner::InstanceOwner,
    },
    object::Identity,
};
use tracing::info;

use super::{
    form::{Form, Forms, Steps},
    is_unknown, unusable,
};
use crate::controllers::bundle_instance::{
    apply_locks,
    outcome::{Failure, Remedy, RetryClass},
    revisions::{self, owner},
    rollout,
    state::{InstanceContext, InstanceState},
};

/// Maximum number of named objects in a line about a missing API.
const MAX_NAMED: usize = 10;

/// Drifted objects of one instance.
pub(super) struct DriftedObjects<'a> {
    pub(super) instance: &'a BundleInstance,
    pub(super) status: &'a BundleInstanceStatus,
    pub(super) objects: &'a [Identity],
    pub(super) view: &'a InstanceView,
}

/// Outcome of a repair.
#[derive(Default)]
pub(super) struct Repaired {
    /// Objects that are deferred from now on; `None` if the inventory has not changed.
    pub(super) changed: Option<Vec<String>>,
    /// Objects that could not be repaired, with the class of the delay until the next attempt.
    pub(super) failed: BTreeMap<Identity, RetryClass>,
    /// Failure with the messages about these objects.
    pub(super) failure: Option<Failure>,
    /// Number of a revision whose record cannot be used.
    pub(super) lost: Option<i64>,
}

/// The live revisions, read and planned.
struct Live {
    forms: Forms,
    /// Plan of the newest revision.
    plan: Plan,
    newest: Option<ServiceAccountRef>,
    older: Option<ServiceAccountRef>,
}

/// Applies objects again. A failure delays only the objects that depend on the failed one.
pub(super) async fn repair(
    drift: &DriftedObjects<'_>,
    shared: &InstanceContext,
    state: &mut InstanceState,
) -> Repaired {
    let owner = owner(drift.instance);
    let before = state.inventory.clone();
    let live = match read(drift, shared, state, &owner).await {
        Ok(Some(live)) => live,
        Ok(None) => {
            let failed = drift
                .objects
                .iter()
                .map(|identity| (identity.clone(), RetryClass::Backoff));
            return Repaired {
                failed: failed.collect(),
                ..Repaired::default()
            };
        }
        Err(repaired) => return *repaired,
    };
    let mut repaired = Repaired::default();
    let mut lines = Vec::new();
    let (mut newest, mut older) = (Vec::new(), Vec::new());
    for identity in drift.objects {
        let observed = drift.view.objects.get(identity);
        let entry = before.as_ref().and_then(|before| before.get(identity));
        let is_deleted = observed.is_none() && entry.is_some_and(|entry| entry.recreating);
        let hash = observed.and_then(|observed| observed.hash);
        match live.forms.form(identity, hash, is_deleted) {
            Form::Newest(step) => newest.push(step.clone()),
            Form::Older(step) => older.push(step.clone()),
            Form::Later => {}
            Form::Removed => forget_deleted(drift, state, &live.plan, identity),
        }
    }
    for (steps, account) in [(newest, &live.newest), (older, &live.older)] {
        if !steps.is_empty() {
            let outcome = apply(drift, shared, state, &owner, steps, account.as_ref()).await;
            lines.extend(outcome.lines);
            repaired.failed.extend(outcome.failed);
        }
    }

    // If an optional API is not served any longer, its objects are deferred again.
    let waits = drift.still_required(&live.plan.deferred);
    let waiting: BTreeSet<&Identity> = waits.iter().flat_map(|absent| &absent.needed_by).collect();
    if let Some(inventory) = state.inventory.as_mut()
        && !waiting.is_empty()
    {
        inventory.retain(|identity, _| !waiting.contains(identity));
        state.is_watched = false;
    }
    let missing = drift.still_required(&live.plan.missing);
    if !missing.is_empty() {
        let absent = live.plan.missing.iter().chain(&live.plan.deferred);
        state.await_apis(absent.map(rollout::api));
        lines.push(not_served(&missing));
        let needing = missing.into_iter().flat_map(|absent| absent.needed_by);
        repaired
            .failed
            .extend(needing.map(|identity| (identity, RetryClass::Soon)));
    }
    if !lines.is_empty() {
        let soonest = repaired.failed.values().min().copied();
        let retry = soonest.unwrap_or(RetryClass::Backoff);
        repaired.failure = Some(drift.failure(lines.join("\n"), retry));
    }
    if state.inventory != before {
        repaired.changed = Some(waits.iter().flat_map(rollout::waiting).collect());
    }
    repaired
}

/// Reads the live revisions. A record that cannot be used, or cannot be read now, is reported in the error.
async fn read(
    drift: &DriftedObjects<'_>,
    shared: &InstanceContext,
    state: &InstanceState,
    owner: &InstanceOwner,
) -> Result<Option<Live>, Box<Repaired>> {
    let mut live = drift.status.live();
    let Some(newest) = live.next() else {
        // An older provisioner recorded no revision, and the installed Bundle is missing, so none can be recorded.
        return Ok(None);
    };
    let older = live.find(|revision| {
        Some(revision.number) == drift.status.active().map(|active| active.number)
    });
    let mut plans = Vec::new();
    for revision in [Some(newest), older].into_iter().flatten() {
        let plan = planned(shared, state, owner, revision).await;
        plans.push(plan.map_err(|unread| Box::new(unread.repaired(drift, revision)))?);
    }
    let steps = |plan: &Plan| -> Steps {
        let steps = plan.steps.iter().cloned();
        steps.map(|step| (step.object.identity(), step)).collect()
    };
    let older_steps = older.and(plans.get(1)).map(steps);
    let plan = plans.swap_remove(0);
    let is_applied = drift.status.applied_digest.is_some();
    Ok(Some(Live {
        forms: Forms::new(steps(&plan), older_steps, is_applied, drift.view),
        plan,
        newest: newest.service_account.clone(),
        older: older.and_then(|older| older.service_account.clone()),
    }))
}

/// Error of reading the objects of a revision.
enum Unread {
    Record(store::Error),
    Discovery(kube::Error),
}

impl Unread {
    fn repaired(self, drift: &DriftedObjects<'_>, revision: &RevisionStatus) -> Repaired {
        let later = |message| drift.failure(message, RetryClass::Soon);
        let (failure, is_lost) = match self {
            Self::Record(error) if error.is_transient() => (later(error.to_string()), false),
            Self::Record(error) => (unusable(drift.status, &error), true),
            Self::Discovery(error) => {
                let error = api_error::chain(&error);
                let message = format!("failed to list the served APIs: {error}");
                (later(message), false)
            }
        };
        let failed = drift
            .objects
            .iter()
            .map(|identity| (identity.clone(), RetryClass::Soon));
        Repaired {
            failed: failed.collect(),
            failure: Some(failure),
            lost: is_lost.then_some(revision.number),
            ..Repaired::default()
        }
    }
}

async fn planned(
    shared: &InstanceContext,
    state: &InstanceState,
    owner: &InstanceOwner,
    revision: &RevisionStatus,
) -> Result<Plan, Unread> {
    let record = revisions::read(shared, owner, revision).await;
    let record = record.map_err(Unread::Record)?;
    let had = state.inventory.clone().unwrap_or_default();
    let namespace = &record.header.namespace;
    let plan = rollout::plan(&shared.ctx, record.objects, &had, owner, namespace).await;
    plan.map_err(Unread::Discovery)
}

/// Removes an object from the inventory if no live revision has it and it is deleted.
fn forget_deleted(
    drift: &DriftedObjects<'_>,
    state: &mut InstanceState,
    plan: &Plan,
    identity: &Identity,
) {
    let absent = plan.deferred.iter().chain(&plan.missing);
    let mut absent = absent.flat_map(|absent| &absent.needed_by);
    if drift.view.absent.contains(identity)
        && !absent.any(|absent| absent.kind == identity.kind && absent.name == identity.name)
        && let Some(inventory) = state.inventory.as_mut()
    {
        inventory.remove(identity);
        state.is_watched = false;
    }
}

/// Outcome of the repair of objects of one revision.
#[derive(Default)]
struct Outcome {
    lines: Vec<String>,
    failed: BTreeMap<Identity, RetryClass>,
}

impl Outcome {
    fn all(steps: &[ApplyStep], line: String, retry: RetryClass) -> Self {
        let identities = steps.iter().map(|step| step.object.identity());
        Self {
            lines: vec![line],
            failed: identities.map(|identity| (identity, retry)).collect(),
        }
    }
}

/// Applies objects except missing ones that another client has created again for another owner.
async fn apply(
    drift: &DriftedObjects<'_>,
    shared: &InstanceContext,
    state: &mut InstanceState,
    owner: &InstanceOwner,
    steps: Vec<ApplyStep>,
    account: Option<&ServiceAccountRef>,
) -> Outcome {
    let ctx = &shared.ctx;
    let client = match ctx.clients.client(account) {
        Ok(client) => client,
        Err(error) => {
            let error = api_error::chain(&error);
            let line = format!("failed to create a client: {error}");
            return Outcome::all(&steps, line, RetryClass::Soon);
        }
    };
    let is_present = |step: &ApplyStep| drift.view.objects.contains_key(&step.object.identity());
    let (mut present, absent): (Vec<ApplyStep>, Vec<ApplyStep>) =
        steps.into_iter().partition(is_present);
    let mut outcome = Outcome::default();
    let planned = absent.iter().map(|step| step.object.identity());
    let lock = shared.apply_locks.try_lock(&owner.name, planned);
    let taken = match &lock {
        Ok(_) => ownership::recheck(&client, &absent, owner, ctx.settings.concurrency)
            .await
            .map_err(|error| {
                let error = api_error::chain(&error);
                format!("failed to look up the missing objects: {error}")
            }),
        Err(others) => Err(apply_locks::conflict_message(others)),
    };
    match taken {
        Ok(taken) => {
            let is_free = |step: &ApplyStep| !taken.contains_key(&step.object.identity());
            present.extend(absent.into_iter().filter(is_free));
            if !taken.is_empty() {
                outcome.lines.push(released_to_others(&taken, owner));
            }
            let taken = taken
                .into_keys()
                .map(|identity| (identity, RetryClass::Backoff));
            outcome.failed.extend(taken);
        }
        Err(line) => outcome = Outcome::all(&absent, line, RetryClass::Soon),
    }
    let steps = present;
    let apply = Applier {
        client: &client,
        kinds: &ctx.discovery,
        concurrency: ctx.settings.concurrency,
        permits: &ctx.repair_permits,
    };
    let report = apply.repair(&steps).await;
    let is_confirmed = |identity: &Identity, applied: &AppliedObject| {
        let observed = drift.view.objects.get(identity);
        is_unknown(state, identity)
            && applied.forced_fields.is_empty()
            && observed.is_some_and(|observed| observed.fields == applied.fields)
    };
    let applied = report.applied.iter();
    let confirmed: BTreeSet<Identity> = applied
        .filter(|(identity, applied)| is_confirmed(identity, applied))
        .map(|(identity, _)| identity.clone())
        .collect();
    rollout::record_applied(drift.instance, shared, state, &steps, &report);
    drop(lock); // held until the objects are applied and recorded
    publish_repairs(drift, shared, state, &report, &confirmed).await;
    if !report.failed.is_empty() {
        outcome
            .lines
            .push(rollout::describe_rejections(&report.failed));
    }
    for step in &steps {
        let identity = step.object.identity();
        if !report.applied.contains_key(&identity) {
            let failures = report.failed.iter();
            let own: Vec<_> = failures
                .filter(|failure| failure.identity == identity)
                .cloned()
                .collect();
            // An object that depends on a failed one is tried again with it.
            let retry = if own.is_empty() {
                RetryClass::Soon
            } else {
                rollout::retry_class(&own)
            };
            outcome.failed.insert(identity, retry);
        }
    }
    outcome
}

/// Counts the repairs, records the field managers that made them necessary, and publishes events.
///
/// The objects in `confirmed` had not drifted, so that nothing is reported about them.
async fn publish_repairs(
    drift: &DriftedObjects<'_>,
    shared: &InstanceContext,
    state: &mut InstanceState,
    report: &ApplyReport,
    confirmed: &BTreeSet<Identity>,
) {
    let ctx = &shared.ctx;
    let now = (ctx.now)();
    let repaired = report.applied.iter();
    let repaired = repaired.filter(|(identity, _)| !confirmed.contains(*identity));
    ctx.metrics.repaired(repaired.clone().count() as u64);
    for (identity, applied) in repaired {
        info!(object = %identity, taken = applied.forced_fields.len(), "repaired");
        let observed = drift.view.objects.get(identity);
        let writer = observed.and_then(|observed| observed.writer.as_deref());
        let conflicting_managers = conflicting_managers(identity, applied, writer);
        let verdicts = state.conflicts.record_repair(conflicting_managers, now);
        let note = verdicts.first().map_or_else(
            || format!("repaired {identity}: it differed from the applied configuration"),
            ToString::to_string,
        );
        let instance = drift.instance.object_ref(&());
        ctx.events
            .publish(&instance, EventType::Normal, "Repaired", "Repair", &note)
            .await;
    }
}

fn not_served(missing: &[MissingKind]) -> String {
    let line = |absent: &MissingKind| {
        let needed_by = absent.needed_by.iter().take(MAX_NAMED);
        let needed_by: Vec<String> = needed_by.map(ToString::to_string).collect();
        format!(
            "required resource not found: no matches for kind {:?} in version {:?}, needed by {}; install its CRD or \
             API server",
            absent.kind,
            absent.api_version,
            needed_by.join(", ")
        )
    };
    missing.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn released_to_others(taken: &BTreeMap<Identity, ObjectOwner>, owner: &InstanceOwner) -> String {
    let line = |(identity, holder): (&Identity, &ObjectOwner)| match holder {
        ObjectOwner::None => format!(
            "{identity} was recreated by another client and is not owned by a BundleInstance; delete the object, or \
             adopt it with the annotation {}={}",
            labels::ADOPT,
            owner.name
        ),
        _ => format!(
            "{identity} is now owned by {holder}; remove it from one of the bundles, or delete the BundleInstance that \
             must not own it"
        ),
    };
    taken.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Returns the field managers that changed a repaired object: those of the conflicting fields, or else the last writer of
/// the object.
fn conflicting_managers(
    object: &Identity,
    applied: &AppliedObject,
    writer: Option<&str>,
) -> Vec<ConflictingManager> {
    let opponent = |field: &str, manager: &str| ConflictingManager {
        object: object.clone(),
        field: field.to_owned(),
        manager: manager.to_owned(),
    };
    if applied.forced_fields.is_empty() && !applied.scaler_fields.is_empty() {
        return Vec::new(); // the fields are left to a scaler
    }
    if applied.forced_fields.is_empty() {
        return vec![opponent("", writer.unwrap_or_default())];
    }
    let taken = applied.forced_fields.iter();
    taken
        .map(|taken| opponent(&taken.field, &taken.manager))
        .collect()
}

// === impl DriftedObjects ===

impl DriftedObjects<'_> {
    fn failure(&self, message: String, retry: RetryClass) -> Failure {
        Failure {
            bundle: self
                .status
                .installed_bundle_name
                .clone()
                .unwrap_or_default(),
            message,
            touched: false,
            retry,
            // The object was applied before, so that the cause is not the BundleInstance.
            remedy: Remedy::World,
        }
    }

    /// Returns the missing kinds that drifted objects need.
    fn still_required(&self, absent: &[MissingKind]) -> Vec<MissingKind> {
        let default = self.status.install_namespace.as_deref().unwrap_or_default();
        // The scope of a missing kind is unknown: a record may have no namespace, or one that the API server ignored.
        let is_same = |needed: &Identity, drifted: &Identity| {
            let namespace = drifted.namespace.as_str();
            (&needed.group, &needed.kind, &needed.name)
                == (&drifted.group, &drifted.kind, &drifted.name)
                && (namespace.is_empty()
                    || namespace == needed.namespace
                    || needed.namespace.is_empty() && namespace == default)
        };
        let needing = |absent: &MissingKind| {
            let is_needing = |drifted: &&Identity| {
                absent
                    .needed_by
                    .iter()
                    .any(|needed| is_same(needed, drifted))
            };
            let drifted = self.objects.iter();
            drifted.filter(is_needing).cloned().collect::<Vec<_>>()
        };
        absent
            .iter()
            .map(|absent| MissingKind {
                needed_by: needing(absent),
                ..absent.clone()
            })
            .filter(|absent| !absent.needed_by.is_empty())
            .collect()
    }
}

#[cfg(test)]
mod tests;
