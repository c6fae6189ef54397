//! Decides about a platform operator. Pure; no I/O.
//!
//! | current state | offers of the catalogs | decision |
//! | --- | --- | --- |
//! | not installed | a bundle | it is installed |
//! | not installed, and a choice is recorded | the recorded bundle | the recorded bundle is installed again |
//! | not installed, and a choice is recorded | other bundles | an approved upgrade of the recorded bundle is installed |
//! | not installed | none | the reason is reported |
//! | not installed | a bundle, and a catalog of higher priority is not loaded yet | it waits |
//! | a healthy bundle | the next one | it is approved, or waits while approved patches are installed |
//! | an unhealthy or incomplete bundle | the next one | it waits |
//! | a bundle | none, or the catalog is unavailable | no change |
//! | a bundle of another package | any | no change, and the reason is reported |
//! | a bundle, and a pending upgrade | no longer that upgrade | the bundle is kept |

mod upgrade;

use catalog::choose::Offer;
use kube::ResourceExt as _;
use manifests::{
    api::{
        Class,
        bundle_instance::BundleInstance,
        labels,
        platform_operator::{
            ApprovedMinors, CatalogRef, NewRights, NextBundle, PlatformOperator, reason,
        },
    },
    object::truncate,
    openshift::Release,
    version::Version,
};

use self::upgrade::UpgradeChooser;
use super::{
    installed::{self, BundleChoice, InstalledState},
    package_owner::PackageConflict,
    record,
};

/// Inputs of a decision.
pub struct Input<'a> {
    /// The operator to decide about.
    pub operator: &'a PlatformOperator,
    /// Conflict about its package, if one exists.
    pub conflict: Option<PackageConflict>,
    /// BundleInstance with the same name.
    pub existing: ExistingInstance<'a>,
    /// Offers of the catalogs; `None` until all catalogs are listed.
    pub offers: Option<&'a [Offer<'a>]>,
    /// OpenShift releases of the cluster, `None` on other clusters; or the reason why they are not known.
    pub openshift: Result<Option<ClusterReleases>, &'a str>,
    /// Version of Kubernetes, or the reason why it is not known.
    pub kubernetes: Result<&'a Version, &'a str>,
    /// Reason why the packages of OLM are not known; `None` if they are.
    pub olm: Option<&'a str>,
    /// New permissions of bundles that were compared with the installed one.
    pub gains: &'a [CheckedPermissions],
}

/// Owner of the BundleInstance with the name of an operator.
#[derive(Debug, Clone, Copy)]
pub enum ExistingInstance<'a> {
    /// A BundleInstance of that name does not exist.
    Nothing,
    /// Created for this operator.
    Ours(&'a BundleInstance),
    /// Created by another client.
    Foreign {
        /// Whether it is terminating.
        is_leaving: bool,
    },
    /// Created for a deleted PlatformOperator of the same name; the garbage collector deletes it.
    Orphaned,
}

/// OpenShift releases of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClusterReleases {
    /// Release of the last completed update.
    pub completed: Release,
    /// During an update, the higher of the two releases.
    pub highest: Release,
}

/// New permissions of a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedPermissions {
    /// Image of the bundle in the catalog.
    pub image: String,
    /// Image by digest, if it could be fetched.
    pub checked_at: String,
    /// New permissions, or `None` without any; or the reason why they are unknown.
    pub permissions: Result<Option<NewRights>, String>,
}

/// Decision about a platform operator.
#[derive(Debug, Clone, PartialEq)]
pub struct OperatorPlan {
    /// Action on the BundleInstance.
    pub act: InstanceAction,
    /// Record of the approval; written if it differs.
    pub keep: Option<ApprovedMinors>,
    /// Next bundle, and the reason why it waits.
    pub next: Option<NextBundle>,
    /// New permissions of the next bundle.
    pub new_rights: Option<NewRights>,
    /// Warnings for the message of the condition.
    pub warnings: Vec<String>,
}

/// Action on the BundleInstance of a platform operator.
#[derive(Debug, Clone, PartialEq)]
pub enum InstanceAction {
    /// Report a problem without a change.
    Refuse {
        /// CamelCase reason of the condition.
        reason: &'static str,
        /// Message for people.
        message: String,
    },
    /// Apply the chosen bundle.
    Apply(Box<BundleChoice>),
    /// Compute the new permissions of a bundle first.
    CheckPermissions {
        /// Image of the bundle.
        image: String,
        /// Class of its BundleInstance.
        class: Class,
    },
    /// Leave the BundleInstance unchanged, since it is terminating.
    NoChange,
}

// === impl ExistingInstance ===

impl<'a> ExistingInstance<'a> {
    /// Returns the BundleInstance if it belongs to this operator.
    pub fn ours(self) -> Option<&'a BundleInstance> {
        match self {
            Self::Ours(instance) => Some(instance),
            Self::Nothing | Self::Foreign { .. } | Self::Orphaned => None,
        }
    }
}

// === impl OperatorPlan ===

impl OperatorPlan {
    fn only(act: InstanceAction) -> Self {
        Self {
            act,
            keep: None,
            next: None,
            new_rights: None,
            warnings: Vec::new(),
        }
    }

