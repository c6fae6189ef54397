//! What a bundle says of itself: the facts that catalogs, status and people need.

use std::collections::{BTreeMap, BTreeSet};

use manifests::{
    object::{at, text},
    openshift::MaxOpenShiftVersion,
};
use serde::Serialize;
use serde_json::Value;

use crate::{
    bundle::Item,
    csv::Csv,
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
    /// Packages the bundle needs, by name, with the version range; several ranges have to hold at once.
    pub required_packages: BTreeMap<String, String>,
    /// Images: those the CSV lists, those of its pods and those of other workloads of the bundle.
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
pub(crate) fn of(
    metadata: &Metadata,
    csv: Option<Csv<'_>>,
    others: &[Item],
    properties: Vec<Property>,
) -> Facts {
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
        facts.images = images(csv, others);
    }
    require(&mut facts);
    facts
}

/// Adds what the dependencies and properties require.
fn require(facts: &mut Facts) {
    let mut ranges: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut seen = BTreeSet::new();
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
                // The CSV may have said already what serves it.
                if !facts.required_apis.contains(&api) {
                    api.is_api_service = false;
                    facts.required_apis.insert(api);
                }
            }
            Requirement::Package { range } => {
                let (package, range) = (field("packageName"), field(range));
                let ranges = ranges.entry(package.clone()).or_default();
                if !range.is_empty() && seen.insert((package, range.clone())) {
                    ranges.push(range);
                }
            }
        }
    }
    facts.required_packages = ranges
        .into_iter()
        .map(|(package, ranges)| (package, all_of(&ranges)))
        .collect();
}

/// What a dependency or property requires.
enum Requirement {
    /// An API.
    Api,
    /// A package.
    Package {
        /// The field with its versions.
        range: &'static str,
    },
}

/// One range for several that have to hold at once: a space means that, and binds more tightly than `||`.
fn all_of(ranges: &[String]) -> String {
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

/// Where a Deployment describes its pods, and most other workloads theirs.
pub(crate) const POD_TEMPLATE: &[&str] = &["spec", "template"];

/// Where an object of this kind describes its pods; nothing when it has none.
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
        .filter_map(|deployment| at(deployment, POD_TEMPLATE));
    let shipped = others
        .iter()
        .filter_map(|item| at(&item.value, pod_template(item.kind())?));
    for template in deployments.chain(shipped) {
        for list in ["initContainers", "containers"] {
            let containers = at(template, &["spec", list]).and_then(Value::as_array);
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
    use crate::report::Place;

    fn property((type_, value): (&str, Value)) -> Property {
        Property {
            type_: type_.into(),
            value: RawValue::from_string(value.to_string()).unwrap(),
        }
    }

    fn item(value: Value) -> Item {
        Item {
            value,
            place: Place::file("a.yaml"),
        }
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
            // What the bundle itself is.
            "olm.package" => json!({"packageName": "sea", "version": "1.0.0"});
            "olm.gvk" => gvk("Tide");
        ];
        let mut facts = Facts {
            required_apis: BTreeSet::from([api("Star", true)]),
            dependencies: dependencies.map(property).into(),
            properties: properties.map(property).into(),
            ..Facts::default()
        };
        require(&mut facts);
        assert_rows!(facts.required_apis => BTreeSet::from([api("Star", true), api("Sun", false)]));
        let expected = ::tests::rows![
            "moon".into() => ">=1.0.0 <2.0.0 (1.2.0 || 1.4.0)".into();
            "tide".into() => "1.0.0 || 2.0.0".into();
        ];
        assert_eq!(facts.required_packages, BTreeMap::from(expected));
    }

    #[test]
    fn images_of_everything_that_runs_are_told_once() {
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
        let told = images.map(|image| image.image + "=" + &image.name);
        let told: Vec<_> = told.collect();
        assert_eq!(told, ["a=a", "a=b", "c=", "d=", "e=", "f="]);
    }
}
