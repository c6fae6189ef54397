//! The way back to the previous bundle, where the instance asks for it.

use manifests::api::{
    bundle::Bundle,
    instance::{BundleInstance, BundleInstanceStatus, Rollback},
};

use super::{
    install::Target,
    outcome::{Failure, Health, Install, Retry},
};

/// Why to go back: the new bundle was begun and the apiserver will not take it, or it is applied and does not work.
pub(super) fn reason(
    instance: &BundleInstance,
    status: &BundleInstanceStatus,
    install: &Install,
    health: &Health,
) -> Option<String> {
    if instance.spec.rollback != Rollback::OnFailure {
        return None;
    }
    match (install, health) {
        (
            Install::Failed(Failure {
                bundle,
                message,
                touched: true,
                retry: Retry::Slowly | Retry::Granted,
            }),
            _,
        ) if status
            .installed_bundle_name
            .as_ref()
            .is_some_and(|old| old != bundle) =>
        {
            Some(message.clone())
        }
        (Install::Unchanged | Install::Done(_), Health::Failed(objects))
            if status.previous_bundle_name.is_some() =>
        {
            Some(objects.join("; "))
        }
        _ => None,
    }
}

/// Why there is no way back, and why it was looked for.
pub(super) fn blocked(failure: &str, why: &str) -> String {
    format!("{failure}\nThis is the way back, because the bundle of the template failed: {why}")
}

/// Where to go back to: the bundle that is still named as installed, or the one that was before.
pub(super) fn to<'a>(
    status: &BundleInstanceStatus,
    failed: &Target<'_>,
    installed: Option<&'a Bundle>,
    previous: Option<&'a Bundle>,
) -> Option<&'a Bundle> {
    let is_failed = status.installed_bundle_name == failed.bundle.metadata.name;
    if failed.way_back_from.is_some() {
        // The way back does not lead further back.
        None
    } else if is_failed {
        previous
    } else {
        installed
    }
}

#[cfg(test)]
mod tests;
