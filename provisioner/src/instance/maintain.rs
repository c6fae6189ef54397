//! Keeping what is installed: what the watches saw is compared with the inventory, and what differs is applied again.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use kube::{Resource as _, ResourceExt as _, core::GroupVersionKind, runtime::events::EventType};
use manifests::{
    api::{
        bundle::Bundle,
        condition::{self, reason},
        instance::{BundleInstance, BundleInstanceSpec, BundleInstanceStatus, Inventory as Listed},
    },
    object::{Identity, shortened},
};
use tracing::{info, warn};

use super::{
    claims,
    install::{self, Settled, Target},
    memory::{Memory, Shared},
    outcome::{Failure, Health, Install, Retry},
    reconcile::{overflow, owner, sooner},
};
use crate::{
    apply::{Applied, Apply},
    drift::{self, fights::Opponent},
    health, inventory,
    kinds::Kind,
    plan::{Absent, Step},
    preflight::ownership,
    watches::View,
};

/// How many unwell objects a condition names.
const MOST_NAMED: usize = 20;

/// Tells the watches what belongs to the instance, once after each change of that or of what is served.
pub(super) async fn watch(instance: &BundleInstance, shared: &Shared, memory: &mut Memory) {
    let served = *shared.ctx.kinds.changes().borrow();
    let is_known = memory.is_watched && memory.served == served;
    let Some(inventory) = memory.inventory.as_ref().filter(|_| !is_known) else {
        return;
    };
    let gvk = |identity: &Identity, version: &str| {
        GroupVersionKind::gvk(&identity.group, version, &identity.kind)
    };
    let kinds: BTreeSet<(&str, &str, &str)> = inventory
        .iter()
        .map(|(identity, entry)| {
            (
                identity.group.as_str(),
                entry.version.as_str(),
                identity.kind.as_str(),
            )
        })
        .collect();
    let found = shared
        .ctx
        .kinds
        .find(
            kinds
                .into_iter()
                .map(|(group, version, kind)| GroupVersionKind::gvk(group, version, kind)),
        )
        .await;
    match found {
        Ok(found) => {
            let wanted: BTreeMap<Identity, Arc<Kind>> = inventory
                .iter()
                .filter_map(|(identity, entry)| {
                    let kind = found.get(&gvk(identity, &entry.version))?.as_ref()?;
                    Some((identity.clone(), Arc::clone(kind)))
                })
                .collect();
            let account = instance.spec.service_account.as_ref();
            shared
                .ctx
                .watches
                .want(&instance.name_any(), account, &wanted);
            memory.unserved = inventory
                .keys()
                .filter(|identity| !wanted.contains_key(*identity))
                .cloned()
                .collect();
            memory.is_watched = true;
            memory.served = served;
        }
        Err(error) => warn!(%error, "the served APIs cannot be listed; watches start later"),
    }
}

/// How the objects are, as far as the watches have seen them.
pub(super) fn health(instance: &BundleInstance, shared: &Shared, memory: &Memory) -> Health {
    let view = shared.ctx.watches.view(&instance.name_any());
    if !view.failing.is_empty() {
        return Health::Unknown(view.failing.join("\n"));
    }
    let Some(inventory) = memory.inventory.as_ref().filter(|_| view.synced) else {
        return Health::NotLooked;
    };
    let mut failed = Vec::new();
    let mut going = Vec::new();
    for (identity, entry) in inventory {
        let seen = view.objects.get(identity).map(|seen| &seen.health);
        let (list, message) = match seen {
            Some(health::Health::Failed(message)) => (&mut failed, message.as_str()),
            Some(health::Health::InProgress(message)) => (&mut going, message.as_str()),
            Some(health::Health::Current) => continue,
            None if entry.fields.is_none() => continue, // was never applied
            None => (&mut going, "does not exist"),
        };
        list.push(unwell(identity, &entry.version, message));
    }
    if failed.is_empty() && going.is_empty() {
        return Health::Healthy;
    }
    let is_failed = !failed.is_empty();
    failed.append(&mut going);
    let more = failed.len().saturating_sub(MOST_NAMED);
    failed.truncate(MOST_NAMED);
    if more > 0 {
        failed.push(format!("and {more} more objects"));
    }
    if is_failed {
        Health::Failed(failed)
    } else {
        Health::Progressing(failed)
    }
}

/// `(apps/v1, Kind=Deployment)(etcd/etcd-operator): message` (rukpak parity).
fn unwell(identity: &Identity, version: &str, message: &str) -> String {
    let group = if identity.group.is_empty() {
        version.to_owned()
    } else {
        format!("{}/{version}", identity.group)
    };
    let name = if identity.namespace.is_empty() {
        identity.name.clone()
    } else {
        format!("{}/{}", identity.namespace, identity.name)
    };
    format!("({group}, Kind={})({name}): {message}", identity.kind)
}

