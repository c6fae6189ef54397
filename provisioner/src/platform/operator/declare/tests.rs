use manifests::api::labels::{CHOSEN_BUNDLE, PLATFORM_OPERATOR};

use super::{
    super::fixtures::{UID, chosen, image, operator},
    *,
};

const DIGEST: &str = "sha256:1111111111111111111111111111111111111111111111111111111111111111";

fn declared(spec: &Value) -> Value {
    instance(&operator(spec), &chosen("1.0.0", None))
}

/// As the API server has it once it was applied: with the fields that this applied, and what it adds by itself.
fn applied(wanted: &Value) -> Value {
    fn fields(value: &Value) -> Value {
        match value {
            Value::Object(map) => map
                .iter()
                .map(|(key, value)| (format!("f:{key}"), fields(value)))
                .collect(),
            _ => json!({}),
        }
    }
    let mut owned = wanted.clone();
    let owned = owned.as_object_mut().unwrap();
    owned.retain(|key, _| key != "apiVersion" && key != "kind");
    owned["metadata"].as_object_mut().unwrap().remove("name");
    let mut fields = fields(&Value::Object(owned.clone()));
    fields["f:metadata"]["f:ownerReferences"] = json!({format!("k:{{\"uid\":\"{UID}\"}}"): {}});
    let mut there = wanted.clone();
    there["spec"]["crdDeletionPolicy"] = "Retain".into();
    there["metadata"]["managedFields"] = json!([
        {"manager": MANAGER, "operation": "Apply", "apiVersion": "core.rukpak.io/v1alpha1", "fieldsType": "FieldsV1",
         "fieldsV1": fields},
        {"manager": "kubectl", "operation": "Update", "apiVersion": "core.rukpak.io/v1alpha1", "fieldsType": "FieldsV1",
         "fieldsV1": {"f:spec": {"f:crdDeletionPolicy": {}, "f:overrides": {}}}},
    ]);
    there
}

fn is_good(there: &Value, wanted: &Value) -> bool {
    let there: BundleInstance = serde_json::from_value(there.clone()).unwrap();
    let mut kept = there.clone();
    retain_own_fields(&mut kept);
    let entries = kept.metadata.managed_fields.as_ref();
    assert!(entries.is_none_or(|it| it.len() <= 1), "{entries:?}");
    let is_good = is_declared(&kept, wanted);
    assert_eq!(is_declared(&there, wanted), is_good);
    is_good
}

// parity: platform-24
#[test]
fn the_class_follows_the_media_type_and_the_bundle_what_the_admin_says() {
    let object = declared(&json!({}));
    assert_eq!(object["metadata"]["name"], "tide");
    assert_eq!(object["metadata"]["labels"][PLATFORM_OPERATOR], "tide");
    assert_eq!(object["metadata"]["ownerReferences"][0]["uid"], UID);
    let spec = json!({
        "provisionerClassName": "core-rukpak-io-plain",
        "template": {"spec": {
            "provisionerClassName": "core-rukpak-io-registry",
            "source": {"type": "image", "image": {"ref": image("1.0.0")}},
        }},
    });
    assert_eq!(object["spec"], spec);
    let typed: BundleInstance = serde_json::from_value(object).unwrap();
    assert_rows!(serde_json::from_str::<BundleChoice>(&typed.annotations()[CHOSEN_BUNDLE]).unwrap() => chosen("1.0.0", None));

    for (media_type, class) in [
        ("registry+v1", REGISTRY),
        ("plain+v0", PLAIN),
        // Nothing else is chosen.
        ("helm+v3", REGISTRY),
    ] {
        let chosen = with!(chosen("1.0.0", None) => media_type: media_type.into());
        assert_rows! {
            instance(&operator(&json!({})), &chosen)["spec"]["template"]["spec"]["provisionerClassName"] => class;
        }
    }

    let account = json!({"name": "installer", "namespace": "ops"});
    let overrides =
        json!([{"constraint": "maxOpenShiftVersion", "digest": DIGEST, "reason": "tested"}]);
    let object = declared(&json!({"bundle": {
        "installNamespace": "sea", "serviceAccount": account, "overrides": overrides,
    }}));
    assert_eq!(object["spec"]["installNamespace"], "sea");
    assert_eq!(object["spec"]["serviceAccount"], account);
    assert_eq!(object["spec"]["overrides"], overrides);
}

