//! Automatic rollbacks, where the spec asks for them. Pure; no I/O.

use std::collections::BTreeSet;

use apply::{informers::View, revision::ObjectHash};
use jiff::Timestamp;
use kube::ResourceExt;
use manifests::{
    api::instance::{BundleInstance, BundleInstanceStatus, Rollback},
    object::{Identity, Object},
};

use super::{
    choice::Choices,
    install::{Source, Target},
    outcome::{Failure, Health, Install, Retry},
    revisions,
};

/// Objects that are not healthy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Unhealthy {
    /// Objects that failed, and do not recover on their own.
    pub(super) failed: BTreeSet<Identity>,
    /// Objects that are not healthy yet.
    pub(super) slow: BTreeSet<Identity>,
}

/// The outcome of a rollout so far.
#[derive(Debug)]
pub(super) struct Evidence<'a> {
    pub(super) install: &'a Install,
    pub(super) health: &'a Health,
    /// The unhealthy objects.
    pub(super) found: &'a Unhealthy,
    /// Those of them that the rollout is not to blame for.
    pub(super) excused: &'a Unhealthy,
}

/// Reports whether failures of a rollout lead to a rollback: the spec asks for that, and the revision comes from the present
/// template, while the active one comes from another.
pub(super) fn is_possible(
    choices: &Choices<'_>,
    target: &Target<'_>,
    status: &BundleInstanceStatus,
) -> bool {
    let is_wanted = match target.source {
        Source::Bundle(bundle) => {
            choices.wanted.map(ResourceExt::name_any) == Some(bundle.name_any())
        }
        Source::Newest(newest) => newest.template_hash.as_deref() == Some(choices.hash),
        Source::Revision(_) => false,
    };
    // Another template than the one that does not work is not to blame.
    if !is_wanted || choices.spec.rollback != Rollback::OnFailure {
        return false;
    }
    // A change of the configuration or the account alone is not the fault of the template.
    let (active, newest) = (status.active(), status.rolling_out());
    let (Some(active), Some(newest)) = (active, newest) else {
        return false;
    };
    // The template may have been changed back while another one is rolled out.
    active.template_hash != newest.template_hash
        && active.template_hash.as_deref() != Some(choices.hash)
}

/// Returns the unhealthy objects that have the form in which the active revision records them: the rollout did not change
/// these.
pub(super) fn unchanged(active: &[Object], view: &View, found: &Unhealthy) -> Unhealthy {
    let hashes: BTreeSet<ObjectHash> = active.iter().map(ObjectHash::new).collect();
    let is_unchanged = |identity: &&Identity| {
        let hash = view.objects.get(*identity).and_then(|seen| seen.hash);
        hash.is_some_and(|hash| hashes.contains(&hash))
    };
    let unchanged = |all: &BTreeSet<Identity>| all.iter().filter(is_unchanged).cloned().collect();
    Unhealthy {
        failed: unchanged(&found.failed),
        slow: unchanged(&found.slow),
    }
}

/// Returns why the rollout of the newest revision is given up: the API server refuses an object after others were applied,
/// an object fails that the rollout changed, or that began to fail after it started, or the progress deadline has passed
/// that the spec sets. The default deadline leads to no rollback: a slow rollout continues.
pub(super) fn reason(
    instance: &BundleInstance,
    status: &BundleInstanceStatus,
    evidence: &Evidence<'_>,
    now: Timestamp,
) -> Option<String> {
    if instance.spec.rollback != Rollback::OnFailure {
        return None;
    }
    status.active()?;
    status.rolling_out()?;
    let Evidence {
        install,
        health,
        found,
        excused,
    } = evidence;
    let late = || {
        let seconds = instance.spec.progress_deadline_seconds?;
        is_late(instance, status, now)
            .then(|| format!("the {seconds} seconds of spec.progressDeadlineSeconds have passed"))
    };
    match (install, health) {
        (
            Install::Failed(Failure {
                message,
                touched: true,
                retry: Retry::Slowly | Retry::Granted,
                ..
            }),
            _,
        ) => Some(message.clone()),
        (
            Install::Failed(Failure {
                message,
                touched: true,
                retry: Retry::Soon,
                ..
            }),
            _,
        ) => late().map(|late| format!("{late}: {message}")),
        (Install::Waiting(_), _) if status.applied_digest.is_none() => {
            late().map(|late| format!("{late}, and not every object is applied"))
        }
        (Install::Unchanged | Install::Done(_), Health::Failed(objects))
            if found.failed.difference(&excused.failed).next().is_some() =>
        {
            Some(objects.join("; "))
        }
        (
            Install::Unchanged | Install::Done(_),
            Health::Progressing(objects) | Health::Failed(objects),
        ) if found.slow.difference(&excused.all()).next().is_some() => {
            late().map(|late| format!("{late}: {}", objects.join("; ")))
        }
        _ => None,
    }
}

/// Reports whether the deadline of the newest revision has passed that the spec sets.
pub(super) fn is_late(
    instance: &BundleInstance,
    status: &BundleInstanceStatus,
    now: Timestamp,
) -> bool {
    let is_set = instance.spec.progress_deadline_seconds.is_some();
    let revision = status.rolling_out().filter(|_| is_set);
    let left = revision.and_then(|newest| revisions::time_left(&instance.spec, newest, now));
    left.is_some_and(|left| left.is_zero())
}

/// Returns the message of a rollback that failed.
pub(super) fn blocked(failure: &str, why: &str) -> String {
    format!("{failure}\nThis is the way back, because the bundle of the template failed: {why}")
}

impl Unhealthy {
    /// Returns all of them.
    pub(super) fn all(&self) -> BTreeSet<Identity> {
        self.failed.union(&self.slow).cloned().collect()
    }
}

#[cfg(test)]
mod tests;