/// What came of keeping objects as they were declared.
pub(super) struct Keeping {
    /// When that has changed the inventory: which objects wait for an API from now on.
    pub(super) changed: Option<Vec<String>>,
    /// Why something could not be repaired.
    pub(super) failure: Option<Failure>,
    /// When to look again, unless something happens.
    pub(super) again: Option<Duration>,
    /// Whether nothing is left that is otherwise.
    is_as_declared: bool,
}

/// Keeps the target, and says how it is.
pub(super) async fn run(
    instance: &BundleInstance,
    shared: &Shared,
    memory: &mut Memory,
    status: &BundleInstanceStatus,
    target: &Target<'_>,
) -> Settled {
    let kept = keep(instance, &instance.spec, shared, memory, target.bundle).await;
    let is_over = kept.is_as_declared && says_otherwise(status, target);
    let install = if let Some(failure) = kept.failure {
        Install::Failed(failure)
    } else if kept.changed.is_some() || is_over {
        let mut done = install::renamed(status, target);
        done.previous.clone_from(&status.previous_bundle_name);
        if let Some(inventory) = written(instance, shared, memory).await {
            done.inventory = inventory;
        }
        done.waiting.extend(kept.changed.into_iter().flatten());
        memory.misses_apis(!done.waiting.is_empty());
        Install::Done(Box::new(done))
    } else {
        Install::Unchanged
    };
    Settled {
        install,
        health: health(instance, shared, memory),
        fights: fights(shared, memory),
        kept: None,
        again: kept.again,
    }
}

/// Who does not leave the objects alone.
pub(super) fn fights(shared: &Shared, memory: &mut Memory) -> Vec<String> {
    let verdicts = memory.fights.verdicts((shared.ctx.now)());
    verdicts.iter().map(ToString::to_string).collect()
}

/// Repairs what is not as it was applied, with that spec.
pub(super) async fn keep(
    instance: &BundleInstance,
    spec: &BundleInstanceSpec,
    shared: &Shared,
    memory: &mut Memory,
    bundle: &Bundle,
) -> Keeping {
    watch(instance, shared, memory).await;
    let now = (shared.ctx.now)();
    let view = shared.ctx.watches.view(&instance.name_any());
    let mut drifted = match &memory.inventory {
        Some(inventory) => drift::drifted(inventory, &view),
        None => Vec::new(),
    };
    // What cannot exist is missing as well.
    drifted.extend(memory.unserved.iter().cloned());
    let mut keeping = Keeping {
        changed: None,
        failure: None,
        again: None,
        is_as_declared: drifted.is_empty(),
    };
    let (ready, held): (Vec<Identity>, Vec<Identity>) = drifted
        .into_iter()
        .partition(|identity| memory.fights.held(identity, now).is_none());
    keeping.again = held
        .iter()
        .filter_map(|identity| memory.fights.held(identity, now))
        .filter_map(|verdict| Duration::try_from(verdict.until.duration_since(now)).ok())
        .min();
    if ready.is_empty() {
        return keeping;
    }
    let tried = format!("repair {}", memory.served);
    if let Some(left) = memory.repairs.must_wait(&tried, now) {
        keeping.again = sooner(keeping.again, Some(left));
        return keeping;
    }
    match Box::pin(repair(
        instance, spec, shared, memory, bundle, &ready, &view,
    ))
    .await
    {
        Ok(changed) => {
            memory.repairs.succeeded();
            keeping.is_as_declared = held.is_empty();
            keeping.changed = changed;
        }
        Err(failure) => {
            let again = memory.repairs.again(tried, failure.retry, now);
            keeping.again = sooner(keeping.again, Some(again));
            keeping.failure = Some(failure);
        }
    }
    keeping
}

/// Whether a condition still tells of a failure that is over.
fn says_otherwise(status: &BundleInstanceStatus, target: &Target<'_>) -> bool {
    let expected = match target.way_back_from {
        Some(_) => reason::ROLLED_BACK,
        None => reason::INSTALLATION_SUCCEEDED,
    };
    let mut conditions = status.conditions.iter();
    conditions.any(|c| c.type_ == condition::INSTALLED && c.reason != expected)
}

