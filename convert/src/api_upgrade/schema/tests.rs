mod repairs;

use serde_json::{Value, json};

use super::*;
use crate::{api_upgrade::UpgradeNote, finding::Level};

/// Makes the schema of a CRD structural, and returns the changes.
fn made(mut schema: Value, preserve: bool, status: bool) -> (Value, Vec<UpgradeNote>) {
    let mut changes = Vec::new();
    let (path, mut notes) = (Path::from(["schema"]), UpgradeNotes(&mut changes));
    make_structural(&mut schema, preserve, status, &path, &mut notes);
    (schema, changes)
}

/// Returns the result for a field of a CRD that preserves or prunes unknown fields, without the changes of the root.
fn field(schema: Value, preserve: bool) -> Value {
    let root = with!(json!({"type": "object", "properties": {}}) => |root| root["properties"]["f"] = schema);
    let (mut root, _) = made(root, preserve, false);
    root["properties"]["f"].take()
}

fn preserved(mut schema: Value) -> Value {
    schema[PRESERVE] = true.into();
    schema
}

fn anything() -> Value {
    preserved(json!({"nullable": true}))
}

fn check(preserve: bool, cases: impl IntoIterator<Item = (Value, Value)>) {
    for (old, new) in cases {
        let result = field(old.clone(), preserve);
        assert_eq!(result, new, "{old}");
        assert_rows!(field(result.clone(), preserve) => result, "twice is once: {old}");
    }
}

#[test]
fn unknown_fields_are_preserved_on_every_object() {
    let old = json!({"properties": {
        "spec": {"type": "object", "properties": {
            "list": {"type": "array", "items": {"type": "object"}},
            "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {}}},
            "names": {"type": "object", "additionalProperties": {"type": "string"}},
            "open": {"type": "object", "additionalProperties": true},
            "any": {"type": "object", "additionalProperties": {}}, "text": {"type": "string"},
        }},
        "status": {"type": "object"}, "metadata": {"type": "object"},
    }});
    let (new, changes) = made(old, true, false);
    let expected = preserved(json!({"type": "object", "properties": {
        "spec": preserved(json!({"type": "object", "properties": {
            "list": {"type": "array", "items": preserved(json!({"type": "object"}))},
            "map": {"type": "object", "additionalProperties": preserved(json!({"type": "object", "properties": {}}))},
            "names": {"type": "object", "additionalProperties": {"type": "string"}},
            "open": preserved(json!({"type": "object"})), "any": {"type": "object", "additionalProperties": anything()},
            "text": {"type": "string"},
        }})),
        "status": preserved(json!({"type": "object"})), "metadata": {"type": "object"},
    }}));
    assert_eq!(new, expected);
    let message = |change: &UpgradeNote| format!("{}: {}", change.path, change.message);
    assert_rows!(changes.iter().map(message).collect::<Vec<_>>() => [
        "schema: still preserves unknown fields, on 6 object node(s) of its schema",
        "schema.properties.spec.properties.any.additionalProperties: still accepts any value where its schema has no \
         type (1 node(s))",
        "schema: has 1 node(s) in its schema whose type was implicit and is now explicit",
    ]);
}

#[test]
fn structural_schemas_of_pruning_crds_are_unchanged() {
    let schema = json!({"type": "object", "description": "d", "required": ["spec"], "properties": {
        "apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"},
        "spec": {"type": "object", "nullable": true, "properties": {
            "port": {"anyOf": [{"type": "integer"}, {"type": "string"}], INT_OR_STRING: true, "pattern": "^a"},
            "quantity": {"allOf": [{"anyOf": [{"type": "integer"}, {"type": "string"}]}, {"pattern": "a"}], INT_OR_STRING: true},
            "raw": {"type": "object", EMBEDDED: true, PRESERVE: true},
            "free": {"type": "object", "additionalProperties": true},
            "list": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a", "b"],
                     "items": {"type": "object", "required": ["a"], "properties": {
                         "a": {"type": "string"}, "b": {"type": "string", "default": "x", "pattern": "x"}}}},
            "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "choice": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
                       "oneOf": [{"required": ["a"]}, {"required": ["b"], "properties": {"b": {"enum": ["x"]}}}]},
            "size": {"type": "integer", "default": 3, "minimum": 1, "not": {"enum": [2]}},
        }},
    }});
    // The only allOf that the API server allows repeats the keyword.
    let mut same = schema.clone();
    same["properties"]["spec"]["properties"]["quantity"]["allOf"] = json!([{"pattern": "a"}]);
    assert_eq!(made(schema, false, true), (same, vec![]));
}

