//! Installing a Bundle, or another version of it: everything is known to be possible before anything is changed.

pub(super) mod attempt;
mod converted;
pub(super) mod inventory;
pub(super) mod key;
pub(super) mod leaving;
mod migrate;
pub(super) mod prepare;
pub(super) mod recreate;
pub(super) mod removed_apis;
mod step;
mod words;

use std::{collections::BTreeSet, time::Duration};

use apply::informers::View;
use kube::{ResourceExt as _, core::GroupVersionKind};
use manifests::{
    api::{
        bundle::Bundle,
        condition::{self, reason},
        instance::{BundleInstance, BundleInstanceStatus, RevisionStatus},
        labels,
    },
    object::{Identity, group_version, shortened},
};
use tracing::{info, warn};

use self::{attempt::attempt, step::Stepped};
pub(super) use self::{
    converted::Rendered,
    inventory::{settle_inventory, take_over},
    leaving::{MAX_LISTED, lines_of, release_lines, removing},
    migrate::migrate,
    prepare::plan,
    step::Progress,
    words::{api, refusals, retry, waiting},
};
use super::{
    bundles,
    choice::{Choices, Goal},
    maintain,
    memory::{Memory, Shared},
    outcome::{Done, Failure, Health, Install, Kept, Remedy, Retry, RolledBack},
    reconcile::{current_status, sooner},
    revisions,
    rollouts::Turn,
    template, trust,
    waiting::Api,
};
use crate::bundle;

/// What is to be in the cluster.
pub(super) struct Target<'a> {
    /// The origin of its objects.
    pub(super) source: Source<'a>,
    /// The rollback that leads to it, if one does.
    pub(super) rollback: Option<RolledBack>,
}

