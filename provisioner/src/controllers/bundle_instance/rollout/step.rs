//! Applies a recorded revision in steps of at most [`MAX_STEP`] objects. Between steps, other instances can use the worker,
//! and drifted objects are repaired first. Rendering, preflight checks and dry runs precede only the first step, and after
//! a restart the next one.

use std::collections::{BTreeMap, BTreeSet};

use apply::{
    plan::{ApplyStep, Plan, Wave},
    preflight::ownership,
    ssa::{self, Applier, Permission, Recreation},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{Client, ResourceExt as _};
use manifests::{
    api::{
        bundle_instance::{BundleInstance, BundleInstanceStatus, RevisionStatus},
        owner::InstanceOwner,
    },
    object::Identity,
};

use super::{
    Source, Target,
    attempt::{described, failure_for, partition, previous, retry_soon},
    inventory::{record_applied, remove_pruned},
    message::{describe_rejections, remedy, retry_class, waiting},
    objects::rendered,
    prepare::{is_observed, plan},
    prune_candidates::{lines_of, prune_first, released},
    recreate,
    render::Rendered,
    unchanged,
};
use crate::controllers::bundle_instance::{
    apply_locks::ApplyLock,
    outcome::{Applying, CompletedRollout, Failure, RetryClass},
    repair,
    revisions::{self, owner},
    rollout_slots::Turn,
    state::{InstanceContext, InstanceState},
};

/// Maximum number of objects of a step.
const MAX_STEP: usize = 200;

/// Outcome of a step.
pub(super) enum Stepped {
    /// All objects are applied.
    Done(Box<CompletedRollout>),
    /// Another step follows.
    Next(Applying),
    /// The watches have not delivered the installed objects yet.
    Unobserved,
    /// The platform caused the rollout, and others with that cause are running or have made instances unhealthy.
    Waits(Turn),
}

/// State of a rollout between two of its steps.
#[derive(Debug)]
pub(crate) struct Progress {
    /// Key of the target.
    pub(super) key: String,
    /// Applied digest of the status at the end. Not the key of the target if the objects have the inputs of an earlier spec,
    /// provisioner or cluster.
    pub(super) applied_digest: String,
    /// Number of the revision.
    pub(super) number: i64,
    /// Objects of the revision that are not applied: other owners have them, and they are used unchanged.
    pub(super) left_out: BTreeSet<Identity>,
    /// Number of objects to apply.
    pub(super) count: usize,
    /// Objects that earlier steps have applied.
    pub(super) applied: BTreeSet<Identity>,
    /// Objects that may be recreated.
    pub(super) permissions: BTreeMap<Identity, Permission>,
    /// Warnings of the preflight checks.
    pub(super) warnings: Vec<String>,
    /// Lock that keeps other instances from applying the same objects.
    pub(super) lock: ApplyLock,
}

impl Progress {
    /// Reports whether this is the state of the revision that is rolling out for a target.
    pub(super) fn is_of(&self, key: &str, status: &BundleInstanceStatus) -> bool {
        let newest = status.rolling_out();
        self.key == key
            && status.applied_digest.is_none()
            && newest.is_some_and(|newest| newest.number == self.number)
    }
}

/// A rollout whose revision is recorded.
pub(super) struct Rollout {
    pub(super) owner: InstanceOwner,
    /// Client with the permissions that all objects are applied with.
    pub(super) client: Client,
    pub(super) rendered: Rendered,
    pub(super) plan: Plan,
    /// All revisions, this one last.
    pub(super) revisions: Vec<RevisionStatus>,
    /// Objects to apply.
    pub(super) changed: Vec<ApplyStep>,
    pub(super) progress: Progress,
}

/// Continues a rollout from the record of its revision.
pub(super) async fn resume(
    instance: &BundleInstance,
    shared: &InstanceContext,
    state: &mut InstanceState,
    before: &BundleInstanceStatus,
    target: &Target<'_>,
    progress: Progress,
) -> Result<Stepped, Failure> {
    let ctx = &shared.ctx;
    // Like the first step: the failure of objects with earlier inputs is not a failure of the present spec.
    state.lacks_content = progress.applied_digest != progress.key;
    let fail = failure_for(target);
    let Some(newest) = before.rolling_out() else {
        let message = "the revision is no longer being rolled out; the objects are checked again";
        return Err(fail(message.to_owned(), RetryClass::Soon));
    };
    let recorded = Target {
        source: Source::Newest(newest),
        rollback: None,
    };
    let rendered = rendered(instance, shared, state, before, &recorded, &progress.key).await?;
    let owner = owner(instance);
    let client = ctx
        .clients
        .client(rendered.account.as_ref())
        .map_err(|error| retry_soon(target, "failed to create a client", &error))?;
    let had = state.inventory.clone().unwrap_or_default();
    let objects = rendered.objects.clone();
    let mut plan = plan(ctx, objects, &had, &owner, &rendered.namespace)
        .await
        .map_err(|error| retry_soon(target, "failed to list the served APIs", &error))?;
    if let Some(missing) = plan.missing.first() {
        let message = format!(
            "the API server stopped serving kind {} of API {}; the objects are checked again",
            missing.kind, missing.api_version
        );
        return Err(fail(message, RetryClass::Soon));
    }
    plan.steps
        .retain(|step| !progress.left_out.contains(&step.object.identity()));
    let view = ctx.informers.view(&instance.name_any());
    let (_, mut changed) = partition(&plan, state.inventory.as_ref(), &view);
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
    step(instance, shared, state, before, target, rollout).await
}

/// Applies the next objects of a rollout. The last step completes it.
pub(super) async fn step(
    instance: &BundleInstance,
    shared: &InstanceContext,
    state: &mut InstanceState,
    before: &BundleInstanceStatus,
    target: &Target<'_>,
    mut rollout: Rollout,
) -> Result<Stepped, Failure> {
    let ctx = &shared.ctx;
    let (next, rest) = ssa::split(std::mem::take(&mut rollout.changed), MAX_STEP);
    if !rollout.progress.applied.is_empty() {
        check(shared, state, target, &rollout, &next).await?;
    }
    let Rollout {
        owner,
        client,
        plan,
        progress,
        ..
    } = &mut rollout;
    let apply = Applier {
        client,
        kinds: &ctx.discovery,
        concurrency: ctx.settings.concurrency,
        permits: &ctx.write_permits,
    };
    let is_earlier = |step: &&ApplyStep| {
        step.wave == Wave::Definitions && progress.applied.contains(&step.object.identity())
    };
    let crds: Vec<&ApplyStep> = plan.steps.iter().filter(is_earlier).collect();
    // Watches start before the objects exist, so that an applied object never appears to be missing.
    state.is_watched = false;
    repair::watch(instance, shared, state, before).await;
    let recreation = Recreation::new(owner, progress.permissions.clone());
    let report = apply.roll_out(&next, &crds, &recreation).await;
    recreate::publish(instance, shared, state, &report).await;
    record_applied(instance, shared, state, &next, &report);
    ctx.metrics.applied(report.applied.len() as u64);
    state.refused = recreate::awaited(&report.failed);
    if !report.failed.is_empty() {
        return Err(Failure {
            touched: !report.applied.is_empty(),
            remedy: remedy(&report.failed),
            ..failure_for(target)(
                describe_rejections(&report.failed),
                retry_class(&report.failed),
            )
        });
    }
    progress.applied.extend(report.applied.into_keys());
    if !rest.is_empty() {
        let applying = Applying {
            bundle: target.bundle_name(),
            applied: progress.applied.len(),
            count: progress.count,
            inventory: state.listed(before),
        };
        state.progress = Some(Box::new(rollout.progress));
        return Ok(Stepped::Next(applying));
    }
    finish(instance, shared, state, before, target, rollout).await
}

/// Checks whether other clients have created objects since the checks before the first step.
async fn check(
    shared: &InstanceContext,
    state: &InstanceState,
    target: &Target<'_>,
    rollout: &Rollout,
    next: &[ApplyStep],
) -> Result<(), Failure> {
    let view = shared.ctx.informers.view(&rollout.owner.name);
    let is_installed = |step: &&ApplyStep| {
        let identity = step.object.identity();
        let entry = state.inventory.as_ref()?.get(&identity)?;
        is_observed(&view, &identity, entry).then_some(())
    };
    let new = next.iter().filter(|step| is_installed(step).is_none());
    let new: Vec<ApplyStep> = new.cloned().collect();
    let concurrency = shared.ctx.settings.concurrency;
    let appeared = ownership::appeared(&rollout.client, &new, &rollout.owner, concurrency)
        .await
        .map_err(|error| retry_soon(target, "failed to look up the objects", &error))?;
    let Some((identity, holder)) = appeared.first_key_value() else {
        return Ok(());
    };
    let message = format!(
        "{identity} was created during the rollout and belongs to {holder}; the objects are checked again"
    );
    Err(Failure {
        touched: true,
        ..failure_for(target)(message, RetryClass::Soon)
    })
}

/// Completes a rollout: prunes the objects that would break the new version, and returns the installed state.
async fn finish(
    instance: &BundleInstance,
    shared: &InstanceContext,
    state: &mut InstanceState,
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
                applied_digest,
                warnings,
                lock,
                ..
            },
        ..
    } = rollout;
    drop(lock); // held until all objects are applied
    let apply = Applier {
        client: &client,
        kinds: &ctx.discovery,
        concurrency: ctx.settings.concurrency,
        permits: &ctx.write_permits,
    };
    state.unread = None;
    let early = prune_first(&plan, shared, &owner, before).await;
    let policy = repair::policy_of_upgrades(instance);
    let pruned = apply.prune(&early, &owner, policy).await;
    if let Some(newest) = revisions::newest_of(&mut revisions) {
        newest.applied.get_or_insert_with(|| Time((ctx.now)()));
    }
    remove_pruned(state, &pruned);
    let left = plan.leaving.iter().filter(|leaving| {
        !pruned.deleted.contains(&leaving.identity)
            && !pruned.released.contains_key(&leaving.identity)
    });
    let done = CompletedRollout {
        previous: previous(before, target, &rendered),
        namespace: rendered.namespace.clone(),
        is_outdated: applied_digest != key,
        digest: applied_digest,
        inventory: state.listed(before),
        waiting: plan.deferred.iter().flat_map(waiting).take(500).collect(),
        released: released(before, &rendered, &pruned),
        removing: lines_of(left.map(|leaving| &leaving.identity)),
        warnings,
        rolled_back: target.rollback.clone(),
        revisions,
        ..unchanged(instance, before)
    };
    Ok(Stepped::Done(Box::new(described(before, &rendered, done))))
}
