//! Conversion to another version and back is the identity for every stored object, and no annotation can break that.

use std::collections::BTreeMap;

use proptest::{prelude::*, strategy::ValueTree as _, test_runner::TestRunner};

use super::*;

fn anything() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-c\u{0}\u{e9}]{0,2}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map("[a-c]{0,2}", inner, 0..3)
                .prop_map(|map| map.into_iter().collect::<Object>().into()),
        ]
    })
}

fn text() -> impl Strategy<Value = Value> {
    prop_oneof![
        4 => prop::sample::select(vec!["", "grpc", "configmap", "internal", "foo", "a:1", "b"]).prop_map(Value::from),
        1 => anything(),
    ]
}

fn pod() -> impl Strategy<Value = Value> {
    let options = [
        json!({}),
        json!({"priorityClassName": ""}),
        json!({"tolerations": [{"operator": "Exists"}], "later": {"a": [null]}}),
        json!({"tolerations": "all"}),
    ];
    prop_oneof![5 => prop::sample::select(options.to_vec()), 1 => anything()]
}

fn maybe(value: impl Strategy<Value = Value> + 'static) -> BoxedStrategy<Option<Value>> {
    prop::option::of(value).boxed()
}

fn built(fields: Vec<(&'static str, BoxedStrategy<Option<Value>>)>) -> BoxedStrategy<Value> {
    let (names, values): (Vec<_>, Vec<_>) = fields.into_iter().unzip();
    let built = values.prop_map(move |values| {
        let fields = names.iter().zip(values);
        let present = fields.filter_map(|(name, value)| Some((*name, value?)));
        present.collect::<Value>()
    });
    built.boxed()
}

fn member(named: &'static str) -> BoxedStrategy<Option<Value>> {
    let later = prop_oneof![4 => Just(None), 1 => anything().prop_map(Some)].boxed();
    let pod = ("podSpecOverrides", maybe(pod()));
    let fields = built(vec![(named, maybe(text())), pod, ("later", later)]);
    maybe(prop_oneof![6 => fields, 1 => anything()])
}

fn spec(is_stored: bool) -> BoxedStrategy<Value> {
    let rarely = |strategy: BoxedStrategy<Option<Value>>| {
        prop_oneof![3 => Just(None), 1 => strategy].boxed()
    };
    let mut fields = vec![
        ("catalogImageSource", rarely(member("catalogImage"))),
        ("catalogServiceSource", rarely(member("address"))),
        ("configMapSource", rarely(member("configMap"))),
        ("updateStrategy", maybe(anything())),
        ("a", maybe(anything())),
    ];
    if is_stored {
        let texts = ["sourceType", "image", "address", "configMap"];
        fields.extend(texts.map(|name| (name, maybe(text()))));
        fields.push(("grpcPodConfig", maybe(pod())));
    }
    prop_oneof![9 => built(fields), 1 => anything()].boxed()
}

/// Returns values of the annotation, from none to valid ones.
fn record() -> BoxedStrategy<Value> {
    let real = spec(true).prop_map(|spec| {
        v1(&stored(&spec))["metadata"]["annotations"][labels::CATALOG_SOURCE].clone()
    });
    let written = anything().prop_map(|value| Value::from(value.to_string()));
    prop_oneof![real, anything(), written].boxed()
}

fn metadata(own: BoxedStrategy<Option<Value>>) -> BoxedStrategy<Value> {
    let annotations = prop_oneof![5 => built(vec![("mine", maybe(text())), (labels::CATALOG_SOURCE, own)]), 1 => anything()];
    let annotations = ("annotations", maybe(annotations));
    prop_oneof![6 => built(vec![("name", maybe(text())), annotations]), 1 => anything()].boxed()
}

/// Returns whole objects of v1alpha1 or v1; `own` are the values of our annotation.
fn whole(is_stored: bool, own: BoxedStrategy<Option<Value>>) -> BoxedStrategy<Value> {
    let version = if is_stored { "v1alpha1" } else { "v1" };
    let version = Value::from(format!("operators.coreos.com/{version}"));
    built(vec![
        ("apiVersion", Just(Some(version)).boxed()),
        ("kind", maybe(text())),
        ("metadata", maybe(metadata(own))),
        ("spec", maybe(spec(is_stored))),
        ("status", maybe(anything())),
    ])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    // parity: source-14
    #[test]
    fn stored_object_round_trips_through_v1(object in whole(true, maybe(record()))) {
        let converted = v1(&object);
        prop_assert_eq!(&converted["apiVersion"], "operators.coreos.com/v1");
        for field in DEPRECATED {
            prop_assert!(converted.get("spec").and_then(|spec| spec.get(field)).is_none());
        }
        let mut stored = object.clone();
        if typed::is_typed(&remove_source(stored.as_object_mut().unwrap())) {
            prop_assert_eq!(back(&converted), object);
        } else {
            // No client has written the object in this form; its fields in v1 are retained.
            let again = v1(&back(&converted));
            prop_assert_eq!(again.get("spec"), converted.get("spec"));
        }
    }

    // parity: source-14
    #[test]
    fn v1_object_round_trips_through_storage(object in whole(false, Just(None).boxed())) {
        let converted = back(&object);
        prop_assert_eq!(&converted["apiVersion"], "operators.coreos.com/v1alpha1");
        prop_assert_eq!(v1(&converted), object);
    }

    /// For every annotation, only the source changes, and of the metadata only the annotations.
    // parity: source-15
    #[test]
    fn annotation_changes_only_the_source(object in whole(false, maybe(record()))) {
        let converted = back(&object);
        let rest = |object: &Value| {
            let mut object = object.clone();
            let map = object.as_object_mut().unwrap();
            map.remove("apiVersion");
            remove_source(map);
            if let Some(metadata) = map.get_mut("metadata").and_then(Value::as_object_mut) {
                metadata.remove("annotations");
            }
            object
        };
        let (before, after) = (rest(&object), rest(&converted));
        prop_assert_eq!(before.get("status"), after.get("status"));
        prop_assert_eq!(before.get("spec"), after.get("spec"));
        if object.pointer("/metadata/name").is_some() {
            prop_assert_eq!(before.get("metadata"), after.get("metadata"));
        }
        // The stored object has the same form in v1 again.
        let again = v1(&converted);
        prop_assert_eq!(again.get("spec"), object.get("spec"));
    }

    /// The annotation was valid once, but is damaged, or the source was changed: the object is kept, and its visible
    /// fields are unchanged.
    // parity: source-15
    #[test]
    fn damaged_annotation_does_not_lose_the_object(object in damaged()) {
        let converted = back(&object);
        prop_assert_eq!(&converted["metadata"]["name"], "a");
        for key in ["mine", "theirs"] {
            let of = |object: &Value| object["metadata"]["annotations"].get(key).cloned();
            prop_assert_eq!(of(&converted), of(&object));
        }
        prop_assert_eq!(converted.get("status"), object.get("status"));
        let mut before = object["spec"].as_object().unwrap().clone();
        prop_assert_eq!(&v1(&converted)["spec"], &object["spec"]);
        let mut after = converted["spec"].as_object().unwrap().clone();
        for field in DEPRECATED.iter().chain(&MEMBERS) {
            before.remove(*field);
            after.remove(*field);
        }
        prop_assert_eq!(before, after);
    }
}

/// Returns an object that an API server could have stored, with a source that has fields.
fn real() -> BoxedStrategy<Value> {
    let sources = json!([
        {"sourceType": "grpc", "image": "a:1", "address": "b:2"},
        {"sourceType": "grpc", "image": "a:1", "grpcPodConfig": {"priorityClassName": ""}},
        {"sourceType": "grpc", "image": "", "address": "b:2", "grpcPodConfig": {}},
        {"sourceType": "internal", "configMap": "m", "image": "a:1"},
        {"sourceType": "foo", "image": "a:1"},
        {"catalogImageSource": {"catalogImage": "a:1", "later": [1]}},
        {"configMapSource": {"configMap": "m"}, "sourceType": "grpc", "image": "a"},
    ]);
    let sources = prop::sample::select(sources.as_array().unwrap().clone());
    let random = spec(true).prop_filter("is an object", Value::is_object);
    let source = prop_oneof![7 => sources, 1 => random];
    let annotations = prop::collection::btree_map(
        prop::sample::select(vec!["mine", "theirs", labels::CATALOG_SOURCE]),
        "[a\"{}\\\\]{0,4}",
        0..3,
    );
    let parts = (source, annotations, maybe(anything()));
    let object = parts.prop_map(|(mut spec, annotations, status)| {
        spec["displayName"] = "x".into();
        let mut object = stored(&spec);
        if !annotations.is_empty() {
            object["metadata"]["annotations"] = json!(annotations);
        }
        if let Some(status) = status {
            object["status"] = status;
        }
        object
    });
    object.boxed()
}

/// Returns an object of v1 with our annotation.
fn damaged() -> BoxedStrategy<Value> {
    let index = any::<prop::sample::Index>();
    let damages = (real(), real(), 0..6_u8, index, anything());
    let object = damages.prop_map(|(object, other, how, at, value)| {
        let (mut object, other) = (v1(&object), v1(&other));
        let text = object["metadata"]["annotations"][labels::CATALOG_SOURCE].as_str();
        let Some(text) = text.map(str::to_owned) else {
            return object;
        };
        let annotation = &mut object["metadata"]["annotations"][labels::CATALOG_SOURCE];
        match how {
            0 => {
                let truncated: String = text.chars().take(at.index(text.len())).collect();
                *annotation = truncated.into();
            }
            1 | 2 => {
                let mut record: Object = serde_json::from_str(&text).unwrap();
                let keys: Vec<String> = record.keys().cloned().collect();
                let key = at.get(&keys).clone();
                if how == 1 {
                    record.remove(&key);
                } else {
                    record.insert(key, value);
                }
                *annotation = Value::from(record).to_string().into();
            }
            3 => {
                let theirs = other["metadata"]["annotations"].get(labels::CATALOG_SOURCE);
                *annotation = theirs.cloned().unwrap_or_else(|| "{}".into());
            }
            4 => object["spec"] = other["spec"].clone(),
            _ => {}
        }
        object
    });
    object.boxed()
}

#[test]
fn generated_objects_cover_every_kind() {
    let mut runner = TestRunner::deterministic();
    let mut draw = |from: &BoxedStrategy<Value>| from.new_tree(&mut runner).unwrap().current();
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let mut count = |kind: &str| *counts.entry(kind.to_owned()).or_default() += 1;
    let pod = "catalogImageSource/podSpecOverrides";
    let (stored, damaged) = (whole(true, maybe(record())), damaged());
    for _ in 0..2000 {
        let converted = v1(&draw(&stored));
        let record = annotation(&converted).unwrap_or_else(|| json!({"complete": 1}));
        for key in record.as_object().unwrap().keys() {
            count(key);
        }
        for path in MEMBERS.into_iter().chain([pod]) {
            if converted.pointer(&format!("/spec/{path}")).is_some() {
                count(path);
            }
        }
        let object = draw(&damaged);
        if is_annotated(object.as_object().unwrap()) {
            let is_valid = read_record(object.as_object().unwrap()).is_some();
            count(&format!("valid: {is_valid}"));
        }
    }
    let kinds = "complete same set annotations metadata".split(' ');
    for kind in kinds
        .chain(MEMBERS)
        .chain([pod, "valid: true", "valid: false"])
    {
        let count = counts.get(kind).copied().unwrap_or_default();
        assert!(count >= 20, "{kind}: {count} of 2000");
    }
}
