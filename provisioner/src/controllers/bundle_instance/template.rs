//! The Bundle of a template. Pure; no I/O.
//!
//! The hash is documented, so that other programs can compute it and it never changes by accident. It is the SHA-256 of the
//! template as JSON with sorted keys (`annotations`, `labels`, `spec`, the first two null if empty) and with the default
//! class, in lower-case hex, truncated to 40 digits. The label `core.rukpak.io/bundle-template-hash` has the hash. The name
//! of the Bundle consists of the name of the instance and a hash of both. If another client has taken that name, the hash
//! includes a random number. Neither the label nor the name proves that the provisioner created a Bundle: see the module
//! `trust`.

use std::{iter, sync::Arc};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Resource, ResourceExt, core::ObjectMeta};
use manifests::{
    api::{
        bundle::{Bundle, BundleSpec, Phase},
        bundle_instance::BundleInstance,
        labels,
    },
    names,
};
use unpacker::Digest;

/// Maximum length of the name of a Bundle (rukpak parity since 0.9).
pub const MAX_NAME_LEN: usize = 52;

/// Maximum number of Bundles of an instance besides the installed one and that of the template. Templates may change faster
/// than bundles can be installed.
pub const MAX_KEPT_BUNDLES: usize = 2;

/// Maximum number of names that are tried for a Bundle, if other clients have taken the first ones.
pub const MAX_NAMES: u8 = 8;

/// Returns the hash of an instance's template.
pub fn hash(instance: &BundleInstance) -> String {
    let metadata = instance.spec.template.metadata.as_ref();
    // An empty map is equal to an absent one.
    let labels = metadata
        .and_then(|m| m.labels.as_ref())
        .filter(|m| !m.is_empty());
    let annotations = metadata
        .and_then(|m| m.annotations.as_ref())
        .filter(|m| !m.is_empty());
    // Keys of a JSON value are sorted.
    let canonical =
        serde_json::json!({"annotations": annotations, "labels": labels, "spec": spec(instance)});
    let mut hash = Digest::sha256(canonical.to_string().as_bytes()).hex();
    hash.truncate(40);
    hash
}

/// Returns the spec of the Bundle of a template.
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
    names::generate_name(&name, &[&name, hash], MAX_NAME_LEN)
}

/// Returns names for a new Bundle of a template, the usual one first. The others are random, so that no client can take
/// them in advance.
pub fn bundle_names(instance: &BundleInstance, hash: &str) -> impl Iterator<Item = String> {
    let name = instance.name_any();
    let others = (1..MAX_NAMES).map({
        let hash = hash.to_owned();
        move |_| {
            let random = fastrand::u128(..).to_string();
            names::generate_name(&name, &[&name, &hash, &random], MAX_NAME_LEN)
        }
    });
    iter::once(bundle_name(instance, hash)).chain(others)
}

/// Returns the Bundle of a template, with one of its [`bundle_names`].
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

/// Reports whether a Bundle was created for this instance, not for an earlier one with the same name, and is not
/// terminating.
pub fn belongs_to(bundle: &Bundle, instance: &BundleInstance) -> bool {
    bundle.metadata.deletion_timestamp.is_none() && refers_to(bundle, instance)
}

/// Reports whether the controller reference of a Bundle names this instance.
fn refers_to(bundle: &Bundle, instance: &BundleInstance) -> bool {
    let mut owners = bundle.owner_references().iter();
    owners.any(|owner| owner.controller == Some(true) && instance.is_in(owner))
}

/// Reports whether a Bundle was created for this instance, even if the garbage collector has removed the reference, as it
/// does for a deletion with `--cascade=orphan`.
pub fn belonged_to(bundle: &Bundle, instance: &BundleInstance) -> bool {
    let has = |label: &str, value: &str| {
        bundle
            .labels()
            .get(label)
            .is_some_and(|label| label == value)
    };
    let is_orphaned = bundle.metadata.deletion_timestamp.is_none()
        && bundle.owner_references().is_empty()
        && has(labels::OWNER_KIND, "BundleInstance")
        && has(labels::OWNER_NAME, &instance.name_any())
        && bundle.labels().contains_key(labels::TEMPLATE_HASH);
    is_orphaned || belongs_to(bundle, instance)
}

/// Reports whether the garbage collector has removed the references of all Bundles of an instance, at least one.
pub fn are_released(instance: &BundleInstance, bundles: &[Arc<Bundle>]) -> bool {
    let refers = |bundle: &Arc<Bundle>| refers_to(bundle, instance);
    let belonged = |bundle: &Arc<Bundle>| belonged_to(bundle, instance);
    bundles.iter().any(belonged) && !bundles.iter().any(refers)
}

/// Returns the Bundles to delete so that the number of those that were never installed stays bounded. `needed` and
/// `created` are UIDs. Bundles that the provisioner did not create come first, then those that failed, the oldest first.
pub fn excess_bundles<'a>(
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
        let is_good = bundle.status.as_ref().and_then(|s| s.phase) == Some(Phase::Unpacked);
        let created = bundle
            .metadata
            .creation_timestamp
            .as_ref()
            .map(|time| time.0);
        (is_ours, is_good, created, bundle.name_any())
    });
    let surplus = others.len().saturating_sub(most);
    others.truncate(surplus);
    others
}

#[cfg(test)]
mod tests;
