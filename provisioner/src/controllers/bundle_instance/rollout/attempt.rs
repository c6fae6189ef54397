//! One attempt to roll out a Bundle or a revision.

use std::collections::{BTreeMap, BTreeSet};

use apply::{
    api_error,
    health::Health,
    informers::InstanceView,
    inventory::Inventory,
    plan::{ApplyStep, InstanceOwner, Plan},
    ssa::{Applier, Permission},
};
use kube::ResourceExt as _;
use manifests::{
    api::{
        bundle::Bundle,
        bundle_instance::{BundleInstance, BundleInstanceStatus, Cause, RevisionStatus},
    },
    object::Identity,
};

use super::{
    Source, Target,
    inventory::record_intent,
    is_unobserved,
    message::remedy,
    prepare::{PreparedRollout, prepare},
    prune_candidates::prune_first,
    records::{Records, has_key},
    recreate,
    render::{RenderError, Rendered, render},
    step::{Progress, Rollout, Stepped, resume, step},
    unchanged,
};
use crate::controllers::bundle_instance::{
    outcome::{CompletedRollout, Failure, Remedy, RetryClass},
    revisions::{self, RecordError, owner},
    rollback::Unhealthy,
    rollout_slots::Turn,
    state::{InstanceContext, InstanceState},
};

/// Warning of a rollback that finds all objects already in the form of the revision.
const NOTHING_RESTORED_WARNING: &str = "the rollback restored no object: every object that differs is a CustomResourceDefinition \
                                        that cannot be rolled back; change spec.template, or spec.rollbackTo";

/// Executes all steps from rendering to the next set of applied objects. `has_api` reports that an API of deferred objects
/// is served now.
pub(super) async fn attempt(
    instance: &BundleInstance,
    shared: &InstanceContext,
    state: &mut InstanceState,
    before: &BundleInstanceStatus,
    target: &Target<'_>,
    key: &str,
    has_api: bool,
) -> Result<Stepped, Failure> {
    let ctx = &shared.ctx;
    let progress = state.progress.take();
    if let Some(progress) = progress.filter(|progress| progress.is_of(key, before)) {
        return Box::pin(resume(instance, shared, state, before, target, *progress)).await;
    }
    let rendered = rendered(instance, shared, state, before, target, key).await?;
    let is_applied = is_recorded(before, &rendered) && before.applied_digest.is_some();
    if is_applied && !has_api && !is_rollback(target) {
        return Ok(rendered_again(instance, before, &rendered, key));
    }
    if is_unobserved(instance, shared, state, before).await {
        return Ok(Stepped::Unobserved);
    }
    state.platform = None;
    if is_by_platform(before, target, &rendered)
        && let turn = shared.rollouts.begin_platform(&instance.name_any())
        && turn != Turn::Granted
    {
        state.platform = Some(key.to_owned());
        return Ok(Stepped::Waits(turn));
    }
    let PreparedRollout {
        owner,
        client,
        mut rendered,
        plan,
        mut warnings,
        left_out,
        lock,
    } = Box::pin(prepare(instance, shared, state, before, target, rendered)).await?;
    rendered.details.key = recorded_key(target, rendered.details.key, key);
    let apply = Applier {
        client: &client,
        kinds: &ctx.discovery,
        concurrency: ctx.settings.concurrency,
        permits: &shared.ctx.write_permits,
    };
    let view = ctx.informers.view(&instance.name_any());
    let (current, changed) = partition(&plan, state.inventory.as_ref(), &view);
    warnings.extend(recreate::warnings(&instance.spec, &plan.steps));
    let is_installed = before.installed_bundle_name.is_some();
    let inventory = state.inventory.get_or_insert_default();
    let decision =
        recreate::decide(instance, inventory, &apply, &owner, &changed, is_installed).await;
    let permissions = permissions(state, target, decision)?;
    let mut revisions = before.revisions.clone();
    if is_rollback(target) && is_recorded(before, &rendered) {
        warnings.push(NOTHING_RESTORED_WARNING.to_owned());
    }
    if needs_revision(before, target, &rendered) {
        let revision = record(shared, &owner, before, target, &rendered).await?;
        let current = current.iter().map(|step| step.object.identity());
        let leaving = plan.leaving.iter().map(|leaving| leaving.identity.clone());
        state.excused = view.synced.then(|| {
            let observed = ctx.informers.view(&owner.name);
            let excused = unhealthy_now(&observed, current.chain(leaving));
            (revision.number, excused)
        });
        revisions::add(&mut revisions, revision);
    }
    let inventory = state.inventory.get_or_insert_default();
    recreate::mark(inventory, &changed, &permissions);
    // The status names the new revision before objects are applied or deleted.
    let is_changed =
        !changed.is_empty() || !prune_first(&plan, shared, &owner, before).await.is_empty();
    if is_changed {
        record_intent(instance, shared, state, before, target, &plan, &revisions).await?;
    }
    let progress = Progress {
        key: key.to_owned(),
        number: revisions::newest_of(&mut revisions).map_or(0, |newest| newest.number),
        left_out,
        count: changed.len(),
        applied: BTreeSet::new(),
        permissions,
        warnings,
        lock,
    };
    let rollout = Rollout {
        owner,
        client,
        rendered,
        plan,
        revisions,
        changed,
        progress,
    };
    step(instance, shared, state, before, target, rollout).await
}

