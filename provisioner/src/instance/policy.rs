//! Which preflight checks count for a BundleInstance. Pure; no I/O.

use apply::preflight::Policy;
use manifests::api::{instance::BundleInstance, labels};

/// Returns what the spec permits.
pub fn policy(instance: &BundleInstance) -> Policy {
    let preflight = instance.spec.preflight.as_ref();
    Policy {
        account: instance.spec.service_account.clone(),
        crd_deletion: instance.spec.crd_deletion_policy,
        crd_upgrade_safety: preflight
            .map_or_else(Default::default, |checks| checks.crd_upgrade_safety),
    }
}

/// Returns the name of the BundleInstance that installs this one, if one does.
pub fn parent(instance: &BundleInstance) -> Option<&str> {
    let labels = instance.metadata.labels.as_ref()?;
    let label = |name| labels.get(name).map(String::as_str);
    label(labels::OWNER_NAME).filter(|_| label(labels::OWNER_KIND) == Some("BundleInstance"))
}
