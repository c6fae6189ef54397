//! Installed state of a platform operator, from its BundleInstance. Pure; no I/O.

use catalog::model::Release;
use kube::ResourceExt as _;
use manifests::{
    api::{
        bundle_instance::{BundleInstance, BundleInstanceStatus},
        condition::{HAS_VALID_BUNDLE, HEALTHY, INSTALLED, reason},
        labels,
        platform_operator::ChosenBundle,
    },
    version::{self, Version},
};
use semver::Prerelease;
use serde::{Deserialize, Serialize};

use crate::{cluster::overrides::ContentDigests, controllers::bundle_instance::template};

/// A chosen bundle, as the annotation of the BundleInstance records it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BundleChoice {
    /// Name of the package.
    #[serde(default)]
    pub package: String,
    /// The chosen bundle in its catalog.
    #[serde(flatten)]
    pub bundle: ChosenBundle,
    /// Media type of the bundle.
    pub media_type: String,
    /// Bundle that it upgrades: a bundle without a ClusterServiceVersion does not declare its own name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Predecessor>,
    /// Image in the catalog, if another reference was declared: the digest whose permissions were compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub named: Option<String>,
}

/// A bundle that an upgrade replaces.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Predecessor {
    /// Name in the catalog.
    pub name: String,
    /// Version; `None` if it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Release, which distinguishes several bundles of one version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release: Option<String>,
}

/// The chosen bundle, and the installed one.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct InstalledState {
    /// Bundle that the BundleInstance declares.
    pub chosen: Option<BundleChoice>,
    /// Installed bundle, if one is known.
    pub installed: Option<Bundle>,
    /// Whether the installed bundle is the chosen one.
    pub is_chosen_installed: bool,
    /// Whether the installed bundle is healthy.
    pub is_healthy: bool,
    /// Max OpenShift version that the installed bundle declares.
    pub maximum: Option<String>,
    /// Package of the bundles; `None` if it is not known.
    pub package: Option<String>,
    /// Progress of the first installation, while no bundle is known to be installed.
    pub progress: InstallProgress,
}

/// Progress of a first installation. If it is not known, as after a restore without statuses, the bundle may be in the
/// cluster nevertheless.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum InstallProgress {
    /// The conditions do not report the progress.
    #[default]
    Unknown,
    /// The bundle is being fetched or installed.
    InProgress,
    /// The bundle could not be fetched, or not be installed.
    Failed,
}

/// An installed bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bundle {
    /// Name in the catalog.
    pub name: String,
    /// Version; `None` if it is not known.
    pub version: Option<Version>,
    /// Release, which distinguishes several bundles of one version; `None` if it is not known.
    pub release: Option<Prerelease>,
    /// Catalog that it was chosen from; `None` if it is not known.
    pub catalog: Option<String>,
    /// Digest of its image; `None` if it is not known.
    pub digest: Option<String>,
    /// Image by digest; `None` if it is not known.
    pub image: Option<String>,
    /// Whether it declares its own name, as bundles with a ClusterServiceVersion do.
    pub has_name: bool,
}

// === impl BundleChoice ===

impl BundleChoice {
    /// Returns the image in the catalog.
    pub fn named(&self) -> &str {
        self.named.as_deref().unwrap_or(&self.bundle.image)
    }
}

/// Returns the choice that a BundleInstance records.
pub fn chosen(instance: &BundleInstance) -> Option<BundleChoice> {
    let text = instance.annotations().get(labels::CHOSEN_BUNDLE)?;
    serde_json::from_str(text).ok()
}

/// Returns the package of a BundleInstance: that of the choice, or else that of the bundle.
pub fn package(instance: &BundleInstance) -> Option<String> {
    #[derive(Deserialize)]
    struct Memo {
        package: Option<String>,
    }
    let text = instance.annotations().get(labels::CHOSEN_BUNDLE);
    let memo = text.and_then(|text| serde_json::from_str::<Memo>(text).ok()?.package);
    memo.filter(|package| !package.is_empty())
        .or_else(|| instance.status.as_ref()?.facts.package.clone())
}

/// Reads a BundleInstance.
pub fn state(instance: &BundleInstance) -> InstalledState {
    let chosen = chosen(instance);
    let status = instance.status.as_ref();
    let package = package(instance);
    let is = |status: &BundleInstanceStatus, type_: &str| {
        let mut conditions = status.conditions.iter();
        conditions.any(|condition| condition.type_ == type_ && condition.status == "True")
    };
    let Some(status) = instance
        .status
        .as_ref()
        .filter(|status| is(status, INSTALLED))
    else {
        return InstalledState {
            chosen,
            package,
            progress: status.map(progress).unwrap_or_default(),
            ..InstalledState::default()
        };
    };
    let is_chosen_installed = is_chosen_installed(chosen.as_ref(), instance, status);
    InstalledState {
        installed: bundle(chosen.as_ref(), is_chosen_installed, status),
        is_chosen_installed,
        // Directly after an upgrade, the condition is about the previous bundle.
        is_healthy: is(status, HEALTHY) && status.previous_bundle_name.is_none(),
        maximum: status.facts.max_open_shift_version.clone(),
        chosen,
        package,
        progress: InstallProgress::Unknown,
    }
}

