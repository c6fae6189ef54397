//! Fixtures for the tests of platform operators.

use catalog::model::{Bundle, Channel, Entry, Package};
use manifests::{
    api::{bundle_instance::BundleInstance, labels, platform_operator::PlatformOperator},
    openshift::{MaxOpenShiftVersion, Spelling},
    version::parse_strict,
};
use serde_json::{Value, json};

use super::{installed::BundleChoice, instance_manifest};

pub(crate) const UID: &str = "11111111-2222-3333-4444-555555555555";

/// Returns the operator `tide` of the package `tide`.
pub(crate) fn operator(spec: &Value) -> PlatformOperator {
    let mut spec = spec.clone();
    if spec["package"].is_null() {
        spec["package"] = json!({"name": "tide"});
    }
    object!({"metadata": {"name": "tide", "uid": UID, "generation": 3}, "spec": spec})
}

/// Returns an image with a digest derived from a version.
pub(crate) fn image(version: &str) -> String {
    let digits: String = version.chars().filter(char::is_ascii_hexdigit).collect();
    format!("r.example/tide@sha256:{digits:0>64}")
}

/// Returns bundle `tide.v1.0.0` of the catalog `c/mine`, in this version.
pub(crate) fn bundle(version: &str) -> Bundle {
    let bundle = Bundle::new(format!("tide.v{version}"), parse_strict(version).unwrap());
    with!(bundle => image: image(version))
}

/// Returns the package `tide` with one channel, in which each version replaces the one before.
pub(crate) fn package(versions: &[&str]) -> Package {
    let mut channel = with!(Channel, name: "stable".into());
    let mut package = with!(Package, name: "tide".into(), default_channel: "stable".into());
    let mut before = None;
    for version in versions {
        let bundle = bundle(version);
        let (name, replaces) = (bundle.name.clone(), before.replace(bundle.name.clone()));
        channel.entries.push(with!(Entry, name, replaces));
        package.bundles.insert(bundle.name.clone(), bundle);
    }
    package.channels.insert("stable".into(), channel);
    package
}

#[expect(clippy::unnecessary_wraps, reason = "the form of the field")]
pub(crate) fn max_openshift(text: &str) -> Option<MaxOpenShiftVersion> {
    Some(MaxOpenShiftVersion::new(text, Spelling::CatalogProperties))
}

/// Returns [`package`] with a max OpenShift version for some versions.
pub(in crate::controllers) fn limited(versions: &[&str], maxima: &[(&str, &str)]) -> Package {
    let mut package = package(versions);
    for (version, max) in maxima {
        let bundle = package.bundles.get_mut(&format!("tide.v{version}"));
        bundle.unwrap().max_openshift = max_openshift(max);
    }
    package
}

pub(crate) fn chosen(version: &str, after: Option<&str>) -> BundleChoice {
    let bundle = bundle(version);
    let after =
        after.map(|version| json!({"name": format!("tide.v{version}"), "version": version}));
    let chosen = json!({
        "package": "tide", "name": bundle.name, "version": version, "channel": "stable", "catalog": "c/mine",
        "image": bundle.image, "mediaType": bundle.media_type(), "after": after,
    });
    serde_json::from_value(chosen).unwrap()
}

/// Returns the BundleInstance of [`operator`] for a choice, as the API server returns it with this status.
pub(crate) fn instance(chosen: &BundleChoice, status: &Value) -> BundleInstance {
    let mut instance = instance_manifest::instance(&operator(&json!({})), chosen);
    instance["status"] = status.clone();
    serde_json::from_value(instance).unwrap()
}

/// Returns the status of a BundleInstance that has this version installed, from a registry+v1 bundle.
pub(crate) fn status(version: &str, is_healthy: bool) -> Value {
    let healthy = if is_healthy { "True" } else { "False" };
    json!({
        "conditions": [
            condition("HasValidBundle", "True", "UnpackSuccessful"),
            condition("Installed", "True", "InstallationSucceeded"),
            condition("Healthy", healthy, "Healthy"),
        ],
        "installedBundleName": "tide-1", "resolvedSource": {"type": "image", "image": {"ref": image(version)}},
        "package": "tide", "version": version, "clusterServiceVersion": format!("tide.v{version}"),
    })
}

/// Returns the status of a BundleInstance whose bundle has no bundle info.
pub(crate) fn plain_status(version: &str) -> Value {
    let mut status = status(version, true);
    let facts = status.as_object_mut().unwrap();
    for fact in ["package", "version", "clusterServiceVersion"] {
        facts.remove(fact).unwrap();
    }
    status
}

pub(crate) fn condition(type_: &str, status: &str, reason: &str) -> Value {
    crate::fixtures::condition(type_, status, reason, &format!("{reason}!"))
}

pub(crate) fn forget(mut instance: BundleInstance) -> BundleInstance {
    let annotations = instance.metadata.annotations.as_mut().unwrap();
    annotations.remove(labels::CHOSEN_BUNDLE).unwrap();
    instance
}
