use serde_json::json;

use super::{super::prune_defaults::prepare, *};

/// Returns the errors of `spec.a` and its dropped fields.
fn check(schema: &Value, value: &Value) -> Vec<String> {
    let schema = Schema::read(&json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {"a": schema}},
    }}));
    let mut resource = json!({"apiVersion": "example.com/v1", "kind": "Etcd", "metadata": {"name": "e"}, "spec": {"a": value}});
    let lost = prepare(&mut resource, &schema);
    let mut errors = validate(&resource, &schema);
    errors.extend(lost.into_iter().map(|field| format!("lost {field}")));
    errors
}

#[test]
fn errors_match_those_of_the_api_server() {
    let object = json!({"type": "object", "required": ["x"], "properties": {
        "x": {"type": "string"}, "y": {"type": "integer", "default": 5, "minimum": 3},
    }});
    let list = |type_: &str| {
        json!({"type": "array", "x-kubernetes-list-type": type_, "x-kubernetes-list-map-keys": ["x"],
               "items": {"type": if type_ == "set" { "string" } else { "object" }, "x-kubernetes-preserve-unknown-fields": true}})
    };
    assert_each!(|schema, value, error| check(&schema, &value) => [error];
        json!({"type": "string"}), json!(5) => "spec.a: Invalid value: 5: must be of type string: \"integer\"";
        json!({"type": "string", "maxLength": 2}), json!("abc") => "spec.a: Too long: may not be more than 2 characters";
        json!({"type": "string", "pattern": "^b"}), json!("abc") => "spec.a: Invalid value: \"abc\": should match '^b'";
        json!({"type": "string", "enum": ["a", "b"]}), json!("c")
            => "spec.a: Unsupported value: \"c\": supported values: \"a\", \"b\"";
        json!({"type": "integer", "maximum": 5}), json!(6) => "spec.a: Invalid value: 6: should be less than or equal to 5";
        object.clone(), json!({"y": 7}) => "spec.a.x: Required value";
        object.clone(), json!({"x": "x", "y": 2}) => "spec.a.y: Invalid value: 2: should be greater than or equal to 3";
        object, json!({"x": "x", "z": 2}) => "lost spec.a.z";
        list("set"), json!(["x", "y", "x"]) => "spec.a[2]: Duplicate value: \"x\"";
        list("map"), json!([{"x": 1}, {"x": 1, "y": 2}]) => "spec.a[1]: Duplicate value: \"object\"";
        json!({"type": "string", "oneOf": [{"minLength": 1}, {"maxLength": 3}]}), json!("ab")
            => "spec.a: Invalid value: \"spec.a\" must validate one and only one schema (oneOf). Found 2 valid alternatives";
    );
}

#[test]
fn errors_of_one_custom_resource_are_bounded() {
    let schema = json!({"type": "array", "items": {"type": "string"}});
    assert_rows!(check(&schema, &json!((0..1000).collect::<Vec<_>>())).len() => MAX_ERRORS);
    let long = "x".repeat(100_000);
    let errors = check(&json!({"type": "string", "pattern": "^y"}), &json!(long));
    assert!(errors[0].len() < 200, "{}", errors[0].len());
}

#[test]
fn defaults_fill_missing_and_null_fields() {
    let schema = Schema::read(&json!({"type": "object", "properties": {
        "a": {"type": "object", "default": {}, "properties": {
            "b": {"type": "integer", "default": 5}, "c": {"type": "string"},
            "n": {"type": "string", "nullable": true, "default": "x"},
        }},
        "l": {"type": "array", "items": {"type": "object", "properties": {"d": {"type": "boolean", "default": false}}}},
    }}));
    for (value, prepared) in ::tests::rows![
        json!({}) => json!({"a": {"b": 5, "n": "x"}});
        json!({"a": null}) => json!({"a": {"b": 5, "n": "x"}});
        json!({"a": {"b": null, "c": null, "n": null}}) => json!({"a": {"b": 5, "n": null}});
        json!({"l": [{}, {"d": true}, null], "a": {"b": 1, "n": "y"}})
            => json!({"l": [{"d": false}, {"d": true}, null], "a": {"b": 1, "n": "y"}});
    ] {
        let mut given = value;
        assert_rows!((prepare(&mut given, &schema), given) => (Vec::<String>::new(), prepared));
    }
}