/// The origin of the objects of a revision.
#[derive(Debug, Clone, Copy)]
pub(super) enum Source<'a> {
    /// They are rendered from a Bundle.
    Bundle(&'a Bundle),
    /// They are recorded, and recorded again with the present account.
    Revision(&'a RevisionStatus),
    /// They are recorded by the newest revision, whose rollout continues.
    Newest(&'a RevisionStatus),
}

impl<'a> Target<'a> {
    /// Returns the name of the Bundle that the objects come from.
    pub(super) fn bundle_name(&self) -> String {
        match self.source {
            Source::Bundle(bundle) => bundle.name_any(),
            Source::Revision(revision) | Source::Newest(revision) => revision.bundle.clone(),
        }
    }

    /// Returns the Bundle that the objects are rendered from.
    pub(super) fn bundle(&self) -> Option<&'a Bundle> {
        match self.source {
            Source::Bundle(bundle) => Some(bundle),
            Source::Revision(_) | Source::Newest(_) => None,
        }
    }
}

/// The outcome.
pub(super) struct Settled {
    pub(super) install: Install,
    pub(super) health: Health,
    pub(super) fights: Vec<String>,
    pub(super) kept: Option<Kept>,
    /// The time to look again, unless something happens.
    pub(super) again: Option<Duration>,
}

/// Rolls the target out where it is not rolled out yet, and repairs the installed objects.
pub(super) async fn run(
    instance: &BundleInstance,
    shared: &Shared,
    memory: &mut Memory,
    status: &BundleInstanceStatus,
    target: &Target<'_>,
) -> Settled {
    let now = (shared.ctx.now)();
    let key = match key(instance, shared, target).await {
        Ok(key) => key,
        Err(failure) => {
            return failed(instance, shared, memory, failure, "version".to_owned()).await;
        }
    };
    let has_api = has_api_at_last(shared, status).await;
    if is_up_to_date(status, &key) && !has_api {
        memory.refused.clear();
        memory.await_apis(awaited(&status.waiting));
        return keep(instance, shared, memory, status, target).await;
    }
    let view = shared.ctx.watches.view(&instance.name_any());
    let freed = freed(&memory.refused, &view);
    let tried = format!(
        "{key} {} {:?} {:?} {} {} {freed:?}",
        target.bundle_name(),
        instance.metadata.generation,
        instance.annotations().get(labels::RETRY),
        *shared.ctx.kinds.changes().borrow(),
        memory.turn(),
    );
    if let Some(left) = memory.tries.must_wait(&tried, now) {
        let mut settled = maintain::run(instance, shared, memory, status).await;
        settled.again = sooner(settled.again, Some(left));
        maintain::tell_failure(instance, shared, &settled.install).await;
        return waiting_after(settled, memory.remedy);
    }
    memory.freed = freed.iter().cloned().collect();
    if lacks_content(instance, shared, status, target).await {
        let mut settled = maintain::run(instance, shared, memory, status).await;
        let again = memory.tries.again(tried, Retry::Soon, now);
        settled.again = sooner(settled.again, Some(again));
        return settled;
    }
    let is_freed = !freed.is_empty();
    if memory.platform.as_ref() == Some(&key) {
        // Neither rendered nor checked again before its turn.
        let turn = shared.rollouts.begin_platform(&instance.name_any());
        if turn != Turn::Granted {
            return queued(instance, shared, memory, status, (turn, is_freed)).await;
        }
    }
    let Some(_permit) = shared.rollouts.begin(&instance.name_any()) else {
        return queued(instance, shared, memory, status, (Turn::Queued, is_freed)).await;
    };
    let repaired = repair_between_steps(instance, shared, memory, status).await;
    let attempt = attempt(instance, shared, memory, status, target, &key, has_api);
    match Box::pin(attempt).await {
        Ok(Stepped::Next(applying)) => {
            memory.tries.succeeded();
            Settled {
                health: maintain::health(instance, shared, memory, &status.removing),
                install: Install::Applying(applying),
                fights: Vec::new(),
                kept: repaired,
                again: Some(Duration::ZERO),
            }
        }
        Ok(Stepped::Waits(turn)) => {
            queued(instance, shared, memory, status, (turn, is_freed)).await
        }
        Ok(Stepped::Done(done)) => {
            info!(bundle = %done.bundle, objects = done.inventory.count, "installed");
            maintain::watch(instance, shared, memory, status).await;
            // The account may be another one from now on.
            memory.is_watched = false;
            memory.tries.succeeded();
            memory.await_apis(awaited(&done.waiting));
            Settled {
                // An object that left an earlier revision may be back.
                health: maintain::health(instance, shared, memory, &done.removing),
                install: Install::Done(done),
                fights: Vec::new(),
                kept: None,
                again: None,
            }
        }
        Err(mut failure) => {
            // After an earlier attempt that began, the old bundle exists only in part.
            failure.touched |=
                status.installed_bundle_name.is_some() && status.applied_digest.is_none();
            if !memory.refused.is_empty() && freed.iter().all(|one| !memory.refused.contains(one)) {
                // Other objects have to be deleted as well.
                maintain::postpone(memory, freed, now);
            }
            failed(instance, shared, memory, failure, tried).await
        }
    }
}

/// Reports whether a target is rolled out already, by its key.
pub(super) fn is_up_to_date(status: &BundleInstanceStatus, key: &str) -> bool {
    status.applied_digest.as_deref() == Some(key) && status.newest().is_some()
}

/// Returns the objects that could not be changed and were deleted, or whose deletion is complete: the next attempt creates
/// them in their new form.
pub(super) fn freed(refused: &BTreeSet<Identity>, view: &View) -> Vec<Identity> {
    refused.intersection(&view.absent).cloned().collect()
}

/// Repairs an installation that the target does not change.
async fn keep(
    instance: &BundleInstance,
    shared: &Shared,
    memory: &mut Memory,
    status: &BundleInstanceStatus,
    target: &Target<'_>,
) -> Settled {
    let mut settled = maintain::run(instance, shared, memory, status).await;
    if matches!(settled.install, Install::Unchanged)
        && let Some(bundle) = target.bundle()
        && !is_recorded(status, bundle)
    {
        // Another Bundle with the same content: nothing to apply.
        settled.install = Install::Done(Box::new(renamed(instance, status, bundle)));
    }
    settled
}

/// Repairs what drifted before the next step of a rollout.
async fn repair_between_steps(
    instance: &BundleInstance,
    shared: &Shared,
    memory: &mut Memory,
    status: &BundleInstanceStatus,
) -> Option<Kept> {
    memory.progress.as_ref()?;
    let repaired = maintain::run(instance, shared, memory, status).await;
    maintain::tell_failure(instance, shared, &repaired.install).await;
    changes(repaired.kept, &repaired.install)
}

/// Repairs while a rollout waits for its turn; but not an object that was deleted for this rollout to create it anew.
async fn queued(
    instance: &BundleInstance,
    shared: &Shared,
    memory: &mut Memory,
    status: &BundleInstanceStatus,
    (turn, is_freed): (Turn, bool),
) -> Settled {
    let waits = match turn {
        Turn::Stopped(unhealthy) => Install::Stopped(unhealthy),
        Turn::Granted | Turn::Queued => Install::Queued,
    };
    if is_freed && matches!(waits, Install::Queued) {
        // The rollout creates these objects.
        memory.freed.clear();
    }
    let settled = maintain::run(instance, shared, memory, status).await;
    Settled {
        kept: changes(settled.kept, &settled.install),
        install: match settled.install {
            Install::Failed(failure) => Install::Failed(failure),
            _ => waits,
        },
        ..settled
    }
}

/// Reports that the next attempt has to wait. Repairs are reported beside it.
pub(super) fn waiting_after(settled: Settled, remedy: Remedy) -> Settled {
    Settled {
        kept: changes(settled.kept, &settled.install),
        install: Install::Waiting(remedy),
        ..settled
    }
}

/// Returns the changes of the inventory that repairs made, while the conditions are about another bundle.
pub(super) fn changes(kept: Option<Kept>, install: &Install) -> Option<Kept> {
    match install {
        Install::Done(done) => Some(Kept::of(done)),
        _ => kept,
    }
}

/// Returns what decides whether the target is rolled out already.
async fn key(
    instance: &BundleInstance,
    shared: &Shared,
    target: &Target<'_>,
) -> Result<String, Failure> {
    let bundle = match target.source {
        Source::Bundle(bundle) => bundle,
        Source::Revision(revision) | Source::Newest(revision) => {
            return Ok(format!("revision {}", revision.digest));
        }
    };
    let version = shared.ctx.versions.kubernetes().await;
    let version = version.map_err(|error| Failure {
        bundle: target.bundle_name(),
        message: format!("the apiserver does not tell its version: {error}"),
        touched: false,
        retry: Retry::Soon,
        remedy: Remedy::World,
    })?;
    let has_conditions = shared.has_conditions();
    Ok(key::of(&instance.spec, bundle, version, has_conditions))
}

/// Reports whether everything is applied that the spec of a paused instance declares. Nothing is written.
pub(super) async fn is_applied(
    instance: &BundleInstance,
    shared: &Shared,
    status: &BundleInstanceStatus,
    installed: Option<&Bundle>,
) -> bool {
    let Some(applied) = &status.applied_digest else {
        return false;
    };
    let hash = template::hash(instance);
    let bundles = bundles::owned_by(instance, shared);
    let wanted = trust::of_template(status, instance, &hash, &bundles);
    let choices = Choices {
        spec: &instance.spec,
        status,
        hash: &hash,
        wanted: wanted.map(AsRef::as_ref),
        installed,
    };
    if !choices.is_declared() {
        return false;
    }
    match choices.goal() {
        Goal::Bundle(bundle) => {
            let target = Target {
                source: Source::Bundle(bundle),
                rollback: None,
            };
            let key = key(instance, shared, &target).await;
            key.is_ok_and(|key| key == *applied)
        }
        Goal::Keep => true,
        Goal::Revision(_) | Goal::Unrecorded(_) => false,
    }
}

/// Returns the digest without the mark that an older provisioner left while objects were pruned.
pub(super) fn applied(digest: &str) -> &str {
    digest.strip_suffix(" (removing)").unwrap_or(digest)
}

/// Records a failed attempt, and repairs what is installed.
async fn failed(
    instance: &BundleInstance,
    shared: &Shared,
    memory: &mut Memory,
    failure: Failure,
    tried: String,
) -> Settled {
    let now = (shared.ctx.now)();
    warn!(bundle = %failure.bundle, message = %shortened(&failure.message, 500), "not installed");
    shared.ctx.metrics.failed(
        crate::metrics::Controller::Instance,
        manifests::api::condition::reason::INSTALL_FAILED,
    );
    let again = memory.tries.again(tried, failure.retry, now);
    memory.remedy = failure.remedy;
    // The attempt has changed the status, if it began.
    let status = current_status(instance, memory);
    let kept = maintain::run(instance, shared, memory, &status).await;
    maintain::tell_failure(instance, shared, &kept.install).await;
    Settled {
        again: sooner(Some(again), kept.again),
        kept: changes(kept.kept, &kept.install),
        install: Install::Failed(failure),
        health: kept.health,
        fights: kept.fights,
    }
}

/// Reports whether an API is served now that objects wait for.
pub(super) async fn has_api_at_last(shared: &Shared, status: &BundleInstanceStatus) -> bool {
    let kinds = awaited_kinds(&status.waiting);
    if kinds.is_empty() {
        return false;
    }
    match shared.ctx.kinds.find(kinds).await {
        Ok(found) => found.values().any(Option::is_some),
        Err(_) => false,
    }
}

/// Reports whether the content to render again is lost, after a change of the provisioner's release or of the cluster: the
/// installation stays as recorded until the Bundle controller has fetched the content.
async fn lacks_content(
    instance: &BundleInstance,
    shared: &Shared,
    status: &BundleInstanceStatus,
    target: &Target<'_>,
) -> bool {
    is_as_declared(instance, status, target)
        && match target.bundle() {
            Some(bundle) => !bundle::is_available(&shared.ctx, bundle).await,
            None => false,
        }
}

/// Reports whether the installed objects are those of the target, as the present spec configures them: only the provisioner
/// or the cluster has changed since.
fn is_as_declared(
    instance: &BundleInstance,
    status: &BundleInstanceStatus,
    target: &Target<'_>,
) -> bool {
    let bundle = target.bundle();
    let installed = condition::find(&status.conditions, condition::INSTALLED);
    bundle.is_some_and(|bundle| is_recorded(status, bundle))
        && status.applied_digest.is_some()
        && status.newest().is_some()
        && installed.is_some_and(|installed| {
            let reason = installed.reason.as_str();
            installed.observed_generation == instance.metadata.generation
                && matches!(reason, reason::INSTALLATION_SUCCEEDED | reason::ROLLED_BACK)
        })
}

/// Returns the kinds of the objects that wait, as the status lists them.
fn awaited_kinds(waiting: &[String]) -> Vec<GroupVersionKind> {
    let kinds = waiting.iter().filter_map(|text| {
        let mut words = text.split(' ');
        let (kind, api_version) = (words.next()?, words.next()?);
        let (group, version) = group_version(api_version);
        Some(GroupVersionKind::gvk(group, version, kind))
    });
    kinds.collect()
}

/// Returns the APIs that the objects wait for, as the status lists them.
pub(super) fn awaited(waiting: &[String]) -> Vec<Api> {
    awaited_kinds(waiting).iter().map(Api::from).collect()
}

/// Reports whether the status says by uid that this Bundle is the installed one.
pub(super) fn is_recorded(status: &BundleInstanceStatus, bundle: &Bundle) -> bool {
    let installed = status.installed.as_ref();
    installed.is_some_and(|installed| installed.is(bundle))
}

/// Returns the installed objects under the name of another Bundle.
pub(super) fn renamed(
    instance: &BundleInstance,
    status: &BundleInstanceStatus,
    bundle: &Bundle,
) -> Done {
    let found = bundle.status.as_ref();
    let mut revisions = status.revisions.clone();
    if let Some(newest) = revisions::newest_of(&mut revisions) {
        newest.bundle = bundle.name_any();
    }
    Done {
        bundle: bundle.name_any(),
        uid: bundle.uid().unwrap_or_default(),
        source: found.and_then(|found| found.resolved_source.clone()),
        content: found.and_then(|found| found.content_digest.clone()),
        revisions,
        ..unchanged(instance, status)
    }
}

/// Returns the installed objects as the status has them.
pub(super) fn unchanged(instance: &BundleInstance, status: &BundleInstanceStatus) -> Done {
    Done {
        bundle: status.installed_bundle_name.clone().unwrap_or_default(),
        uid: status
            .installed
            .as_ref()
            .map(|installed| installed.uid.clone())
            .unwrap_or_default(),
        // A Bundle that another client has deleted is created again, and the same Bundle precedes it.
        previous: status.previous_bundle_name.clone(),
        source: status.resolved_source.clone(),
        content: status.content_digest.clone(),
        namespace: status.install_namespace.clone().unwrap_or_default(),
        digest: status.applied_digest.clone().unwrap_or_default(),
        facts: status.facts.clone(),
        inventory: status.inventory.clone().unwrap_or_default(),
        waiting: status.waiting.clone(),
        released: status.released.clone(),
        removing: status.removing.clone(),
        revisions: status.revisions.clone(),
        warnings: Vec::new(),
        rolled_back: revisions::rollback(&instance.spec, status),
    }
}

#[cfg(test)]
mod tests;
