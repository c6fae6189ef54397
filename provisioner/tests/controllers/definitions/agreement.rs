//! Our reading of schemas against the apiserver's: for every pair of schema and value both have to say the same.

use kube::{
    Api,
    api::{DynamicObject, PostParams},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::{Value, json};

use super::{Definition, version};

/// A schema, and values that may or may not fulfil it.
#[expect(clippy::too_many_lines, reason = "a table")]
fn cases() -> Vec<(Value, Vec<Value>)> {
    let string = json!({"type": "string"});
    let format = |format: &str| json!({"type": "string", "format": format});
    let map_list = json!({
        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name", "port"],
        "items": {"type": "object", "required": ["name"], "properties": {
            "name": {"type": "string"}, "port": {"type": "integer", "default": 80}, "x": {"type": "string"},
        }},
    });
    let alternatives = json!({
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
    });
    vec![
        (
            string.clone(),
            vec![
                json!("x"),
                json!(""),
                json!(5),
                json!(true),
                json!(null),
                json!([]),
                json!({}),
            ],
        ),
        (
            json!({"type": "string", "nullable": true}),
            vec![json!(null), json!("x"), json!(1)],
        ),
        (
            json!({"type": "integer"}),
            vec![
                json!(5),
                json!(-5),
                json!(5.0),
                json!(5.5),
                json!("5"),
                json!(9_007_199_254_740_993_i64),
            ],
        ),
        (
            json!({"type": "number"}),
            vec![json!(5), json!(5.5), json!("5")],
        ),
        (
            json!({"type": "boolean"}),
            vec![json!(true), json!("true"), json!(0)],
        ),
        (
            json!({"x-kubernetes-int-or-string": true}),
            vec![json!(5), json!("5"), json!(5.5), json!(true), json!({})],
        ),
        (
            json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}], "pattern": "^[0-9]+%$"}),
            vec![json!(5), json!("5%"), json!("5"), json!([])],
        ),
        (
            json!({"type": "integer", "format": "int32"}),
            vec![
                json!(2_147_483_647),
                json!(2_147_483_648_i64),
                json!(-2_147_483_649_i64),
            ],
        ),
        (
            json!({"type": "integer", "format": "int64"}),
            vec![json!(2_147_483_648_i64)],
        ),
        (
            json!({"type": "number", "format": "float"}),
            vec![json!(1.5), json!(1e39)],
        ),
        (
            json!({"type": "integer", "minimum": 1, "maximum": 5}),
            vec![json!(0), json!(1), json!(5), json!(6)],
        ),
        (
            json!({"type": "integer", "minimum": 1, "exclusiveMinimum": true, "maximum": 5, "exclusiveMaximum": true}),
            vec![json!(1), json!(2), json!(4), json!(5)],
        ),
        (
            json!({"type": "number", "multipleOf": 0.5}),
            vec![json!(1.5), json!(1.25), json!(2)],
        ),
        (
            json!({"type": "integer", "multipleOf": 3}),
            vec![json!(9), json!(10)],
        ),
        (
            json!({"type": "string", "minLength": 2, "maxLength": 3}),
            vec![
                json!("a"),
                json!("ab"),
                json!("\u{e4}\u{f6}\u{fc}"),
                json!("abcd"),
                json!("\u{1f600}"),
            ],
        ),
        (
            json!({"type": "string", "pattern": "^\\d{2}[\\w.-]$"}),
            vec![
                json!("12a"),
                json!("1a"),
                json!("12\u{e4}"),
                json!("\u{661}\u{662}a"),
            ],
        ),
        (
            json!({"type": "string", "pattern": "b"}),
            vec![json!("abc"), json!("ac")],
        ),
        (
            json!({"type": "string", "enum": ["a", "b"]}),
            vec![json!("a"), json!("c"), json!(null)],
        ),
        (
            json!({"type": "string", "enum": ["a"], "nullable": true}),
            vec![json!("a"), json!(null), json!("c")],
        ),
        (
            json!({"type": "number", "enum": [1, 2.5]}),
            vec![json!(1), json!(1.0), json!(2.5), json!(2)],
        ),
        (
            json!({"type": "array", "items": string, "minItems": 1, "maxItems": 2}),
            vec![
                json!([]),
                json!(["a"]),
                json!(["a", "b", "c"]),
                json!([1]),
                json!([null]),
            ],
        ),
        (
            json!({"type": "array", "items": string, "x-kubernetes-list-type": "set"}),
            vec![json!(["a", "b"]), json!(["a", "a"])],
        ),
        (
            json!({"type": "array", "items": {"type": "number"}, "x-kubernetes-list-type": "set"}),
            vec![json!([1, 2]), json!([1.5, 1.5]), json!([2, 2])],
        ),
        (
            map_list,
            vec![
                json!([{"name": "a"}, {"name": "b"}]),
                json!([{"name": "a"}, {"name": "a", "port": 80}]),
                json!([{"name": "a"}, {"name": "a", "port": 81}]),
                json!([{"port": 80}]),
            ],
        ),
        (
            json!({"type": "object", "additionalProperties": {"type": "integer"}, "minProperties": 1, "maxProperties": 2}),
            vec![
                json!({}),
                json!({"a": 1}),
                json!({"a": "x"}),
                json!({"a": null}),
                json!({"a": 1, "b": 2, "c": 3}),
            ],
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "string"}}, "maxProperties": 1}),
            vec![json!({"a": "x"}), json!({"a": "x", "unknown": 1})],
        ),
        (
            json!({"type": "object", "required": ["a", "d"], "properties": {"a": {"type": "string"}, "d": {"type": "string", "default": "d"}}}),
            vec![
                json!({"a": "x"}),
                json!({"d": "x"}),
                json!({"a": null, "d": null}),
                json!({"a": "x", "d": null}),
            ],
        ),
        (
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"a": {"type": "string"}}}),
            vec![json!({"b": 1}), json!({"a": 1})],
        ),
        (
            json!({"x-kubernetes-preserve-unknown-fields": true}),
            vec![json!(1), json!("a"), json!([1]), json!({"a": {"b": null}})],
        ),
        (
            json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}),
            vec![
                json!({"apiVersion": "v1", "kind": "Pod", "spec": {}}),
                json!({"apiVersion": "v1"}),
                json!({"kind": ""}),
                json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}),
            ],
        ),
        (
            alternatives,
            vec![json!({"a": "x"}), json!({"a": "x", "b": "x"}), json!({})],
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}),
            vec![json!({"a": "x", "b": "x"}), json!({})],
        ),
        (
            json!({"type": "string", "not": {"enum": ["a"]}}),
            vec![json!("a"), json!("b")],
        ),
        (
            json!({"type": "string", "allOf": [{"minLength": 2}, {"pattern": "^a"}]}),
            vec![json!("ab"), json!("a"), json!("bb")],
        ),
        (
            json!({"type": "number", "minimum": 2.5, "maximum": 4.5}),
            vec![
                json!(2),
                json!(2.4),
                json!(1),
                json!(4),
                json!(5),
                json!(4.6),
            ],
        ),
        (
            json!({"type": "number", "minimum": 2.5, "exclusiveMinimum": true}),
            vec![json!(2), json!(3), json!(2.5), json!(2.6)],
        ),
        (
            json!({"type": "number", "multipleOf": 1.5}),
            vec![json!(2), json!(3), json!(4.5), json!(4.6)],
        ),
        (
            format("uuid3"),
            vec![
                json!("123e4567-e89b-32d3-c456-426614174000"),
                json!("123e4567-e89b-42d3-a456-426614174000"),
            ],
        ),
        (
            format("uuid5"),
            vec![
                json!("123e4567-e89b-52d3-b456-426614174000"),
                json!("123e4567-e89b-52d3-c456-426614174000"),
                json!("1-23e4567e89b52d3a456426614174000"),
                json!("123e4567--e89b-52d3-b456-426614174000"),
                json!("123e4567e89b-52d3-b456426614174000"),
            ],
        ),
        (
            format("date-time"),
            vec![
                json!("2020-01-02T24:00:00Z"),
                json!("2020-01-02T23:59:60Z"),
                json!("2020-01-02T23:59:59.z"),
                json!("2020-01-02T23:59:59.123456789z"),
                json!("2020-01-02T23:59:59+99:99"),
                json!("2020-01-02T23:59:59+0100"),
                json!("2020-01-02T29:00:00Z"),
                json!("2020-01-02T13:60:00Z"),
            ],
        ),
        (
            format("date-time"),
            vec![
                json!("2020-01-02T03:04:05Z"),
                json!("2020-01-02T03:04:05.678+01:00"),
                json!("2020-01-02 03:04:05Z"),
                json!("2020-01-02"),
                json!("x"),
                json!("2020-13-02T03:04:05Z"),
                json!("2020-01-02t03:04:05z"),
                json!("2020-01-02T03:04Z"),
                json!("2020-01-02T03:04:05"),
            ],
        ),
        (
            format("datetime"),
            vec![json!("2020-01-02T03:04:05Z"), json!("x")],
        ),
        (
            format("date"),
            vec![
                json!("2020-01-02"),
                json!("2020-1-2"),
                json!("2020-02-30"),
                json!("20200102"),
            ],
        ),
        (
            format("duration"),
            vec![
                json!("1h30m"),
                json!("5s"),
                json!("0"),
                json!("3 days"),
                json!("1d"),
                json!("x"),
                json!("5"),
                json!("1.5h"),
                json!("2 weeks"),
                json!("-5s"),
                json!(""),
            ],
        ),
        (
            format("ipv4"),
            vec![
                json!("1.2.3.4"),
                json!("1.2.3"),
                json!("::1"),
                json!("01.2.3.4"),
                json!("00.0.0.001"),
                json!("0001.2.3.4"),
                json!("1..3.4"),
            ],
        ),
        (
            format("ipv6"),
            vec![
                json!("::1"),
                json!("1.2.3.4"),
                json!("fe80::1%eth0"),
                json!("::ffff:1.2.3.4"),
            ],
        ),
        (
            format("cidr"),
            vec![
                json!("10.0.0.0/8"),
                json!("10.0.0.1/8"),
                json!("10.0.0.0/33"),
                json!("10.0.0.0"),
                json!("fd00::/8"),
                json!("10.0.0.0/08"),
                json!("010.0.0.0/8"),
                json!("10.0.0.0/+8"),
            ],
        ),
        (
            format("uuid"),
            vec![
                json!("123e4567-e89b-12d3-a456-426614174000"),
                json!("123e4567e89b12d3a456426614174000"),
                json!("x"),
                json!("{123e4567-e89b-12d3-a456-426614174000}"),
                json!("123E4567-E89B-12D3-A456-426614174000"),
            ],
        ),
        (
            format("uuid4"),
            vec![
                json!("123e4567-e89b-42d3-a456-426614174000"),
                json!("123e4567-e89b-12d3-a456-426614174000"),
                json!("123e4567-e89b-42d3-c456-426614174000"),
            ],
        ),
        (
            format("byte"),
            vec![json!("aGk="), json!("aGk"), json!("%%%"), json!("")],
        ),
        (format("password"), vec![json!("x")]),
        (format("nobody-knows"), vec![json!("x")]),
    ]
}

