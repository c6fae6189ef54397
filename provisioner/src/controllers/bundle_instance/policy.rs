//! Translates the spec of a BundleInstance into the policies of the apply engine. Pure; no I/O.

use apply::{
    plan::DefinitionPolicy,
    preflight::{Policy, crd_safety::UpgradeSafety},
};
use manifests::api::{
    bundle_instance::{BundleInstance, CheckMode, CrdDeletionPolicy},
    labels,
    owner::InstanceOwner,
};

use crate::cluster::impersonation;

/// Returns the policy of the engine for the spec.
pub fn policy(instance: &BundleInstance) -> Policy {
    let preflight = instance.spec.preflight.as_ref();
    Policy {
        account: instance
            .spec
            .service_account
            .as_ref()
            .map(impersonation::from_reference),
        crd_deletion: crds(instance.spec.crd_deletion_policy),
        crd_upgrade_safety: preflight.map_or_else(Default::default, |checks| {
            upgrade_safety(checks.crd_upgrade_safety)
        }),
    }
}

/// Returns the policy of the engine for `spec.crdDeletionPolicy`.
pub fn crds(policy: CrdDeletionPolicy) -> DefinitionPolicy {
    match policy {
        CrdDeletionPolicy::Retain => DefinitionPolicy::Retain,
        CrdDeletionPolicy::DeleteIfUnused => DefinitionPolicy::DeleteIfUnused,
        CrdDeletionPolicy::Delete => DefinitionPolicy::Delete,
    }
}

/// Returns the setting of the engine for `spec.preflight.crdUpgradeSafety`.
pub fn upgrade_safety(enforcement: CheckMode) -> UpgradeSafety {
    match enforcement {
        CheckMode::Enforce => UpgradeSafety::Enforced,
        CheckMode::Off => UpgradeSafety::Off,
    }
}

/// Returns the name of the BundleInstance that installs this one, if one does.
pub fn parent(instance: &BundleInstance) -> Option<&str> {
    let labels = instance.metadata.labels.as_ref()?;
    let label = |name| labels.get(name).map(String::as_str);
    label(labels::OWNER_NAME).filter(|_| label(labels::OWNER_KIND) == Some(InstanceOwner::KIND))
}
