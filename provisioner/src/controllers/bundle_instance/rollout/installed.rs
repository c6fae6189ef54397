//! The installed objects as the status records them. Pure; no I/O.

use kube::ResourceExt as _;
use manifests::api::{
    bundle::Bundle,
    bundle_instance::{BundleInstance, BundleInstanceStatus},
    condition::{self, reason},
    labels,
};

use super::Target;
use crate::controllers::bundle_instance::{outcome::CompletedRollout, revisions};

/// Reports whether the installed objects are those of the target with the current spec: only the provisioner or the cluster
/// has changed since.
pub(crate) fn is_as_declared(
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
            installed.observed_generation == instance.metadata.generation
                && installed.reason == reason::INSTALLATION_SUCCEEDED
        })
}

/// Reports whether the status records this Bundle, by UID, as the installed one.
pub(crate) fn is_recorded(status: &BundleInstanceStatus, bundle: &Bundle) -> bool {
    let installed = status.installed.as_ref();
    installed.is_some_and(|installed| installed.is(bundle))
}

/// Returns the installed objects under the name of another Bundle.
pub(crate) fn renamed(
    instance: &BundleInstance,
    status: &BundleInstanceStatus,
    bundle: &Bundle,
) -> CompletedRollout {
    let found = bundle.status.as_ref();
    let mut revisions = status.revisions.clone();
    let template_hash = bundle.labels().get(labels::TEMPLATE_HASH);
    revisions::rename(&mut revisions, &bundle.name_any(), template_hash);
    CompletedRollout {
        bundle: bundle.name_any(),
        uid: bundle.uid().unwrap_or_default(),
        source: found.and_then(|found| found.resolved_source.clone()),
        content: found.and_then(|found| found.content_digest.clone()),
        revisions,
        ..unchanged(instance, status)
    }
}

/// Returns the installed objects as the status lists them.
pub(crate) fn unchanged(
    instance: &BundleInstance,
    status: &BundleInstanceStatus,
) -> CompletedRollout {
    CompletedRollout {
        bundle: status.installed_bundle_name.clone().unwrap_or_default(),
        uid: status
            .installed
            .as_ref()
            .map(|installed| installed.uid.clone())
            .unwrap_or_default(),
        // A Bundle that another client has deleted is created again, with the same previous Bundle.
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
        rolled_back: revisions::rollback(
            &instance.spec,
            status,
            revisions::is_given_up(instance, status),
        ),
    }
}

#[cfg(test)]
mod tests;
