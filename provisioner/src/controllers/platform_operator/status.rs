//! Builds the status of a PlatformOperator from a decision and its result. Pure; no I/O.

use jiff::Timestamp;
use kube::ResourceExt as _;
use manifests::api::{
    bundle_instance::BundleInstance,
    condition, limits,
    platform_operator::{
        self, ChosenBundle, InstanceRef, PlatformOperator, PlatformOperatorStatus, reason,
    },
};

use super::{
    choose::{InstanceAction, OperatorPlan},
    controller::truncate,
    installed, installed_condition,
};
use crate::controllers::{
    bundle_instance::status::Conditions, catalog_source,
    cluster_operator::upgradeable::UpgradeAssessment,
};

/// Reasons of the condition CatalogAvailable.
pub mod catalog_reason {
    /// All selected catalogs can be read.
    pub const AVAILABLE: &str = "CatalogsAvailable";
    /// Some of them cannot be read.
    pub const UNAVAILABLE: &str = "CatalogUnavailable";
    /// No catalog is selected.
    pub const NONE: &str = "NoCatalogs";
    /// The catalogs are not listed or loaded yet.
    pub const PENDING: &str = "CatalogsPending";
}

/// Inputs of the status.
pub struct Observation<'a> {
    /// Decision about the operator.
    pub plan: &'a OperatorPlan,
    /// BundleInstance, if it belongs to this operator.
    pub instance: Option<&'a BundleInstance>,
    /// Reason why the plan could not be carried out; `None` if it was.
    pub failure: Option<&'a str>,
    /// States of the selected catalogs; `None` until all catalogs are listed.
    pub catalogs: Option<&'a [&'a catalog_source::CatalogState]>,
    /// Effect of the operator on cluster upgrades; `None` if it is not installed.
    pub verdict: Option<&'a UpgradeAssessment>,
}

/// Returns the status from the previous one.
pub fn build(
    operator: &PlatformOperator,
    found: &Observation<'_>,
    now: Timestamp,
) -> PlatformOperatorStatus {
    let before = operator.status.clone().unwrap_or_default();
    let mut status = PlatformOperatorStatus {
        observed_generation: operator.metadata.generation,
        next_available: found.plan.next.clone(),
        new_rights: found.plan.new_rights.clone(),
        ..before.clone()
    };
    if let Some(keep) = found.plan.keep {
        status.cluster_minor = Some(keep.cluster.to_string());
        status.package_minor = Some(keep.package.to_string());
    }
    if let InstanceAction::Apply(chosen) = &found.plan.act {
        status.chosen_bundle = Some(truncated(&chosen.bundle));
        restore_reasons(&mut status, &before);
    }
    if found
        .instance
        .is_some_and(|instance| installed::state(instance).installed.is_some())
    {
        let active = Some(InstanceRef {
            name: operator.name_any(),
        });
        status.active_bundle_instance.clone_from(&active);
        status.active_bundle_deployment = active;
    }
    let mut conditions = Conditions {
        all: &mut status.conditions,
        generation: operator.metadata.generation,
        now,
    };
    installed_condition(&mut conditions, found);
    catalogs_condition(&mut conditions, found);
    upgradeable_condition(&mut conditions, found);
    status
}

/// Restores the reasons for a retained choice, which only an earlier status has.
pub fn restore_reasons(status: &mut PlatformOperatorStatus, before: &PlatformOperatorStatus) {
    if let Some(bundle) = &mut status.chosen_bundle
        && bundle.why.is_empty()
        && let Some(previous) = &before.chosen_bundle
        && (&previous.name, &previous.image) == (&bundle.name, &bundle.image)
    {
        bundle.why.clone_from(&previous.why);
    }
}

