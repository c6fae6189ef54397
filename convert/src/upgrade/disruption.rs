//! `PodDisruptionBudget`: an empty selector selected no pod in v1beta1 and selects every pod in v1.

use manifests::path::Path;
use serde_json::{Value, json};

use super::{json::Object, json::object_at, notes::Notes};
use crate::{code::Code, report::Level};

/// The label by which the API server itself tells the two meanings apart; pods never carry it.
const NEVER: &str = "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match";

/// Makes an empty selector select nothing in v1 too.
pub(super) fn reshape(object: &mut Object, notes: &mut Notes<'_>) {
    let Some(selector) = object_at(object, &["spec", "selector"]) else {
        return; // None at all selects no pod in either version.
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
        "has an empty selector, which selected no pods in v1beta1: kept so, v1 would select all pods",
        Some("select the pods that the budget is for".into()),
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
