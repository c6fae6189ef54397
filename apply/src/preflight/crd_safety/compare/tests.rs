use serde_json::json;

use super::*;

fn between(old: &Value, new: &Value) -> Comparison {
    let whole =
        |spec: &Value| Schema::read(&json!({"type": "object", "properties": {"spec": spec}}));
    compare(&whole(old), &whole(new))
}

/// Compares the schemas of two versions of `spec.a`.
#[allow(clippy::needless_pass_by_value, reason = "the cases read better")]
fn change(old: Value, new: Value) -> Comparison {
    let [old, new] = [old, new].map(|a| json!({"type": "object", "properties": {"a": a}}));
    between(&old, &new)
}

/// Returns the reported restrictions of a change, and whether it can invalidate a value.
fn effects(old: Value, new: Value) -> (Vec<String>, bool) {
    let comparison = change(old, new);
    (comparison.narrowed, comparison.can_invalidate)
}

#[test]
fn narrowing_change_is_reported_with_its_path() {
    let object = |required: &[&str]| {
        json!({"type": "object", "required": required,
               "properties": {"x": {"type": "string"}, "d": {"type": "string", "default": "d"}}})
    };
    let list = |items: Value| json!({"type": "array", "items": items});
    let map = |values: Value| json!({"type": "object", "additionalProperties": values});
    assert_each!(|old, new, finding| effects(old, new) => (vec![finding.to_owned()], true);
        json!({"type": "string"}), json!({"type": "integer"}) => "spec.a: type: changed from string to integer";
        json!({"type": "number"}), json!({"type": "integer"}) => "spec.a: type: changed from number to integer";
        json!({"x-kubernetes-int-or-string": true}), json!({"type": "string"})
            => "spec.a: type: changed from integer or string to string";
        json!({"type": "string", "enum": ["a", "b", "c"]}), json!({"type": "string", "enum": ["c", "d"]})
            => "spec.a: enum: \"a\", \"b\" removed";
        json!({"type": "string"}), json!({"type": "string", "enum": ["a"]}) => "spec.a: enum: added, only \"a\" remain";
        json!({"type": "integer"}), json!({"type": "integer", "maximum": 5}) => "spec.a: maximum: 5 added";
        json!({"type": "integer", "maximum": 10}), json!({"type": "integer", "maximum": 5}) => "spec.a: maximum: lowered from 10 to 5";
        json!({"type": "integer", "maximum": 5}), json!({"type": "integer", "maximum": 5, "exclusiveMaximum": true})
            => "spec.a: maximum: the new limit excludes 5 itself";
        json!({"type": "number", "minimum": 0.5}), json!({"type": "number", "minimum": 1, "exclusiveMinimum": true})
            => "spec.a: minimum: raised from 0.5 to 1, exclusive";
        json!({"type": "string", "maxLength": 10}), json!({"type": "string", "maxLength": 9})
            => "spec.a: maxLength: lowered from 10 to 9";
        json!({"type": "string"}), json!({"type": "string", "minLength": 1}) => "spec.a: minLength: raised from 0 to 1";
        json!({"type": "string", "default": "a"}), json!({"type": "string", "default": "b"})
            => "spec.a: default: changed from \"a\" to \"b\"";
        json!({"type": "string", "default": "a"}), json!({"type": "string"}) => "spec.a: default: \"a\" removed";
        object(&[]), object(&["x", "d"]) => "spec.a.x: required: added";
        object(&[]), json!({"type": "object", "properties": {"x": {"type": "string"}}}) => "spec.a.d: existing field: removed";
        map(json!({"type": "string"})), json!({"type": "object"}) => "spec.a.*: existing field: removed";
        map(json!({"type": "string"})), map(json!({"type": "integer"})) => "spec.a.*: type: changed from string to integer";
        list(json!({"type": "string"})), list(json!({"type": "string", "minLength": 2})) => "spec.a[]: minLength: raised from 0 to 2";
        list(json!({"type": "string"})), json!({"type": "array", "items": {"type": "string"}, "maxItems": 3})
            => "spec.a: maxItems: 3 added";
    );
}

// parity: rukpak-37, complaint-14
#[test]
fn widening_change_needs_no_check_of_custom_resources() {
    let string = || json!({"type": "string"});
    assert_each!(|old, new| change(old, new) => Comparison::default();
        string() => json!({"type": "string", "description": "new", "title": "new", "example": "x"});
        json!({"type": "integer"}) => json!({"x-kubernetes-int-or-string": true});
        json!({"type": "integer"}) => json!({"type": "number"});
        json!({"type": "string", "enum": ["a", "b"]}) => json!({"type": "string", "enum": ["c", "b", "a"]});
        json!({"type": "string", "enum": ["a"]}) => string();
        json!({"type": "integer", "maximum": 5}) => json!({"type": "integer", "maximum": 10});
        json!({"type": "integer", "maximum": 5}) => json!({"type": "integer"});
        json!({"type": "string", "pattern": "^a"}) => string();
        json!({"type": "string", "format": "uuid"}) => string();
        string() => json!({"type": "string", "nullable": true});
        json!({"type": "object", "properties": {"x": string()}, "required": ["x"]})
            => json!({"type": "object", "properties": {"x": string(), "y": string()}});
        // The new schema preserves unknown fields, so no field is dropped.
        json!({"type": "object", "properties": {"x": string()}})
            => json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        json!({"type": "object", "properties": {"x": string()}}) => json!({"type": "object", "additionalProperties": string()});
        json!({"type": "array", "items": string(), "x-kubernetes-list-type": "set"})
            => json!({"type": "array", "items": string(), "x-kubernetes-list-type": "atomic"});
    );
}

