//! Comparison of the project's schema validation with that of the API server: both must agree on every pair of schema
//! and value.

use kube::api::PostParams;

use super::*;

/// Schemas with values that may or may not satisfy them. A line that is indented further continues the row above.
const CASES: &str = r#"
    {"type": "string"} => ["x", "", 5, true, null, [], {}]
    {"type": "string", "nullable": true} => [null, "x", 1]
    {"type": "integer"} => [5, -5, 5.0, 5.5, "5", 9007199254740993]
    {"type": "number"} => [5, 5.5, "5"]
    {"type": "boolean"} => [true, "true", 0]
    {"x-kubernetes-int-or-string": true} => [5, "5", 5.5, true, {}]
    {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}], "pattern": "^[0-9]+%$"}
      => [5, "5%", "5", []]
    {"type": "integer", "format": "int32"} => [2147483647, 2147483648, -2147483649]
    {"type": "integer", "format": "int64"} => [2147483648]
    {"type": "number", "format": "float"} => [1.5, 1e39]
    {"type": "integer", "minimum": 1, "maximum": 5} => [0, 1, 5, 6]
    {"type": "integer", "minimum": 1, "exclusiveMinimum": true, "maximum": 5, "exclusiveMaximum": true} => [1, 2, 4, 5]
    {"type": "number", "multipleOf": 0.5} => [1.5, 1.25, 2]
    {"type": "integer", "multipleOf": 3} => [9, 10]
    {"type": "string", "minLength": 2, "maxLength": 3} => ["a", "ab", "\u00e4\u00f6\u00fc", "abcd", "\ud83d\ude00"]
    {"type": "string", "pattern": "^\\d{2}[\\w.-]$"} => ["12a", "1a", "12\u00e4", "\u0661\u0662a"]
    {"type": "string", "pattern": "b"} => ["abc", "ac"]
    {"type": "string", "enum": ["a", "b"]} => ["a", "c", null]
    {"type": "string", "enum": ["a"], "nullable": true} => ["a", null, "c"]
    {"type": "number", "enum": [1, 2.5]} => [1, 1.0, 2.5, 2]
    {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 2} => [[], ["a"], ["a", "b", "c"], [1], [null]]
    {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"} => [["a", "b"], ["a", "a"]]
    {"type": "array", "items": {"type": "number"}, "x-kubernetes-list-type": "set"} => [[1, 2], [1.5, 1.5], [2, 2]]
    {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name", "port"], "items": {"type":
      "object", "required": ["name"], "properties": {"name": {"type": "string"}, "port": {"type": "integer", "default": 80}, "x":
      {"type": "string"}}}}
      => [[{"name": "a"}, {"name": "b"}], [{"name": "a"}, {"name": "a", "port": 80}], [{"name": "a"}, {"name": "a", "port": 81}],
      [{"port": 80}]]
    {"type": "object", "additionalProperties": {"type": "integer"}, "minProperties": 1, "maxProperties": 2}
      => [{}, {"a": 1}, {"a": "x"}, {"a": null}, {"a": 1, "b": 2, "c": 3}]
    {"type": "object", "properties": {"a": {"type": "string"}}, "maxProperties": 1} => [{"a": "x"}, {"a": "x", "unknown": 1}]
    {"type": "object", "required": ["a", "d"], "properties": {"a": {"type": "string"}, "d": {"type": "string", "default": "d"}}}
      => [{"a": "x"}, {"d": "x"}, {"a": null, "d": null}, {"a": "x", "d": null}]
    {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"a": {"type": "string"}}}
      => [{"b": 1}, {"a": 1}]
    {"x-kubernetes-preserve-unknown-fields": true} => [1, "a", [1], {"a": {"b": null}}]
    {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}
      => [{"apiVersion": "v1", "kind": "Pod", "spec": {}}, {"apiVersion": "v1"}, {"kind": ""}, {"apiVersion": "v1", "kind": "Pod",
      "metadata": {"name": "a"}}]
    {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "oneOf": [{"required": ["a"]},
      {"required": ["b"]}]}
      => [{"a": "x"}, {"a": "x", "b": "x"}, {}]
    {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "anyOf": [{"required": ["a"]},
      {"required": ["b"]}]}
      => [{"a": "x", "b": "x"}, {}]
    {"type": "string", "not": {"enum": ["a"]}} => ["a", "b"]
    {"type": "string", "allOf": [{"minLength": 2}, {"pattern": "^a"}]} => ["ab", "a", "bb"]
    {"type": "number", "minimum": 2.5, "maximum": 4.5} => [2, 2.4, 1, 4, 5, 4.6]
    {"type": "number", "minimum": 2.5, "exclusiveMinimum": true} => [2, 3, 2.5, 2.6]
    {"type": "number", "multipleOf": 1.5} => [2, 3, 4.5, 4.6]
    {"type": "string", "format": "uuid3"} => ["123e4567-e89b-32d3-c456-426614174000", "123e4567-e89b-42d3-a456-426614174000"]
    {"type": "string", "format": "uuid5"}
      => ["123e4567-e89b-52d3-b456-426614174000", "123e4567-e89b-52d3-c456-426614174000", "1-23e4567e89b52d3a456426614174000",
      "123e4567--e89b-52d3-b456-426614174000", "123e4567e89b-52d3-b456426614174000"]
    {"type": "string", "format": "date-time"}
      => ["2020-01-02T24:00:00Z", "2020-01-02T23:59:60Z", "2020-01-02T23:59:59.z", "2020-01-02T23:59:59.123456789z",
      "2020-01-02T23:59:59+99:99", "2020-01-02T23:59:59+0100", "2020-01-02T29:00:00Z", "2020-01-02T13:60:00Z"]
    {"type": "string", "format": "date-time"}
      => ["2020-01-02T03:04:05Z", "2020-01-02T03:04:05.678+01:00", "2020-01-02 03:04:05Z", "2020-01-02", "x",
      "2020-13-02T03:04:05Z", "2020-01-02t03:04:05z", "2020-01-02T03:04Z", "2020-01-02T03:04:05"]
    {"type": "string", "format": "datetime"} => ["2020-01-02T03:04:05Z", "x"]
    {"type": "string", "format": "date"} => ["2020-01-02", "2020-1-2", "2020-02-30", "20200102"]
    {"type": "string", "format": "duration"} => ["1h30m", "5s", "0", "3 days", "1d", "x", "5", "1.5h", "2 weeks", "-5s", ""]
    {"type": "string", "format": "ipv4"} => ["1.2.3.4", "1.2.3", "::1", "01.2.3.4", "00.0.0.001", "0001.2.3.4", "1..3.4"]
    {"type": "string", "format": "ipv6"} => ["::1", "1.2.3.4", "fe80::1%eth0", "::ffff:1.2.3.4"]
    {"type": "string", "format": "cidr"}
      => ["10.0.0.0/8", "10.0.0.1/8", "10.0.0.0/33", "10.0.0.0", "fd00::/8", "10.0.0.0/08", "010.0.0.0/8", "10.0.0.0/+8"]
    {"type": "string", "format": "uuid"}
      => ["123e4567-e89b-12d3-a456-426614174000", "123e4567e89b12d3a456426614174000", "x",
      "{123e4567-e89b-12d3-a456-426614174000}", "123E4567-E89B-12D3-A456-426614174000"]
    {"type": "string", "format": "uuid4"}
      => ["123e4567-e89b-42d3-a456-426614174000", "123e4567-e89b-12d3-a456-426614174000", "123e4567-e89b-42d3-c456-426614174000"]
    {"type": "string", "format": "byte"} => ["aGk=", "aGk", "%%%", ""]
    {"type": "string", "format": "password"} => ["x"]
    {"type": "string", "format": "unknown"} => ["x"]
