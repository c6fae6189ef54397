//! Automatic rollbacks, where the spec asks for them. Pure; no I/O.

use std::{borrow::Borrow, collections::BTreeSet, time::Duration};

use apply::{health::Health, informers::InstanceView, revision::ObjectHash};
use jiff::Timestamp;
use kube::ResourceExt;
use manifests::{
    api::bundle_instance::{BundleInstance, BundleInstanceStatus, RevisionStatus, Rollback, ready},
    object::{Identity, Object},
};

use super::{
    choice::Choices,
    outcome::{Failure, HealthState, RetryClass, RolloutState},
    revisions,
    rollout::{Source, Target},
};

/// Unhealthy objects of an instance.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Unhealthy {
    /// Objects that failed and do not recover on their own.
    pub(crate) failed: BTreeSet<Identity>,
    /// Objects that are not healthy yet.
    pub(crate) slow: BTreeSet<Identity>,
}

/// State of a rollout, as the evidence for a rollback.
#[derive(Debug)]
pub(crate) struct Evidence<'a> {
    pub(crate) install: &'a RolloutState,
    pub(crate) health: &'a HealthState,
    /// Unhealthy objects that the informers have observed.
    pub(crate) found: &'a Unhealthy,
    /// Unhealthy objects that the rollout did not cause.
    pub(crate) excused: &'a Unhealthy,
    /// Hash of the template.
    pub(crate) hash: &'a str,
    /// Whether the last attempt could not load the content of the Bundle, or used a record with earlier inputs instead.
    pub(crate) lacks_content: bool,
}

/// Reports whether a failure of the rollout leads to a rollback. The spec must enable rollbacks and pin no revision. The revision
/// must come from the current template, and the active revision from another template. Without a target, the rollout is that of
/// the newest revision.
pub(crate) fn is_possible(
    choices: &Choices<'_>,
    target: Option<&Target<'_>>,
    status: &BundleInstanceStatus,
) -> bool {
    let is_of_template =
        |revision: &RevisionStatus| revision.template_hash.as_deref() == Some(choices.hash);
    let is_current = match target.map(|target| target.source) {
        Some(Source::Bundle(bundle)) => {
            choices.desired.map(ResourceExt::name_any) == Some(bundle.name_any())
        }
        Some(Source::Newest(newest)) => is_of_template(newest),
        Some(Source::Revision(_)) => false,
        None => status.rolling_out().is_some_and(is_of_template),
    };
    // The rollout of another template does not count as a failure of the current one.
    if !is_current
        || choices.spec.rollback_to.is_some()
        || choices.spec.rollback != Rollback::OnFailure
    {
        return false;
    }
    // A change of only the configuration or the service account is not a failure of the template.
    let (active, newest) = (status.active(), status.rolling_out());
    let (Some(active), Some(newest)) = (active, newest) else {
        return false;
    };
    // The template may have been changed back while another one is rolled out.
    active.template_hash != newest.template_hash
        && active.template_hash.as_deref() != Some(choices.hash)
}

/// Returns the unhealthy objects whose live form is the one that the active revision records. The rollout did not change
/// these objects.
pub(crate) fn unchanged(active: &[Object], view: &InstanceView, found: &Unhealthy) -> Unhealthy {
    let hashes: BTreeSet<ObjectHash> = active.iter().map(ObjectHash::new).collect();
    let is_unchanged = |identity: &&Identity| {
        let hash = view.objects.get(*identity).and_then(|object| object.hash);
        hash.is_some_and(|hash| hashes.contains(&hash))
    };
    let unchanged = |all: &BTreeSet<Identity>| all.iter().filter(is_unchanged).cloned().collect();
    Unhealthy {
        failed: unchanged(&found.failed),
        slow: unchanged(&found.slow),
    }
}

/// Moves failed objects to the slow ones while their progress deadline has not passed since the provisioner last changed them,
/// because they may still report the timeout of an earlier rollout. Returns the time until the first of these deadlines. Changes
/// after the revision was `applied` do not count: repairs must not delay a rollback beyond the end of the rollout.
pub(crate) fn defer_timeouts(
    found: &mut Unhealthy,
    view: &InstanceView,
    applied: Option<Timestamp>,
    now: Timestamp,
) -> Option<Duration> {
    let mut first = None;
    found.failed.retain(|identity| {
        let observed = view.objects.get(identity).map(|object| &object.health);
        let Some(&Health::TimedOut {
            deadline, written, ..
        }) = observed
        else {
            return true;
        };
        let Some(since) = written.into_iter().chain(applied).min() else {
            return true;
        };
        let left = ready::left(since, deadline, now);
        if left.is_zero() {
            return true;
        }
        first = first.into_iter().chain([left]).min();
        found.slow.insert(identity.clone());
        false
    });
    first
}

