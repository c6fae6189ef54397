//! From what was decided and found to the status of a PlatformOperator. No I/O.

use jiff::Timestamp;
use kube::ResourceExt as _;
use manifests::api::{
    bounds, condition,
    instance::BundleInstance,
    platform::{self, ChosenBundle, InstanceRef, PlatformOperator, PlatformOperatorStatus, reason},
};

use super::{
    fit, here,
    plan::{Act, Plan},
};
use crate::{
    catalogs,
    instance::status::Conditions,
    platform::{gate::Verdict, installed},
};

/// Reasons of the condition CatalogAvailable.
pub mod catalog_reason {
    /// All catalogs that count can be read.
    pub const AVAILABLE: &str = "CatalogsAvailable";
    /// Some cannot.
    pub const UNAVAILABLE: &str = "CatalogUnavailable";
    /// There are none.
    pub const NONE: &str = "NoCatalogs";
    /// Nobody knows yet.
    pub const PENDING: &str = "CatalogsPending";
}

/// What was found.
pub struct Found<'a> {
    /// What was decided.
    pub plan: &'a Plan,
    /// The BundleInstance, if it is this operator's.
    pub instance: Option<&'a BundleInstance>,
    /// Why it could not be applied.
    pub failure: Option<&'a str>,
    /// How the catalogs that count are; nothing as long as it is not known which there are.
    pub catalogs: Option<&'a [&'a catalogs::State]>,
    /// What the operator means for an upgrade of the cluster; nothing as long as it is not installed.
    pub verdict: Option<&'a Verdict>,
}

/// The status, given the one before.
pub fn of(
    operator: &PlatformOperator,
    found: &Found<'_>,
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
    if let Act::Have(chosen) = &found.plan.act {
        status.chosen_bundle = Some(told(&chosen.bundle));
        recall(&mut status, &before);
    }
    if found
        .instance
        .is_some_and(|it| here::of(it).installed.is_some())
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

/// Of what stays, why it was chosen is known from before: from what a cache has, or from what was written a moment ago.
pub fn recall(status: &mut PlatformOperatorStatus, before: &PlatformOperatorStatus) {
    if let Some(bundle) = &mut status.chosen_bundle
        && bundle.why.is_empty()
        && let Some(known) = &before.chosen_bundle
        && (&known.name, &known.image) == (&bundle.name, &bundle.image)
    {
        bundle.why.clone_from(&known.why);
    }
}

/// A bundle as far as a status can tell it: names are as long as strangers like.
pub(super) fn told(bundle: &ChosenBundle) -> ChosenBundle {
    ChosenBundle {
        name: fit(&bundle.name, bounds::WORD),
        version: fit(&bundle.version, bounds::WORD),
        release: bundle.release.as_deref().map(|it| fit(it, bounds::WORD)),
        channel: fit(&bundle.channel, bounds::WORD),
        catalog: fit(&bundle.catalog, bounds::WORD),
        image: fit(&bundle.image, bounds::REFERENCE),
        why: bundle.why.clone(),
    }
}

fn installed_condition(conditions: &mut Conditions<'_>, found: &Found<'_>) {
    let told = found.instance.map(installed::of);
    let is_there = told.as_ref().is_some_and(|told| told.is_installed);
    let mut set = |status, reason: &str, message: &str| {
        conditions.set(condition::INSTALLED, status, reason, message);
    };
    match (&found.plan.act, found.failure, told) {
        // What is in the cluster stays in it, whatever cannot be done about it now.
        (Act::Refuse { message, .. }, _, Some(told)) if is_there => {
            set(
                "True",
                &told.reason,
                &format!("{}; {message}", told.message),
            );
        }
        (Act::Refuse { reason, message }, ..) => set("False", reason, message),
        (_, Some(failure), Some(told)) if is_there => {
            set(
                "True",
                &told.reason,
                &format!("{}; {failure}", told.message),
            );
        }
        (_, Some(failure), _) => set("False", reason::INSTALL_FAILED, failure),
        (_, None, Some(told)) => {
            let status = if told.is_installed { "True" } else { "False" };
            let mut message = told.message;
            if !found.plan.warnings.is_empty() {
                message = format!("{message}; {}", found.plan.warnings.join("; "));
            }
            set(status, &told.reason, &message);
        }
        (_, None, None) => set(
            "False",
            reason::UNPACK_PENDING,
            "Waiting for the bundle to be unpacked",
        ),
    }
}

fn catalogs_condition(conditions: &mut Conditions<'_>, found: &Found<'_>) {
    let (status, reason, message) = match found.catalogs {
        None => (
            "Unknown",
            catalog_reason::PENDING,
            "it is not known yet which catalogs there are".to_owned(),
        ),
        Some([]) => (
            "False",
            catalog_reason::NONE,
            "there is no catalog to choose from; create a CatalogSource in a namespace that the provisioner takes catalogs \
             from, or correct spec.catalog"
                .to_owned(),
        ),
        Some(catalogs) => {
            let away: Vec<String> = catalogs
                .iter()
                .filter_map(|it| Some(format!("{}: {}", it.catalog, it.trouble.as_ref()?)))
                .collect();
            let pending = catalogs.iter().find(|it| !it.is_read);
            match pending {
                _ if !away.is_empty() => ("False", catalog_reason::UNAVAILABLE, away.join("; ")),
                Some(pending) => {
                    let message = format!("{} has not been read yet", pending.catalog);
                    ("Unknown", catalog_reason::PENDING, message)
                }
                None => {
                    let message = "all catalogs can be read".to_owned();
                    ("True", catalog_reason::AVAILABLE, message)
                }
            }
        }
    };
    conditions.set(
        platform::condition::CATALOG_AVAILABLE,
        status,
        reason,
        &message,
    );
}

fn upgradeable_condition(conditions: &mut Conditions<'_>, found: &Found<'_>) {
    let (status, reason, message) = match found.verdict {
        None => ("Unknown", "NotInstalled", "nothing is installed yet"),
        Some(verdict) if verdict.is_upgradeable => ("True", verdict.reason, &*verdict.message),
        Some(verdict) => ("False", verdict.reason, &*verdict.message),
    };
    conditions.set(platform::condition::UPGRADEABLE, status, reason, message);
}

#[cfg(test)]
mod tests;
