//! There and back is the same, whatever is stored, and nobody can write what breaks that.

use std::collections::BTreeMap;

use proptest::{prelude::*, strategy::ValueTree as _, test_runner::TestRunner};

use super::*;

/// Any JSON, not deep.
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
    values
        .prop_map(move |values| {
            let fields = names.iter().zip(values);
            let there = fields.filter_map(|(name, value)| Some(((*name).to_owned(), value?)));
            there.collect::<Object>().into()
        })
        .boxed()
}

fn member(named: &'static str) -> BoxedStrategy<Option<Value>> {
    let later = prop_oneof![4 => Just(None), 1 => anything().prop_map(Some)].boxed();
    let pod = ("podSpecOverrides", maybe(pod()));
    let fields = built(vec![(named, maybe(text())), pod, ("later", later)]);
    maybe(prop_oneof![6 => fields, 1 => anything()])
}

fn spec(is_stored: bool) -> BoxedStrategy<Value> {
    let rarely = |it: BoxedStrategy<Option<Value>>| prop_oneof![3 => Just(None), 1 => it].boxed();
    let mut fields = vec![
        ("catalogImageSource", rarely(member("catalogImage"))),
        ("catalogServiceSource", rarely(member("address"))),
        ("configMapSource", rarely(member("configMap"))),
        ("updateStrategy", maybe(anything())),
        ("a", maybe(anything())),
    ];
    if is_stored {
        fields.extend([
            ("sourceType", maybe(text())),
            ("image", maybe(text())),
            ("address", maybe(text())),
            ("configMap", maybe(text())),
            ("grpcPodConfig", maybe(pod())),
        ]);
    }
    prop_oneof![9 => built(fields), 1 => anything()].boxed()
}

/// What an annotation may say, from nothing to what ours do.
fn record() -> BoxedStrategy<Value> {
    let real = spec(true).prop_map(|spec| {
        v1(&stored(&spec))["metadata"]["annotations"][labels::CATALOG_SOURCE].clone()
    });
    prop_oneof![
        real,
        anything(),
        anything().prop_map(|it| it.to_string().into())
    ]
    .boxed()
}

fn metadata(own: BoxedStrategy<Option<Value>>) -> BoxedStrategy<Value> {
    let annotations = prop_oneof![5 => built(vec![("mine", maybe(text())), (labels::CATALOG_SOURCE, own)]), 1 => anything()];
    let metadata = built(vec![
        ("name", maybe(text())),
        ("annotations", maybe(annotations)),
    ]);
    prop_oneof![6 => metadata, 1 => anything()].boxed()
}

fn whole(
    version: &'static str,
    own: BoxedStrategy<Option<Value>>,
    spec: BoxedStrategy<Value>,
) -> BoxedStrategy<Value> {
    let version = Value::from(format!("operators.coreos.com/{version}"));
    built(vec![
        ("apiVersion", Just(Some(version)).boxed()),
        ("kind", maybe(text())),
        ("metadata", maybe(metadata(own))),
        ("spec", maybe(spec)),
        ("status", maybe(anything())),
    ])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    // parity: source-14
    #[test]
    fn what_is_stored_is_the_same_after_v1(object in whole("v1alpha1", maybe(record()), spec(true))) {
        let there = v1(&object);
        prop_assert_eq!(&there["apiVersion"], "operators.coreos.com/v1");
        for field in DEPRECATED {
            prop_assert!(there.get("spec").and_then(|spec| spec.get(field)).is_none());
        }
        let mut stored = object.clone();
        if typed::is_typed(&remove_source(stored.as_object_mut().unwrap())) {
            prop_assert_eq!(back(&there), object);
        } else {
            // Nobody has written that as it is; what v1 shows of it is kept.
            let shown = v1(&back(&there));
            prop_assert_eq!(shown.get("spec"), there.get("spec"));
        }
    }

    // parity: source-14
    #[test]
    fn what_is_v1_is_the_same_after_it_was_stored(object in whole("v1", Just(None).boxed(), spec(false))) {
        let there = back(&object);
        prop_assert_eq!(&there["apiVersion"], "operators.coreos.com/v1alpha1");
        prop_assert_eq!(v1(&there), object);
    }

    /// Whatever the annotation says: nothing but the source is touched, and of metadata nothing but annotations.
    // parity: source-15
    #[test]
    fn no_annotation_reaches_beyond_the_source(object in whole("v1", maybe(record()), spec(false))) {
        let there = back(&object);
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
        let (before, after) = (rest(&object), rest(&there));
        prop_assert_eq!(before.get("status"), after.get("status"));
        prop_assert_eq!(before.get("spec"), after.get("spec"));
        if object.pointer("/metadata/name").is_some() {
            prop_assert_eq!(before.get("metadata"), after.get("metadata"));
        }
        // And what is stored shows the same again.
        let shown = v1(&there);
        prop_assert_eq!(shown.get("spec"), object.get("spec"));
    }

    /// An annotation that was true once, and is damaged, or whose source was changed: the object is there, and shows what it
    /// showed.
    // parity: source-15
    #[test]
    fn no_damaged_annotation_loses_an_object(object in damaged()) {
        let there = back(&object);
        prop_assert_eq!(&there["metadata"]["name"], "a");
        for kept in ["mine", "his"] {
            let of = |object: &Value| object["metadata"]["annotations"].get(kept).cloned();
            prop_assert_eq!(of(&there), of(&object));
        }
        prop_assert_eq!(there.get("status"), object.get("status"));
        let mut before = object["spec"].as_object().unwrap().clone();
        prop_assert_eq!(&v1(&there)["spec"], &object["spec"]);
        let mut after = there["spec"].as_object().unwrap().clone();
        for field in DEPRECATED.iter().chain(&MEMBERS) {
            before.remove(*field);
            after.remove(*field);
        }
        prop_assert_eq!(before, after);
    }
}

