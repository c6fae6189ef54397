//! List and map types, which determine how server-side apply merges a node. Types that the API server rejects are removed,
//! which leaves the node atomic or granular by default.

use std::collections::BTreeSet;

use serde_json::Value;

use super::types;
use crate::api_upgrade::json::{Object, flag, object, text};

const LIST: &str = "x-kubernetes-list-type";
const KEYS: &str = "x-kubernetes-list-map-keys";
const MAP: &str = "x-kubernetes-map-type";

/// Removes types that the API server rejects, and reports whether any were removed.
pub(super) fn repair(schema: &mut Object) -> bool {
    let mut removed = false;
    if schema.contains_key(MAP) {
        let sound = types::declared_type(schema) == Some("object")
            && matches!(text(schema, MAP), Some("atomic" | "granular"));
        removed |= !sound && schema.remove(MAP).is_some();
    }
    if (schema.contains_key(LIST) || schema.contains_key(KEYS)) && !is_sound_list(schema) {
        removed |= schema.remove(LIST).is_some();
        removed |= schema.remove(KEYS).is_some();
    }
    removed
}

fn is_sound_list(schema: &Object) -> bool {
    let keys = match schema.get(KEYS) {
        None => &[],
        Some(Value::Array(keys)) => keys.as_slice(),
        Some(_) => return false,
    };
    let Some(items) =
        object(schema, "items").filter(|_| types::declared_type(schema) == Some("array"))
    else {
        return false;
    };
    match text(schema, LIST) {
        Some("atomic") => keys.is_empty(),
        Some("set") => keys.is_empty() && !flag(items, "nullable") && is_one_value(items),
        Some("map") => {
            let names: BTreeSet<&str> = keys.iter().filter_map(Value::as_str).collect();
            let unique = !keys.is_empty() && names.len() == keys.len();
            let object = types::declared_type(items) == Some("object") && !flag(items, "nullable");
            unique && object && are_keys(items, &names)
        }
        _ => false,
    }
}

/// Reports whether items of a set are compared as a whole.
fn is_one_value(items: &Object) -> bool {
    match types::declared_type(items) {
        Some("object") => text(items, MAP) == Some("atomic"),
        Some("array") => matches!(text(items, LIST), None | Some("atomic")),
        _ => true,
    }
}

/// Reports whether the keys are scalars that every item has.
fn are_keys(items: &Object, keys: &BTreeSet<&str>) -> bool {
    let Some(properties) = object(items, "properties") else {
        return false;
    };
    let required = items
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    let required: BTreeSet<&str> = required.filter_map(Value::as_str).collect();
    keys.iter().all(|key| {
        object(properties, key).is_some_and(|field| {
            let scalar = !matches!(types::declared_type(field), Some("array" | "object"));
            scalar
                && !flag(field, "nullable")
                && (required.contains(key) || field.contains_key("default"))
        })
    })
}