/// Applies some objects again; when that has changed the inventory, tells which objects wait for an API from now on.
async fn repair(
    instance: &BundleInstance,
    spec: &BundleInstanceSpec,
    shared: &Shared,
    memory: &mut Memory,
    bundle: &Bundle,
    drifted: &[Identity],
    view: &View,
) -> Result<Option<Vec<String>>, Failure> {
    let ctx = &shared.ctx;
    let fail = |message: String, retry| Failure {
        bundle: bundle.name_any(),
        message,
        touched: false,
        retry,
    };
    let soon = |what: &'static str| {
        move |error: kube::Error| fail(format!("{what}: {error}"), Retry::Soon)
    };
    let owner = owner(instance);
    let client = ctx
        .accounts
        .client(instance.spec.service_account.as_ref())
        .map_err(soon("no client can be made"))?;
    let converted = install::convert(instance, spec, ctx, bundle).await?;
    let had = memory.inventory.clone().unwrap_or_default();
    let mut plan = install::plan(ctx, converted.objects, &had, &owner, &converted.namespace)
        .await
        .map_err(soon("the served APIs cannot be listed"))?;
    plan.steps
        .retain(|step| drifted.contains(&step.object.identity()));
    // What vanished may have been given to somebody else.
    let absent: Vec<Step> = plan
        .steps
        .iter()
        .filter(|step| !view.objects.contains_key(&step.object.identity()))
        .cloned()
        .collect();
    let planned = absent.iter().map(|step| step.object.identity());
    let _claim = shared
        .claims
        .claim(&owner.name, planned)
        .map_err(|others| fail(claims::refusal(&others), Retry::Soon))?;
    let taken = ownership::taken(&client, &absent, &owner, ctx.settings.concurrency)
        .await
        .map_err(soon("what vanished cannot be looked up"))?;
    plan.steps
        .retain(|step| !taken.contains_key(&step.object.identity()));
    let apply = Apply {
        client: &client,
        kinds: &ctx.kinds,
        concurrency: ctx.settings.concurrency,
    };
    let report = apply.run(&plan.steps).await;
    let before = memory.inventory.clone();
    install::take_over(instance, shared, memory, &plan, &report);
    let now = (ctx.now)();
    ctx.metrics.repaired(report.applied.len() as u64);
    for (identity, applied) in &report.applied {
        info!(object = %identity, taken = applied.taken.len(), "repaired");
        let writer = view
            .objects
            .get(identity)
            .and_then(|seen| seen.writer.as_deref());
        let verdicts = memory
            .fights
            .repaired(opponents(identity, applied, writer), now);
        let note = verdicts.first().map_or_else(
            || format!("{identity} was not as declared, and was applied again"),
            ToString::to_string,
        );
        ctx.events
            .publish(
                &instance.object_ref(&()),
                EventType::Normal,
                "Repaired",
                "Repair",
                &note,
            )
            .await;
    }
    // An optional API is gone: its objects wait again.
    let absent_now = |absent: &[Absent]| -> Vec<Absent> {
        absent
            .iter()
            .map(|absent| Absent {
                needed_by: absent
                    .needed_by
                    .iter()
                    .filter(|identity| drifted.contains(identity))
                    .cloned()
                    .collect(),
                ..absent.clone()
            })
            .filter(|absent| !absent.needed_by.is_empty())
            .collect()
    };
    let waits = absent_now(&plan.waiting);
    let waiting: BTreeSet<&Identity> = waits.iter().flat_map(|absent| &absent.needed_by).collect();
    if let Some(inventory) = memory.inventory.as_mut()
        && !waiting.is_empty()
    {
        inventory.retain(|identity, _| !waiting.contains(identity));
        memory.is_watched = false;
    }
    let missing = absent_now(&plan.missing);
    if !missing.is_empty() {
        memory.misses_apis(true);
        let lines: Vec<String> = missing
            .iter()
            .map(|absent| {
                format!(
                    "required resource not found: no matches for kind {:?} in version {:?}, needed by {}; install what serves it",
                    absent.kind,
                    absent.api_version,
                    absent.needed_by.iter().take(10).map(ToString::to_string).collect::<Vec<_>>().join(", ")
                )
            })
            .collect();
        return Err(fail(lines.join("\n"), Retry::Soon));
    }
    if !report.failed.is_empty() {
        return Err(Failure {
            touched: !report.applied.is_empty(),
            ..fail(
                install::refusals(&report.failed),
                install::retry(&report.failed),
            )
        });
    }
    if !taken.is_empty() {
        let lines: Vec<String> = taken
            .iter()
            .map(|(identity, holder)| format!(
                "{identity} belongs to {holder} now; remove it from one of the bundles, or delete the one that should not have it"
            ))
            .collect();
        return Err(fail(lines.join("\n"), Retry::Slowly));
    }
    let changed = memory.inventory != before;
    Ok(changed.then(|| waits.iter().flat_map(install::waiting).collect()))
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

/// What the status says of the inventory after a repair; `None` when it could not be written.
pub(super) async fn written(
    instance: &BundleInstance,
    shared: &Shared,
    memory: &Memory,
) -> Option<Listed> {
    let owner = owner(instance);
    match inventory::write(&overflow(shared, &owner), memory.inventory.as_ref()?).await {
        Ok(listed) => Some(listed),
        Err(error) => {
            // The old fingerprints are repaired once more after a restart, which does no harm.
            warn!(%error, "the inventory cannot be written");
            None
        }
    }
}

/// Says why what is installed could not be repaired, while the conditions tell of another bundle.
pub(super) async fn tell_failure(instance: &BundleInstance, shared: &Shared, failure: &Failure) {
    warn!(bundle = %failure.bundle, message = %shortened(&failure.message, 500), "not repaired");
    shared
        .ctx
        .events
        .publish(
            &instance.object_ref(&()),
            EventType::Warning,
            "RepairFailed",
            "Repair",
            &failure.message,
        )
        .await;
}
