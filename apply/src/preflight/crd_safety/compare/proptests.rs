//! Property test of the comparison with random schemas: if it reports that no value can become invalid, every valid value
//! is still accepted and loses no field.

use ::tests::fuzz::{Random, fuzz};
use serde_json::{Map, Value, json};

use super::{
    super::{prune_defaults::prepare, validate::validate},
    *,
};

/// Returns one of the values, or null, which [`remove_nulls`] removes.
fn maybe<T: Clone + Into<Value>>(random: &mut Random, values: &[T]) -> Value {
    if random.below(2) == 0 {
        return Value::Null;
    }
    random.pick(values).clone().into()
}

fn leaf(random: &mut Random) -> Value {
    match random.below(11) {
        0..=3 => {
            let subset = 1 + random.below(7);
            let allowed = ["a", "b", "ab"].iter().enumerate();
            let allowed = allowed.filter(|(at, _)| subset & (1 << at) != 0);
            let allowed: Vec<&str> = allowed.map(|(_, text)| *text).collect();
            json!({
                "type": "string", "enum": maybe(random, &[json!(allowed)]), "minLength": maybe(random, &[0, 1, 2]),
                "maxLength": maybe(random, &[1, 2]), "pattern": maybe(random, &["^a", "b$"]), "nullable": random.below(2) == 0,
            })
        }
        4..=7 => json!({
            "type": random.pick(&["integer", "number"]), "minimum": maybe(random, &[0, 1, 2]),
            "exclusiveMinimum": random.below(2) == 0, "maximum": maybe(random, &[1, 2]),
            "exclusiveMaximum": random.below(2) == 0,
        }),
        8 => json!({"x-kubernetes-int-or-string": true}),
        9 => json!({"type": "boolean"}),
        _ => json!({"x-kubernetes-preserve-unknown-fields": true}),
    }
}

/// Returns a schema with optional keywords and few values, so that two schemas are often similar.
fn schema(random: &mut Random, depth: usize) -> Value {
    match random.below(if depth == 0 { 2 } else { 6 }) {
        0 | 1 => leaf(random),
        2 | 3 => {
            let fields = fields(random, &["a", "b"], |random| schema(random, depth - 1));
            let not = ["a", "b"].map(|field| json!({"required": [field]}));
            json!({
                "type": "object", "properties": fields, "required": random.pick(&[&[][..], &["a"], &["b"]]),
                "maxProperties": maybe(random, &[1, 2]), "x-kubernetes-preserve-unknown-fields": random.below(2) == 0,
                "not": maybe(random, &not),
            })
        }
        4 => json!({"type": "object", "additionalProperties": schema(random, depth - 1)}),
        _ => json!({
            "type": "array", "items": schema(random, depth - 1), "maxItems": maybe(random, &[1, 2]),
            "x-kubernetes-list-type": random.pick(&["set", "atomic"]),
        }),
    }
}

/// Returns up to two fields with these names.
fn fields(
    random: &mut Random,
    names: &[&str],
    mut value: impl FnMut(&mut Random) -> Value,
) -> Map<String, Value> {
    let mut fields = Map::new();
    for _ in 0..random.below(3) {
        fields.insert((*random.pick(names)).to_owned(), value(random));
    }
    fields
}

fn value(random: &mut Random, depth: usize) -> Value {
    match random.below(if depth == 0 { 2 } else { 5 }) {
        0 | 1 => {
            let leaves =
                r#"["a", "b", "ab", "", 0, 1, 2, 1.5, true, null, [null], ["a", "a"], [1, 1]]"#;
            let leaves: Vec<Value> = serde_json::from_str(leaves).unwrap();
            random.pick(&leaves).clone()
        }
        2 | 3 => fields(random, &["a", "b", "c"], |random| value(random, depth - 1)).into(),
        _ => {
            let list = (0..random.below(3)).map(|_| value(random, depth - 1));
            list.collect()
        }
    }
}

fn remove_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(remove_nulls);
        }
        Value::Array(list) => list.iter_mut().for_each(remove_nulls),
        _ => {}
    }
}

/// Removes the nth keyword or field, and reports whether the value has so many.
fn take(value: &mut Value, nth: &mut usize) -> bool {
    match value {
        Value::Object(map) => {
            let keys: Vec<String> = map.keys().cloned().collect();
            keys.iter().any(|key| {
                if *nth == 0 {
                    return map.remove(key).is_some();
                }
                *nth -= 1;
                take(&mut map[key], nth)
            })
        }
        Value::Array(list) => list.iter_mut().any(|below| take(below, nth)),
        _ => false,
    }
}

/// Returns the number of tested valid values; 0 if the comparison reports that values may become invalid.
fn holds(old: &Value, new: &Value, random: &mut Random) -> usize {
    let whole =
        |schema: &Value| Schema::read(&json!({"type": "object", "properties": {"spec": schema}}));
    let (old, new) = (whole(old), whole(new));
    if compare(&old, &new).can_invalidate {
        return 0;
    }
    let mut valid = 0;
    for _ in 0..30 {
        let mut value = json!({"spec": value(random, 2)});
        prepare(&mut value, &old);
        if validate(&value, &old).is_empty() {
            let mut after = value.clone();
            assert_rows!((prepare(&mut after, &new), validate(&after, &new)) => (vec![], vec![]), "{value:?}");
            valid += 1;
        }
    }
    valid
}

#[test]
fn fuzz_compatible_schemas_keep_valid_values() {
    fuzz(4000, 500, |random| {
        let depth = 1 + random.below(2);
        let [mut one, mut other] = [schema(random, depth), schema(random, 2)];
        remove_nulls(&mut one);
        remove_nulls(&mut other);
        // Two schemas that differ in one keyword or field, compared in both directions.
        let mut less = one.clone();
        take(&mut less, &mut random.below(10));
        holds(&one, &other, random) + holds(&one, &less, random) + holds(&less, &one, random)
    });
}
