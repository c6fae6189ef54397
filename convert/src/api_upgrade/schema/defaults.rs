//! Defaults: the API server rejects a default that its own schema would reject or prune.

use serde_json::{Number, Value};

use super::{EMBEDDED, PRESERVE, types};
use crate::api_upgrade::json::{Object, flag, object};

/// Assessment of a default, as far as it can be determined without an API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum DefaultCheck {
    Valid,
    /// The result depends on a pattern, a format or another schema.
    Unknown,
    Invalid,
}

/// Removes a default that the API server rejects, and reports whether it was removed.
///
/// While unknown fields were preserved, no default was accepted, so an undetermined one is removed. Otherwise, v1beta1
/// validated it like v1, so an undetermined one was valid.
pub(super) fn remove_refused(schema: &mut Object, preserve: bool) -> bool {
    let Some(default) = schema.remove("default") else {
        return false;
    };
    match check(schema, &default) {
        DefaultCheck::Valid => {}
        DefaultCheck::Unknown if !preserve => {}
        _ => return true,
    }
    schema.insert("default".into(), default);
    false
}

/// Maximum length of a list of values to search, because a default can contain as many values itself.
const MAX_SEARCHED: usize = 4096;

fn check(schema: &Object, value: &Value) -> DefaultCheck {
    if value.is_null() {
        return if flag(schema, "nullable") {
            DefaultCheck::Valid
        } else {
            DefaultCheck::Invalid
        };
    }
    let listed = match schema.get("enum").and_then(Value::as_array) {
        Some(all) if all.len() > MAX_SEARCHED => DefaultCheck::Unknown,
        Some(all) if !all.is_empty() && !all.contains(value) => DefaultCheck::Invalid,
        _ => DefaultCheck::Valid,
    };
    if !has_type(schema, value) || listed == DefaultCheck::Invalid {
        return DefaultCheck::Invalid;
    }
    let doubtful = ["allOf", "anyOf", "oneOf", "not", "x-kubernetes-validations"]
        .iter()
        .any(|key| schema.contains_key(*key));
    let own = if doubtful && !types::is_int_or_string(schema) {
        DefaultCheck::Unknown
    } else {
        DefaultCheck::Valid
    };
    own.max(listed).max(match value {
        Value::String(text) => check_text(schema, text),
        Value::Number(number) => check_number(schema, number),
        Value::Array(list) => check_list(schema, list),
        Value::Object(fields) => check_object(schema, fields),
        _ => DefaultCheck::Valid,
    })
}

fn has_type(schema: &Object, value: &Value) -> bool {
    match types::declared_type(schema) {
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

fn check_text(schema: &Object, text: &str) -> DefaultCheck {
    if !within(schema, text.chars().count(), "minLength", "maxLength") {
        DefaultCheck::Invalid
    } else if schema.contains_key("pattern") || schema.contains_key("format") {
        DefaultCheck::Unknown
    } else {
        DefaultCheck::Valid
    }
}

fn check_number(schema: &Object, number: &Number) -> DefaultCheck {
    let Some(number) = number.as_f64() else {
        return DefaultCheck::Unknown;
    };
    let limit = |key: &str| schema.get(key).and_then(Value::as_f64);
    let below = limit("minimum")
        .is_some_and(|min| number < min || (number <= min && flag(schema, "exclusiveMinimum")));
    let above = limit("maximum")
        .is_some_and(|max| number > max || (number >= max && flag(schema, "exclusiveMaximum")));
    if below || above {
        DefaultCheck::Invalid
    } else if schema.contains_key("multipleOf") || schema.contains_key("format") {
        DefaultCheck::Unknown
    } else {
        DefaultCheck::Valid
    }
}

fn check_list(schema: &Object, list: &[Value]) -> DefaultCheck {
    if !within(schema, list.len(), "minItems", "maxItems") {
        return DefaultCheck::Invalid;
    }
    let topology = if schema.contains_key("x-kubernetes-list-type") && !list.is_empty() {
        DefaultCheck::Unknown // Its items may have to be unique.
    } else {
        DefaultCheck::Valid
    };
    let items = object(schema, "items");
    list.iter().fold(topology, |result, item| {
        result.max(items.map_or(DefaultCheck::Valid, |items| check(items, item)))
    })
}

fn check_object(schema: &Object, fields: &Object) -> DefaultCheck {
    let embedded = flag(schema, EMBEDDED);
    if embedded
        && !["apiVersion", "kind"]
            .iter()
            .all(|key| fields.get(*key).is_some_and(Value::is_string))
    {
        return DefaultCheck::Invalid; // Not a Kubernetes object, regardless of its schema.
    }
    let required = schema.get("required").and_then(Value::as_array);
    let missing = required.is_some_and(|all| {
        all.iter()
            .filter_map(Value::as_str)
            .any(|key| !fields.contains_key(key))
    });
    if missing || !within(schema, fields.len(), "minProperties", "maxProperties") {
        return DefaultCheck::Invalid;
    }
    let properties = object(schema, "properties");
    let start = if embedded {
        DefaultCheck::Unknown
    } else {
        DefaultCheck::Valid
    };
    fields.iter().fold(start, |result, (key, field)| {
        result.max(
            match properties.and_then(|properties| properties.get(key)) {
                Some(Value::Object(property)) => check(property, field),
                Some(_) => DefaultCheck::Unknown,
                None => match schema.get("additionalProperties") {
                    Some(Value::Object(any)) => check(any, field),
                    Some(_) => DefaultCheck::Unknown,
                    None if flag(schema, PRESERVE) => DefaultCheck::Valid,
                    None => DefaultCheck::Invalid, // Pruned.
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
