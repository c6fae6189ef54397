//! Stored custom resources in the form in which the API server reads them: without unknown fields, and with defaults.

use serde_json::{Map, Value};

use super::{
    compare::is_everywhere,
    place::{Place, ROOT},
    schema::Schema,
};

/// How many lost fields of one custom resource are told.
const MAX_LOST: usize = 5;

/// Prunes and defaults a custom resource; the answer is what it loses.
pub(super) fn prepare(value: &mut Value, schema: &Schema) -> Vec<String> {
    let mut lost = Vec::new();
    node(value, schema, &ROOT, &mut lost);
    lost
}

fn node(value: &mut Value, schema: &Schema, place: &Place<'_>, lost: &mut Vec<String>) {
    match value {
        Value::Object(map) => object(map, schema, place, lost),
        Value::Array(list) => {
            if let Some(items) = &schema.items {
                for (index, item) in list.iter_mut().enumerate() {
                    node(item, items, &place.index(index), lost);
                }
            }
        }
        _ => {}
    }
}

fn object(
    map: &mut Map<String, Value>,
    schema: &Schema,
    place: &Place<'_>,
    lost: &mut Vec<String>,
) {
    let is_object = place.is_root() || schema.embedded;
    map.retain(|key, value| {
        let at = place.key(key);
        if is_object && is_everywhere(key) {
            return true; // the apiserver has rules of its own for them
        }
        let known = schema.properties.get(key).or(schema.additional.as_deref());
        let Some(known) = known else {
            if !schema.preserve && lost.len() < MAX_LOST {
                lost.push(at.to_string());
            }
            return schema.preserve;
        };
        if value.is_null() && !known.nullable && !is_anything(known) {
            return false; // as if it was not there; the default takes its place
        }
        node(value, known, &at, lost);
        true
    });
    for (name, field) in &schema.properties {
        if let Some(default) = &field.default
            && !map.contains_key(name)
        {
            let mut default = default.clone();
            // What lies within a default may have defaults of its own. A default loses nothing.
            node(&mut default, field, &place.key(name), &mut Vec::new());
            map.insert(name.clone(), default);
        }
    }
}

/// Reports whether a schema is what `additionalProperties: true` stands for.
fn is_anything(schema: &Schema) -> bool {
    schema.preserve && schema.type_.is_none() && !schema.int_or_string
}
