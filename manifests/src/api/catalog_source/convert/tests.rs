use super::*;

mod properties;

fn object(version: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": format!("operators.coreos.com/{version}"), "kind": "CatalogSource",
        "metadata": {"name": "a", "namespace": "b"}, "spec": spec,
    })
}

fn stored(spec: &Value) -> Value {
    object("v1alpha1", spec)
}

fn v1(object: &Value) -> Value {
    convert(object.clone(), Version::V1)
}

fn back(object: &Value) -> Value {
    convert(object.clone(), Version::V1alpha1)
}

fn with(spec: &Value, more: &Value) -> Value {
    let fields = [spec, more].map(|part| part.as_object().unwrap().clone());
    fields.into_iter().flatten().collect()
}

fn annotation(object: &Value) -> Option<Value> {
    let text = object["metadata"]["annotations"][labels::CATALOG_SOURCE].as_str()?;
    let mut record: Value = serde_json::from_str(text).unwrap();
    record.as_object_mut().unwrap().remove("of");
    Some(record)
}

// parity: source-6
#[test]
fn both_forms_round_trip() {
    let pod = json!({"priorityClassName": "", "tolerations": [{"operator": "Exists"}], "anything": {"new": 1}});
    let rest = json!({"displayName": "x", "priority": -5, "unknown": {"kept": [1.5]}});
    // The stored object, its form in v1, and the part that v1 cannot represent.
    for (was, is, record) in ::tests::rows![
        json!({"sourceType": "grpc", "image": "a:1"}), json!({"catalogImageSource": {"catalogImage": "a:1"}}) => None;
        json!({"sourceType": "grpc", "image": "a:1", "grpcPodConfig": pod}),
            json!({"catalogImageSource": {"catalogImage": "a:1", "podSpecOverrides": pod}}) => None;
        json!({"sourceType": "grpc", "address": "a:1"}), json!({"catalogServiceSource": {"address": "a:1"}}) => None;
        json!({"sourceType": "configmap", "configMap": "m"}), json!({"configMapSource": {"configMap": "m"}}) => None;
        json!({"sourceType": "internal", "configMap": "m"}), json!({"configMapSource": {"configMap": "m"}})
            => Some(json!({"set": {"sourceType": "internal"}}));
        json!({"sourceType": "grpc", "image": "a:1", "address": "b:2"}), json!({"catalogImageSource": {"catalogImage": "a:1"}})
            => Some(json!({"set": {"address": "b:2"}}));
        json!({"sourceType": "grpc", "image": "", "address": "b:2", "grpcPodConfig": {}}),
            json!({"catalogServiceSource": {"address": "b:2"}}) => Some(json!({"set": {"grpcPodConfig": {}, "image": ""}}));
        json!({"sourceType": "foo", "image": "a:1"}), json!({}) => Some(json!({"set": {"sourceType": "foo", "image": "a:1"}}));
        json!({"sourceType": "grpc", "configMap": "m"}), json!({})
            => Some(json!({"set": {"sourceType": "grpc", "configMap": "m"}}));
        // Stored in the new form, which v1 represents unchanged.
        json!({"catalogImageSource": {"catalogImage": "a:1"}}), json!({"catalogImageSource": {"catalogImage": "a:1"}})
            => Some(json!({"same": true}));
        json!({"configMapSource": {"configMap": "m"}, "sourceType": "grpc", "image": "a"}),
            json!({"configMapSource": {"configMap": "m"}})
            => Some(json!({"same": true, "set": {"sourceType": "grpc", "image": "a"}}));
        json!({}), json!({}) => None;
    ] {
        let and_rest = |spec: &Value| with(spec, &rest);
        let before = stored(&and_rest(&was));
        let after = v1(&before);
        assert_rows!((&after["spec"], &after["apiVersion"]) => (&and_rest(&is), &json!("operators.coreos.com/v1")));
        assert_rows!((annotation(&after), back(&after)) => (record, before), "{was}");
    }
    // Objects of other versions are not converted.
    let beta = json!({"apiVersion": "operators.coreos.com/v1beta1", "spec": {"sourceType": "grpc", "image": "a"}});
    let others = json!([null, [1], beta, {"apiVersion": 5}]);
    for other in others.as_array().unwrap() {
        assert_eq!((&v1(other), &back(other)), (other, other));
    }
    let done = v1(&stored(&json!({"sourceType": "grpc", "image": "a"})));
    assert_eq!(v1(&done), done);
}