/// Reports whether the target is a rollback that has no revision yet.
pub(crate) fn is_rollback(target: &Target<'_>) -> bool {
    target.rollback.is_some() && matches!(target.source, Source::Revision(_))
}

/// Reports whether the target is recorded as a new revision. The return to an earlier revision is recorded even if the
/// newest revision has the same objects: the new revision ends the rollout of the newest one.
pub(crate) fn needs_revision(
    before: &BundleInstanceStatus,
    target: &Target<'_>,
    rendered: &Rendered,
) -> bool {
    matches!(target.source, Source::Revision(_)) || !is_recorded(before, rendered)
}

/// Returns the result of a rollout whose objects another release of the provisioner or of Kubernetes renders without a change.
fn rendered_again(
    instance: &BundleInstance,
    before: &BundleInstanceStatus,
    rendered: &Rendered,
    key: &str,
) -> Stepped {
    Stepped::Done(Box::new(CompletedRollout {
        digest: key.to_owned(),
        rolled_back: None,
        ..described(before, rendered, unchanged(instance, before))
    }))
}

/// Returns the objects that the rollout recreates, and stores those that block the rollout.
fn permissions(
    state: &mut InstanceState,
    target: &Target<'_>,
    decision: recreate::Decision,
) -> Result<BTreeMap<Identity, Permission>, Failure> {
    state.refused = recreate::awaited(&decision.refused);
    let remedy = remedy(&decision.refused);
    let permissions = decision.permissions();
    permissions.map_err(|(message, retry)| failure_for(target)(message, retry).with(remedy))
}

/// Reports whether a new revision is required because the provisioner or Kubernetes has another version.
fn is_by_platform(before: &BundleInstanceStatus, target: &Target<'_>, rendered: &Rendered) -> bool {
    let newest = before.newest();
    matches!(target.source, Source::Bundle(_))
        && newest.is_some_and(|newest| newest.digest != rendered.digest)
        && revisions::cause(before, rendered) == Cause::Platform
}

/// Adds the details of the Bundle of the rendered objects.
pub(crate) fn described(
    before: &BundleInstanceStatus,
    rendered: &Rendered,
    done: CompletedRollout,
) -> CompletedRollout {
    let details = &rendered.details;
    let digest = details.bundle.content_digest.clone();
    let is_same = before.installed_bundle_name.as_ref() == Some(&details.bundle.name);
    let mut revisions = done.revisions;
    let template_hash = details.template_hash.as_ref();
    revisions::rename(&mut revisions, &details.bundle.name, template_hash);
    if let Some(newest) = revisions::newest_of(&mut revisions)
        && rendered.removed_apis.is_some()
    {
        newest.removed_apis.clone_from(&rendered.removed_apis);
    }
    CompletedRollout {
        bundle: details.bundle.name.clone(),
        uid: details.bundle.uid.clone(),
        source: details.source.clone(),
        content: (!digest.is_empty()).then_some(digest),
        facts: details.facts.clone(),
        previous: done
            .previous
            .filter(|_| !is_same || before.previous_bundle_name.is_some()),
        revisions,
        ..done
    }
}