"#;

/// Returns the schemas, each with at most five values: a problem names at most five custom resources.
fn cases() -> Vec<(Value, Vec<Value>)> {
    let parsed = |text: &str| -> Value {
        serde_json::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    };
    let mut cases = Vec::new();
    for row in CASES.trim().replace("\n      ", " ").lines() {
        let (schema, values) = row.split_once(" => ").unwrap();
        let (schema, values) = (parsed(schema), parsed(values));
        let values = values.as_array().unwrap().chunks(5);
        cases.extend(values.map(|values| (schema.clone(), values.to_vec())));
    }
    cases
}

/// Each case is a field of one CRD, each value a custom resource that has only this field.
#[tokio::test]
async fn schema_validation_agrees_with_the_api_server() {
    let cases = cases();
    let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let lax = Definition::new("Cluster", &[version("v1", &anything)]).await;
    let strict = |fields: Value| {
        let spec = tests::with!(anything.clone() => |spec| spec["properties"] = fields);
        version("v1", &spec)
    };
    let field = |case: usize| format!("f{case}");
    let all = cases.iter().enumerate();
    let all = all.map(|(case, (schema, _))| (field(case), schema.clone()));
    let all: serde_json::Map<_, _> = all.collect();
    let real = Definition::new("Cluster", &[strict(json!(all))]).await;
    let dry_run = tests::with!(PostParams, dry_run: true);

    let mut disagreements = Vec::new();
    let mut counts = [0, 0];
    for (case, (schema, values)) in cases.iter().enumerate() {
        let name = |at: usize| format!("star-{case}-{at}");
        let spec = |value: &Value| json!({field(case): value});
        for (at, value) in values.iter().enumerate() {
            lax.star(None, &name(at), &spec(value)).await;
        }
        let incoming = lax.crd(&[strict(json!({field(case): schema}))]);
        let found = lax.check(&incoming).await;
        for (at, value) in values.iter().enumerate() {
            let name = name(at);
            let star = serde_json::from_value(real.star_object(&name, &spec(value))).unwrap();
            let theirs = match real.stars(None).create(&dry_run, &star).await {
                Ok(_) => None,
                Err(kube::Error::Api(status)) if status.code == 422 => Some(status.message),
                Err(error) => panic!("{name}: {error}"),
            };
            let mut own_problems = found.problems.iter().map(|problem| &problem.message);
            let own_problem =
                own_problems.find(|message| message.contains(&format!("object {name} failed")));
            // A dropped field is not an error for the API server; the check reports it explicitly.
            let own_problem = own_problem.filter(|message| !message.contains("would be lost"));
            if own_problem.is_some() != theirs.is_some() {
                disagreements.push(format!(
                    "{schema} {value}: API server {theirs:?}, ours {own_problem:?}"
                ));
            }
            counts[usize::from(theirs.is_some())] += 1;
        }
        for at in 0..values.len() {
            delete(&lax.stars(None), &name(at)).await;
        }
    }
    assert!(disagreements.is_empty(), "{}", disagreements.join("\n"));
    assert!(counts.iter().all(|count| *count > 50), "{counts:?}");
}
