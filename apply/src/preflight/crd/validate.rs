//! The validation of custom resources by a schema, with the messages of the API server. CEL rules are not evaluated.

use std::{cmp::Ordering, collections::BTreeSet, fmt::Display};

use manifests::object::shortened;
use serde_json::{Map, Number, Value};

use super::{
    format,
    place::{Place, ROOT},
    schema::{Limit, List, Schema, Type},
};

/// How many errors of one custom resource are told.
const MAX_ERRORS: usize = 5;
/// How long a value may be in a message.
const MAX_VALUE: usize = 60;

/// Everything that is wrong with a custom resource that was pruned and defaulted; the first of it, if it is much.
pub(super) fn validate(value: &Value, schema: &Schema) -> Vec<String> {
    let mut errors = Errors {
        told: Some(Vec::new()),
        any: false,
    };
    node(value, schema, &ROOT, &mut errors);
    errors.told.unwrap_or_default()
}

/// Errors, or merely whether there are some.
struct Errors {
    told: Option<Vec<String>>,
    any: bool,
}

impl Errors {
    fn add(&mut self, place: &Place<'_>, message: impl Display) {
        self.any = true;
        if let Some(told) = &mut self.told
            && told.len() < MAX_ERRORS
        {
            told.push(format!("{place}: {message}"));
        }
    }

    fn invalid(&mut self, place: &Place<'_>, value: &Value, message: impl Display) {
        self.add(
            place,
            format_args!("Invalid value: {}: {message}", told(value)),
        );
    }
}

/// Reports whether a schema accepts a value, as `anyOf` and the like ask.
fn accepts(value: &Value, schema: &Schema, place: &Place<'_>) -> bool {
    let mut errors = Errors {
        told: None,
        any: false,
    };
    node(value, schema, place, &mut errors);
    !errors.any
}

fn node(value: &Value, schema: &Schema, place: &Place<'_>, errors: &mut Errors) {
    if !has_type(value, schema) {
        let wanted = if schema.int_or_string {
            "integer,string"
        } else {
            schema.type_.map_or("", Type::name)
        };
        errors.invalid(
            place,
            value,
            format_args!("must be of type {wanted}: {:?}", type_name(value)),
        );
        return; // whatever else could be said follows from it
    }
    if let Some(allowed) = &schema.allowed
        && !allowed.iter().any(|allowed| equal(allowed, value))
    {
        let allowed: Vec<_> = allowed.iter().take(10).map(told).collect();
        errors.add(
            place,
            format_args!(
                "Unsupported value: {}: supported values: {}",
                told(value),
                allowed.join(", ")
            ),
        );
    }
    if value.is_null() {
        return;
    }
    match value {
        Value::String(text) => string(text, value, schema, place, errors),
        Value::Number(number_) => number(number_, value, schema, place, errors),
        Value::Array(list) => array(list, value, schema, place, errors),
        Value::Object(map) => object(map, value, schema, place, errors),
        _ => {}
    }
    junctors(value, schema, place, errors);
}

fn has_type(value: &Value, schema: &Schema) -> bool {
    if value.is_null() {
        return schema.nullable || (schema.type_.is_none() && !schema.int_or_string);
    }
    if schema.int_or_string {
        return value.is_string() || is_integer(value);
    }
    let Some(wanted) = schema.type_ else {
        return true;
    };
    match wanted {
        Type::Object => value.is_object(),
        Type::Array => value.is_array(),
        Type::String => value.is_string(),
        Type::Integer => is_integer(value),
        Type::Number => value.is_number(),
        Type::Boolean => value.is_boolean(),
    }
}

/// `1.0` is one as well.
fn is_integer(value: &Value) -> bool {
    match value {
        Value::Number(number) => {
            !number.is_f64() || number.as_f64().is_some_and(|float| float.fract() == 0.0)
        }
        _ => false,
    }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) if is_integer(value) => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn string(text: &str, value: &Value, schema: &Schema, place: &Place<'_>, errors: &mut Errors) {
    let bounds = &schema.bounds;
    if bounds.max_length.is_some() || bounds.min_length.is_some() {
        let length = text.chars().count() as u64;
        if let Some(most) = bounds.max_length.filter(|most| length > *most) {
            errors.add(
                place,
                format_args!("Too long: may not be more than {most} characters"),
            );
        }
        if let Some(least) = bounds.min_length.filter(|least| length < *least) {
            errors.invalid(
                place,
                value,
                format_args!("should be at least {least} chars long"),
            );
        }
    }
    if let Some(pattern) = &schema.pattern
        && !pattern.matches(text)
    {
        let pattern = shortened(&pattern.text, 2 * MAX_VALUE);
        errors.invalid(place, value, format_args!("should match '{pattern}'"));
    }
    if let Some(format) = &schema.format
        && !format::accepts(format, text)
    {
        errors.invalid(place, value, format_args!("must be of type {format}"));
    }
}