/// Renders the objects of the target, or reads them from a record.
pub(super) async fn rendered(
    instance: &BundleInstance,
    shared: &InstanceContext,
    state: &mut InstanceState,
    before: &BundleInstanceStatus,
    target: &Target<'_>,
    key: &str,
) -> Result<Rendered, Failure> {
    let revision = match target.source {
        Source::Bundle(bundle) => {
            let records = Records::new(before, bundle);
            let rendered = rendered_bundle(instance, shared, bundle, &records, key);
            let rendered = Box::pin(rendered).await;
            state.lacks_content = matches!(rendered, Err(RenderError::NotLoaded(_)));
            return rendered.map_err(RenderError::into_failure);
        }
        Source::Revision(revision) | Source::Newest(revision) => revision,
    };
    let record = revisions::read(shared, &owner(instance), revision).await;
    let record = record.map_err(|error| {
        if error.is_transient() {
            return failure_for(target)(error.to_string(), RetryClass::Soon);
        }
        state.lost = Some(revision.number);
        unusable_record(target, &error.to_string())
    })?;
    let mut rendered = Rendered::of_record(record, instance);
    if matches!(target.source, Source::Newest(_)) {
        rendered.account.clone_from(&revision.service_account);
        rendered.digest.clone_from(&revision.digest);
    }
    Ok(rendered)
}

/// Renders the objects of a Bundle, or reads them from a record with the same inputs: that of an interrupted rollout, or,
/// if the content cannot be loaded, that of another revision of the template.
async fn rendered_bundle(
    instance: &BundleInstance,
    shared: &InstanceContext,
    bundle: &Bundle,
    records: &Records<'_>,
    key: &str,
) -> Result<Rendered, RenderError> {
    let read = async |revisions| recorded(instance, shared, bundle, revisions, key).await;
    if let Some(rendered) = read(records.interrupted.as_slice()).await? {
        return Ok(rendered);
    }
    match render(instance, shared, bundle).await {
        Err(RenderError::NotLoaded(failure)) => {
            let rendered = read(&records.of_template).await?;
            rendered.ok_or(RenderError::NotLoaded(failure))
        }
        rendered => rendered,
    }
}

/// Reads the records of revisions until one has the key. Records that are missing or altered are skipped.
async fn recorded(
    instance: &BundleInstance,
    shared: &InstanceContext,
    bundle: &Bundle,
    revisions: &[&RevisionStatus],
    key: &str,
) -> Result<Option<Rendered>, RenderError> {
    let owner = owner(instance);
    for revision in revisions {
        match revisions::read(shared, &owner, revision).await {
            Ok(record) if has_key(&record.header.details, key) => {
                return Ok(Some(Rendered::of_bundle_record(record, instance, bundle)));
            }
            // A transient error does not show that the record is missing.
            Err(error) if error.is_transient() => {
                let target = Target {
                    source: Source::Bundle(bundle),
                    rollback: None,
                };
                let failure = failure_for(&target)(error.to_string(), RetryClass::Soon);
                return Err(RenderError::NotLoaded(failure));
            }
            Ok(_) | Err(_) => {}
        }
    }
    Ok(None)
}

/// Returns the failure of a target whose record cannot be used.
pub(crate) fn unusable_record(target: &Target<'_>, problem: &str) -> Failure {
    let fail = failure_for(target);
    match target.source {
        Source::Revision(revision) => {
            let message = format!(
                "{problem}, so that revision {} cannot be rolled out; change spec.template, or set spec.rollbackTo to \
                 another revision",
                revision.number
            );
            fail(message, RetryClass::Backoff).with(Remedy::Own)
        }
        Source::Bundle(_) | Source::Newest(_) => fail(problem.to_owned(), RetryClass::Backoff),
    }
}

/// Returns the key to record with a revision. An interrupted rollout finds its objects by this key, without the content. Objects
/// of an earlier record keep the key of their rendering, because the Bundle of the template may be unpacked before the rollout
/// continues.
pub(crate) fn recorded_key(
    target: &Target<'_>,
    former: Option<String>,
    key: &str,
) -> Option<String> {
    match target.source {
        Source::Bundle(_) => Some(key.to_owned()),
        Source::Revision(_) | Source::Newest(_) => former,
    }
}

