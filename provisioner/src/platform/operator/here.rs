//! What is there of a platform operator, as its BundleInstance tells.

use kube::ResourceExt as _;
use manifests::{
    api::{
        condition::{HEALTHY, INSTALLED},
        instance::BundleInstance,
        labels,
        platform::ChosenBundle,
    },
    version::{self, Version},
};
use serde::{Deserialize, Serialize};

use crate::overrides::Digests;

/// A bundle that was chosen, as the annotation of the BundleInstance has it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Chosen {
    /// Which.
    #[serde(flatten)]
    pub bundle: ChosenBundle,
    /// What it is packed like.
    pub media_type: String,
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
    /// The catalog it was chosen from, as far as that is known.
    pub catalog: Option<String>,
}

/// Reads a BundleInstance.
pub fn of(instance: &BundleInstance) -> Here {
    let chosen = instance.annotations().get(labels::CHOSEN_BUNDLE);
    let chosen: Option<Chosen> = chosen.and_then(|text| serde_json::from_str(text).ok());
    let Some(status) = &instance.status else {
        return Here {
            chosen,
            ..Here::default()
        };
    };
    let is = |type_: &str| {
        let mut conditions = status.conditions.iter();
        conditions.any(|it| it.type_ == type_ && it.status == "True")
    };
    if !is(INSTALLED) {
        return Here {
            chosen,
            ..Here::default()
        };
    }
    let facts = &status.facts;
    // What is pinned is what it was fetched from; of a tag only the name is known.
    let is_chosen = |chosen: &ChosenBundle| {
        let digest = chosen.image.rsplit_once('@').map(|(_, digest)| digest);
        if digest.is_some() {
            return digest == Digests::of_installed(status).image();
        }
        facts.cluster_service_version.as_ref() == Some(&chosen.name)
    };
    let bundle = chosen.as_ref().map(|chosen| &chosen.bundle);
    let is_chosen_installed = bundle.is_some_and(is_chosen);
    let installed = if is_chosen_installed {
        bundle.map(|chosen| Bundle {
            name: chosen.name.clone(),
            version: version::strict(&chosen.version).ok(),
            catalog: Some(chosen.catalog.clone()),
        })
    } else {
        facts.cluster_service_version.as_ref().map(|name| Bundle {
            name: name.clone(),
            version: facts
                .version
                .as_deref()
                .and_then(|it| version::strict(it).ok()),
            // An upgrade is chosen from the catalog of what it upgrades, as long as that has it.
            catalog: bundle.map(|chosen| chosen.catalog.clone()),
        })
    };
    Here {
        installed,
        is_chosen_installed,
        is_healthy: is(HEALTHY),
        maximum: facts.max_open_shift_version.clone(),
        chosen,
    }
}
