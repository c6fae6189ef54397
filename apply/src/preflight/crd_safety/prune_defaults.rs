//! Prunes unknown fields of stored custom resources and sets defaults, like the API server when it reads them.

use serde_json::{Map, Value};

use super::{
    compare::is_everywhere,
    schema::Schema,
    value_path::{ROOT, ValuePath},
};

/// Maximum number of reported lost fields of one custom resource.
const MAX_REPORTED: usize = 5;

/// Prunes and defaults a custom resource, and returns the paths of the fields that it loses.
pub(super) fn prepare(value: &mut Value, schema: &Schema) -> Vec<String> {
    let mut lost = Vec::new();
    node(value, schema, &ROOT, &mut lost);
    lost
}

fn node(value: &mut Value, schema: &Schema, path: &ValuePath<'_>, lost: &mut Vec<String>) {
    match value {
        Value::Object(map) => object(map, schema, path, lost),
        Value::Array(list) => {
            if let Some(items) = &schema.items {
                for (index, item) in list.iter_mut().enumerate() {
                    node(item, items, &path.index(index), lost);
                }
            }
        }
        _ => {}
    }
}

fn object(
    map: &mut Map<String, Value>,
    schema: &Schema,
    path: &ValuePath<'_>,
    lost: &mut Vec<String>,
) {
    let is_object = path.is_root() || schema.embedded;
    map.retain(|key, value| {
        let at = path.key(key);
        if is_object && is_everywhere(key) {
            return true; // the API server has its own rules for these fields
        }
        let field_schema = schema.properties.get(key).or(schema.additional.as_deref());
        let Some(field_schema) = field_schema else {
            if !schema.preserve && lost.len() < MAX_REPORTED {
                lost.push(at.to_string());
            }
            return schema.preserve;
        };
        if value.is_null() && !field_schema.nullable && !is_anything(field_schema) {
            return false; // as if it were missing; the default replaces it
        }
        node(value, field_schema, &at, lost);
        true
    });
    for (name, field) in &schema.properties {
        if let Some(default) = &field.default
            && !map.contains_key(name)
        {
            let mut default = default.clone();
            // Values within a default may have defaults, too. A default loses no fields.
            node(&mut default, field, &path.key(name), &mut Vec::new());
            map.insert(name.clone(), default);
        }
    }
}

/// Reports whether a schema is the equivalent of `additionalProperties: true`.
fn is_anything(schema: &Schema) -> bool {
    schema.preserve && schema.type_.is_none() && !schema.int_or_string
}