#[test]
fn types_are_valid_and_explicit() {
    let cases = ::tests::rows![
        json!({}) => anything();
        json!(null) => anything();
        json!(true) => anything();
        json!({"description": "d", "pattern": "x"}) => preserved(json!({"description": "d", "pattern": "x", "nullable": true}));
        json!({"properties": {}}) => preserved(json!({"type": "object", "properties": {}, "nullable": true}));
        json!({"additionalProperties": {"type": "string"}})
            => json!({"type": "object", "additionalProperties": {"type": "string"}, "nullable": true});
        json!({"items": {"type": "string"}}) => json!({"type": "array", "items": {"type": "string"}, "nullable": true});
        json!({"type": "array"}) => json!({"type": "array", "items": anything()});
        json!({"enum": ["a", "b"]}) => json!({"type": "string", "enum": ["a", "b"]});
        json!({"enum": ["a", 1]}) => preserved(json!({"enum": ["a", 1]}));
        json!({"type": "string", "format": "int-or-string"}) => json!({"type": "string", "format": "int-or-string"});
        json!({"format": "int-or-string"}) => json!({"format": "int-or-string", INT_OR_STRING: true, "nullable": true});
        json!({"anyOf": [{"type": "integer"}, {"type": "string"}]})
            => json!({"anyOf": [{"type": "integer"}, {"type": "string"}], INT_OR_STRING: true, "nullable": true});
        json!({"oneOf": [{"type": "string"}, {"type": "integer"}]}) => json!({INT_OR_STRING: true, "nullable": true});
        // Types that do not exist are replaced.
        json!({"type": "int"}) => json!({"type": "integer"});
        json!({"type": "Bool"}) => json!({"type": "boolean"});
        json!({"type": "float", "minimum": 1}) => json!({"type": "number", "minimum": 1});
        json!({"type": "map"}) => preserved(json!({"type": "object"}));
        json!({"type": "list"}) => json!({"type": "array", "items": anything()});
        json!({"type": "any"}) => anything();
        json!({"type": ""}) => anything();
        json!({"type": 5}) => anything();
        json!({"type": "null"}) => anything();
        json!({"type": ["string", "null"]}) => json!({"type": "string", "nullable": true});
        json!({"type": ["string", "integer"]}) => json!({INT_OR_STRING: true});
        json!({"type": ["string", "boolean"]}) => anything();
        // Tuples become lists.
        json!({"type": "array", "items": [{"type": "string"}]}) => json!({"type": "array", "items": {"type": "string"}});
        json!({"type": "array", "items": [{"type": "string"}, {"type": "integer"}]})
            => json!({"type": "array", "items": anything()});
        json!({"type": "array", "items": []}) => json!({"type": "array", "items": anything()});
    ];
    check(true, cases);
    let properties = json!({"a": {"type": "int"}, "b": {"type": "any"}});
    let schema = json!({"type": "object", "properties": properties});
    let (_, changes) = made(schema, true, false);
    let mut changes = changes.iter();
    let warning = changes.find(|change| change.level == Level::Warning);
    let warning = warning.unwrap();
    assert_eq!(warning.path.to_string(), "schema.properties.a");
    ::tests::assert_has(&warning.message, "had 2 unknown type(s)");
}

#[test]
fn keywords_that_the_api_server_forbids_are_removed() {
    let text = || json!({"type": "string"});
    for (keyword, value, is_reported) in ::tests::rows![
        "$ref", json!("#/definitions/a") => true;
        "$schema", json!("http://json-schema.org/draft-04/schema#") => true;
        "definitions", json!({"a": {}}) => true;
        "id", json!("x") => true;
        "id", json!("") => false;
        "patternProperties", json!({}) => true;
        "dependencies", json!({"a": ["b"]}) => true;
        "additionalItems", json!(true) => true;
        "uniqueItems", json!(true) => true;
        PRESERVE, json!(false) => false;
        "pattern", json!(null) => false;
    ] {
        let root = json!({"type": "object", "properties": {"a": with!(text() => |node| node[keyword] = value)}});
        let (new, changes) = made(root, false, false);
        assert_eq!(new["properties"]["a"], text(), "{keyword}");
        assert_eq!(!changes.is_empty(), is_reported, "{keyword}");
    }
}

#[test]
fn fields_and_maps_exclude_each_other() {
    let fields = || json!({"type": "object", "properties": {"a": {"type": "string"}}});
    let with =
        |additional: Value| with!(fields() => |node| node["additionalProperties"] = additional);
    let cases = ::tests::rows![
        with(json!(true)) => preserved(fields());
        with(json!(false)) => preserved(fields());
        with(json!({"type": "string"})) => preserved(fields());
        json!({"type": "object", "additionalProperties": false}) => json!({"type": "object", "additionalProperties": false});
    ];
    check(true, cases);
    let pruning = ::tests::rows![
        with(json!(true)) => with(json!(true));
        with(json!(false)) => fields();
        with(json!({"type": "string"})) => preserved(fields());
        json!({"type": "object", EMBEDDED: true, "additionalProperties": {"type": "string"}})
            => preserved(json!({"type": "object", EMBEDDED: true}));
    ];
    check(false, pruning);
}

#[test]
fn deep_and_wide_schemas_take_bounded_time() {
    let mut deep = json!({"type": "string"});
    for _ in 0..120 {
        deep = json!({"allOf": [{"properties": {"a": deep}, "anyOf": [{"items": {"not": {}}}]}]});
    }
    let wide = (0..50_000).map(|n| (format!("f{n}"), json!({"oneOf": [{"required": ["a"]}]})));
    let wide: Object = wide.collect();
    let schema = json!({"properties": {"deep": deep, "wide": {"properties": wide}}});
    let (new, changes) = made(schema, true, false);
    assert!(new["properties"]["wide"]["properties"]["f49999"].is_object());
    assert!(changes.len() < 10, "{}", changes.len());
}
