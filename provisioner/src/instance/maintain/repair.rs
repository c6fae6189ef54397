//! Applying some objects again.

use std::collections::{BTreeMap, BTreeSet};

use kube::{Client, Resource as _, ResourceExt as _, runtime::events::EventType};
use manifests::{
    api::{
        bundle::Bundle,
        instance::{BundleInstance, BundleInstanceSpec},
    },
    object::Identity,
};
use tracing::info;

use crate::{
    apply::{Applied, Apply, Report},
    drift::fights::Opponent,
    instance::{
        claims::{self, Claim},
        install,
        memory::{Memory, Shared},
        outcome::{Failure, Retry},
        reconcile::owner,
    },
    plan::{Absent, Plan, Step},
    preflight::ownership::{self, Holder},
    watches::View,
};

/// How many objects a line names that need the same API.
const MOST_NAMED: usize = 10;

/// What drifted, of which instance.
pub(super) struct Drift<'a> {
    pub(super) instance: &'a BundleInstance,
    /// What the bundle was converted for.
    pub(super) spec: &'a BundleInstanceSpec,
    pub(super) bundle: &'a Bundle,
    pub(super) objects: &'a [Identity],
    pub(super) view: &'a View,
}

/// Applies some objects again; when that has changed the inventory, tells which objects wait for an API from now on.
pub(super) async fn repair(
    drift: &Drift<'_>,
    shared: &Shared,
    memory: &mut Memory,
) -> Result<Option<Vec<String>>, Failure> {
    let ctx = &shared.ctx;
    let before = memory.inventory.clone();
    let Prepared {
        client,
        plan,
        taken,
        claim,
    } = prepare(drift, shared, memory).await?;
    let apply = Apply {
        client: &client,
        kinds: &ctx.kinds,
        concurrency: ctx.settings.concurrency,
        permits: &shared.ctx.permits,
    };
    let report = apply.run(&plan.steps).await;
    install::take_over(drift.instance, shared, memory, &plan, &report);
    drop(claim); // held until here
    tell(drift, shared, memory, &report).await;

    // An optional API is gone: its objects wait again.
    let waits = drift.needed_now(&plan.waiting);
    let waiting: BTreeSet<&Identity> = waits.iter().flat_map(|absent| &absent.needed_by).collect();
    if let Some(inventory) = memory.inventory.as_mut()
        && !waiting.is_empty()
    {
        inventory.retain(|identity, _| !waiting.contains(identity));
        memory.is_watched = false;
    }
    let missing = drift.needed_now(&plan.missing);
    if !missing.is_empty() {
        memory.misses_apis(true);
        return Err(drift.failure(not_served(&missing), Retry::Soon));
    }
    if !report.failed.is_empty() {
        let message = install::refusals(&report.failed);
        return Err(Failure {
            touched: !report.applied.is_empty(),
            ..drift.failure(message, install::retry(&report.failed))
        });
    }
    if !taken.is_empty() {
        return Err(drift.failure(given_away(&taken), Retry::Slowly));
    }
    let is_changed = memory.inventory != before;
    Ok(is_changed.then(|| waits.iter().flat_map(install::waiting).collect()))
}

/// What is about to be applied.
struct Prepared<'a> {
    client: Client,
    plan: Plan,
    /// What is somebody else's by now, and whose.
    taken: BTreeMap<Identity, Holder>,
    claim: Claim<'a>,
}

/// Plans what drifted, save what vanished and was given to somebody else.
async fn prepare<'a>(
    drift: &Drift<'_>,
    shared: &'a Shared,
    memory: &Memory,
) -> Result<Prepared<'a>, Failure> {
    let ctx = &shared.ctx;
    let soon =
        |what: &str, error: kube::Error| drift.failure(format!("{what}: {error}"), Retry::Soon);
    let owner = owner(drift.instance);
    let client = ctx
        .accounts
        .client(drift.instance.spec.service_account.as_ref())
        .map_err(|error| soon("no client can be made", error))?;
    let converted = install::convert(drift.instance, drift.spec, shared, drift.bundle).await?;
    let had = memory.inventory.clone().unwrap_or_default();
    let mut plan = install::plan(ctx, converted.objects, &had, &owner, &converted.namespace)
        .await
        .map_err(|error| soon("the served APIs cannot be listed", error))?;
    plan.steps
        .retain(|step| drift.objects.contains(&step.object.identity()));
    let absent: Vec<Step> = plan
        .steps
        .iter()
        .filter(|step| !drift.view.objects.contains_key(&step.object.identity()))
        .cloned()
        .collect();
    let planned = absent.iter().map(|step| step.object.identity());
    let claim = shared
        .claims
        .claim(&owner.name, planned)
        .map_err(|others| drift.failure(claims::refusal(&others), Retry::Soon))?;
    let taken = ownership::taken(&client, &absent, &owner, ctx.settings.concurrency)
        .await
        .map_err(|error| soon("what vanished cannot be looked up", error))?;
    plan.steps
        .retain(|step| !taken.contains_key(&step.object.identity()));
    Ok(Prepared {
        client,
        plan,
        taken,
        claim,
    })
}

/// Counts repairs, remembers who made them necessary, and tells people.
async fn tell(drift: &Drift<'_>, shared: &Shared, memory: &mut Memory, report: &Report) {
    let ctx = &shared.ctx;
    let now = (ctx.now)();
    ctx.metrics.repaired(report.applied.len() as u64);
    for (identity, applied) in &report.applied {
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

fn given_away(taken: &BTreeMap<Identity, Holder>) -> String {
    let line = |(identity, holder): (&Identity, &Holder)| {
        format!(
            "{identity} belongs to {holder} now; remove it from one of the bundles, or delete the one that should not have it"
        )
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
            bundle: self.bundle.name_any(),
            message,
            touched: false,
            retry,
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
