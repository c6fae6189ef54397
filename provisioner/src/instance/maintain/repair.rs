//! Repairs: objects are applied again as the live revisions record them.

use std::collections::{BTreeMap, BTreeSet};

use apply::{
    drift::fights::Opponent,
    informers::View,
    plan::{Absent, Plan, Step},
    preflight::ownership::{self, Holder},
    revision::store,
    ssa::{Applied, Apply, Report},
};
use kube::{Resource as _, runtime::events::EventType};
use manifests::{
    api::{
        holder::Owner,
        instance::{BundleInstance, BundleInstanceStatus, RevisionStatus, ServiceAccountRef},
        labels,
    },
    object::Identity,
};
use tracing::info;

use super::{
    form::{Form, Forms, Steps},
    is_unknown, unusable,
};
use crate::instance::{
    claims, install,
    memory::{Memory, Shared},
    outcome::{Failure, Remedy, Retry},
    revisions::{self, owner},
};

/// How many objects a line names that need the same API.
const MOST_NAMED: usize = 10;

/// What drifted, of which instance.
pub(super) struct Drift<'a> {
    pub(super) instance: &'a BundleInstance,
    pub(super) status: &'a BundleInstanceStatus,
    pub(super) objects: &'a [Identity],
    pub(super) view: &'a View,
}

/// The outcome of a repair.
#[derive(Default)]
pub(super) struct Repaired {
    /// Which objects wait for an API from now on, if the inventory has changed.
    pub(super) changed: Option<Vec<String>>,
    /// The objects that could not be repaired, and when to try again.
    pub(super) failed: BTreeMap<Identity, Retry>,
    /// Why.
    pub(super) failure: Option<Failure>,
    /// The number of a revision whose record cannot be used.
    pub(super) lost: Option<i64>,
}

/// The live revisions, read and planned.
struct Live {
    forms: Forms,
    /// Of the newest revision.
    plan: Plan,
    newest: Option<ServiceAccountRef>,
    older: Option<ServiceAccountRef>,
}

