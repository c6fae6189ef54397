//! Validation of custom resources by a schema, with the messages of the API server. CEL rules are not evaluated.

use std::{cmp::Ordering, collections::BTreeSet, fmt::Display};

use manifests::object::truncate;
use serde_json::{Map, Number, Value};

use super::{
    format,
    schema::{Limit, ListType, Schema, Type},
    value_path::{ROOT, ValuePath},
};

/// Maximum number of reported errors of one custom resource.
const MAX_ERRORS: usize = 5;
/// Maximum length of a value in a message, in characters.
const MAX_VALUE: usize = 60;

/// Returns the first errors of a custom resource that was pruned and defaulted.
pub(super) fn validate(value: &Value, schema: &Schema) -> Vec<String> {
    let mut errors = Errors {
        messages: Some(Vec::new()),
        any: false,
    };
    node(value, schema, &ROOT, &mut errors);
    errors.messages.unwrap_or_default()
}

/// Collected errors, or only whether an error exists.
struct Errors {
    messages: Option<Vec<String>>,
    any: bool,
}

impl Errors {
    fn add(&mut self, path: &ValuePath<'_>, message: impl Display) {
        self.any = true;
        if let Some(messages) = &mut self.messages
            && messages.len() < MAX_ERRORS
        {
            messages.push(format!("{path}: {message}"));
        }
    }

    fn invalid(&mut self, path: &ValuePath<'_>, value: &Value, message: impl Display) {
        self.add(
            path,
            format_args!("Invalid value: {}: {message}", format_value(value)),
        );
    }
}

/// Reports whether a schema accepts a value, for `anyOf`, `oneOf` and `not`.
fn accepts(value: &Value, schema: &Schema, path: &ValuePath<'_>) -> bool {
    let mut errors = Errors {
        messages: None,
        any: false,
    };
    node(value, schema, path, &mut errors);
    !errors.any
}

fn node(value: &Value, schema: &Schema, path: &ValuePath<'_>, errors: &mut Errors) {
    if !has_type(value, schema) {
        let expected = if schema.int_or_string {
            "integer,string"
        } else {
            schema.type_.map_or("", Type::name)
        };
        errors.invalid(
            path,
            value,
            format_args!("must be of type {expected}: {:?}", type_name(value)),
        );
        return; // all further errors are consequences of this one
    }
    if let Some(allowed) = &schema.allowed
        && !allowed.iter().any(|allowed| equal(allowed, value))
    {
        let allowed: Vec<_> = allowed.iter().take(10).map(format_value).collect();
        errors.add(
            path,
            format_args!(
                "Unsupported value: {}: supported values: {}",
                format_value(value),
                allowed.join(", ")
            ),
        );
    }
    if value.is_null() {
        return;
    }
    match value {
        Value::String(text) => string(text, value, schema, path, errors),
        Value::Number(number_) => number(number_, value, schema, path, errors),
        Value::Array(list) => array(list, value, schema, path, errors),
        Value::Object(map) => object(map, value, schema, path, errors),
        _ => {}
    }
    logical(value, schema, path, errors);
}

fn has_type(value: &Value, schema: &Schema) -> bool {
    if value.is_null() {
        return schema.nullable || (schema.type_.is_none() && !schema.int_or_string);
    }
    if schema.int_or_string {
        return value.is_string() || is_integer(value);
    }
    let Some(expected) = schema.type_ else {
        return true;
    };
    match expected {
        Type::Object => value.is_object(),
        Type::Array => value.is_array(),
        Type::String => value.is_string(),
        Type::Integer => is_integer(value),
        Type::Number => value.is_number(),
        Type::Boolean => value.is_boolean(),
    }
}

/// Reports whether a value is an integer, including `1.0`.
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

fn string(text: &str, value: &Value, schema: &Schema, path: &ValuePath<'_>, errors: &mut Errors) {
    let bounds = &schema.bounds;
    if bounds.max_length.is_some() || bounds.min_length.is_some() {
        let length = text.chars().count() as u64;
        if let Some(max) = bounds.max_length.filter(|max| length > *max) {
            errors.add(
                path,
                format_args!("Too long: may not be more than {max} characters"),
            );
        }
        if let Some(min) = bounds.min_length.filter(|min| length < *min) {
            errors.invalid(
                path,
                value,
                format_args!("should be at least {min} chars long"),
            );
        }
    }
    if let Some(pattern) = &schema.pattern
        && !pattern.matches(text)
    {
        let pattern = truncate(&pattern.text, 2 * MAX_VALUE);
        errors.invalid(path, value, format_args!("should match '{pattern}'"));
    }
    if let Some(format) = &schema.format
        && !format::accepts(format, text)
    {
        errors.invalid(path, value, format_args!("must be of type {format}"));
    }
}

