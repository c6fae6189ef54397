//! Junctors, the root, list types and defaults.

use serde_json::{Value, json};

use super::{anything, check, field, made, preserved};
use crate::{api_upgrade::schema::EMBEDDED, finding::Level};

#[test]
fn junctors_only_restrict() {
    let cases = ::tests::rows![
        // A repetition in a branch is removed, and a field that only a branch mentions is declared.
        json!({"type": "object", "oneOf": [
            {"type": "object", "description": "d", "required": ["a"], "properties": {"a": {"type": "string", "minLength": 1}}},
            {"required": ["b"], "properties": {"b": {"type": "array", "items": {"type": "object"}}}},
        ]})
            => preserved(json!({
                "type": "object",
                "properties": {"a": {"type": "string"}, "b": {"type": "array", "items": preserved(json!({"type": "object"}))}},
                "oneOf": [{"required": ["a"], "properties": {"a": {"minLength": 1}}}, {"required": ["b"]}],
            }));
        // A type of all branches becomes the type of the node.
        json!({"anyOf": [{"type": "string", "minLength": 1}, {"type": "string", "enum": [""]}]})
            => json!({"type": "string", "anyOf": [{"minLength": 1}, {"enum": [""]}], "nullable": true});
        json!({"allOf": [{"type": "number"}, {"minimum": 1}]})
            => json!({"type": "number", "allOf": [{"minimum": 1}], "nullable": true});
        json!({"type": "integer", "allOf": [{"type": "number"}]}) => json!({"type": "integer"});
        // Looser branches may overlap, so one match is enough.
        json!({"oneOf": [{"type": "string", "minLength": 1}, {"type": "boolean", "enum": [true]}]})
            => preserved(json!({"anyOf": [{"minLength": 1}, {"enum": [true]}], "nullable": true}));
        json!({"oneOf": [{"type": "string"}, {"type": "boolean"}]}) => anything();
        // Loosening a negated schema would reject more objects.
        json!({"type": "string", "not": {"type": "object"}}) => json!({"type": "string"});
        json!({"type": "string", "not": {"enum": ["x"]}}) => json!({"type": "string", "not": {"enum": ["x"]}});
        // Restrictions of metadata, and of fields of a map by name, are removed.
        json!({"type": "object", "allOf": [{"properties": {"metadata": {"type": "object"}}, "required": ["metadata"]}]})
            => preserved(json!({"type": "object", "allOf": [{"required": ["metadata"]}]}));
        json!({"type": "object", "additionalProperties": {"type": "string"}, "anyOf": [{"properties": {"a": {"enum": ["x"]}}}]})
            => json!({"type": "object", "additionalProperties": {"type": "string"}});
    ];
    check(true, cases);
}

#[test]
fn loosened_schemas_are_warnings() {
    let warnings = |schema: Value| -> Vec<String> {
        let schema = json!({"type": "object", "properties": {"a": schema}});
        let (_, mut warnings) = made(schema, true, false);
        warnings.retain(|change| change.level == Level::Warning);
        let paths = warnings.iter().map(|change| change.path.to_string());
        paths.collect()
    };
    assert_rows!(warnings(json!({"oneOf": [{"type": "string"}, {"type": "boolean"}]})) => ["schema.properties.a.oneOf"]);
    assert_rows!(warnings(json!({"type": "string", "anyOf": [{"type": "string", "minLength": 1}]})) => [""; 0]);
}