#[test]
fn why_it_was_chosen_changes_nothing() {
    let with_reasons = with!(chosen("1.0.0", None) => bundle.why: vec!["the best".into()]);
    assert_rows!(instance(&operator(&json!({})), &with_reasons) => declared(&json!({})));
}

// parity: openshift-9
#[test]
fn what_was_meddled_with_is_seen() {
    let wanted = declared(&json!({}));
    let there = applied(&wanted);
    assert!(is_good(&there, &wanted));
    for (pointer, value) in ::tests::rows![
        "/spec/template/spec/source/image/ref" => json!("other");
        "/spec/template/spec/provisionerClassName" => json!("core-rukpak-io-plain");
        "/metadata/labels" => json!({});
        "/metadata/annotations" => json!({"mine": "x"});
        "/metadata/ownerReferences" => json!([]);
        "/metadata/ownerReferences/0/controller" => json!(false);
    ] {
        let mut there = there.clone();
        *there.pointer_mut(pointer).unwrap() = value;
        assert!(!is_good(&there, &wanted), "{pointer}");
    }
}

#[test]
fn what_an_admin_adds_stays() {
    let wanted = declared(&json!({}));
    let mut there = applied(&wanted);
    there["metadata"]["labels"]["mine"] = "x".into();
    there["spec"]["paused"] = true.into();
    there["spec"]["crdDeletionPolicy"] = "Delete".into();
    // Where OpenShift's definition drops spec.bundle, this is the place to say it.
    there["spec"]["overrides"] =
        json!([{"constraint": "minKubeVersion", "digest": DIGEST, "reason": "tested"}]);
    there["metadata"]["ownerReferences"]
        .as_array_mut()
        .unwrap()
        .push(json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "other"}));
    assert!(is_good(&there, &wanted));
}

#[test]
fn what_is_not_wanted_any_more_goes() {
    let account = json!({"name": "installer", "namespace": "ops"});
    let entry =
        |reason: &str| json!({"constraint": "minKubeVersion", "digest": DIGEST, "reason": reason});
    let full = json!({"bundle": {
        "installNamespace": "sea", "serviceAccount": account, "overrides": [entry("a"), entry("b")],
    }});
    let there = applied(&declared(&full));
    assert!(is_good(&there, &declared(&full)));
    for (field, value) in ::tests::rows![
        "serviceAccount" => Value::Null;
        "installNamespace" => Value::Null;
        "overrides" => Value::Null;
        "overrides" => json!([]);
        "overrides" => json!([entry("a")]);
        "overrides" => json!([entry("b"), entry("a")]);
        "serviceAccount" => json!({"name": "other", "namespace": "ops"});
    ] {
        let mut spec = full.clone();
        spec["bundle"][field] = value;
        if spec["bundle"][field].is_null() {
            spec["bundle"].as_object_mut().unwrap().remove(field);
        }
        assert!(!is_good(&there, &declared(&spec)), "{field} {spec}");
    }
    // Without anything of its own, too.
    assert!(!is_good(&there, &declared(&json!({}))));
}

#[test]
fn odd_managed_fields_say_nothing() {
    let wanted = declared(&json!({}));
    for fields in [
        Value::Null,
        json!([]),
        json!([{}]),
        json!([{"manager": MANAGER, "operation": "Apply"}]),
        json!([{"manager": MANAGER, "operation": "Apply", "fieldsV1": []}]),
        json!([{"manager": MANAGER, "operation": "Apply", "fieldsV1": {"f:spec": 3, ".": {}}}]),
        json!([{"manager": MANAGER, "operation": "Apply", "subresource": "status", "fieldsV1": {"f:status": {}}}]),
    ] {
        let there =
            with!(applied(&wanted) => |there| there["metadata"]["managedFields"] = fields.clone());
        assert!(is_good(&there, &wanted), "{fields}");
    }
}