/// Truncates the texts of a bundle for the status, since catalogs do not limit them.
pub(crate) fn truncated(bundle: &ChosenBundle) -> ChosenBundle {
    ChosenBundle {
        name: truncate(&bundle.name, limits::WORD),
        version: truncate(&bundle.version, limits::WORD),
        release: bundle
            .release
            .as_deref()
            .map(|release| truncate(release, limits::WORD)),
        channel: truncate(&bundle.channel, limits::WORD),
        catalog: truncate(&bundle.catalog, limits::WORD),
        image: truncate(&bundle.image, limits::REFERENCE),
        why: bundle.why.clone(),
    }
}

fn installed_condition(conditions: &mut Conditions<'_>, found: &Observation<'_>) {
    let condition = found.instance.map(installed_condition::condition);
    let is_installed = condition
        .as_ref()
        .is_some_and(|condition| condition.is_installed);
    let mut set = |status, reason: &str, message: &str| {
        conditions.set(condition::INSTALLED, status, reason, message);
    };
    match (&found.plan.act, found.failure, condition) {
        // An installed bundle remains installed, regardless of the problem.
        (InstanceAction::Refuse { message, .. }, _, Some(condition)) if is_installed => {
            set(
                "True",
                &condition.reason,
                &format!("{}; {message}", condition.message),
            );
        }
        (InstanceAction::Refuse { reason, message }, ..) => set("False", reason, message),
        (_, Some(failure), Some(condition)) if is_installed => {
            set(
                "True",
                &condition.reason,
                &format!("{}; {failure}", condition.message),
            );
        }
        (_, Some(failure), _) => set("False", reason::INSTALL_FAILED, failure),
        (_, None, Some(condition)) => {
            let status = if condition.is_installed {
                "True"
            } else {
                "False"
            };
            let mut message = condition.message;
            if !found.plan.warnings.is_empty() {
                message = format!("{message}; {}", found.plan.warnings.join("; "));
            }
            set(status, &condition.reason, &message);
        }
        (_, None, None) => set(
            "False",
            reason::UNPACK_PENDING,
            "Waiting for the bundle to be unpacked",
        ),
    }
}

fn catalogs_condition(conditions: &mut Conditions<'_>, found: &Observation<'_>) {
    let (status, reason, message) = match found.catalogs {
        None => (
            "Unknown",
            catalog_reason::PENDING,
            "catalogs have not been listed yet".to_owned(),
        ),
        Some([]) => (
            "False",
            catalog_reason::NONE,
            "no catalog found; create a CatalogSource in a namespace that the provisioner reads catalogs from, or \
             correct spec.catalog"
                .to_owned(),
        ),
        Some(catalogs) => {
            let unavailable: Vec<String> = catalogs
                .iter()
                .filter_map(|state| Some(format!("{}: {}", state.catalog, state.trouble.as_ref()?)))
                .collect();
            let pending = catalogs.iter().find(|state| !state.is_read);
            match pending {
                _ if !unavailable.is_empty() => ("False", catalog_reason::UNAVAILABLE, unavailable.join("; ")),
                Some(pending) => {
                    let message = format!("{} has not been read yet", pending.catalog);
                    ("Unknown", catalog_reason::PENDING, message)
                }
                None => {
                    let message = "all catalogs are available".to_owned();
                    ("True", catalog_reason::AVAILABLE, message)
                }
            }
        }
    };
    conditions.set(
        platform_operator::condition::CATALOG_AVAILABLE,
        status,
        reason,
        &message,
    );
}

fn upgradeable_condition(conditions: &mut Conditions<'_>, found: &Observation<'_>) {
    let (status, reason, message) = match found.verdict {
        None => ("Unknown", "NotInstalled", "no bundle is installed yet"),
        Some(verdict) if verdict.is_upgradeable => ("True", verdict.reason, &*verdict.message),
        Some(verdict) => ("False", verdict.reason, &*verdict.message),
    };
    conditions.set(
        platform_operator::condition::UPGRADEABLE,
        status,
        reason,
        message,
    );
}

#[cfg(test)]
mod tests;
