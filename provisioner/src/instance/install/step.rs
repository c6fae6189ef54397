//! Applying a recorded revision, in steps of at most [`MAX_STEP`] objects: other instances get the worker in between, and
//! drift is repaired first. Rendering, the preflight checks and dry runs precede the first step only; after a restart
//! they precede the next one.

use std::collections::{BTreeMap, BTreeSet};

use apply::{
    plan::{Plan, Step, Wave},
    preflight::ownership,
    ssa::{self, Apply, Permission, Recreation},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{Client, ResourceExt as _};
use manifests::{
    api::{
        holder::Owner,
        instance::{BundleInstance, BundleInstanceStatus, RevisionStatus},
    },
    object::Identity,
};

use super::{
    Source, Target,
    attempt::{described, failing, partition, previous, rendered, soon},
    converted::Rendered,
    inventory::{settle_inventory, take_over},
    leaving::{lines_of, prune_first, released},
    prepare::plan,
    recreate, unchanged,
    words::{refusals, remedy, retry, waiting},
};
use crate::instance::{
    claims::Claim,
    maintain,
    memory::{Memory, Shared},
    outcome::{Applying, Done, Failure, Retry},
    revisions::{self, owner},
    rollouts::Turn,
};

/// The maximum number of objects of a step.
const MAX_STEP: usize = 200;

/// The outcome of a step.
pub(super) enum Stepped {
    /// All objects are applied.
    Done(Box<Done>),
    /// Another step follows.
    Next(Applying),
    /// The platform caused the rollout, and others with that cause are under way, or have made instances unhealthy.
    Waits(Turn),
}

/// The state of a rollout between two of its steps.
#[derive(Debug)]
pub(in crate::instance) struct Progress {
    /// The key of the target.
    pub(super) key: String,
    /// The number of the revision.
    pub(super) number: i64,
    /// The objects of the revision that the checks have left out: Namespaces of others, which are used as they are.
    pub(super) left_out: BTreeSet<Identity>,
    /// The number of objects to apply.
    pub(super) count: usize,
    /// The objects that earlier steps have applied.
    pub(super) applied: BTreeSet<Identity>,
    /// The objects that may be deleted to be created again.
    pub(super) permissions: BTreeMap<Identity, Permission>,
    /// The warnings of the checks.
    pub(super) warnings: Vec<String>,
    /// Keeps other instances from applying the same objects.
    pub(super) claim: Claim,
}

impl Progress {
    /// Reports whether this is about the revision that is rolled out for a target.
    pub(super) fn is_of(&self, key: &str, status: &BundleInstanceStatus) -> bool {
        let newest = status.rolling_out();
        self.key == key
            && status.applied_digest.is_none()
            && newest.is_some_and(|newest| newest.number == self.number)
    }
}

/// A rollout whose revision is recorded.
pub(super) struct Rollout {
    pub(super) owner: Owner,
    /// With the rights that everything is applied with.
    pub(super) client: Client,
    pub(super) rendered: Rendered,
    pub(super) plan: Plan,
    /// All revisions, this one last.
    pub(super) revisions: Vec<RevisionStatus>,
    /// The objects to apply.
    pub(super) changed: Vec<Step>,
    pub(super) progress: Progress,
}

/// Goes on with a rollout, from the record of its revision.
pub(super) async fn resume(
    instance: &BundleInstance,
    shared: &Shared,
    memory: &mut Memory,
    before: &BundleInstanceStatus,
    target: &Target<'_>,
    progress: Progress,
) -> Result<Stepped, Failure> {
    let ctx = &shared.ctx;
    let fail = failing(target);
    let Some(newest) = before.rolling_out() else {
        let message = "the revision is not rolled out any more; the objects are checked again";
        return Err(fail(message.to_owned(), Retry::Soon));
    };
    let recorded = Target {
        source: Source::Newest(newest),
        rollback: None,
    };
    let rendered = rendered(instance, shared, before, &recorded, &progress.key).await?;
    let owner = owner(instance);
    let client = ctx
        .accounts
        .client(rendered.account.as_ref())
        .map_err(|error| soon(target, "no client can be made", &error))?;
    let had = memory.inventory.clone().unwrap_or_default();
    let objects = rendered.objects.clone();
    let mut plan = plan(ctx, objects, &had, &owner, &rendered.namespace)
        .await
        .map_err(|error| soon(target, "the served APIs cannot be listed", &error))?;
    if let Some(missing) = plan.missing.first() {
        let message = format!(
            "kind {} of API {} is not served any more; the objects are checked again",
            missing.kind, missing.api_version
        );
        return Err(fail(message, Retry::Soon));
    }
    plan.steps
        .retain(|step| !progress.left_out.contains(&step.object.identity()));
    let view = ctx.watches.view(&instance.name_any());
    let (_, mut changed) = partition(&plan, memory.inventory.as_ref(), &view);
    changed.retain(|step| !progress.applied.contains(&step.object.identity()));
    let rollout = Rollout {
        owner,
        client,
        rendered,
        plan,
        revisions: before.revisions.clone(),
        changed,
        progress,
    };
    step(instance, shared, memory, before, target, rollout).await
}

/// Applies the next objects of a rollout. With the last of them the revision is installed.
pub(super) async fn step(
    instance: &BundleInstance,
    shared: &Shared,
    memory: &mut Memory,
    before: &BundleInstanceStatus,
    target: &Target<'_>,
    mut rollout: Rollout,
) -> Result<Stepped, Failure> {
    let ctx = &shared.ctx;
    let (next, rest) = ssa::split(std::mem::take(&mut rollout.changed), MAX_STEP);
    if !rollout.progress.applied.is_empty() {
        check(shared, memory, target, &rollout, &next).await?;
    }
    let Rollout {
        owner,
        client,
        plan,
        progress,
        ..
    } = &mut rollout;
    let apply = Apply {
        client,
        kinds: &ctx.kinds,
        concurrency: ctx.settings.concurrency,
        permits: &ctx.permits,
    };
    let is_earlier = |step: &&Step| {
        step.wave == Wave::Definitions && progress.applied.contains(&step.object.identity())
    };
    let definitions: Vec<&Step> = plan.steps.iter().filter(is_earlier).collect();
    // Before they are there, so that nothing that was just applied looks absent.
    memory.is_watched = false;
    maintain::watch(instance, shared, memory, before).await;
    let recreation = Recreation::new(owner, progress.permissions.clone());
    let report = apply.roll_out(&next, &definitions, &recreation).await;
    recreate::publish(instance, shared, memory, &report).await;
    take_over(instance, shared, memory, &next, &report);
    ctx.metrics.applied(report.applied.len() as u64);
    memory.refused = recreate::awaited(&report.failed);
    if !report.failed.is_empty() {
        return Err(Failure {
            touched: !report.applied.is_empty(),
            remedy: remedy(&report.failed),
            ..failing(target)(refusals(&report.failed), retry(&report.failed))
        });
    }
    progress.applied.extend(report.applied.into_keys());
    if !rest.is_empty() {
        let applying = Applying {
            bundle: target.bundle_name(),
            applied: progress.applied.len(),
            count: progress.count,
            inventory: memory.listed(before),
        };
        memory.progress = Some(Box::new(rollout.progress));
        return Ok(Stepped::Next(applying));
    }
    finish(instance, shared, memory, before, target, rollout).await
}

/// Looks whether other clients have created objects since the checks before the first step.
async fn check(
    shared: &Shared,
    memory: &Memory,
    target: &Target<'_>,
    rollout: &Rollout,
    next: &[Step],
) -> Result<(), Failure> {
    let inventory = memory.inventory.as_ref();
    let view = shared.ctx.watches.view(&rollout.owner.name);
    let is_new = |step: &&Step| {
        let identity = step.object.identity();
        let entry = inventory.and_then(|inventory| inventory.get(&identity));
        entry.is_none_or(|entry| entry.fields.is_none()) || view.absent.contains(&identity)
    };
    let new: Vec<Step> = next.iter().filter(is_new).cloned().collect();
    let concurrency = shared.ctx.settings.concurrency;
    let appeared = ownership::appeared(&rollout.client, &new, &rollout.owner, concurrency)
        .await
        .map_err(|error| soon(target, "the objects cannot be looked up", &error))?;
    let Some((identity, holder)) = appeared.first_key_value() else {
        return Ok(());
    };
    let message = format!(
        "{identity} was created during the rollout and belongs to {holder}; the objects are checked again"
    );
    Err(Failure {
        touched: true,
        ..failing(target)(message, Retry::Soon)
    })
}

/// Completes a rollout: what would break the new version is pruned, and the revision is described.
async fn finish(
    instance: &BundleInstance,
    shared: &Shared,
    memory: &mut Memory,
    before: &BundleInstanceStatus,
    target: &Target<'_>,
    rollout: Rollout,
) -> Result<Stepped, Failure> {
    let ctx = &shared.ctx;
    let Rollout {
        owner,
        client,
        rendered,
        plan,
        mut revisions,
        progress:
            Progress {
                key,
                warnings,
                claim,
                ..
            },
        ..
    } = rollout;
    drop(claim); // held until here
    let apply = Apply {
        client: &client,
        kinds: &ctx.kinds,
        concurrency: ctx.settings.concurrency,
        permits: &ctx.permits,
    };
    memory.unread = None;
    let early = prune_first(&plan, shared, &owner, before).await;
    let policy = maintain::policy_of_upgrades(instance);
    let pruned = apply.prune(&early, &owner, policy).await;
    if let Some(newest) = revisions::newest_of(&mut revisions) {
        newest.applied.get_or_insert_with(|| Time((ctx.now)()));
    }
    settle_inventory(memory, &pruned);
    let left = plan.leaving.iter().filter(|leaving| {
        !pruned.deleted.contains(&leaving.identity)
            && !pruned.released.contains_key(&leaving.identity)
    });
    let done = Done {
        previous: previous(before, target, &rendered),
        namespace: rendered.namespace.clone(),
        digest: key,
        inventory: memory.listed(before),
        waiting: plan.waiting.iter().flat_map(waiting).take(500).collect(),
        released: released(before, &rendered, &pruned),
        removing: lines_of(left.map(|leaving| &leaving.identity)),
        warnings,
        rolled_back: target.rollback.clone(),
        revisions,
        ..unchanged(instance, before)
    };
    Ok(Stepped::Done(Box::new(described(before, &rendered, done))))
}