/// Applies objects again. One that fails holds up only what depends on it.
pub(super) async fn repair(drift: &Drift<'_>, shared: &Shared, memory: &mut Memory) -> Repaired {
    let owner = owner(drift.instance);
    let before = memory.inventory.clone();
    let live = match read(drift, shared, memory, &owner).await {
        Ok(Some(live)) => live,
        Ok(None) => {
            let failed = drift.objects.iter().map(|it| (it.clone(), Retry::Slowly));
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
        let seen = drift.view.objects.get(identity);
        let entry = before.as_ref().and_then(|before| before.get(identity));
        let is_deleted = seen.is_none() && entry.is_some_and(|entry| entry.recreating);
        let hash = seen.and_then(|seen| seen.hash);
        match live.forms.form(identity, hash, is_deleted) {
            Form::Newest(step) => newest.push(step.clone()),
            Form::Older(step) => older.push(step.clone()),
            Form::Later => {}
            Form::Gone => forget(drift, memory, &live.plan, identity),
        }
    }
    for (steps, account) in [(newest, &live.newest), (older, &live.older)] {
        if !steps.is_empty() {
            let outcome = apply(drift, shared, memory, &owner, steps, account.as_ref()).await;
            lines.extend(outcome.lines);
            repaired.failed.extend(outcome.failed);
        }
    }

    // An optional API is gone: its objects wait again.
    let waits = drift.needed_now(&live.plan.waiting);
    let waiting: BTreeSet<&Identity> = waits.iter().flat_map(|absent| &absent.needed_by).collect();
    if let Some(inventory) = memory.inventory.as_mut()
        && !waiting.is_empty()
    {
        inventory.retain(|identity, _| !waiting.contains(identity));
        memory.is_watched = false;
    }
    let missing = drift.needed_now(&live.plan.missing);
    if !missing.is_empty() {
        let absent = live.plan.missing.iter().chain(&live.plan.waiting);
        memory.await_apis(absent.map(install::api));
        lines.push(not_served(&missing));
        let needing = missing.into_iter().flat_map(|absent| absent.needed_by);
        repaired
            .failed
            .extend(needing.map(|identity| (identity, Retry::Soon)));
    }
    if !lines.is_empty() {
        let soonest = repaired.failed.values().min().copied();
        let retry = soonest.unwrap_or(Retry::Slowly);
        repaired.failure = Some(drift.failure(lines.join("\n"), retry));
    }
    if memory.inventory != before {
        repaired.changed = Some(waits.iter().flat_map(install::waiting).collect());
    }
    repaired
}

/// Reads the live revisions. A record that cannot be used is reported; so is one that cannot be read now.
async fn read(
    drift: &Drift<'_>,
    shared: &Shared,
    memory: &Memory,
    owner: &Owner,
) -> Result<Option<Live>, Box<Repaired>> {
    let mut live = drift.status.live();
    let Some(newest) = live.next() else {
        // An older provisioner recorded no revision, and the installed Bundle is not there to record one.
        return Ok(None);
    };
    let older = live.find(|revision| {
        Some(revision.number) == drift.status.active().map(|active| active.number)
    });
    let mut plans = Vec::new();
    for revision in [Some(newest), older].into_iter().flatten() {
        let plan = planned(shared, memory, owner, revision).await;
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

/// The reason why the objects of a revision are not known.
enum Unread {
    Record(store::Error),
    Discovery(kube::Error),
}

impl Unread {
    fn repaired(self, drift: &Drift<'_>, revision: &RevisionStatus) -> Repaired {
        let later = |message| drift.failure(message, Retry::Soon);
        let (failure, is_lost) = match self {
            Self::Record(error) if error.is_transient() => (later(error.to_string()), false),
            Self::Record(error) => (unusable(drift.status, &error), true),
            Self::Discovery(error) => (
                later(format!("the served APIs cannot be listed: {error}")),
                false,
            ),
        };
        let failed = drift
            .objects
            .iter()
            .map(|identity| (identity.clone(), Retry::Soon));
        Repaired {
            failed: failed.collect(),
            failure: Some(failure),
            lost: is_lost.then_some(revision.number),
            ..Repaired::default()
        }
    }
}

async fn planned(
    shared: &Shared,
    memory: &Memory,
    owner: &Owner,
    revision: &RevisionStatus,
) -> Result<Plan, Unread> {
    let record = revisions::read(shared, owner, revision).await;
    let record = record.map_err(Unread::Record)?;
    let had = memory.inventory.clone().unwrap_or_default();
    let namespace = &record.header.namespace;
    let plan = install::plan(&shared.ctx, record.objects, &had, owner, namespace).await;
    plan.map_err(Unread::Discovery)
}

/// Forgets an object that no live revision has, once it is gone.
fn forget(drift: &Drift<'_>, memory: &mut Memory, plan: &Plan, identity: &Identity) {
    let absent = plan.waiting.iter().chain(&plan.missing);
    let mut absent = absent.flat_map(|absent| &absent.needed_by);
    if drift.view.absent.contains(identity)
        && !absent.any(|absent| absent.kind == identity.kind && absent.name == identity.name)
        && let Some(inventory) = memory.inventory.as_mut()
    {
        inventory.remove(identity);
        memory.is_watched = false;
    }
}

/// The outcome of the objects of one revision.
#[derive(Default)]
struct Outcome {
    lines: Vec<String>,
    failed: BTreeMap<Identity, Retry>,
}

impl Outcome {
    fn all(steps: &[Step], line: String, retry: Retry) -> Self {
        let identities = steps.iter().map(|step| step.object.identity());
        Self {
            lines: vec![line],
            failed: identities.map(|identity| (identity, retry)).collect(),
        }
    }
}

/// Applies objects, save what vanished and belongs to another owner by now.
async fn apply(
    drift: &Drift<'_>,
    shared: &Shared,
    memory: &mut Memory,
    owner: &Owner,
    steps: Vec<Step>,
    account: Option<&ServiceAccountRef>,
) -> Outcome {
    let ctx = &shared.ctx;
    let client = match ctx.accounts.client(account) {
        Ok(client) => client,
        Err(error) => {
            return Outcome::all(
                &steps,
                format!("no client can be made: {error}"),
                Retry::Soon,
            );
        }
    };
    let is_present = |step: &Step| drift.view.objects.contains_key(&step.object.identity());
    let (mut present, absent): (Vec<Step>, Vec<Step>) = steps.into_iter().partition(is_present);
    let mut outcome = Outcome::default();
    let planned = absent.iter().map(|step| step.object.identity());
    let claim = shared.claims.claim(&owner.name, planned);
    let taken = match &claim {
        Ok(_) => ownership::taken(&client, &absent, owner, ctx.settings.concurrency)
            .await
            .map_err(|error| format!("what vanished cannot be looked up: {error}")),
        Err(others) => Err(claims::refusal(others)),
    };
    match taken {
        Ok(taken) => {
            let is_free = |step: &Step| !taken.contains_key(&step.object.identity());
            present.extend(absent.into_iter().filter(is_free));
            if !taken.is_empty() {
                outcome.lines.push(given_away(&taken, owner));
            }
            let taken = taken.into_keys().map(|identity| (identity, Retry::Slowly));
            outcome.failed.extend(taken);
        }
        Err(line) => outcome = Outcome::all(&absent, line, Retry::Soon),
    }
    let steps = present;
    let apply = Apply {
        client: &client,
        kinds: &ctx.kinds,
        concurrency: ctx.settings.concurrency,
        permits: &ctx.repair_permits,
    };
    let report = apply.repair(&steps).await;
    let is_confirmed = |identity: &Identity, applied: &Applied| {
        let seen = drift.view.objects.get(identity);
        is_unknown(memory, identity)
            && applied.taken.is_empty()
            && seen.is_some_and(|seen| seen.fields == applied.fields)
    };
    let applied = report.applied.iter();
    let confirmed: BTreeSet<Identity> = applied
        .filter(|(identity, applied)| is_confirmed(identity, applied))
        .map(|(identity, _)| identity.clone())
        .collect();
    install::take_over(drift.instance, shared, memory, &steps, &report);
    drop(claim); // held until here
    publish_repairs(drift, shared, memory, &report, &confirmed).await;
    if !report.failed.is_empty() {
        outcome.lines.push(install::refusals(&report.failed));
    }
    for step in &steps {
        let identity = step.object.identity();
        if !report.applied.contains_key(&identity) {
            let failures = report.failed.iter();
            let own: Vec<_> = failures
                .filter(|failure| failure.identity == identity)
                .cloned()
                .collect();
            // What depends on a failed object is tried again with it.
            let retry = if own.is_empty() {
                Retry::Soon
            } else {
                install::retry(&own)
            };
            outcome.failed.insert(identity, retry);
        }
    }
    outcome
}

/// Counts the repairs, records the field managers that made them necessary, and publishes Events.
///
/// The objects in `confirmed` were as declared already, so that nothing is reported about these.
async fn publish_repairs(
    drift: &Drift<'_>,
    shared: &Shared,
    memory: &mut Memory,
    report: &Report,
    confirmed: &BTreeSet<Identity>,
) {
    let ctx = &shared.ctx;
    let now = (ctx.now)();
    let repaired = report.applied.iter();
    let repaired = repaired.filter(|(identity, _)| !confirmed.contains(*identity));
    ctx.metrics.repaired(repaired.clone().count() as u64);
    for (identity, applied) in repaired {
        info!(object = %identity, taken = applied.taken.len(), "repaired");
        let seen = drift.view.objects.get(identity);
        let writer = seen.and_then(|seen| seen.writer.as_deref());
        let opponents = opponents(identity, applied, writer);
        let verdicts = memory.fights.repaired(opponents, now);
        let note = verdicts.first().map_or_else(
            || format!("{identity} was not as declared, and was applied again"),
            ToString::to_string,
        );
        let instance = drift.instance.object_ref(&());
        ctx.events
            .publish(&instance, EventType::Normal, "Repaired", "Repair", &note)
            .await;
    }
}

fn not_served(missing: &[Absent]) -> String {
    let line = |absent: &Absent| {
        let needed_by = absent.needed_by.iter().take(MOST_NAMED);
        let needed_by: Vec<String> = needed_by.map(ToString::to_string).collect();
        format!(
            "required resource not found: no matches for kind {:?} in version {:?}, needed by {}; install what serves it",
            absent.kind,
            absent.api_version,
            needed_by.join(", ")
        )
    };
    missing.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn given_away(taken: &BTreeMap<Identity, Holder>, owner: &Owner) -> String {
    let line = |(identity, holder): (&Identity, &Holder)| match holder {
        Holder::Nobody => format!(
            "{identity} was created again by another client, and belongs to no BundleInstance; delete the object, or annotate \
             the object with {}={}",
            labels::ADOPT,
            owner.name
        ),
        _ => format!(
            "{identity} belongs to {holder} now; remove it from one of the bundles, or delete the one that should not have it"
        ),
    };
    taken.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Who had changed an object that was repaired: the fields say it themselves, or else whoever wrote it last.
fn opponents(object: &Identity, applied: &Applied, writer: Option<&str>) -> Vec<Opponent> {
    let opponent = |field: &str, manager: &str| Opponent {
        object: object.clone(),
        field: field.to_owned(),
        manager: manager.to_owned(),
    };
    if applied.taken.is_empty() && !applied.yielded.is_empty() {
        return Vec::new(); // a scaler has its way
    }
    if applied.taken.is_empty() {
        return vec![opponent("", writer.unwrap_or_default())];
    }
    let taken = applied.taken.iter();
    taken
        .map(|taken| opponent(&taken.field, &taken.manager))
        .collect()
}

// === impl Drift ===

impl Drift<'_> {
    fn failure(&self, message: String, retry: Retry) -> Failure {
        Failure {
            bundle: self
                .status
                .installed_bundle_name
                .clone()
                .unwrap_or_default(),
            message,
            touched: false,
            retry,
            // The object was applied before, so that the obstacle is elsewhere.
            remedy: Remedy::World,
        }
    }

    /// Those that something drifted needs.
    fn needed_now(&self, absent: &[Absent]) -> Vec<Absent> {
        let needing = |absent: &Absent| {
            let needed_by = absent.needed_by.iter();
            needed_by
                .filter(|identity| self.objects.contains(identity))
                .cloned()
                .collect::<Vec<_>>()
        };
        absent
            .iter()
            .map(|absent| Absent {
                needed_by: needing(absent),
                ..absent.clone()
            })
            .filter(|absent| !absent.needed_by.is_empty())
            .collect()
    }
}
