//! One attempt to roll out a Bundle or a revision.

use std::collections::{BTreeMap, BTreeSet};

use apply::{
    api_error,
    informers::InstanceView,
    inventory::Inventory,
    plan::{ApplyStep, InstanceOwner, Plan},
    ssa::{Applier, Permission},
};
use kube::ResourceExt as _;
use manifests::{
    api::bundle_instance::{BundleInstance, BundleInstanceStatus, Cause, RevisionStatus},
    object::Identity,
};

use super::{
    Source, Target,
    installed::is_same_configuration,
    inventory::record_intent,
    is_unobserved,
    message::remedy,
    objects::rendered,
    prepare::{PreparedRollout, prepare},
    prune_candidates::prune_first,
    recreate,
    render::Rendered,
    step::{Progress, Rollout, Stepped, resume, step},
    unchanged,
};
use crate::controllers::bundle_instance::{
    outcome::{CompletedRollout, Failure, Remedy, RetryClass},
    revisions::{self, RecordError},
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
    if needs_revision(before, target, &rendered)
        && cause(instance, before, target, &rendered).0 == Cause::Platform
        && let turn = shared.rollouts.begin_platform(&instance.name_any())
        && turn != Turn::Granted
    {
        state.platform = Some(key.to_owned());
        return Ok(Stepped::Waits(turn));
    }
    let PreparedRollout {
        owner,
        client,
        rendered,
        plan,
        mut warnings,
        left_out,
        lock,
    } = Box::pin(prepare(instance, shared, state, before, target, rendered)).await?;
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
        let revision = record(instance, shared, &owner, before, target, &rendered).await?;
        let current = current.iter().map(|step| step.object.identity());
        let leaving = plan.leaving.iter().map(|leaving| leaving.identity.clone());
        state.excused = view.synced.then(|| {
            let observed = ctx.informers.view(&owner.name);
            // The rollout does not change these objects, so it does not cause their failures.
            let excused = Unhealthy::observed(&observed, current.chain(leaving));
            (revision.number, excused)
        });
        revisions::add(&mut revisions, revision);
    }
    let number = revisions::newest_of(&mut revisions).map(|newest| {
        // The same objects may have been rendered with another configuration.
        newest
            .configuration_hash
            .clone_from(&rendered.configuration_hash);
        newest.number
    });
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
        applied_digest: applied_key(target, &rendered, key),
        number: number.unwrap_or_default(),
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
    let configuration_hash = rendered.configuration_hash.clone();
    let name = &details.bundle.name;
    revisions::rename(&mut revisions, name, template_hash, configuration_hash);
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

/// Returns the applied digest of the status at the end of a rollout: for a Bundle the key of the rendering, which is recorded
/// with the objects, otherwise the key of the target.
pub(crate) fn applied_key(target: &Target<'_>, rendered: &Rendered, key: &str) -> String {
    match (target.source, &rendered.details.key) {
        (Source::Bundle(_), Some(recorded)) => recorded.clone(),
        _ => key.to_owned(),
    }
}

/// Records a new revision.
async fn record(
    instance: &BundleInstance,
    shared: &InstanceContext,
    owner: &InstanceOwner,
    before: &BundleInstanceStatus,
    target: &Target<'_>,
    rendered: &Rendered,
) -> Result<RevisionStatus, Failure> {
    let why = cause(instance, before, target, rendered);
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
    instance: &BundleInstance,
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
        Source::Bundle(bundle) => {
            let is_same = is_same_configuration(instance, before, bundle);
            (revisions::cause(before, rendered, is_same), None)
        }
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
    use convert::bundle_info::BundleInfo;
    use manifests::api::{
        bundle::Bundle,
        bundle_instance::{InstalledBundle, RevisionState},
        revision::RevisionDetails,
    };
    use serde_json::{Value, json};

    use super::*;
    use crate::{
        controllers::bundle_instance::{
            revisions::tests::{revision, status},
            rollout::digest::configuration_hash,
        },
        fixtures::spec,
    };

    fn rendered(bundle: &str, key: Option<&str>) -> Rendered {
        let mut details = with!(RevisionDetails, key: key.map(str::to_owned));
        bundle.clone_into(&mut details.bundle.name);
        Rendered {
            objects: Vec::new(),
            digest: "sha256:2".to_owned(),
            facts: BundleInfo::default(),
            namespace: "default".to_owned(),
            account: None,
            configuration_hash: None,
            details,
            removed_apis: None,
        }
    }

    fn target(source: Source<'_>) -> Target<'_> {
        Target {
            source,
            rollback: None,
        }
    }

    #[test]
    fn applied_digest_is_the_key_of_the_rendering() {
        let bundle: Bundle = object!({"metadata": {"name": "b"}});
        let revision = revision(1);
        let applied = |source, key| applied_key(&target(source), &rendered("b", key), "target");
        let key = Some("rendering");
        assert_rows! {
            applied(Source::Bundle(&bundle), key) => "rendering";
            applied(Source::Bundle(&bundle), None) => "target";
            applied(Source::Revision(&revision), key) => "target";
            applied(Source::Newest(&revision), key) => "target";
        }
    }

    #[test]
    fn platform_is_the_cause_only_without_other_changes() {
        let bundle = |digest: &str| -> Bundle {
            object!({"metadata": {"name": "bundle-1"}, "status": {"contentDigest": digest}})
        };
        let config = json!({"config": {"deploymentConfig": {"env": []}}});
        let account = json!({"serviceAccount": {"name": "a", "namespace": "b"}});
        let hash = configuration_hash(&spec(&json!({})), &bundle("sha256:a"));
        let active = with!(status(&[RevisionState::Active]) => |status|
            status.installed = Some(InstalledBundle::new(&bundle("sha256:a")));
            status.revisions[0].configuration_hash = Some(hash));
        let cause = |before: &BundleInstanceStatus, fields: &Value, name: &str, digest: &str| {
            let instance = object!({"metadata": {"name": "a"}, "spec": fields});
            let bundle = with!(bundle(digest) => metadata.name: Some(name.to_owned()));
            let target = target(Source::Bundle(&bundle));
            let rendered = rendered(name, None);
            let rendered = with!(rendered => details.bundle: InstalledBundle::new(&bundle));
            let (cause, rollback_of) = cause(&instance, before, &target, &rendered);
            assert_eq!(rollback_of, None);
            cause
        };
        let none = &BundleInstanceStatus::default();
        let same = json!({});
        assert_rows! {
            cause(none, &same, "bundle-1", "sha256:a") => Cause::Install;
            cause(&active, &same, "bundle-1", "sha256:a") => Cause::Platform;
            cause(&active, &config, "bundle-1", "sha256:a") => Cause::Configuration;
            cause(&active, &account, "bundle-1", "sha256:a") => Cause::Configuration;
            cause(&active, &same, "bundle-2", "sha256:a") => Cause::Upgrade;
            cause(&active, &same, "bundle-1", "sha256:b") => Cause::Upgrade, "a moved tag";
        }
        // Another rendering continues an interrupted rollout.
        for (interrupted, expected) in [
            (Cause::Install, Cause::Install),
            (Cause::Upgrade, Cause::Upgrade),
            (Cause::Platform, Cause::Platform),
            (Cause::Rollback, Cause::Configuration),
        ] {
            let before = with!(active.clone() => |status| {
                status.applied_digest = None;
                status.revisions[0].state = RevisionState::RollingOut;
                status.revisions[0].cause = interrupted;
            });
            assert_rows!(cause(&before, &same, "bundle-1", "sha256:a") => expected, "{interrupted:?}");
        }
    }
}