/// Records a new revision.
async fn record(
    shared: &InstanceContext,
    owner: &InstanceOwner,
    before: &BundleInstanceStatus,
    target: &Target<'_>,
    rendered: &Rendered,
) -> Result<RevisionStatus, Failure> {
    let why = cause(before, target, rendered);
    let recorded = revisions::record(shared, owner, before, rendered, why).await;
    recorded.map_err(|error| {
        let (retry, remedy) = match &error {
            RecordError::Store(error) if error.is_transient() => (RetryClass::Soon, Remedy::World),
            RecordError::Store(_) => (RetryClass::Backoff, Remedy::World),
            RecordError::Encode(_) => (RetryClass::Backoff, Remedy::Own),
        };
        let message =
            format!("failed to record the revision, so none of its objects is applied: {error}");
        failure_for(target)(message, retry).with(remedy)
    })
}

/// Returns the cause of a revision, and the number of the revision that a rollback restores.
pub(crate) fn cause(
    before: &BundleInstanceStatus,
    target: &Target<'_>,
    rendered: &Rendered,
) -> (Cause, Option<i64>) {
    match target.source {
        Source::Revision(revision) if target.rollback.is_some() => {
            (Cause::Rollback, Some(revision.number))
        }
        // A template that was reverted.
        Source::Revision(_) => (Cause::Upgrade, None),
        Source::Newest(newest) => (newest.cause, newest.rollback_of),
        Source::Bundle(_) => (revisions::cause(before, rendered), None),
    }
}

/// Reports whether the newest live revision records the same objects.
pub(crate) fn is_recorded(before: &BundleInstanceStatus, rendered: &Rendered) -> bool {
    let newest = before.newest();
    newest.is_some_and(|newest| newest.digest == rendered.digest)
}

/// Splits the objects into those whose live form is unchanged and those that have to be applied.
pub(crate) fn partition(
    plan: &Plan,
    inventory: Option<&Inventory>,
    view: &InstanceView,
) -> (Vec<ApplyStep>, Vec<ApplyStep>) {
    let steps = plan.steps.iter().cloned();
    steps.partition(|step| {
        let identity = step.object.identity();
        let fields = inventory.and_then(|inventory| inventory.get(&identity)?.fields);
        view.objects.get(&identity).is_some_and(|observed| {
            observed.hash == Some(step.hash)
                && !observed.deleting
                && fields.is_some()
                && observed.fields == fields
        })
    })
}

/// Returns the objects that are unhealthy already. A rollout that does not change an object did not cause its failure.
pub(crate) fn unhealthy_now(
    view: &InstanceView,
    identities: impl Iterator<Item = Identity>,
) -> Unhealthy {
    let mut unhealthy = Unhealthy::default();
    for identity in identities {
        match view.objects.get(&identity).map(|observed| &observed.health) {
            Some(Health::Current) => {}
            Some(Health::Failed(_)) => {
                unhealthy.failed.insert(identity);
            }
            Some(Health::InProgress(_)) | None => {
                unhealthy.slow.insert(identity);
            }
        }
    }
    unhealthy
}

/// Returns the name of the Bundle that was installed before.
pub(crate) fn previous(
    before: &BundleInstanceStatus,
    target: &Target<'_>,
    rendered: &Rendered,
) -> Option<String> {
    if target.rollback.is_some() {
        return None;
    }
    let installed = before.installed_bundle_name.as_ref()?;
    if *installed == rendered.details.bundle.name {
        before.previous_bundle_name.clone()
    } else {
        Some(installed.clone())
    }
}

pub(super) fn failure_for(target: &Target<'_>) -> impl Fn(String, RetryClass) -> Failure + use<> {
    let bundle = target.bundle_name();
    move |message, retry| Failure {
        bundle: bundle.clone(),
        message,
        touched: false,
        retry,
        remedy: Remedy::World,
    }
}

pub(super) fn retry_soon(target: &Target<'_>, what: &str, error: &kube::Error) -> Failure {
    let error = api_error::chain(error);
    failure_for(target)(format!("{what}: {error}"), RetryClass::Soon)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controllers::bundle_instance::revisions::tests::revision;

    #[test]
    fn recorded_objects_keep_the_key_of_their_rendering() {
        let bundle: Bundle = object!({"metadata": {"name": "b"}});
        let revision = revision(1);
        let former = Some("rendering".to_owned());
        let key = |source| {
            let target = Target {
                source,
                rollback: None,
            };
            recorded_key(&target, former.clone(), "current")
        };
        assert_rows! {
            key(Source::Bundle(&bundle)).as_deref() => Some("current");
            key(Source::Revision(&revision)) => former;
            key(Source::Newest(&revision)) => former;
        }
    }
}