fn number(number: &Number, value: &Value, schema: &Schema, place: &Place<'_>, errors: &mut Errors) {
    let Some(float) = number.as_f64() else { return };
    let bounds = &schema.bounds;
    // Against whole numbers the API server holds what is left of a bound without its fraction.
    let comparable = |bound: f64| {
        if number.is_f64() {
            bound
        } else {
            bound.trunc()
        }
    };
    for (limit, wrong, than) in [
        (bounds.maximum, Ordering::Greater, "less than"),
        (bounds.minimum, Ordering::Less, "greater than"),
    ] {
        let Some(Limit {
            value: limit,
            exclusive,
        }) = limit
        else {
            continue;
        };
        let order = float.partial_cmp(&comparable(limit));
        if order == Some(wrong) || exclusive && order == Some(Ordering::Equal) {
            let or_equal = if exclusive { "" } else { " or equal to" };
            errors.invalid(
                place,
                value,
                format_args!("should be {than}{or_equal} {limit}"),
            );
        }
    }
    if let Some(factor) = bounds.multiple_of {
        let comparable = comparable(factor);
        // A factor below 1 leaves 0, and no whole number is accepted.
        if comparable <= 0.0 || (float / comparable).fract() != 0.0 {
            errors.invalid(
                place,
                value,
                format_args!("should be a multiple of {factor}"),
            );
        }
    }
    if let Some(format) = &schema.format
        && !format::accepts_number(format, float)
    {
        errors.invalid(place, value, format_args!("must be of format {format}"));
    }
}

fn array(list: &[Value], value: &Value, schema: &Schema, place: &Place<'_>, errors: &mut Errors) {
    let length = list.len() as u64;
    if let Some(most) = schema.bounds.max_items.filter(|most| length > *most) {
        errors.add(
            place,
            format_args!("Too many: {length}: must have at most {most} items"),
        );
    }
    if let Some(least) = schema.bounds.min_items.filter(|least| length < *least) {
        errors.invalid(
            place,
            value,
            format_args!("should have at least {least} items"),
        );
    }
    let mut seen = BTreeSet::new();
    for (index, item) in list.iter().enumerate() {
        let at = place.index(index);
        let key = match &schema.list {
            List::Any => None,
            List::Set => Some(item.to_string()),
            List::Map(keys) => Some(
                keys.iter()
                    .map(|key| item.get(key).unwrap_or(&Value::Null).to_string())
                    .collect::<Vec<_>>()
                    .join(","),
            ),
        };
        if let Some(key) = key
            && !seen.insert(key)
        {
            errors.add(&at, format_args!("Duplicate value: {}", told(item)));
        }
        if let Some(items) = &schema.items {
            node(item, items, &at, errors);
        }
    }
}

fn object(
    map: &Map<String, Value>,
    value: &Value,
    schema: &Schema,
    place: &Place<'_>,
    errors: &mut Errors,
) {
    let length = map.len() as u64;
    if let Some(most) = schema.bounds.max_properties.filter(|most| length > *most) {
        errors.add(
            place,
            format_args!("Too many: {length}: must have at most {most} items"),
        );
    }
    if let Some(least) = schema.bounds.min_properties.filter(|least| length < *least) {
        errors.invalid(
            place,
            value,
            format_args!("should have at least {least} properties"),
        );
    }
    for name in schema
        .required
        .iter()
        .filter(|name| !map.contains_key(*name))
    {
        errors.add(&place.key(name), "Required value");
    }
    if schema.embedded {
        for name in ["apiVersion", "kind"] {
            if map
                .get(name)
                .and_then(Value::as_str)
                .is_none_or(str::is_empty)
            {
                errors.add(&place.key(name), "Required value: must not be empty");
            }
        }
    }
    for (name, value) in map {
        let known = schema.properties.get(name).or(schema.additional.as_deref());
        if let Some(known) = known {
            node(value, known, &place.key(name), errors);
        }
    }
}

fn junctors(value: &Value, schema: &Schema, place: &Place<'_>, errors: &mut Errors) {
    let junctors = &schema.junctors;
    for schema in &junctors.all_of {
        node(value, schema, place, errors);
    }
    if !junctors.any_of.is_empty()
        && !junctors
            .any_of
            .iter()
            .any(|schema| accepts(value, schema, place))
    {
        errors.add(
            place,
            format_args!("Invalid value: \"{place}\" must validate at least one schema (anyOf)"),
        );
    }
    if !junctors.one_of.is_empty() {
        let count = junctors
            .one_of
            .iter()
            .filter(|schema| accepts(value, schema, place))
            .count();
        if count != 1 {
            let found = if count == 0 {
                "none valid".to_owned()
            } else {
                format!("{count} valid alternatives")
            };
            errors.add(
                place,
                format_args!(
                    "Invalid value: \"{place}\" must validate one and only one schema (oneOf). Found {found}"
                ),
            );
        }
    }
    if let Some(not) = &junctors.not
        && accepts(value, not, place)
    {
        errors.add(
            place,
            format_args!("Invalid value: \"{place}\" must not validate the schema (not)"),
        );
    }
}

/// `1` and `1.0` are the same.
fn equal(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => {
            one == other || one.as_f64() == other.as_f64()
        }
        _ => one == other,
    }
}

fn told(value: &Value) -> String {
    match value {
        Value::Object(_) | Value::Array(_) => format!("{:?}", type_name(value)),
        _ => shortened(&value.to_string(), MAX_VALUE),
    }
}

#[cfg(test)]
mod tests;