    fn refuse(reason: &'static str, message: impl Into<String>) -> Self {
        Self::only(InstanceAction::Refuse {
            reason,
            message: message.into(),
        })
    }

    fn have(chosen: BundleChoice) -> Self {
        Self::only(InstanceAction::Apply(Box::new(chosen)))
    }
}

/// Returns the requested catalog. If `spec.catalog` has no namespace, that of the previously chosen catalog with the same
/// name is used.
pub fn requested_catalog(
    operator: &PlatformOperator,
    instance: Option<&BundleInstance>,
) -> Option<CatalogRef> {
    let mut requested = operator.spec.catalog.clone()?;
    if requested.namespace.is_none()
        && let Some(chosen) = instance
            .and_then(installed::chosen)
            .or_else(|| record::read(operator).ok().flatten())
        && let Some((namespace, name)) = chosen.bundle.catalog.split_once('/')
        && name == requested.name
    {
        requested.namespace = Some(namespace.to_owned());
    }
    Some(requested)
}

/// Decides about a platform operator.
pub fn plan(input: &Input<'_>) -> OperatorPlan {
    let operator = input.operator;
    let name = operator.name_any();
    if let Err(unserved) = operator.check() {
        return OperatorPlan::refuse(reason::SOURCE_FAILED, unserved.to_string());
    }
    let own = match input.existing {
        ExistingInstance::Nothing => None,
        ExistingInstance::Foreign { is_leaving: true } => {
            return OperatorPlan::only(InstanceAction::NoChange);
        }
        ExistingInstance::Foreign { is_leaving: false } => {
            let message = format!(
                "BundleInstance {name} already exists and does not belong to this PlatformOperator; delete it, or \
                 rename the PlatformOperator"
            );
            return OperatorPlan::refuse(reason::INSTALL_FAILED, message);
        }
        ExistingInstance::Orphaned => {
            let message = format!(
                "BundleInstance {name} belongs to a deleted PlatformOperator of the same name; waiting for the \
                 deletion of the BundleInstance"
            );
            return OperatorPlan::refuse(reason::INSTALL_PENDING, message);
        }
        ExistingInstance::Ours(instance) if instance.metadata.deletion_timestamp.is_some() => {
            return OperatorPlan::only(InstanceAction::NoChange);
        }
        ExistingInstance::Ours(instance) => Some(instance),
    };
    let current = own.map(installed::state).unwrap_or_default();
    let package = &operator.spec.package.name;
    if let Some(other) = current.package.as_ref().filter(|other| *other != package) {
        let other = truncate(other, 80);
        let message = format!(
            "BundleInstance {name} contains package {other}, which cannot be upgraded to another package; set \
             spec.package.name to {other} again, and create another PlatformOperator for {package}"
        );
        return OperatorPlan::refuse(reason::SOURCE_FAILED, message);
    }
    if let Some(conflict) = &input.conflict {
        return OperatorPlan::refuse(reason::SOURCE_FAILED, conflict.to_string());
    }
    let openshift = match input.openshift {
        Ok(openshift) => openshift,
        Err(why) => {
            let why = format!("failed to determine the cluster version: {why}");
            return retain_or_refuse(&current, reason::SOURCE_FAILED, &why);
        }
    };
    let kubernetes = match input.kubernetes {
        Ok(version) => version,
        Err(why) => {
            let why = format!("failed to determine the Kubernetes version: {why}");
            return retain_or_refuse(&current, reason::SOURCE_FAILED, &why);
        }
    };
    if let Some(why) = input.olm.filter(|_| current.chosen.is_none()) {
        let why = format!("cannot determine which packages OLM manages: {why}");
        return OperatorPlan::refuse(reason::INSTALL_PENDING, why);
    }
    let Some(offers) = input.offers else {
        let why = "catalogs have not been listed yet";
        return retain_or_refuse(&current, reason::INSTALL_PENDING, why);
    };
    let chooser = UpgradeChooser {
        input,
        current: &current,
        openshift,
        kubernetes,
        offers,
    };
    if own.is_some() {
        return chooser.choose();
    }
    match record::read(operator) {
        Ok(None) => chooser.choose(),
        Ok(Some(recorded)) => chooser.recreate(&recorded),
        // A choice that was never applied restricts nothing.
        Err(_) if operator.active_instance().is_none() => chooser.choose(),
        Err(malformed) => {
            let annotation = labels::CHOSEN_BUNDLE;
            let message = format!(
                "the BundleInstance is missing, and the annotation {annotation} that records its bundle {malformed}; \
                 remove the annotation to choose a bundle again"
            );
            OperatorPlan::refuse(reason::INSTALL_PENDING, message)
        }
    }
}

/// Retains the chosen bundle, or reports the reason if none was chosen.
fn retain_or_refuse(current: &InstalledState, reason: &'static str, why: &str) -> OperatorPlan {
    match &current.chosen {
        Some(chosen) => OperatorPlan::have(chosen.clone()),
        None if reason == reason::SOURCE_FAILED => {
            OperatorPlan::refuse(reason, format!("{why}: failed to run sourcing logic"))
        }
        None => OperatorPlan::refuse(reason, why),
    }
}

#[cfg(test)]
mod tests;