/// Returns the reason why the rollout of the newest revision is given up, or `None` if it continues. Reasons are:
/// - The API server rejects an object after others were applied.
/// - An object fails that the rollout changed, or that began to fail after the rollout started.
/// - The progress deadline of the spec has passed. The default deadline leads to no rollback.
///
/// Neither content that cannot be loaded nor rejected objects with earlier inputs count as a failure of the bundle.
pub(crate) fn rollback_reason(
    instance: &BundleInstance,
    status: &BundleInstanceStatus,
    evidence: &Evidence<'_>,
    now: Timestamp,
) -> Option<String> {
    if instance.spec.rollback != Rollback::OnFailure {
        return None;
    }
    if matches!(evidence.install, RolloutState::Done(done) if done.is_outdated) {
        return None; // the objects have the inputs of an earlier spec
    }
    status.active()?;
    let newest = status.rolling_out()?;
    let Evidence {
        install,
        health,
        found,
        excused,
        hash,
        lacks_content,
    } = *evidence;
    // If an attempt changed no object, its result concerns a later spec. The applied revision may still fail.
    let is_applied =
        status.applied_digest.is_some() && newest.template_hash.as_deref() == Some(hash);
    let has_changed = matches!(
        install,
        RolloutState::Failed(Failure { touched: true, .. }) | RolloutState::Done(_)
    );
    let unchanged = RolloutState::Unchanged;
    let install = if is_applied && !has_changed {
        &unchanged
    } else {
        install
    };
    let has_failed = found.failed.difference(&excused.failed).next().is_some();
    let late = || {
        let seconds = instance.spec.progress_deadline_seconds?;
        is_late(instance, status, now).then(|| {
            format!("the deadline of {seconds} seconds (spec.progressDeadlineSeconds) has passed")
        })
    };
    match (install, health) {
        (RolloutState::Failed(_) | RolloutState::Waiting(_), HealthState::Failed(objects))
            if lacks_content && has_failed =>
        {
            Some(objects.join("; "))
        }
        (RolloutState::Failed(_) | RolloutState::Waiting(_), _) if lacks_content => None,
        (
            RolloutState::Failed(Failure {
                message,
                touched: true,
                retry: RetryClass::Backoff | RetryClass::AfterGrant,
                ..
            }),
            _,
        ) => Some(message.clone()),
        (
            RolloutState::Failed(Failure {
                message,
                touched: true,
                retry: RetryClass::Soon,
                ..
            }),
            _,
        ) => late().map(|late| format!("{late}: {message}")),
        (RolloutState::Waiting(_), _) if status.applied_digest.is_none() => {
            late().map(|late| format!("{late}, and some objects are not applied"))
        }
        (RolloutState::Unchanged | RolloutState::Done(_), HealthState::Failed(objects))
            if has_failed =>
        {
            Some(objects.join("; "))
        }
        (
            RolloutState::Unchanged | RolloutState::Done(_),
            HealthState::Progressing(objects) | HealthState::Failed(objects),
        ) if found.slow.difference(&excused.all()).next().is_some() => {
            late().map(|late| format!("{late}: {}", objects.join("; ")))
        }
        _ => None,
    }
}

/// Reports whether the spec sets a progress deadline and it has passed for the newest revision.
pub(crate) fn is_late(
    instance: &BundleInstance,
    status: &BundleInstanceStatus,
    now: Timestamp,
) -> bool {
    let is_set = instance.spec.progress_deadline_seconds.is_some();
    let revision = status.rolling_out().filter(|_| is_set);
    let left = revision.and_then(|newest| revisions::time_left(&instance.spec, newest, now));
    left.is_some_and(|left| left.is_zero())
}

/// Returns the message of a failed rollback.
pub(crate) fn rollback_blocked_message(failure: &str, why: &str) -> String {
    format!(
        "rollback failed: {failure}\nthe rollback was started because the bundle of spec.template failed: {why}"
    )
}

impl Unhealthy {
    /// Returns the unhealthy objects of `identities`. An object that the informers have not observed is slow.
    pub(crate) fn observed(
        view: &InstanceView,
        identities: impl Iterator<Item = impl Borrow<Identity>>,
    ) -> Self {
        let mut unhealthy = Self::default();
        for identity in identities {
            let identity = identity.borrow();
            let list = match view.objects.get(identity).map(|observed| &observed.health) {
                Some(Health::Current) => continue,
                Some(Health::Failed(_) | Health::TimedOut { .. }) => &mut unhealthy.failed,
                Some(Health::InProgress(_)) | None => &mut unhealthy.slow,
            };
            list.insert(identity.clone());
        }
        unhealthy
    }

    /// Returns the failed and the slow objects.
    pub(crate) fn all(&self) -> BTreeSet<Identity> {
        self.failed.union(&self.slow).cloned().collect()
    }
}

#[cfg(test)]
mod tests;
