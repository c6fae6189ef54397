//! From a template to the Bundle it stands for.
//!
//! The hash is documented, so that it can be computed elsewhere and never changes by accident: the SHA-256 of the
//! template as JSON with sorted keys (`annotations`, `labels`, `spec`, the first two null where there are none) and the
//! class filled in, in lower-case hex, cut to 40 digits. It stands in the label `core.rukpak.io/bundle-template-hash`; the
//! Bundle's name is made of the instance's and a hash over both, and over a random number where another client has taken
//! that name. None of them says that the provisioner created a Bundle: the module `trust` knows.

use std::{iter, sync::Arc};

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
use unpacker::Digest;

/// The longest name of a Bundle (rukpak parity since 0.9).
pub const LONGEST_NAME: usize = 52;

/// How many Bundles of an instance may exist besides the installed and the wanted one: templates may change faster
/// than anything can be installed.
pub const MOST_OTHERS: usize = 2;

/// The number of names that are tried for a Bundle: another client may have taken the first one.
pub const MAX_NAMES: u8 = 8;

/// The hash of an instance's template.
pub fn hash(instance: &BundleInstance) -> String {
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
    let mut hash = Digest::of(canonical.to_string().as_bytes()).hex();
    hash.truncate(40);
    hash
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

/// Returns the usual name of the Bundle of a template.
pub fn bundle_name(instance: &BundleInstance, hash: &str) -> String {
    let name = instance.name_any();
    names::generated(&name, &[&name, hash], LONGEST_NAME)
}

/// Returns names for a new Bundle of a template, the usual one first. The others are random, so that no client can take
/// them before.
pub fn bundle_names(instance: &BundleInstance, hash: &str) -> impl Iterator<Item = String> {
    let name = instance.name_any();
    let others = (1..MAX_NAMES).map({
        let hash = hash.to_owned();
        move |_| {
            let random = fastrand::u128(..).to_string();
            names::generated(&name, &[&name, &hash, &random], LONGEST_NAME)
        }
    });
    iter::once(bundle_name(instance, hash)).chain(others)
}

/// The Bundle that the template stands for, under one of its [`bundle_names`].
pub fn bundle(instance: &BundleInstance, hash: &str, bundle: &str) -> Bundle {
    let metadata = instance.spec.template.metadata.clone().unwrap_or_default();
    let name = instance.name_any();
    let mut marks = metadata.labels.unwrap_or_default();
    marks.insert(labels::OWNER_KIND.to_owned(), "BundleInstance".to_owned());
    marks.insert(labels::OWNER_NAME.to_owned(), name.clone());
    marks.insert(labels::TEMPLATE_HASH.to_owned(), hash.to_owned());
    let mut bundle = Bundle::new(bundle, spec(instance));
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

/// Reports whether a Bundle was made for this instance, and not for one of the same name that is gone, and stays.
pub fn is_of(bundle: &Bundle, instance: &BundleInstance) -> bool {
    bundle.metadata.deletion_timestamp.is_none() && refers_to(bundle, instance)
}

/// Reports whether a Bundle has a reference that says that it was made for this instance.
fn refers_to(bundle: &Bundle, instance: &BundleInstance) -> bool {
    let mut owners = bundle.owner_references().iter();
    owners.any(|owner| owner.controller == Some(true) && instance.is_in(owner))
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

/// Reports whether the garbage collector has released the Bundles of an instance: all of them, and at least one.
pub fn are_released(instance: &BundleInstance, bundles: &[Arc<Bundle>]) -> bool {
    let refers = |bundle: &Arc<Bundle>| refers_to(bundle, instance);
    let belonged = |bundle: &Arc<Bundle>| was_of(bundle, instance);
    bundles.iter().any(belonged) && !bundles.iter().any(refers)
}

/// Returns the Bundles to delete so that the number of those that were never installed stays bounded. `needed` and
/// `created` are uids. Of the Bundles that are not needed, first those go that the provisioner did not create, then those
/// that failed, each time the oldest.
pub fn surplus<'a>(
    bundles: &[&'a Bundle],
    needed: &[&str],
    created: &[&str],
    most: usize,
) -> Vec<&'a Bundle> {
    let is_in = |bundle: &Bundle, uids: &[&str]| {
        let uid = bundle.metadata.uid.as_deref();
        uid.is_some_and(|uid| uids.contains(&uid))
    };
    let mut others: Vec<&Bundle> = bundles
        .iter()
        .copied()
        .filter(|bundle| !is_in(bundle, needed))
        .collect();
    others.sort_by_key(|bundle| {
        let is_ours = is_in(bundle, created);
        let good = bundle.status.as_ref().and_then(|s| s.phase) == Some(Phase::Unpacked);
        let created = bundle
            .metadata
            .creation_timestamp
            .as_ref()
            .map(|time| time.0);
        (is_ours, good, created, bundle.name_any())
    });
    let surplus = others.len().saturating_sub(most);
    others.truncate(surplus);
    others
}

#[cfg(test)]
mod tests;