/// What an apiserver could have stored, with a source that says something.
fn real(version: &'static str) -> BoxedStrategy<Value> {
    let source = prop_oneof![
        Just(json!({"sourceType": "grpc", "image": "a:1", "address": "b:2"})),
        Just(
            json!({"sourceType": "grpc", "image": "a:1", "grpcPodConfig": {"priorityClassName": ""}})
        ),
        Just(json!({"sourceType": "grpc", "image": "", "address": "b:2", "grpcPodConfig": {}})),
        Just(json!({"sourceType": "internal", "configMap": "m", "image": "a:1"})),
        Just(json!({"sourceType": "foo", "image": "a:1"})),
        Just(json!({"catalogImageSource": {"catalogImage": "a:1", "later": [1]}})),
        Just(json!({"configMapSource": {"configMap": "m"}, "sourceType": "grpc", "image": "a"})),
        spec(true).prop_filter("is an object", Value::is_object),
    ];
    let annotations = prop::collection::btree_map(
        prop::sample::select(vec!["mine", "his", labels::CATALOG_SOURCE]),
        "[a\"{}\\\\]{0,4}",
        0..3,
    );
    (source, annotations, maybe(anything()))
        .prop_map(move |(mut spec, annotations, status)| {
            spec["displayName"] = "x".into();
            let mut object = object(version, &spec);
            if !annotations.is_empty() {
                object["metadata"]["annotations"] = json!(annotations);
            }
            if let Some(status) = status {
                object["status"] = status;
            }
            object
        })
        .boxed()
}

/// An object of v1 whose annotation was ours.
fn damaged() -> BoxedStrategy<Value> {
    let damages = (
        real("v1alpha1"),
        real("v1alpha1"),
        0..6_u8,
        any::<prop::sample::Index>(),
        anything(),
    );
    damages
        .prop_map(|(object, other, how, at, value)| {
            let (mut object, other) = (v1(&object), v1(&other));
            let text = object["metadata"]["annotations"][labels::CATALOG_SOURCE].as_str();
            let Some(text) = text.map(str::to_owned) else {
                return object;
            };
            let annotation = &mut object["metadata"]["annotations"][labels::CATALOG_SOURCE];
            match how {
                0 => {
                    let cut: String = text.chars().take(at.index(text.len())).collect();
                    *annotation = cut.into();
                }
                1 | 2 => {
                    let mut record: Object = serde_json::from_str(&text).unwrap();
                    let keys: Vec<String> = record.keys().cloned().collect();
                    let key = keys[at.index(keys.len())].clone();
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
        })
        .boxed()
}

/// The properties are of something: each kind of object is among those that are tried.
#[test]
fn what_is_tried_is_of_every_kind() {
    let mut runner = TestRunner::deterministic();
    let mut draw = |from: &BoxedStrategy<Value>| from.new_tree(&mut runner).unwrap().current();
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut count = |what: &str| *seen.entry(what.to_owned()).or_default() += 1;
    let (stored, damaged) = (whole("v1alpha1", maybe(record()), spec(true)), damaged());
    for _ in 0..2000 {
        let there = v1(&draw(&stored));
        match annotation(&there) {
            None => count("stored: v1 says all"),
            Some(record) => {
                for key in record.as_object().unwrap().keys() {
                    count(&format!("stored: {key}"));
                }
            }
        }
        for member in MEMBERS {
            if there.pointer(&format!("/spec/{member}")).is_some() {
                count(&format!("stored: {member}"));
            }
        }
        let pod = "/spec/catalogImageSource/podSpecOverrides";
        if there.pointer(pod).is_some() {
            count("stored: pod");
        }
        let object = draw(&damaged);
        let is_there = is_annotated(object.as_object().unwrap());
        let is_true = read_record(object.as_object().unwrap()).is_some();
        count(&format!("damaged: {is_there} {is_true}"));
    }
    let stored = "v1 says all|same|set|annotations|metadata|catalogImageSource|catalogServiceSource|configMapSource|pod";
    let stored = stored.split('|').map(|kind| format!("stored: {kind}"));
    for kind in stored.chain([true, false].map(|is_true| format!("damaged: true {is_true}"))) {
        let seen = seen.get(&kind).copied().unwrap_or_default();
        assert!(seen >= 20, "{kind}: {seen} of 2000");
    }
}