/// A changed source is stored as written: former fields do not return, even if the change is reverted.
// parity: source-14
#[test]
fn changes_in_v1_are_kept() {
    let pod = json!({"memoryTarget": "1Mi"});
    let spec =
        json!({"sourceType": "grpc", "image": "a:1", "address": "b:2", "grpcPodConfig": pod});
    let before = stored(&spec);
    let read = v1(&before);
    for (pointer, value, expected) in ::tests::rows![
        "/spec/catalogImageSource/catalogImage", json!("a:2")
            => json!({"sourceType": "grpc", "image": "a:2", "grpcPodConfig": pod});
        "/spec/catalogImageSource", json!({"catalogImage": "a:1"}) => json!({"sourceType": "grpc", "image": "a:1"});
        "/spec", json!({"catalogServiceSource": {"address": "c:3"}}) => json!({"sourceType": "grpc", "address": "c:3"});
        "/spec", json!({"configMapSource": {"configMap": "m"}}) => json!({"sourceType": "configmap", "configMap": "m"});
        "/spec", json!({"catalogImageSource": {"catalogImage": "a:1", "later": 1}})
            => json!({"catalogImageSource": {"catalogImage": "a:1", "later": 1}});
        "/metadata/annotations", json!({}) => json!({"sourceType": "grpc", "image": "a:1", "grpcPodConfig": pod});
    ] {
        let mut written = read.clone();
        *written.pointer_mut(pointer).unwrap() = value;
        let stored = back(&written);
        assert_rows!((&stored["spec"], annotation(&stored)) => (&expected, None), "{pointer}");
        let mut again = v1(&stored);
        *again.pointer_mut("/spec").unwrap() = read["spec"].clone();
        assert_eq!(back(&again)["spec"].get("address"), None);
    }
    // Other parts of the object can change, and the source is unchanged.
    let changed = |mut object: Value| {
        object["spec"]["displayName"] = "new".into();
        object["metadata"]["labels"] = json!({"a": "b"});
        object["metadata"]["annotations"]["mine"] = "x".into();
        object
    };
    assert_eq!(back(&changed(read)), changed(before));
}

/// An annotation that contradicts the source is ignored.
#[test]
fn annotation_cannot_store_another_image() {
    let source = json!({"catalogImageSource": {"catalogImage": "good:1"}});
    let converted = object("v1", &source);
    let of = hash(source.as_object().unwrap());
    let records = json!([
        {"of": of, "set": {"image": "evil:1"}}, {"of": of, "set": {"displayName": "evil"}},
        {"of": of, "same": true, "set": {"catalogImageSource": {"catalogImage": "evil:1"}}},
        {"of": of, "set": {"spec": 1}, "unset": ["image"]},
        // Values that do not have the type of their field.
        {"of": of, "set": {"configMap": 5}}, {"of": of, "same": true, "set": {"image": 5}},
        {"of": of, "same": true, "set": {"grpcPodConfig": "none"}}, {"of": of, "set": {"address": "a".repeat(3000)}},
        {"of": of, "same": true, "set": {"grpcPodConfig": {"tolerations": "all"}}},
        {"of": of, "metadata": [{"name": "other"}]}, {"of": of, "annotations": ["x"]},
        {"of": "other", "set": {"address": "b:2"}}, {"of": of, "unknown": 1}, "text", {},
    ]);
    for record in records.as_array().unwrap() {
        let mut object = converted.clone();
        object["metadata"]["annotations"] =
            json!({labels::CATALOG_SOURCE: record.to_string(), "a": "b"});
        let stored = back(&object);
        assert_rows!(stored["spec"] => json!({"sourceType": "grpc", "image": "good:1"}));
        assert_rows!(stored["metadata"] => json!({"name": "a", "namespace": "b", "annotations": {"a": "b"}}));
    }
    // A matching annotation is accepted from any client, because it does not change the visible source.
    let mut object = converted;
    let record = json!({"of": of, "set": {"address": "b:2"}});
    object["metadata"]["annotations"] = json!({labels::CATALOG_SOURCE: record.to_string()});
    assert_eq!(back(&object)["spec"]["image"], "good:1");
}

