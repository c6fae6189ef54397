//! What is there of a platform operator, as its BundleInstance tells.

use catalog::model::Release;
use kube::ResourceExt as _;
use manifests::{
    api::{
        condition::{HAS_VALID_BUNDLE, HEALTHY, INSTALLED, reason},
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
    /// The image as the catalog names it, where another name was declared: the digest of what was looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub named: Option<String>,
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
    /// The package that all of this is about, as far as it is known.
    pub package: Option<String>,
    /// While nothing is known to be installed: how far what was chosen has come.
    pub way: Way,
}

/// How far a first installation has come. Who knows nothing of it, as after a restore without statuses, may have it in the
/// cluster all the same.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Way {
    /// Nobody says anything of it.
    #[default]
    Unknown,
    /// It is being fetched or installed.
    UnderWay,
    /// It could not be fetched, or not be installed.
    Failed,
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
    /// That image, by its digest, as far as it is known.
    pub image: Option<String>,
    /// Whether it says of itself what it is, as bundles with a ClusterServiceVersion do.
    pub has_name: bool,
}

// === impl Chosen ===

impl Chosen {
    /// The image, as the catalog names it.
    pub fn named(&self) -> &str {
        self.named.as_deref().unwrap_or(&self.bundle.image)
    }
}

/// What a BundleInstance was declared for.
pub fn chosen(instance: &BundleInstance) -> Option<Chosen> {
    let text = instance.annotations().get(labels::CHOSEN_BUNDLE)?;
    serde_json::from_str(text).ok()
}

/// The package that a BundleInstance is of: what was chosen, or else what the bundle says of itself.
pub fn package(instance: &BundleInstance) -> Option<String> {
    #[derive(Deserialize)]
    struct Memo {
        package: Option<String>,
    }
    let text = instance.annotations().get(labels::CHOSEN_BUNDLE);
    let memo = text.and_then(|it| serde_json::from_str::<Memo>(it).ok()?.package);
    memo.filter(|it| !it.is_empty())
        .or_else(|| instance.status.as_ref()?.facts.package.clone())
}

/// Reads a BundleInstance.
pub fn of(instance: &BundleInstance) -> Here {
    let chosen = chosen(instance);
    let status = instance.status.as_ref();
    let package = package(instance);
    let is = |status: &BundleInstanceStatus, type_: &str| {
        let mut conditions = status.conditions.iter();
        conditions.any(|it| it.type_ == type_ && it.status == "True")
    };
    let Some(status) = instance.status.as_ref().filter(|it| is(it, INSTALLED)) else {
        return Here {
            chosen,
            package,
            way: status.map(way).unwrap_or_default(),
            ..Here::default()
        };
    };
    let is_chosen_installed = is_chosen_installed(chosen.as_ref(), instance, status);
    Here {
        installed: bundle(chosen.as_ref(), is_chosen_installed, status),
        is_chosen_installed,
        // Right after an upgrade it is the health of what was there before.
        is_healthy: is(status, HEALTHY) && status.previous_bundle_name.is_none(),
        maximum: status.facts.max_open_shift_version.clone(),
        chosen,
        package,
        way: Way::Unknown,
    }
}

fn way(status: &BundleInstanceStatus) -> Way {
    let is_not = |type_: &str, why: Option<&str>| {
        let mut conditions = status.conditions.iter();
        conditions.any(|it| {
            it.type_ == type_ && it.status == "False" && why.is_none_or(|why| it.reason == why)
        })
    };
    // What stands in the inventory is in the cluster, whatever the conditions say.
    if status.installed_bundle_name.is_some() {
        Way::Unknown
    } else if is_not(HAS_VALID_BUNDLE, Some(reason::UNPACK_FAILED))
        || is_not(INSTALLED, Some(reason::INSTALL_FAILED))
    {
        Way::Failed
    } else if is_not(HAS_VALID_BUNDLE, None) || is_not(INSTALLED, None) {
        Way::UnderWay
    } else {
        Way::Unknown
    }
}

/// The bundle that is installed, whatever has become of what was to come after it.
pub fn installed(instance: &BundleInstance) -> Option<Bundle> {
    let chosen = chosen(instance);
    let status = instance.status.as_ref()?;
    status.installed_bundle_name.as_ref()?;
    let is_chosen_installed = is_chosen_installed(chosen.as_ref(), instance, status);
    bundle(chosen.as_ref(), is_chosen_installed, status)
}

fn is_chosen_installed(
    chosen: Option<&Chosen>,
    instance: &BundleInstance,
    status: &BundleInstanceStatus,
) -> bool {
    chosen.is_some_and(|chosen| is_installed(&chosen.bundle, instance, status))
}

/// Reports whether what was chosen is what is installed.
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
            let before = before.filter(|it| it.name == *name);
            let release = before.and_then(|it| it.release.as_ref());
            let known = || before.and_then(|it| it.version.as_ref());
            let version = facts.version.as_ref();
            let version = version.filter(|it| version::strict(it).is_ok());
            (name, version.or_else(known), release)
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
        image: image_of(status),
        has_name: facts.cluster_service_version.is_some(),
    })
}

/// What is installed, as it was fetched.
fn image_of(status: &BundleInstanceStatus) -> Option<String> {
    let image = status.resolved_source.as_ref()?.image.as_ref()?;
    image
        .reference
        .contains('@')
        .then(|| image.reference.clone())
}

#[cfg(test)]
mod tests;
