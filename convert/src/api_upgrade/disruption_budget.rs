//! `PodDisruptionBudget`: an empty selector selects no pods in v1beta1, but all pods in v1.

use manifests::path::Path;
use serde_json::{Value, json};

use super::{
    json::{Object, object_at},
    notes::UpgradeNotes,
};
use crate::finding::{Level, code::Code};

/// Label with which the API server itself distinguishes the two meanings; pods never have it.
const NEVER: &str = "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match";

/// Replaces an empty selector by one that selects no pods in v1.
pub(super) fn reshape(object: &mut Object, notes: &mut UpgradeNotes<'_>) {
    let Some(selector) = object_at(object, &["spec", "selector"]) else {
        return; // Without a selector, neither version selects a pod.
    };
    if !selector.values().all(is_empty) {
        return;
    }
    *selector = Object::from_iter([(
        "matchExpressions".into(),
        json!([{"key": NEVER, "operator": "Exists"}]),
    )]);
    notes.add(
        Level::Warning,
        Code::UpgradedAPI,
        Path::from(["spec", "selector"]),
        "has an empty selector, which selected no pods in v1beta1; this is preserved, because it would select all pods in v1",
        Some("set a selector for the pods of the budget".into()),
    );
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(object) => object.is_empty(),
        _ => false,
    }
}