// parity: source-12
#[test]
fn unused_fields_are_removed_from_the_stored_object() {
    for (spec, rewritten, dropped) in ::tests::rows![
        json!({"sourceType": "grpc", "image": "a", "address": "b:1", "grpcPodConfig": {}}),
            json!({"sourceType": "grpc", "image": "a", "grpcPodConfig": {}}) => &["spec.address"][..];
        json!({"sourceType": "grpc", "image": "", "address": "b:1", "grpcPodConfig": {}, "updateStrategy": {}}),
            json!({"sourceType": "grpc", "address": "b:1", "updateStrategy": {}}) => &["spec.grpcPodConfig"];
        json!({"sourceType": "internal", "configMap": "m", "image": "a", "address": ""}),
            json!({"sourceType": "internal", "configMap": "m"}) => &["spec.image"];
        json!({"sourceType": "", "catalogServiceSource": {"address": "b"}}), json!({"catalogServiceSource": {"address": "b"}})
            => &[];
        json!({"sourceType": "grpc", "image": "a"}), json!({"sourceType": "grpc", "image": "a"}) => &[];
        // OLM reads the secrets there.
        json!({"sourceType": "grpc", "address": "b", "secrets": ["s"]}),
            json!({"sourceType": "grpc", "address": "b", "secrets": ["s"]}) => &[];
        json!({"catalogServiceSource": {"address": "b"}, "secrets": ["s"], "updateStrategy": {}}),
            json!({"catalogServiceSource": {"address": "b"}}) => &["spec.updateStrategy", "spec.secrets"];
        json!({"catalogImageSource": {"catalogImage": "a"}, "secrets": ["s"], "updateStrategy": {}}),
            json!({"catalogImageSource": {"catalogImage": "a"}, "secrets": ["s"], "updateStrategy": {}}) => &[];
    ] {
        let done = drop_ignored(stored(&spec)).unwrap();
        assert_eq!(done.object, stored(&rewritten));
        assert_rows!(done.dropped.iter().map(|dropped| dropped.field.as_str()).collect::<Vec<&str>>() => dropped);
        // A second rewrite changes nothing.
        assert_eq!(drop_ignored(done.object).unwrap().dropped, []);
    }
    assert!(drop_ignored(stored(&json!({"sourceType": "foo", "image": "a"}))).is_err());
    assert!(drop_ignored(json!(null)).is_err());
}

#[test]
fn null_counts_as_absent() {
    let nulls = json!({
        "sourceType": "grpc", "image": "a:1", "address": null, "grpcPodConfig": null, "catalogImageSource": null,
        "displayName": null, "secrets": null, "updateStrategy": {"registryPoll": null},
    });
    let within = json!({"configMapSource": {"configMap": "m", "later": null}, "secrets": null});
    let legacy = json!({"sourceType": "grpc", "image": "a:1", "updateStrategy": {}});
    for (spec, form, expected) in ::tests::rows![
        &nulls, Form::New => json!({"catalogImageSource": {"catalogImage": "a:1"}, "updateStrategy": {}});
        &nulls, Form::Legacy => legacy.clone();
        &within, Form::Legacy => json!({"sourceType": "configmap", "configMap": "m"});
    ] {
        let done = rewrite(stored(spec), form).unwrap();
        assert_eq!((&done.object["spec"], done.dropped), (&expected, vec![]));
    }
    assert_eq!(drop_ignored(stored(&nulls)).unwrap().object["spec"], legacy);
}