/// Each case as a field of one definition, each value as a custom resource that has nothing but this field.
#[tokio::test]
async fn schemas_mean_to_us_what_they_mean_to_the_apiserver() {
    // A problem names at most five custom resources.
    let cases: Vec<(Value, Vec<Value>)> = cases()
        .iter()
        .flat_map(|(schema, values)| {
            values
                .chunks(5)
                .map(|values| (schema.clone(), values.to_vec()))
        })
        .collect();
    let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let lax = Definition::new("Cluster", &[version("v1", &anything)]).await;
    let strict = |fields: Value| {
        let spec = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": fields});
        version("v1", &spec)
    };
    let field = |case: usize| format!("f{case}");
    let all: serde_json::Map<_, _> = cases
        .iter()
        .enumerate()
        .map(|(at, (schema, _))| (field(at), schema.clone()))
        .collect();
    let real = Definition::new("Cluster", &[strict(json!(all))]).await;
    let resource = ApiResource::from_gvk_with_plural(
        &GroupVersionKind::gvk(&real.group, "v1", "Star"),
        "stars",
    );
    let stars: Api<DynamicObject> = Api::all_with(real.client.clone(), &resource);
    let dry_run = PostParams {
        dry_run: true,
        ..PostParams::default()
    };

    let mut disagreements = Vec::new();
    let mut counts = [0, 0];
    for (case, (schema, values)) in cases.iter().enumerate() {
        for (at, value) in values.iter().enumerate() {
            let spec = json!({field(case): value});
            lax.star(None, &format!("star-{case}-{at}"), &spec).await;
        }
        let incoming = lax.crd(&[strict(json!({field(case): schema}))]);
        let found = lax.check(&incoming).await;
        for (at, value) in values.iter().enumerate() {
            let name = format!("star-{case}-{at}");
            let star = json!({
                "apiVersion": format!("{}/v1", real.group), "kind": "Star", "metadata": {"name": name},
                "spec": {field(case): value},
            });
            let star: DynamicObject = serde_json::from_value(star).unwrap();
            let theirs = match stars.create(&dry_run, &star).await {
                Ok(_) => None,
                Err(kube::Error::Api(status)) if status.code == 422 => Some(status.message),
                Err(error) => panic!("{name}: {error}"),
            };
            let ours = found
                .problems
                .iter()
                .find(|p| p.message.contains(&format!("object {name} failed")));
            // A field that is dropped is no error to the apiserver; to us it is, and it is said so.
            let ours = ours.filter(|problem| !problem.message.contains("would be lost"));
            if ours.is_some() != theirs.is_some() {
                disagreements.push(format!(
                    "{schema} {value}: apiserver {theirs:?}, ours {ours:?}"
                ));
            }
            counts[usize::from(theirs.is_some())] += 1;
        }
        for at in 0..values.len() {
            lax.stars(None)
                .delete(
                    &format!("star-{case}-{at}"),
                    &kube::api::DeleteParams::default(),
                )
                .await
                .unwrap();
        }
    }
    assert!(disagreements.is_empty(), "{}", disagreements.join("\n"));
    assert!(counts.iter().all(|count| *count > 50), "{counts:?}");
}
