//! Bundle info for catalogs, statuses and users.

use std::collections::{BTreeMap, BTreeSet};

use manifests::{
    object::{get_path, text},
    openshift::MaxOpenShiftVersion,
};
use serde::Serialize;
use serde_json::Value;

use crate::{
    bundle::{
        Item,
        metadata::{Metadata, keys},
    },
    csv::Csv,
    property::Property,
};

/// Bundle info of a bundle.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BundleInfo {
    /// Name of the package.
    pub package: String,
    /// Name of the ClusterServiceVersion.
    pub name: String,
    /// `spec.version`, completed to three numbers like in OLM.
    pub version: String,
    /// Channels in the declared order.
    pub channels: Vec<String>,
    /// The default channel, if declared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_channel: Option<String>,
    /// The bundle version that this one replaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replaces: Option<String>,
    /// Versions that upgrades may skip.
    pub skips: Vec<String>,
    /// The range of versions from which upgrades are allowed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skip_range: Option<String>,
    /// The newest OpenShift release that the bundle supports, if declared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_open_shift_version: Option<MaxOpenShiftVersion>,
    /// The oldest Kubernetes version that the bundle supports, if declared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_kube_version: Option<String>,
    /// Supported install modes.
    pub install_modes: BTreeSet<String>,
    /// The effective install namespace.
    pub install_namespace: String,
    /// APIs that the bundle provides.
    pub provided_apis: BTreeSet<Api>,
    /// APIs that the bundle requires.
    pub required_apis: BTreeSet<Api>,
    /// Required packages by name, with the version range. Several ranges are combined so that all must match.
    pub required_packages: BTreeMap<String, String>,
    /// Images in the CSV, in its pods and in other workloads of the bundle.
    pub images: BTreeSet<Image>,
    /// All properties of the bundle: first `metadata/properties.yaml`, then the CSV's `olm.properties`.
    pub properties: Vec<Property>,
    /// Dependencies in `metadata/dependencies.yaml`.
    pub dependencies: Vec<Property>,
}

/// A kind in one version of an API group.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Api {
    /// API group of the kind.
    pub group: String,
    /// API version of the kind.
    pub version: String,
    /// Name of the kind.
    pub kind: String,
    /// Whether an aggregated API server provides it instead of a CustomResourceDefinition.
    #[serde(rename = "apiService", skip_serializing_if = "std::ops::Not::not")]
    pub is_api_service: bool,
}

/// An image that the bundle uses.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Image {
    /// The image reference in its original form.
    pub image: String,
    /// The name in the CSV; empty for the images of pods.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
}

/// Collects the bundle info of a registry+v1 bundle.
pub(crate) fn collect(
    metadata: &Metadata,
    csv: Option<Csv<'_>>,
    others: &[Item],
    properties: Vec<Property>,
) -> BundleInfo {
    let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let mut facts = BundleInfo {
        package: metadata.package().to_owned(),
        channels: metadata.channels(),
        default_channel: metadata.annotation(keys::DEFAULT_CHANNEL).and_then(some),
        dependencies: metadata.dependencies.clone(),
        properties,
        ..BundleInfo::default()
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
        facts.images = images(csv, others);
    }
    add_requirement(&mut facts);
    facts
}

/// Adds the requirements from dependencies and properties.
fn add_requirement(facts: &mut BundleInfo) {
    let mut ranges: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut unique = BTreeSet::new();
    let dependencies = facts.dependencies.iter().filter_map(|dependency| {
        let requirement = match dependency.type_.as_str() {
            "olm.gvk" => Requirement::Api,
            "olm.package" => Requirement::Package { range: "version" },
            _ => return None,
        };
        Some((requirement, dependency))
    });
    let properties = facts.properties.iter().filter_map(|property| {
        let requirement = match property.type_.as_str() {
            "olm.gvk.required" => Requirement::Api,
            "olm.package.required" => Requirement::Package {
                range: "versionRange",
            },
            _ => return None,
        };
        Some((requirement, property))
    });
    for (requirement, property) in dependencies.chain(properties) {
        let Ok(value) = serde_json::from_str::<Value>(property.value.get()) else {
            continue;
        };
        let field = |name| text(&value, &[name]).unwrap_or_default().to_owned();
        match requirement {
            Requirement::Api => {
                let mut api = Api {
                    group: field("group"),
                    version: field("version"),
                    kind: field("kind"),
                    is_api_service: true,
                };
                // The CSV may already declare that an API service provides the API.
                if !facts.required_apis.contains(&api) {
                    api.is_api_service = false;
                    facts.required_apis.insert(api);
                }
            }
            Requirement::Package { range } => {
                let (package, range) = (field("packageName"), field(range));
                let ranges = ranges.entry(package.clone()).or_default();
                if !range.is_empty() && unique.insert((package, range.clone())) {
                    ranges.push(range);
                }
            }
        }
    }
    facts.required_packages = ranges
        .into_iter()
        .map(|(package, ranges)| (package, join_ranges(&ranges)))
        .collect();
}

/// A requirement in a dependency or property.
enum Requirement {
    /// The requirement of an API.
    Api,
    /// The requirement of a package.
    Package {
        /// The field with the version range.
        range: &'static str,
    },
}

/// Combines ranges that must all match: a space means "and", and takes precedence over `||`.
fn join_ranges(ranges: &[String]) -> String {
    match ranges {
        [range] => range.clone(),
        _ => ranges
            .iter()
            .map(|range| {
                if range.contains("||") {
                    format!("({range})")
                } else {
                    range.clone()
                }
            })
            .collect::<Vec<_>>()
            .join(" "),
    }
}

