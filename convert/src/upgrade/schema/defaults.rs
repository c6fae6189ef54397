//! Defaults: the API server refuses one that its own schema would refuse or prune.

use serde_json::{Number, Value};

use super::{EMBEDDED, PRESERVE, types};
use crate::upgrade::json::{Object, flag, object};

/// What the API server makes of a default, as far as it can be told here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    Valid,
    /// A pattern, a format or another schema decides.
    Unsure,
    Invalid,
}

/// Removes a default that the API server refuses; whether there was one.
///
/// While unknown fields were preserved no default was ever accepted, so that a doubtful one is better removed;
/// otherwise v1beta1 checked it as v1 does, so that a doubtful one was fine.
pub(super) fn remove_refused(schema: &mut Object, preserve: bool) -> bool {
    let Some(default) = schema.remove("default") else {
        return false;
    };
    match check(schema, &default) {
        Verdict::Valid => {}
        Verdict::Unsure if !preserve => {}
        _ => return true,
    }
    schema.insert("default".into(), default);
    false
}

/// Lists of values longer than this are not searched, since a default can have as many values of its own.
const SEARCHED: usize = 4096;

fn check(schema: &Object, value: &Value) -> Verdict {
    if value.is_null() {
        return if flag(schema, "nullable") {
            Verdict::Valid
        } else {
            Verdict::Invalid
        };
    }
    let listed = match schema.get("enum").and_then(Value::as_array) {
        Some(all) if all.len() > SEARCHED => Verdict::Unsure,
        Some(all) if !all.is_empty() && !all.contains(value) => Verdict::Invalid,
        _ => Verdict::Valid,
    };
    if !has_type(schema, value) || listed == Verdict::Invalid {
        return Verdict::Invalid;
    }
    let doubtful = ["allOf", "anyOf", "oneOf", "not", "x-kubernetes-validations"]
        .iter()
        .any(|key| schema.contains_key(*key));
    let own = if doubtful && !types::is_int_or_string(schema) {
        Verdict::Unsure
    } else {
        Verdict::Valid
    };
    own.max(listed).max(match value {
        Value::String(text) => check_text(schema, text),
        Value::Number(number) => check_number(schema, number),
        Value::Array(list) => check_list(schema, list),
        Value::Object(fields) => check_object(schema, fields),
        _ => Verdict::Valid,
    })
}

fn has_type(schema: &Object, value: &Value) -> bool {
    match types::stated(schema) {
        Some("array") => value.is_array(),
        Some("boolean") => value.is_boolean(),
        Some("integer") => {
            value.is_i64()
                || value.is_u64()
                || value.as_f64().is_some_and(|float| float.fract() == 0.0)
        }
        Some("number") => value.is_number(),
        Some("object") => value.is_object(),
        Some("string") => value.is_string(),
        _ if types::is_int_or_string(schema) => {
            value.is_string() || value.is_i64() || value.is_u64()
        }
        _ => true,
    }
}

fn check_text(schema: &Object, text: &str) -> Verdict {
    if !within(schema, text.chars().count(), "minLength", "maxLength") {
        Verdict::Invalid
    } else if schema.contains_key("pattern") || schema.contains_key("format") {
        Verdict::Unsure
    } else {
        Verdict::Valid
    }
}

fn check_number(schema: &Object, number: &Number) -> Verdict {
    let Some(number) = number.as_f64() else {
        return Verdict::Unsure;
    };
    let limit = |key: &str| schema.get(key).and_then(Value::as_f64);
    let below = limit("minimum")
        .is_some_and(|min| number < min || (number <= min && flag(schema, "exclusiveMinimum")));
    let above = limit("maximum")
        .is_some_and(|max| number > max || (number >= max && flag(schema, "exclusiveMaximum")));
    if below || above {
        Verdict::Invalid
    } else if schema.contains_key("multipleOf") || schema.contains_key("format") {
        Verdict::Unsure
    } else {
        Verdict::Valid
    }
}

fn check_list(schema: &Object, list: &[Value]) -> Verdict {
    if !within(schema, list.len(), "minItems", "maxItems") {
        return Verdict::Invalid;
    }
    let topology = if schema.contains_key("x-kubernetes-list-type") && !list.is_empty() {
        Verdict::Unsure // Its items may have to be unique.
    } else {
        Verdict::Valid
    };
    let items = object(schema, "items");
    list.iter().fold(topology, |verdict, item| {
        verdict.max(items.map_or(Verdict::Valid, |items| check(items, item)))
    })
}

fn check_object(schema: &Object, fields: &Object) -> Verdict {
    let embedded = flag(schema, EMBEDDED);
    if embedded
        && !["apiVersion", "kind"]
            .iter()
            .all(|key| fields.get(*key).is_some_and(Value::is_string))
    {
        return Verdict::Invalid; // Not a Kubernetes object, whatever its schema says.
    }
    let required = schema.get("required").and_then(Value::as_array);
    let missing = required.is_some_and(|all| {
        all.iter()
            .filter_map(Value::as_str)
            .any(|key| !fields.contains_key(key))
    });
    if missing || !within(schema, fields.len(), "minProperties", "maxProperties") {
        return Verdict::Invalid;
    }
    let properties = object(schema, "properties");
    let start = if embedded {
        Verdict::Unsure
    } else {
        Verdict::Valid
    };
    fields.iter().fold(start, |verdict, (key, field)| {
        verdict.max(
            match properties.and_then(|properties| properties.get(key)) {
                Some(Value::Object(property)) => check(property, field),
                Some(_) => Verdict::Unsure,
                None => match schema.get("additionalProperties") {
                    Some(Value::Object(any)) => check(any, field),
                    Some(_) => Verdict::Unsure,
                    None if flag(schema, PRESERVE) => Verdict::Valid,
                    None => Verdict::Invalid, // Pruned.
                },
            },
        )
    })
}

fn within(schema: &Object, count: usize, min: &str, max: &str) -> bool {
    let limit = |key: &str| schema.get(key).and_then(Value::as_u64);
    let count = count as u64;
    limit(min).is_none_or(|min| count >= min) && limit(max).is_none_or(|max| count <= max)
}
