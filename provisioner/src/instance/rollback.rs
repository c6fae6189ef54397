//! Automatic rollbacks, where the spec asks for them. Pure; no I/O.

use std::collections::BTreeSet;

use manifests::{
    api::instance::{BundleInstance, BundleInstanceStatus, Rollback},
    object::Identity,
};

use super::{
    outcome::{Failure, Health, Install, Retry},
    revisions,
};

/// Returns why the rollout of the newest revision is given up: the API server refuses an object after others were applied,
/// or an object fails that the rollout changed, or that began to fail after it started. `failing` are the objects that fail,
/// `excused` those of them that the rollout is not to blame for.
pub(super) fn reason(
    instance: &BundleInstance,
    status: &BundleInstanceStatus,
    install: &Install,
    health: &Health,
    failing: &BTreeSet<Identity>,
    excused: &BTreeSet<Identity>,
) -> Option<String> {
    if instance.spec.rollback != Rollback::OnFailure {
        return None;
    }
    revisions::active(status)?;
    revisions::rolling_out(status)?;
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
        (Install::Unchanged | Install::Done(_), Health::Failed(objects))
            if failing.difference(excused).next().is_some() =>
        {
            Some(objects.join("; "))
        }
        _ => None,
    }
}

/// Returns the message of a rollback that failed.
pub(super) fn blocked(failure: &str, why: &str) -> String {
    format!("{failure}\nThis is the way back, because the bundle of the template failed: {why}")
}

#[cfg(test)]
mod tests;