#[test]
fn undecidable_change_needs_a_check_of_custom_resources() {
    let string = || json!({"type": "string"});
    assert_each!(|old, new| effects(old, new) => (vec![], true);
        string() => json!({"type": "string", "pattern": "^a"});
        string() => json!({"type": "string", "format": "uuid"});
        json!({"type": "string", "nullable": true}) => string();
        json!({"type": "integer"}) => json!({"type": "integer", "multipleOf": 2});
        json!({"type": "array", "items": string()})
            => json!({"type": "array", "items": string(), "x-kubernetes-list-type": "set"});
        json!({"type": "object"}) => json!({"type": "object", "anyOf": [{"required": ["a"]}, {"required": ["b"]}]});
        json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
            => json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"x": string()}});
        json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}) => json!({"type": "object"});
        json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
            => json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "x-kubernetes-embedded-resource": true});
    );
}

#[test]
fn unsupported_rules_and_expressions_are_reported() {
    let rules = |rules: &[&str]| {
        let rule = |rule| json!({"rule": rule, "message": "m"});
        json!({"type": "string", "x-kubernetes-validations": rules.iter().map(rule).collect::<Vec<_>>()})
    };
    let unchecked = vec!["spec.a: rule \"self != 'b'\"".to_owned()];
    assert_rows!(change(rules(&["self != 'a'"]), rules(&["self != 'b'", "self != 'a'"])) => with!(Comparison, unchecked));
    let after = json!({"type": "string", "pattern": "(?!a)", "format": "isbn"});
    let comparison = change(json!({"type": "string"}), after);
    assert_rows!(comparison.unchecked => ["spec.a: pattern \"(?!a)\"", "spec.a: format \"isbn\""]);
    // An unchanged pattern is not checked again.
    let same = || json!({"type": "string", "pattern": "(?!a)", "maxLength": 5});
    assert_rows!(change(same(), json!({"type": "string", "pattern": "(?!a)"})) => Comparison::default());
}

#[test]
fn new_default_is_a_note_and_does_not_block() {
    let notes = vec!["spec.a: default: \"a\" added".to_owned()];
    assert_rows!(change(json!({"type": "string"}), json!({"type": "string", "default": "a"})) => with!(Comparison, notes));
}

#[test]
fn schema_may_omit_the_fields_of_every_object() {
    let full = json!({"type": "object", "properties": {
        "apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"},
        "spec": {"type": "object"},
    }});
    let short = json!({"type": "object", "properties": {"spec": {"type": "object"}}});
    assert_rows!(compare(&Schema::read(&full), &Schema::read(&short)) => Comparison::default());
    // Below the root these are ordinary fields.
    let expected = ["apiVersion", "kind", "metadata"];
    assert_rows!(between(&full, &short).narrowed => expected.map(|field| format!("spec.{field}: existing field: removed")));
}

#[test]
fn thousands_of_differences_are_counted_but_not_listed() {
    let fields = |type_: &str| {
        let fields = (0..3000).map(|index| (format!("f{index:04}"), json!({"type": type_})));
        json!({"type": "object", "properties": fields.collect::<Value>()})
    };
    let comparison = between(&fields("string"), &fields("boolean"));
    assert_rows!((comparison.narrowed.len(), comparison.narrowed_count) => (MAX_REPORTED, 3000));
}

#[test]
fn schemas_of_any_depth_and_shape_are_read() {
    let within = |deep, _| json!({"type": "object", "properties": {"x": deep}});
    let deep = (0..120).fold(json!({"type": "string"}), within);
    let flat = Schema::read(&json!({"type": "object"}));
    assert_rows!(compare(&Schema::read(&deep), &flat).narrowed => ["x: existing field: removed"]);
    let junk = json!([
        null, [], "x", {"type": 5, "properties": [], "required": {"a": 1}, "enum": "x", "items": 3},
        {"maximum": "x", "anyOf": {}, "not": null, "pattern": 4, "x-kubernetes-validations": [1, {}]},
    ]);
    for junk in junk.as_array().unwrap() {
        let junk = Schema::read(junk);
        compare(&junk, &Schema::read(&deep));
        compare(&Schema::read(&deep), &junk);
    }
}
