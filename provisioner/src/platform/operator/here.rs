//! What is there of a platform operator, as its BundleInstance tells.

use catalog::model::Release;
use kube::ResourceExt as _;
use manifests::{
    api::{
        condition::{HEALTHY, INSTALLED},
        instance::{BundleInstance, BundleInstanceStatus},
        labels,
        platform::ChosenBundle,
    },
    version::{self, Version},
};
use semver::Prerelease;
use serde::{Deserialize, Serialize};

use crate::{instance::template, overrides::Digests};

/// A bundle that was chosen, as the annotation of the BundleInstance has it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Chosen {
    /// Of which package.
    #[serde(default)]
    pub package: String,
    /// Which.
    #[serde(flatten)]
    pub bundle: ChosenBundle,
    /// What it is packed like.
    pub media_type: String,
    /// What it was to upgrade: a bundle without a ClusterServiceVersion does not tell its own name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Predecessor>,
}

/// What a bundle upgrades.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Predecessor {
    /// Its name in the catalog.
    pub name: String,
    /// Its version, as far as it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Which of several bundles for that version it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release: Option<String>,
}

/// What was asked for last, and what there is of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Here {
    /// What the BundleInstance is to install.
    pub chosen: Option<Chosen>,
    /// What is installed.
    pub installed: Option<Bundle>,
    /// Whether that is what was chosen.
    pub is_chosen_installed: bool,
    /// Whether what is installed is healthy.
    pub is_healthy: bool,
    /// What the bundle says of the newest OpenShift that it runs on.
    pub maximum: Option<String>,
}

/// A bundle that is installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bundle {
    /// Its name in the catalog.
    pub name: String,
    /// Its version, as far as it is known.
    pub version: Option<Version>,
    /// Which of several bundles for that version it is, as far as that is known.
    pub release: Option<Prerelease>,
    /// The catalog it was chosen from, as far as that is known.
    pub catalog: Option<String>,
    /// The digest of the image it came in, as far as that is known.
    pub digest: Option<String>,
}

/// What a BundleInstance was declared for.
pub fn chosen(instance: &BundleInstance) -> Option<Chosen> {
    let text = instance.annotations().get(labels::CHOSEN_BUNDLE)?;
    serde_json::from_str(text).ok()
}

/// Reads a BundleInstance.
pub fn of(instance: &BundleInstance) -> Here {
    let chosen = chosen(instance);
    let is = |status: &BundleInstanceStatus, type_: &str| {
        let mut conditions = status.conditions.iter();
        conditions.any(|it| it.type_ == type_ && it.status == "True")
    };
    let Some(status) = instance.status.as_ref().filter(|it| is(it, INSTALLED)) else {
        return Here {
            chosen,
            ..Here::default()
        };
    };
    let is_chosen_installed = chosen
        .as_ref()
        .is_some_and(|chosen| is_installed(&chosen.bundle, instance, status));
    Here {
        installed: installed(chosen.as_ref(), is_chosen_installed, status),
        is_chosen_installed,
        // Right after an upgrade it is the health of what was there before.
        is_healthy: is(status, HEALTHY) && status.previous_bundle_name.is_none(),
        maximum: status.facts.max_open_shift_version.clone(),
        chosen,
    }
}

/// Whether what was chosen is what is installed.
fn is_installed(
    chosen: &ChosenBundle,
    instance: &BundleInstance,
    status: &BundleInstanceStatus,
) -> bool {
    // What is pinned is what it was fetched from.
    if let Some((_, digest)) = chosen.image.rsplit_once('@') {
        return Some(digest) == Digests::of_installed(status).image();
    }
    // Of a tag only the name is known; and without a ClusterServiceVersion, whether it is the Bundle of this template.
    let Some(name) = &status.facts.cluster_service_version else {
        let bundle = template::bundle(instance, &template::hash(instance));
        return status.installed_bundle_name == bundle.metadata.name;
    };
    *name == chosen.name
}

fn installed(
    chosen: Option<&Chosen>,
    is_chosen_installed: bool,
    status: &BundleInstanceStatus,
) -> Option<Bundle> {
    let facts = &status.facts;
    let digest = Digests::of_installed(status).image().map(str::to_owned);
    // An upgrade is chosen from the catalog of what it upgrades, as long as that has it.
    let catalog = chosen.map(|it| it.bundle.catalog.clone());
    let (name, version, release) = match (chosen, &facts.cluster_service_version) {
        (Some(Chosen { bundle, .. }), _) if is_chosen_installed => {
            (&bundle.name, Some(&bundle.version), bundle.release.as_ref())
        }
        (chosen, Some(name)) => {
            let before = chosen.and_then(|it| it.after.as_ref());
            let release = before
                .filter(|it| it.name == *name)
                .and_then(|it| it.release.as_ref());
            (name, facts.version.as_ref(), release)
        }
        (Some(chosen), None) => {
            let before = chosen.after.as_ref()?;
            let (version, release) = (before.version.as_ref(), before.release.as_ref());
            (&before.name, version, release)
        }
        (None, None) => return None,
    };
    Some(Bundle {
        name: name.clone(),
        version: version.and_then(|it| version::strict(it).ok()),
        release: release.and_then(|it| Release::parse_release(it).ok()),
        catalog,
        digest,
    })
}

#[cfg(test)]
mod tests;