/// OLM's form keeps fields that the new form accepts for images only.
#[test]
fn new_form_is_valid_for_the_api_server() {
    let unread = json!({"updateStrategy": {"registryPoll": {}}, "secrets": ["s"]});
    let all = [
        r#"spec.updateStrategy {"registryPoll":{}} dropped: only images are polled in a registry"#,
        r#"spec.secrets ["s"] dropped: only images are pulled with secrets"#,
    ];
    let image = json!({"catalogImageSource": {"catalogImage": "a:1"}});
    for (spec, rewritten, dropped) in ::tests::rows![
        json!({"sourceType": "grpc", "image": "a:1"}), with(&image, &unread) => &[][..];
        json!({"sourceType": "grpc", "address": "a:1"}), json!({"catalogServiceSource": {"address": "a:1"}}) => &all;
        json!({"configMapSource": {"configMap": "m"}}), json!({"configMapSource": {"configMap": "m"}}) => &all;
    ] {
        let done = rewrite(stored(&with(&spec, &unread)), Form::New).unwrap();
        assert_eq!(done.object, stored(&rewritten));
        assert_rows!(done.dropped.iter().map(ToString::to_string).collect::<Vec<_>>() => dropped);
    }
}

// parity: source-19
#[test]
fn legacy_address_has_its_port() {
    for (spec, address) in ::tests::rows![
        json!({"catalogServiceSource": {"address": "10.0.0.1:8080"}}) => "10.0.0.1:8080";
        json!({"catalogServiceSource": {"address": "fd00::1"}}) => "[fd00::1]:50051";
        json!({"sourceType": "grpc", "address": "host:"}) => "host:50051";
    ] {
        let done = rewrite(stored(&spec), Form::Legacy).unwrap();
        assert_rows!(done.object["spec"] => json!({"sourceType": "grpc", "address": address}), "{spec}");
        // The new form keeps the address as written, and so does the conversion between versions.
        let rewritten = rewrite(stored(&spec), Form::New).unwrap().object;
        let service = rewritten["spec"]["catalogServiceSource"].clone();
        assert_rows!(service["address"] => spec.get("catalogServiceSource").unwrap_or(&spec)["address"], "{spec}");
        assert_eq!(back(&v1(&stored(&spec))), stored(&spec));
    }
    let beside = json!({"sourceType": "grpc", "image": "a:1", "address": "host"});
    assert_rows!(rewrite(stored(&beside), Form::Legacy).unwrap().object["spec"] => beside);
}

/// One object with more annotations than the API server accepts would make every list request fail.
#[test]
fn annotations_fit_the_limit_of_the_api_server() {
    let small = stored(&json!({"sourceType": "grpc", "image": "a:1", "address": "b:2"}));
    let full = |more: usize| {
        let mut object = small.clone();
        let length = MAX_ANNOTATIONS_SIZE - "mine".len() - more;
        object["metadata"]["annotations"] = json!({"mine": "x".repeat(length)});
        object
    };
    let size = |object: &Value| annotations_size(object.as_object().unwrap());
    let record = size(&v1(&small));
    // At exactly the limit.
    let fits = full(record);
    assert_rows!((size(&v1(&fits)), back(&v1(&fits))) => (MAX_ANNOTATIONS_SIZE, fits));
    let large = full(record - 1);
    let converted = v1(&large);
    assert_eq!(converted["metadata"], large["metadata"]);
    assert_rows!(converted["spec"] => json!({"catalogImageSource": {"catalogImage": "a:1"}}));
    // Used fields are restored, and unused ones are not.
    let again = back(&converted);
    assert_rows!((&again["spec"], &again["metadata"]) => (&json!({"sourceType": "grpc", "image": "a:1"}), &large["metadata"]));

    // A foreign value of the annotation does not enlarge an object either: each quotation mark in it becomes two
    // characters.
    let mut own = stored(&json!({"sourceType": "grpc", "image": "a:1"}));
    own["metadata"]["annotations"] =
        json!({labels::CATALOG_SOURCE: "\"".repeat(MAX_ANNOTATIONS_SIZE / 3 * 2)});
    let converted = v1(&own);
    assert_rows!((size(&converted), &back(&converted)["spec"]) => (0, &own["spec"]));
}
