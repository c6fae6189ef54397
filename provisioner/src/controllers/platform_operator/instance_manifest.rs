//! The BundleInstance of a PlatformOperator. Pure; no I/O.

use catalog::model::PLAIN_V0;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{FieldsV1, ManagedFieldsEntry};
use kube::{Resource as _, ResourceExt as _};
use manifests::api::{
    Class, bundle_instance::BundleInstance, labels, platform_operator::PlatformOperator,
};
use serde_json::{Map, Value, json};

use super::{installed::BundleChoice, record};

/// Field manager of BundleInstances of PlatformOperators, and of their statuses (platform-operators parity).
pub const MANAGER: &str = "platformoperator";

const PLAIN: &str = "core-rukpak-io-plain";
const REGISTRY: &str = "core-rukpak-io-registry";

/// Returns the provisioner class for a media type.
pub fn class(media_type: &str) -> Class {
    match media_type {
        PLAIN_V0 => Class::Plain,
        _ => Class::Registry,
    }
}

/// Returns the object to apply. Fields that an admin adds to it remain.
pub fn instance(operator: &PlatformOperator, chosen: &BundleChoice) -> Value {
    let name = operator.name_any();
    let class = match class(&chosen.media_type) {
        Class::Plain => PLAIN,
        Class::Registry => REGISTRY,
    };
    let mut spec = Map::from_iter([
        ("provisionerClassName".to_owned(), PLAIN.into()),
        (
            "template".to_owned(),
            json!({"spec": {
                "provisionerClassName": class,
                "source": {"type": "image", "image": {"ref": chosen.bundle.image}},
            }}),
        ),
    ]);
    // Fields that are not declared here have no owner: an admin may set them on the BundleInstance.
    if let Some(bundle) = &operator.spec.bundle {
        if let Some(namespace) = &bundle.install_namespace {
            spec.insert("installNamespace".to_owned(), namespace.clone().into());
        }
        if let Some(account) = &bundle.service_account {
            spec.insert("serviceAccount".to_owned(), json!(account));
        }
        if !bundle.overrides.is_empty() {
            spec.insert("overrides".to_owned(), json!(bundle.overrides));
        }
    }
    json!({
        "apiVersion": BundleInstance::api_version(&()),
        "kind": BundleInstance::kind(&()),
        "metadata": {
            "name": name,
            "labels": {labels::PLATFORM_OPERATOR: name},
            "annotations": {labels::CHOSEN_BUNDLE: record::chosen_annotation(chosen)},
            "ownerReferences": [{
                "apiVersion": PlatformOperator::api_version(&()),
                "kind": PlatformOperator::kind(&()),
                "name": name,
                "uid": operator.uid().unwrap_or_default(),
                "controller": true,
                "blockOwnerDeletion": true,
            }],
        },
        "spec": spec,
    })
}

/// Makes the API server reject the apply unless the object is this version of the BundleInstance.
pub fn require_resource_version(desired: &mut Value, instance: &BundleInstance) {
    if let Some(metadata) = desired.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("uid".to_owned(), json!(instance.uid()));
        let version = instance.resource_version();
        metadata.insert("resourceVersion".to_owned(), json!(version));
    }
}

/// Reports whether the BundleInstance has all desired fields, and no field that was applied before and is not desired any
/// longer. Fields of other clients are ignored.
pub fn is_declared(instance: &BundleInstance, desired: &Value) -> bool {
    let Ok(live) = serde_json::to_value(instance) else {
        return false;
    };
    contains(&live, desired) && !owned(instance).any(|fields| has_more(&fields.0, desired))
}

/// Retains only the managed fields of the controller's own applies.
pub fn retain_own_fields(instance: &mut BundleInstance) {
    let all = instance.metadata.managed_fields.take();
    let own = all.map(|mut all| {
        all.retain(is_own);
        all
    });
    instance.metadata.managed_fields = own;
}

fn is_own(entry: &ManagedFieldsEntry) -> bool {
    let is_apply = entry.operation.as_deref() == Some("Apply");
    entry.manager.as_deref() == Some(MANAGER) && is_apply && entry.subresource.is_none()
}

fn owned(instance: &BundleInstance) -> impl Iterator<Item = &FieldsV1> {
    let entries = instance.metadata.managed_fields.iter().flatten();
    entries
        .filter(|entry| is_own(entry))
        .filter_map(|entry| entry.fields_v1.as_ref())
}

/// Reports whether the controller's last apply has set `spec.overrides`, so that they are a copy of those that the
/// PlatformOperator declared at that time.
pub fn applies_overrides(instance: &BundleInstance) -> bool {
    owned(instance).any(|fields| fields.0.pointer("/f:spec/f:overrides").is_some())
}

/// Reports whether `fields` has fields that are not desired. Keys of list items (`k:`, `v:`) are skipped, since lists are
/// compared as a whole.
fn has_more(fields: &Value, desired: &Value) -> bool {
    fields
        .as_object()
        .into_iter()
        .flatten()
        .any(|(key, below)| {
            let name = key.strip_prefix("f:");
            name.is_some_and(|name| desired.get(name).is_none_or(|value| has_more(below, value)))
        })
}

/// Reports whether `live` includes all of `desired`: each item of a list, and exactly the items of the list of overrides.
fn contains(live: &Value, desired: &Value) -> bool {
    match (live, desired) {
        (Value::Object(live), Value::Object(desired)) => {
            desired.iter().all(|(key, desired)| match live.get(key) {
                Some(live) if key == "overrides" => live == desired,
                Some(live) => contains(live, desired),
                None => false,
            })
        }
        (Value::Array(live), Value::Array(desired)) => desired
            .iter()
            .all(|desired| live.iter().any(|live| contains(live, desired))),
        (live, desired) => live == desired,
    }
}

#[cfg(test)]
mod tests;