fn number(
    number: &Number,
    value: &Value,
    schema: &Schema,
    path: &ValuePath<'_>,
    errors: &mut Errors,
) {
    let Some(float) = number.as_f64() else { return };
    let bounds = &schema.bounds;
    // The API server truncates a bound before it compares the bound with an integer.
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
                path,
                value,
                format_args!("should be {than}{or_equal} {limit}"),
            );
        }
    }
    if let Some(factor) = bounds.multiple_of {
        let comparable = comparable(factor);
        // A factor below 1 is truncated to 0, which accepts no integer.
        if comparable <= 0.0 || (float / comparable).fract() != 0.0 {
            errors.invalid(
                path,
                value,
                format_args!("should be a multiple of {factor}"),
            );
        }
    }
    if let Some(format) = &schema.format
        && !format::accepts_number(format, float)
    {
        errors.invalid(path, value, format_args!("must be of format {format}"));
    }
}

fn array(
    list: &[Value],
    value: &Value,
    schema: &Schema,
    path: &ValuePath<'_>,
    errors: &mut Errors,
) {
    let length = list.len() as u64;
    if let Some(max) = schema.bounds.max_items.filter(|max| length > *max) {
        errors.add(
            path,
            format_args!("Too many: {length}: must have at most {max} items"),
        );
    }
    if let Some(min) = schema.bounds.min_items.filter(|min| length < *min) {
        errors.invalid(
            path,
            value,
            format_args!("should have at least {min} items"),
        );
    }
    let mut seen_keys = BTreeSet::new();
    for (index, item) in list.iter().enumerate() {
        let at = path.index(index);
        let key = match &schema.list {
            ListType::Any => None,
            ListType::Set => Some(item.to_string()),
            ListType::Map(keys) => Some(
                keys.iter()
                    .map(|key| item.get(key).unwrap_or(&Value::Null).to_string())
                    .collect::<Vec<_>>()
                    .join(","),
            ),
        };
        if let Some(key) = key
            && !seen_keys.insert(key)
        {
            errors.add(&at, format_args!("Duplicate value: {}", format_value(item)));
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
    path: &ValuePath<'_>,
    errors: &mut Errors,
) {
    let length = map.len() as u64;
    if let Some(max) = schema.bounds.max_properties.filter(|max| length > *max) {
        errors.add(
            path,
            format_args!("Too many: {length}: must have at most {max} items"),
        );
    }
    if let Some(min) = schema.bounds.min_properties.filter(|min| length < *min) {
        errors.invalid(
            path,
            value,
            format_args!("should have at least {min} properties"),
        );
    }
    for name in schema
        .required
        .iter()
        .filter(|name| !map.contains_key(*name))
    {
        errors.add(&path.key(name), "Required value");
    }
    if schema.embedded {
        for name in ["apiVersion", "kind"] {
            if map
                .get(name)
                .and_then(Value::as_str)
                .is_none_or(str::is_empty)
            {
                errors.add(&path.key(name), "Required value: must not be empty");
            }
        }
    }
    for (name, value) in map {
        let field_schema = schema.properties.get(name).or(schema.additional.as_deref());
        if let Some(field_schema) = field_schema {
            node(value, field_schema, &path.key(name), errors);
        }
    }
}

fn logical(value: &Value, schema: &Schema, path: &ValuePath<'_>, errors: &mut Errors) {
    let logical = &schema.logical;
    for schema in &logical.all_of {
        node(value, schema, path, errors);
    }
    if !logical.any_of.is_empty()
        && !logical
            .any_of
            .iter()
            .any(|schema| accepts(value, schema, path))
    {
        errors.add(
            path,
            format_args!("Invalid value: \"{path}\" must validate at least one schema (anyOf)"),
        );
    }
    if !logical.one_of.is_empty() {
        let count = logical
            .one_of
            .iter()
            .filter(|schema| accepts(value, schema, path))
            .count();
        if count != 1 {
            let result = if count == 0 {
                "none valid".to_owned()
            } else {
                format!("{count} valid alternatives")
            };
            errors.add(
                path,
                format_args!(
                    "Invalid value: \"{path}\" must validate one and only one schema (oneOf). Found {result}"
                ),
            );
        }
    }
    if let Some(not) = &logical.not
        && accepts(value, not, path)
    {
        errors.add(
            path,
            format_args!("Invalid value: \"{path}\" must not validate the schema (not)"),
        );
    }
}

/// Reports whether two values are equal; `1` and `1.0` are.
fn equal(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => {
            one == other || one.as_f64() == other.as_f64()
        }
        _ => one == other,
    }
}

fn format_value(value: &Value) -> String {
    match value {
        Value::Object(_) | Value::Array(_) => format!("{:?}", type_name(value)),
        _ => truncate(&value.to_string(), MAX_VALUE),
    }
}

#[cfg(test)]
mod tests;
