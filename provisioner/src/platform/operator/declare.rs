//! The BundleInstance that a PlatformOperator wants. No I/O.

use catalog::model::PLAIN_V0;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{FieldsV1, ManagedFieldsEntry};
use kube::{Resource as _, ResourceExt as _};
use manifests::api::{Class, instance::BundleInstance, labels, platform::PlatformOperator};
use serde_json::{Map, Value, json};

use super::{here::Chosen, record};

/// Who applies BundleInstances of PlatformOperators, and writes their statuses (platform-operators parity).
pub const MANAGER: &str = "platformoperator";

const PLAIN: &str = "core-rukpak-io-plain";
const REGISTRY: &str = "core-rukpak-io-registry";

/// What a bundle is installed as.
pub fn class(media_type: &str) -> Class {
    match media_type {
        PLAIN_V0 => Class::Plain,
        _ => Class::Registry,
    }
}

/// What is applied. Whatever an admin adds to it stays.
pub fn instance(operator: &PlatformOperator, chosen: &Chosen) -> Value {
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
    // What is not said here is not ours: an admin may say it at the BundleInstance.
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
            "annotations": {labels::CHOSEN_BUNDLE: record::memo(chosen)},
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

/// Has the API server refuse to apply it over anything else than this.
pub fn only_over(wanted: &mut Value, instance: &BundleInstance) {
    if let Some(metadata) = wanted.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("uid".to_owned(), json!(instance.uid()));
        let version = instance.resource_version();
        metadata.insert("resourceVersion".to_owned(), json!(version));
    }
}

/// Whether everything that is wanted is there, and nothing that was wanted once and is not any more. What others have
/// added does not matter.
pub fn is_declared(instance: &BundleInstance, wanted: &Value) -> bool {
    let Ok(there) = serde_json::to_value(instance) else {
        return false;
    };
    covers(&there, wanted) && !owned(instance).any(|fields| has_more(&fields.0, wanted))
}

/// Leaves of the managed fields only those that say what was applied here.
pub fn keep_own_fields(instance: &mut BundleInstance) {
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
        .filter(|it| is_own(it))
        .filter_map(|it| it.fields_v1.as_ref())
}

/// Whether fields are named that are not wanted. What stands for the items of a list (`k:`, `v:`) is left out: lists are
/// compared as such.
fn has_more(fields: &Value, wanted: &Value) -> bool {
    fields
        .as_object()
        .into_iter()
        .flatten()
        .any(|(key, below)| {
            let name = key.strip_prefix("f:");
            name.is_some_and(|name| wanted.get(name).is_none_or(|it| has_more(below, it)))
        })
}

/// Reports whether all of `wanted` is in `there`: of a list each item, of the list of overrides no other ones.
fn covers(there: &Value, wanted: &Value) -> bool {
    match (there, wanted) {
        (Value::Object(there), Value::Object(wanted)) => {
            wanted.iter().all(|(key, wanted)| match there.get(key) {
                Some(there) if key == "overrides" => there == wanted,
                Some(there) => covers(there, wanted),
                None => false,
            })
        }
        (Value::Array(there), Value::Array(wanted)) => wanted
            .iter()
            .all(|wanted| there.iter().any(|there| covers(there, wanted))),
        (there, wanted) => there == wanted,
    }
}

#[cfg(test)]
mod tests;
