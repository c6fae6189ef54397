//! What the comparison promises, tried on random schemas: where it sees no danger, nothing that was valid is rejected or
//! loses anything.

use proptest::{option, prelude::*};
use serde_json::{Value, json};

use super::{
    super::{prepare::prepare, validate::validate},
    *,
};

/// Keywords of a schema, each there or not, with few values: so that two schemas are often alike.
fn schema(depth: u32) -> BoxedStrategy<Value> {
    let string = (
        option::of(prop::sample::subsequence(vec!["a", "b", "ab"], 1..=3)),
        option::of(0..3_u64),
        option::of(1..3_u64),
        option::of(prop::sample::select(vec!["^a", "b$"])),
        any::<bool>(),
    )
        .prop_map(|(allowed, least, most, pattern, nullable)| {
            json!({"type": "string", "enum": allowed, "minLength": least, "maxLength": most, "pattern": pattern, "nullable": nullable})
        });
    let number = (
        prop::sample::select(vec!["integer", "number"]),
        option::of(0..3),
        option::of(1..3),
        any::<(bool, bool)>(),
    )
        .prop_map(|(type_, least, most, (above, below))| {
            json!({"type": type_, "minimum": least, "exclusiveMinimum": above, "maximum": most, "exclusiveMaximum": below})
        });
    let leaf = prop_oneof![
        4 => string,
        4 => number,
        1 => Just(json!({"x-kubernetes-int-or-string": true})),
        1 => Just(json!({"type": "boolean"})),
        1 => Just(json!({"x-kubernetes-preserve-unknown-fields": true})),
    ];
    if depth == 0 {
        return leaf.boxed();
    }
    let object = (
        prop::collection::btree_map("[ab]", schema(depth - 1), 0..3),
        prop::sample::subsequence(vec!["a", "b"], 0..=1),
        any::<bool>(),
        option::of(1..3_u64),
        option::of(prop::sample::select(vec!["a", "b"])),
    )
        .prop_map(|(fields, required, preserve, most, not)| {
            json!({
                "type": "object", "properties": fields, "required": required, "maxProperties": most,
                "x-kubernetes-preserve-unknown-fields": preserve, "not": not.map(|field| json!({"required": [field]})),
            })
        });
    let map = schema(depth - 1)
        .prop_map(|values| json!({"type": "object", "additionalProperties": values}));
    let array = (schema(depth - 1), option::of(1..3_u64), prop::sample::select(vec!["set", "atomic"]))
        .prop_map(|(items, most, list)| json!({"type": "array", "items": items, "maxItems": most, "x-kubernetes-list-type": list}));
    prop_oneof![2 => leaf, 2 => object, 1 => map, 1 => array].boxed()
}

fn value(depth: u32) -> BoxedStrategy<Value> {
    let leaf = prop::sample::select(vec![
        json!("a"),
        json!("b"),
        json!("ab"),
        json!(""),
        json!(0),
        json!(1),
        json!(2),
        json!(1.5),
        json!(true),
        json!(null),
        json!([null]),
        json!(["a", "a"]),
        json!([1, 1]),
    ]);
    if depth == 0 {
        return leaf.boxed();
    }
    prop_oneof![
        2 => leaf,
        2 => prop::collection::btree_map("[abc]", value(depth - 1), 0..3).prop_map(|map| json!(map)),
        1 => prop::collection::vec(value(depth - 1), 0..3).prop_map(|list| json!(list)),
    ]
    .boxed()
}

/// Without the keywords that are not there.
fn tidy(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(tidy);
        }
        Value::Array(list) => list.iter_mut().for_each(tidy),
        _ => {}
    }
}

/// Takes the nth of all keywords and fields away.
fn take(value: &mut Value, nth: &mut usize) {
    match value {
        Value::Object(map) => {
            let mut taken = None;
            for (key, below) in map.iter_mut() {
                if *nth == 0 {
                    taken = Some(key.clone());
                    break;
                }
                *nth -= 1;
                take(below, nth);
                if *nth == usize::MAX {
                    return;
                }
            }
            if let Some(key) = taken {
                map.remove(&key);
                *nth = usize::MAX;
            }
        }
        Value::Array(list) => {
            for below in list {
                take(below, nth);
                if *nth == usize::MAX {
                    return;
                }
            }
        }
        _ => {}
    }
}

fn holds(old: &Value, new: &Value, values: &[Value]) -> Result<(), TestCaseError> {
    let whole =
        |schema: &Value| Schema::read(&json!({"type": "object", "properties": {"spec": schema}}));
    let (old, new) = (whole(old), whole(new));
    if compare(&old, &new).can_invalidate {
        return Ok(());
    }
    for value in values {
        let mut value = json!({"spec": value});
        prepare(&mut value, &old);
        if validate(&value, &old).is_empty() {
            let mut after = value.clone();
            prop_assert_eq!(
                prepare(&mut after, &new),
                Vec::<String>::new(),
                "{:?}",
                value
            );
            prop_assert_eq!(validate(&after, &new), Vec::<String>::new(), "{:?}", value);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_danger_means_that_what_was_valid_stays_valid_and_whole(
        mut one in prop_oneof![schema(1), schema(2)],
        mut other in schema(2),
        nth in 0..10_usize,
        values in prop::collection::vec(value(2), 30),
    ) {
        tidy(&mut one);
        tidy(&mut other);
        holds(&one, &other, &values)?;
        // Two that differ in one thing only, both ways.
        let mut less = one.clone();
        take(&mut less, &mut { nth });
        holds(&one, &less, &values)?;
        holds(&less, &one, &values)?;
    }
}
