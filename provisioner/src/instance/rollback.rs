//! Automatic rollbacks, where the spec asks for them. Pure; no I/O.

use std::collections::BTreeSet;

use jiff::Timestamp;
use manifests::{
    api::instance::{BundleInstance, BundleInstanceStatus, Rollback},
    object::Identity,
};

use super::{
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
    revisions::active(status)?;
    revisions::rolling_out(status)?;
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
    let revision = revisions::rolling_out(status).filter(|_| is_set);
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