fn apis(csv: Csv<'_>, which: &str) -> BTreeSet<Api> {
    let field = |entry: &Value, name: &str| text(entry, &[name]).unwrap_or_default().to_owned();
    let crds = csv.crds(which).iter().map(|crd| Api {
        // The name is `<plural>.<group>`.
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

/// Path of the pod template in a Deployment, and in most other workloads.
pub(crate) const POD_TEMPLATE: &[&str] = &["spec", "template"];

/// Returns the path of the pod template in an object of this kind, or `None` if the kind has no pods.
pub(crate) fn pod_template(kind: &str) -> Option<&'static [&'static str]> {
    match kind {
        "Deployment"
        | "DaemonSet"
        | "StatefulSet"
        | "ReplicaSet"
        | "ReplicationController"
        | "Job" => Some(POD_TEMPLATE),
        "CronJob" => Some(&["spec", "jobTemplate", "spec", "template"]),
        "Pod" => Some(&[]),
        _ => None,
    }
}

fn images(csv: Csv<'_>, others: &[Item]) -> BTreeSet<Image> {
    let mut images = BTreeSet::new();
    let mut listed = BTreeSet::new();
    for related in csv.list(&["spec", "relatedImages"]) {
        if let Some(image) = text(related, &["image"]) {
            listed.insert(image);
            images.insert(Image {
                image: image.to_owned(),
                name: text(related, &["name"]).unwrap_or_default().to_owned(),
            });
        }
    }
    let deployments = csv
        .deployments()
        .iter()
        .filter_map(|deployment| get_path(deployment, POD_TEMPLATE));
    let shipped = others
        .iter()
        .filter_map(|item| get_path(&item.value, pod_template(item.kind())?));
    for template in deployments.chain(shipped) {
        for list in ["initContainers", "containers"] {
            let containers = get_path(template, &["spec", list]).and_then(Value::as_array);
            let used = containers
                .into_iter()
                .flatten()
                .filter_map(|container| text(container, &["image"]))
                .filter(|image| !listed.contains(image));
            images.extend(used.map(|image| Image {
                image: image.to_owned(),
                name: String::new(),
            }));
        }
    }
    images
}

#[cfg(test)]
mod tests {
    use serde_json::{json, value::RawValue};

    use super::*;
    use crate::finding::Location;

    fn property((type_, value): (&str, Value)) -> Property {
        Property {
            type_: type_.into(),
            value: RawValue::from_string(value.to_string()).unwrap(),
        }
    }

    fn item(value: Value) -> Item {
        let place = Location::file("a.yaml");
        Item { value, place }
    }

    #[test]
    fn every_requirement_counts() {
        let api = |kind: &str, is_api_service| Api {
            group: "example.com".into(),
            version: "v1".into(),
            kind: kind.into(),
            is_api_service,
        };
        let gvk = |kind: &str| json!({"group": "example.com", "version": "v1", "kind": kind});
        let dependencies = ::tests::rows![
            "olm.package" => json!({"packageName": "moon", "version": ">=1.0.0"});
            "olm.package" => json!({"packageName": "moon", "version": "<2.0.0"});
            "olm.package" => json!({"packageName": "moon", "version": ">=1.0.0"});
            "olm.label" => json!({"label": "a"});
        ];
        let properties = ::tests::rows![
            "olm.gvk.required" => gvk("Sun");
            "olm.gvk.required" => gvk("Star");
            "olm.package.required" => json!({"packageName": "moon", "versionRange": "1.2.0 || 1.4.0"});
            "olm.package.required" => json!({"packageName": "tide", "versionRange": "1.0.0 || 2.0.0"});
            // The package and the API of the bundle itself.
            "olm.package" => json!({"packageName": "sea", "version": "1.0.0"});
            "olm.gvk" => gvk("Tide");
        ];
        let mut facts = BundleInfo {
            required_apis: BTreeSet::from([api("Star", true)]),
            dependencies: dependencies.map(property).into(),
            properties: properties.map(property).into(),
            ..BundleInfo::default()
        };
        add_requirement(&mut facts);
        assert_rows!(facts.required_apis => BTreeSet::from([api("Star", true), api("Sun", false)]));
        let expected = ::tests::rows![
            "moon".into() => ">=1.0.0 <2.0.0 (1.2.0 || 1.4.0)".into();
            "tide".into() => "1.0.0 || 2.0.0".into();
        ];
        assert_eq!(facts.required_packages, BTreeMap::from(expected));
    }

    #[test]
    fn images_of_workloads_are_listed_once() {
        let pods = |images: &[&str]| {
            let containers: Vec<_> = images.iter().map(|image| json!({"image": image})).collect();
            json!({"template": {"spec": {"containers": containers}}})
        };
        let csv = item(json!({"spec": {
            "relatedImages": [{"name": "a", "image": "a"}, {"name": "b", "image": "a"}],
            "install": {"spec": {"deployments": [{"name": "d", "spec": pods(&["a", "c", "c"])}]}},
        }}));
        let others = [
            item(json!({"kind": "DaemonSet", "spec": pods(&["c", "d"])})),
            item(json!({"kind": "CronJob", "spec": {"jobTemplate": {"spec": pods(&["e"])}}})),
            item(json!({"kind": "Pod", "spec": {"initContainers": [{"image": "f"}]}})),
            item(json!({"kind": "Etcd", "spec": pods(&["g"])})),
        ];
        let images = images(Csv::new(&csv), &others).into_iter();
        let found = images.map(|image| image.image + "=" + &image.name);
        assert_rows!(found.collect::<Vec<_>>() => ["a=a", "a=b", "c=", "d=", "e=", "f="]);
    }
}
