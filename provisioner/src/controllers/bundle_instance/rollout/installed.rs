//! The installed objects as the status records them. Pure; no I/O.

use kube::ResourceExt as _;
use manifests::api::{
    bundle::Bundle,
    bundle_instance::{BundleInstance, BundleInstanceStatus, RevisionStatus},
    condition, labels,
};

use super::{Target, digest::configuration_hash};
use crate::controllers::bundle_instance::{outcome::CompletedRollout, revisions};

/// Reports whether all objects of the target's Bundle are applied, and no failed template has been rolled back. The objects may
/// have been rendered for another spec, provisioner or cluster.
pub(crate) fn is_installed(status: &BundleInstanceStatus, target: &Target<'_>) -> bool {
    let bundle = target.bundle();
    bundle.is_some_and(|bundle| is_recorded(status, bundle))
        && status.applied_digest.is_some()
        && status.failed_template_hash.is_none()
}

/// Reports whether all objects that the spec declares are applied. Another release of the provisioner or another version of
/// Kubernetes may have rendered them.
pub(crate) fn is_as_declared(
    instance: &BundleInstance,
    status: &BundleInstanceStatus,
    target: &Target<'_>,
) -> bool {
    let bundle = target.bundle().filter(|_| is_installed(status, target));
    let has_hash = |newest: &RevisionStatus| newest.configuration_hash.is_some();
    bundle.is_some_and(|bundle| is_same_configuration(instance, status, bundle))
        // Without a hash, an attempt to apply another spec may have failed.
        && (is_ready(instance, status) || status.newest().is_some_and(has_hash))
}

/// Reports whether the newest revision comes from this Bundle with the configuration of the spec, so that only the provisioner
/// or the cluster has changed since. Without a hash, the spec counts as changed until its generation is observed.
pub(crate) fn is_same_configuration(
    instance: &BundleInstance,
    status: &BundleInstanceStatus,
    bundle: &Bundle,
) -> bool {
    let spec = &instance.spec;
    let Some(newest) = status.newest() else {
        return false;
    };
    let is_same = if let Some(hash) = &newest.configuration_hash {
        *hash == configuration_hash(spec, bundle)
    } else {
        let observed = status.observed();
        observed.is_some() && observed == instance.metadata.generation
    };
    is_same && newest.bundle == bundle.name_any() && newest.service_account == spec.service_account
}

/// Reports whether the condition Ready is True for the present spec.
pub(crate) fn is_ready(instance: &BundleInstance, status: &BundleInstanceStatus) -> bool {
    condition::find(&status.conditions, condition::READY).is_some_and(|ready| {
        ready.status == "True" && ready.observed_generation == instance.metadata.generation
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
    let configuration = configuration_hash(&instance.spec, bundle);
    let name = bundle.name_any();
    revisions::rename(&mut revisions, &name, template_hash, Some(configuration));
    CompletedRollout {
        bundle: name,
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
        is_outdated: false,
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