fn progress(status: &BundleInstanceStatus) -> InstallProgress {
    let is_not = |type_: &str, expected: Option<&str>| {
        let mut conditions = status.conditions.iter();
        conditions.any(|condition| {
            condition.type_ == type_
                && condition.status == "False"
                && expected.is_none_or(|reason| condition.reason == reason)
        })
    };
    // Objects of the inventory are in the cluster, regardless of the conditions.
    if status.installed_bundle_name.is_some() {
        InstallProgress::Unknown
    } else if is_not(HAS_VALID_BUNDLE, Some(reason::UNPACK_FAILED))
        || is_not(INSTALLED, Some(reason::INSTALL_FAILED))
    {
        InstallProgress::Failed
    } else if is_not(HAS_VALID_BUNDLE, None) || is_not(INSTALLED, None) {
        InstallProgress::InProgress
    } else {
        InstallProgress::Unknown
    }
}

/// Returns the installed bundle, regardless of the state of its upgrade.
pub fn installed(instance: &BundleInstance) -> Option<Bundle> {
    let chosen = chosen(instance);
    let status = instance.status.as_ref()?;
    status.installed_bundle_name.as_ref()?;
    let is_chosen_installed = is_chosen_installed(chosen.as_ref(), instance, status);
    bundle(chosen.as_ref(), is_chosen_installed, status)
}

fn is_chosen_installed(
    chosen: Option<&BundleChoice>,
    instance: &BundleInstance,
    status: &BundleInstanceStatus,
) -> bool {
    chosen.is_some_and(|chosen| is_installed(&chosen.bundle, instance, status))
}

/// Reports whether the chosen bundle is the installed one.
fn is_installed(
    chosen: &ChosenBundle,
    instance: &BundleInstance,
    status: &BundleInstanceStatus,
) -> bool {
    // A pinned image is the source of the installed content.
    if let Some((_, digest)) = chosen.image.rsplit_once('@') {
        return Some(digest) == ContentDigests::of_installed(status).image();
    }
    // For a tag, only the name can be compared. Without a ClusterServiceVersion, the Bundle of this template can be.
    let Some(name) = &status.facts.cluster_service_version else {
        let hash = template::hash(instance);
        let created = status.bundles.iter();
        let created = created.filter(|created| created.template_hash == hash);
        let mut names = created
            .map(|created| created.name.clone())
            .chain([template::bundle_name(instance, &hash)]);
        return names.any(|name| status.installed_bundle_name.as_ref() == Some(&name));
    };
    *name == chosen.name
}

fn bundle(
    chosen: Option<&BundleChoice>,
    is_chosen_installed: bool,
    status: &BundleInstanceStatus,
) -> Option<Bundle> {
    let facts = &status.facts;
    let digest = ContentDigests::of_installed(status)
        .image()
        .map(str::to_owned);
    // An upgrade is chosen from the catalog of the bundle that it replaces, as long as that catalog lists the bundle.
    let catalog = chosen.map(|chosen| chosen.bundle.catalog.clone());
    let (name, version, release) = match (chosen, &facts.cluster_service_version) {
        (Some(BundleChoice { bundle, .. }), _) if is_chosen_installed => {
            (&bundle.name, Some(&bundle.version), bundle.release.as_ref())
        }
        (chosen, Some(name)) => {
            let before = chosen.and_then(|chosen| chosen.after.as_ref());
            let before = before.filter(|predecessor| predecessor.name == *name);
            let release = before.and_then(|predecessor| predecessor.release.as_ref());
            let declared = || before.and_then(|predecessor| predecessor.version.as_ref());
            let version = facts.version.as_ref();
            let version = version.filter(|version| version::parse_strict(version).is_ok());
            (name, version.or_else(declared), release)
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
        version: version.and_then(|text| version::parse_strict(text).ok()),
        release: release.and_then(|text| Release::parse_release(text).ok()),
        catalog,
        digest,
        image: image_of(status),
        has_name: facts.cluster_service_version.is_some(),
    })
}

/// Returns the image of the installed bundle, by digest.
fn image_of(status: &BundleInstanceStatus) -> Option<String> {
    let image = status.resolved_source.as_ref()?.image.as_ref()?;
    image
        .reference
        .contains('@')
        .then(|| image.reference.clone())
}

#[cfg(test)]
mod tests;
