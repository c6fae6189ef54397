//! The BundleInstance that a PlatformOperator wants. No I/O.

use catalog::model::PLAIN_V0;
use kube::{Resource as _, ResourceExt as _};
use manifests::api::{
    instance::BundleInstance,
    labels,
    platform::{ChosenBundle, PlatformOperator},
};
use serde_json::{Map, Value, json};

use super::here::Chosen;

/// Who applies BundleInstances of PlatformOperators, and writes their statuses (platform-operators parity).
pub const MANAGER: &str = "platformoperator";

const PLAIN: &str = "core-rukpak-io-plain";
const REGISTRY: &str = "core-rukpak-io-registry";

/// What is applied. Whatever an admin adds to it stays.
pub fn instance(operator: &PlatformOperator, chosen: &Chosen) -> Value {
    let name = operator.name_any();
    let class = match chosen.media_type.as_str() {
        PLAIN_V0 => PLAIN,
        _ => REGISTRY,
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
            "annotations": {labels::CHOSEN_BUNDLE: memo(chosen)},
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

/// What the annotation holds: what has to be known again, and not why it was chosen.
fn memo(chosen: &Chosen) -> String {
    let memo = Chosen {
        bundle: ChosenBundle {
            why: Vec::new(),
            ..chosen.bundle.clone()
        },
        ..chosen.clone()
    };
    // Texts alone always become JSON.
    serde_json::to_string(&memo).unwrap_or_default()
}

/// Whether everything that is wanted is there. What is there besides does not matter, save for overrides: one that the
/// PlatformOperator does not have any more has to go.
pub fn is_declared(instance: &BundleInstance, wanted: &Value) -> bool {
    let Ok(there) = serde_json::to_value(instance) else {
        return false;
    };
    let overrides = |value: &Value| {
        let overrides = value.pointer("/spec/overrides").and_then(Value::as_array);
        overrides.cloned().unwrap_or_default()
    };
    covers(&there, wanted) && overrides(&there) == overrides(wanted)
}

/// Whether all of `wanted` is in `there`; lists have to be equal in length, and owners to be among the owners.
fn covers(there: &Value, wanted: &Value) -> bool {
    match (there, wanted) {
        (Value::Object(there), Value::Object(wanted)) => wanted
            .iter()
            .all(|(key, wanted)| there.get(key).is_some_and(|there| covers(there, wanted))),
        (Value::Array(there), Value::Array(wanted)) => wanted
            .iter()
            .all(|wanted| there.iter().any(|there| covers(there, wanted))),
        (there, wanted) => there == wanted,
    }
}
