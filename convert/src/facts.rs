//! What a bundle says of itself: the facts that catalogs, status and people need.

use std::collections::{BTreeMap, BTreeSet};

use manifests::object::text;
use serde::Serialize;
use serde_json::Value;

use crate::{
    csv::Csv,
    maxocp::MaxOpenShiftVersion,
    metadata::{Metadata, keys},
    property::Property,
};

/// What a bundle is.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Facts {
    /// Package name.
    pub package: String,
    /// Name of the ClusterServiceVersion.
    pub name: String,
    /// `spec.version`, with three numbers as OLM writes it.
    pub version: String,
    /// Channels, as listed.
    pub channels: Vec<String>,
    /// The default channel, when one is named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_channel: Option<String>,
    /// The version this one replaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replaces: Option<String>,
    /// Versions that an upgrade may pass over.
    pub skips: Vec<String>,
    /// A range of versions that an upgrade may come from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skip_range: Option<String>,
    /// The newest OpenShift release the bundle claims to run on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_open_shift_version: Option<MaxOpenShiftVersion>,
    /// The oldest Kubernetes the bundle claims to run on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_kube_version: Option<String>,
    /// Supported install modes.
    pub install_modes: BTreeSet<String>,
    /// The install namespace in effect.
    pub install_namespace: String,
    /// APIs the bundle brings.
    pub provided_apis: BTreeSet<Api>,
    /// APIs the bundle needs from others.
    pub required_apis: BTreeSet<Api>,
    /// Packages the bundle needs, by name, with the version range.
    pub required_packages: BTreeMap<String, String>,
    /// Images: those of the pods and those the CSV lists.
    pub images: BTreeSet<Image>,
    /// All properties of the bundle: `metadata/properties.yaml` first, then the CSV's `olm.properties`.
    pub properties: Vec<Property>,
    /// `metadata/dependencies.yaml`.
    pub dependencies: Vec<Property>,
}

/// An API: one kind in one version.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Api {
    /// API group.
    pub group: String,
    /// API version.
    pub version: String,
    /// Kind.
    pub kind: String,
    /// Whether an aggregated API server serves it rather than a CustomResourceDefinition.
    #[serde(rename = "apiService", skip_serializing_if = "std::ops::Not::not")]
    pub is_api_service: bool,
}

/// An image that the bundle uses.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Image {
    /// The reference, as written.
    pub image: String,
    /// The name the CSV gives it, empty for the images of pods.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
}

/// Gathers the facts of a registry+v1 bundle.
pub(crate) fn of(metadata: &Metadata, csv: Option<Csv<'_>>, properties: Vec<Property>) -> Facts {
    let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let mut facts = Facts {
        package: metadata.package().to_owned(),
        channels: metadata.channels(),
        default_channel: metadata.annotation(keys::DEFAULT_CHANNEL).and_then(some),
        dependencies: metadata.dependencies.clone(),
        properties,
        ..Facts::default()
    };
    if let Some(csv) = csv {
        csv.name().clone_into(&mut facts.name);
        csv.text(&["spec", "version"])
            .clone_into(&mut facts.version);
        facts.replaces = some(csv.text(&["spec", "replaces"]));
        facts.skips = csv
            .list(&["spec", "skips"])
            .iter()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect();
        facts.skip_range = csv.annotation("olm.skipRange").and_then(some);
        facts.min_kube_version = some(csv.text(&["spec", "minKubeVersion"]));
        facts.install_modes = csv.install_modes().into_iter().map(str::to_owned).collect();
        facts.provided_apis = apis(csv, "owned");
        facts.required_apis = apis(csv, "required");
        facts.images = images(csv);
    }
    for dependency in &facts.dependencies {
        let Ok(value) = serde_json::from_str::<Value>(dependency.value.get()) else {
            continue;
        };
        let field = |name| text(&value, &[name]).unwrap_or_default().to_owned();
        match dependency.type_.as_str() {
            "olm.gvk" => {
                facts.required_apis.insert(Api {
                    group: field("group"),
                    version: field("version"),
                    kind: field("kind"),
                    is_api_service: false,
                });
            }
            "olm.package" => {
                facts
                    .required_packages
                    .insert(field("packageName"), field("version"));
            }
            _ => {}
        }
    }
    facts
}

fn apis(csv: Csv<'_>, which: &str) -> BTreeSet<Api> {
    let field = |entry: &Value, name: &str| text(entry, &[name]).unwrap_or_default().to_owned();
    let crds = csv.crds(which).iter().map(|crd| Api {
        // Its name is `<plural>.<group>`.
        group: text(crd, &["name"])
            .and_then(|n| n.split_once('.'))
            .map(|(_, g)| g.to_owned())
            .unwrap_or_default(),
        version: field(crd, "version"),
        kind: field(crd, "kind"),
        is_api_service: false,
    });
    let services = csv.api_services(which).iter().map(|service| Api {
        group: field(service, "group"),
        version: field(service, "version"),
        kind: field(service, "kind"),
        is_api_service: true,
    });
    crds.chain(services).collect()
}

fn images(csv: Csv<'_>) -> BTreeSet<Image> {
    let mut images = BTreeSet::new();
    for related in csv.list(&["spec", "relatedImages"]) {
        if let Some(image) = text(related, &["image"]) {
            images.insert(Image {
                image: image.to_owned(),
                name: text(related, &["name"]).unwrap_or_default().to_owned(),
            });
        }
    }
    for deployment in csv.deployments() {
        let pod = manifests::object::at(deployment, &["spec", "template", "spec"]);
        for list in ["initContainers", "containers"] {
            let containers = pod.and_then(|pod| pod.get(list)).and_then(Value::as_array);
            for image in containers
                .into_iter()
                .flatten()
                .filter_map(|c| text(c, &["image"]))
            {
                if !images.iter().any(|known| known.image == image) {
                    images.insert(Image {
                        image: image.to_owned(),
                        name: String::new(),
                    });
                }
            }
        }
    }
    images
}
