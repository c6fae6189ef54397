//! From a template to the Bundle it stands for.
//!
//! The hash is documented, so that it can be computed elsewhere and never changes by accident: the SHA-256 of the
//! template as JSON with sorted keys (`annotations`, `labels`, `spec`, the first two null where there are none) and the
//! class filled in, in lower-case hex, cut to 40 digits. It stands in the label `core.rukpak.io/bundle-template-hash`; the
//! Bundle's name is made of the instance's and a hash over both.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Resource, ResourceExt, core::ObjectMeta};
use manifests::{
    api::{
        bundle::{Bundle, BundleSpec, Phase},
        instance::BundleInstance,
        labels,
    },
    names,
};
use sha2::{Digest, Sha256};

/// The longest name of a Bundle (rukpak parity since 0.9).
pub const LONGEST_NAME: usize = 52;

/// How many Bundles of an instance may exist besides the installed and the wanted one: templates may change faster
/// than anything can be installed.
pub const MOST_OTHERS: usize = 2;

/// The hash of an instance's template.
pub fn hash(instance: &BundleInstance) -> String {
    use std::fmt::Write as _;
    let metadata = instance.spec.template.metadata.as_ref();
    // An empty map says no more than an absent one.
    let labels = metadata
        .and_then(|m| m.labels.as_ref())
        .filter(|m| !m.is_empty());
    let annotations = metadata
        .and_then(|m| m.annotations.as_ref())
        .filter(|m| !m.is_empty());
    // Keys of a JSON value are sorted.
    let canonical =
        serde_json::json!({"annotations": annotations, "labels": labels, "spec": spec(instance)});
    let digest = Sha256::digest(canonical.to_string().as_bytes());
    digest
        .iter()
        .take(20)
        .fold(String::with_capacity(40), |mut text, byte| {
            let _ = write!(text, "{byte:02x}"); // a String takes everything
            text
        })
}

/// The spec of the Bundle that the template stands for.
pub fn spec(instance: &BundleInstance) -> BundleSpec {
    let template = &instance.spec.template.spec;
    BundleSpec {
        provisioner_class_name: template
            .provisioner_class_name
            .clone()
            .unwrap_or_else(|| instance.spec.provisioner_class_name.clone()),
        source: template.source.clone(),
    }
}

/// The Bundle that the template stands for.
pub fn bundle(instance: &BundleInstance, hash: &str) -> Bundle {
    let metadata = instance.spec.template.metadata.clone().unwrap_or_default();
    let name = instance.name_any();
    let mut marks = metadata.labels.unwrap_or_default();
    marks.insert(labels::OWNER_KIND.to_owned(), "BundleInstance".to_owned());
    marks.insert(labels::OWNER_NAME.to_owned(), name.clone());
    marks.insert(labels::TEMPLATE_HASH.to_owned(), hash.to_owned());
    let mut bundle = Bundle::new(
        &names::generated(&name, &[&name, hash], LONGEST_NAME),
        spec(instance),
    );
    bundle.metadata = ObjectMeta {
        name: bundle.metadata.name,
        labels: Some(marks),
        annotations: metadata.annotations,
        owner_references: Some(vec![OwnerReference {
            api_version: BundleInstance::api_version(&()).into_owned(),
            kind: BundleInstance::kind(&()).into_owned(),
            name,
            uid: instance.uid().unwrap_or_default(),
            controller: Some(true),
            block_owner_deletion: None,
        }]),
        ..ObjectMeta::default()
    };
    bundle
}

/// Whether a Bundle was made for this instance, and not for one of the same name that is gone, and stays.
pub fn is_of(bundle: &Bundle, instance: &BundleInstance) -> bool {
    bundle.metadata.deletion_timestamp.is_none() && refers_to(bundle, instance)
}

/// Whether a Bundle has a reference that says that it was made for this instance.
pub fn refers_to(bundle: &Bundle, instance: &BundleInstance) -> bool {
    let uid = instance.uid().unwrap_or_default();
    let mut owners = bundle.owner_references().iter();
    owners.any(|owner| owner.controller == Some(true) && owner.uid == uid)
}

/// Whether a Bundle was made for this instance, also if the garbage collector has taken the reference to it off already,
/// as it does when the instance is deleted with `--cascade=orphan`.
pub fn was_of(bundle: &Bundle, instance: &BundleInstance) -> bool {
    let has = |label: &str, value: &str| bundle.labels().get(label).is_some_and(|it| it == value);
    let is_nobodys = bundle.metadata.deletion_timestamp.is_none()
        && bundle.owner_references().is_empty()
        && has(labels::OWNER_KIND, "BundleInstance")
        && has(labels::OWNER_NAME, &instance.name_any())
        && bundle.labels().contains_key(labels::TEMPLATE_HASH);
    is_nobodys || is_of(bundle, instance)
}

/// Whether a Bundle is what the template stands for: the label says so, and so does its spec.
pub fn matches(bundle: &Bundle, instance: &BundleInstance, hash: &str) -> bool {
    bundle
        .labels()
        .get(labels::TEMPLATE_HASH)
        .map(String::as_str)
        == Some(hash)
        && bundle.spec == spec(instance)
}

/// Which Bundles have to go, so that the number of those that were tried in vain stays bounded: of those that are not
/// needed, first the ones that failed, each time the oldest.
pub fn surplus<'a>(bundles: &[&'a Bundle], needed: &[&str], most: usize) -> Vec<&'a Bundle> {
    let mut others: Vec<&Bundle> = bundles
        .iter()
        .copied()
        .filter(|bundle| !needed.contains(&bundle.name_any().as_str()))
        .collect();
    others.sort_by_key(|bundle| {
        let good = bundle.status.as_ref().and_then(|s| s.phase) == Some(Phase::Unpacked);
        let created = bundle
            .metadata
            .creation_timestamp
            .as_ref()
            .map(|time| time.0);
        (good, created, bundle.name_any())
    });
    let surplus = others.len().saturating_sub(most);
    others.truncate(surplus);
    others
}

#[cfg(test)]
mod tests;