#[test]
fn the_root_is_a_kubernetes_object() {
    assert_each!(|old, status, new| made(old.clone(), true, status).0 => new;
        json!({}), true => preserved(json!({"type": "object"}));
        json!({"type": "string", "nullable": true, "default": 1}), false => preserved(json!({"type": "object"}));
        json!({"additionalProperties": false}), false => preserved(json!({"type": "object"}));
        json!({"type": "object", "anyOf": [{"required": ["spec"]}], "minProperties": 1}), true => preserved(json!({"type": "object"}));
        json!({"type": "object", "anyOf": [{"required": ["spec"]}], "minProperties": 1}), false
            => preserved(json!({"type": "object", "anyOf": [{"required": ["spec"]}], "minProperties": 1}));
        json!({"type": "object", "properties": {"apiVersion": {}, "kind": {"type": "string", "default": "A"}}}), true
            => preserved(json!({"type": "object", "properties": {
            "apiVersion": {"type": "string", "nullable": true}, "kind": {"type": "string"}}}));
        json!({"type": "object", "properties": {"metadata": {"description": "d", "required": ["name"], "properties": {
            "name": {"type": "string", "maxLength": 5, "default": "a"}, "labels": {"type": "object"}}}}}), true
            => preserved(json!({"type": "object", "properties": {
            "metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 5}}}}}));
    );
}

#[test]
fn rejected_list_types_are_removed() {
    let list = |kind: &str, keys: Value, items: Value| {
        let mut list = json!({"type": "array", "items": items, "x-kubernetes-list-type": kind});
        if !keys.is_null() {
            list["x-kubernetes-list-map-keys"] = keys;
        }
        list
    };
    let item = |required: &str| {
        json!({"type": "object", "required": [required], "properties": {
            "name": {"type": "string"}, "port": {"type": "integer"}, "list": {"type": "array", "items": {"type": "string"}}}})
    };
    assert_each!(|old, sound| field(old.clone(), false) == old => sound;
        list("map", json!(["name"]), item("name")) => true;
        list("map", json!(["port"]), item("name")) => false;
        list("map", json!(["list"]), item("list")) => false;
        list("map", json!(["name", "name"]), item("name")) => false;
        list("map", json!(["other"]), item("other")) => false;
        list("map", json!([]), item("name")) => false;
        list("map", json!("name"), item("name")) => false;
        list("map", json!(null), item("name")) => false;
        list("map", json!(["name"]), json!({"type": "string"})) => false;
        list("atomic", json!(null), item("name")) => true;
        list("atomic", json!(["name"]), item("name")) => false;
        list("set", json!(null), json!({"type": "string"})) => true;
        list("set", json!(null), json!({"type": "string", "nullable": true})) => false;
        list("set", json!(null), item("name")) => false;
        list("bag", json!(null), json!({"type": "string"})) => false;
        json!({"type": "string", "x-kubernetes-list-type": "set"}) => false;
        json!({"type": "string", "x-kubernetes-map-type": "atomic"}) => false;
        json!({"type": "object", "x-kubernetes-map-type": "atomic"}) => true;
        json!({"type": "string", EMBEDDED: true}) => false;
    );
}

#[test]
fn rejected_defaults_are_removed() {
    // The last columns: whether the default is retained if unknown fields are preserved, and if they are pruned.
    for (schema, default, preserving, pruning) in ::tests::rows![
        json!({"type": "string"}), json!("a"), true => true;
        json!({"type": "string"}), json!(1), false => false;
        json!({"type": "string", "enum": ["a"]}), json!("b"), false => false;
        json!({"type": "string", "pattern": "a"}), json!("b"), false => true;
        json!({"type": "string", "minLength": 2}), json!("b"), false => false;
        json!({"type": "string"}), json!(null), false => false;
        json!({"type": "integer", "minimum": 1}), json!(0), false => false;
        json!({"type": "integer", "maximum": 1, "exclusiveMaximum": true}), json!(1), false => false;
        json!({"type": "integer"}), json!(1.5), false => false;
        json!({"type": "number"}), json!(1.5), true => true;
        json!({"type": "array", "items": {"type": "string"}, "maxItems": 1}), json!(["a"]), true => true;
        json!({"type": "array", "items": {"type": "string"}, "maxItems": 1}), json!(["a", "b"]), false => false;
        json!({"type": "array", "items": {"type": "string"}}), json!([1]), false => false;
        json!({"type": "object", "properties": {"a": {"type": "string"}}}), json!({"a": "b"}), true => true;
        json!({"type": "object", "properties": {"a": {"type": "string"}}}), json!({"b": 1}), true => false;
        json!({"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}}}), json!({}), false => false;
        json!({"type": "object", "additionalProperties": {"type": "string"}}), json!({"a": 1}), false => false;
        json!({"type": "boolean", "not": {"enum": [true]}}), json!(true), false => true;
    ] {
        let old = with!(schema => |old| old["default"] = default);
        let is_retained = |preserve| field(old.clone(), preserve).get("default").is_some();
        assert_rows!([true, false].map(is_retained) => [preserving, pruning], "{old}");
    }
}
