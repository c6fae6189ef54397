use manifests::api::labels::{CHOSEN_BUNDLE, PLATFORM_OPERATOR};

use super::*;
use crate::controllers::platform_operator::fixtures::{UID, chosen, image, operator};

const DIGEST: &str = "sha256:1111111111111111111111111111111111111111111111111111111111111111";

fn declared(spec: &Value) -> Value {
    instance(&operator(spec), &chosen("1.0.0", None))
}

/// Returns the live object after it was applied: with managed fields, and with a default of the API server.
fn applied(desired: &Value) -> Value {
    fn fields(value: &Value) -> Value {
        match value {
            Value::Object(map) => map
                .iter()
                .map(|(key, value)| (format!("f:{key}"), fields(value)))
                .collect(),
            _ => json!({}),
        }
    }
    let mut owned = desired.clone();
    let owned = owned.as_object_mut().unwrap();
    owned.retain(|key, _| key != "apiVersion" && key != "kind");
    owned["metadata"].as_object_mut().unwrap().remove("name");
    let mut fields = fields(&Value::Object(owned.clone()));
    fields["f:metadata"]["f:ownerReferences"] = json!({format!("k:{{\"uid\":\"{UID}\"}}"): {}});
    let mut live = desired.clone();
    live["spec"]["crdDeletionPolicy"] = "Retain".into();
    live["metadata"]["managedFields"] = json!([
        {"manager": MANAGER, "operation": "Apply", "apiVersion": "core.rukpak.io/v1alpha1", "fieldsType": "FieldsV1",
         "fieldsV1": fields},
        {"manager": "kubectl", "operation": "Update", "apiVersion": "core.rukpak.io/v1alpha1", "fieldsType": "FieldsV1",
         "fieldsV1": {"f:spec": {"f:crdDeletionPolicy": {}, "f:overrides": {}}}},
    ]);
    live
}

fn is_good(live: &Value, desired: &Value) -> bool {
    let live: BundleInstance = serde_json::from_value(live.clone()).unwrap();
    let mut own_fields = live.clone();
    retain_own_fields(&mut own_fields);
    let entries = own_fields.metadata.managed_fields.as_ref();
    assert!(entries.is_none_or(|entries| entries.len() <= 1));
    let is_good = is_declared(&own_fields, desired);
    assert_eq!(is_declared(&live, desired), is_good);
    is_good
}

// parity: platform-24
#[test]
fn declaration_follows_media_type_and_spec() {
    let object = declared(&json!({}));
    let typed: BundleInstance = serde_json::from_value(object.clone()).unwrap();
    let class = |media_type: &str| {
        let chosen = with!(chosen("1.0.0", None) => media_type: media_type.into());
        let object = instance(&operator(&json!({})), &chosen);
        object["spec"]["template"]["spec"]["provisionerClassName"].clone()
    };
    let with_reasons = with!(chosen("1.0.0", None) => bundle.why: vec!["the best".into()]);
    let bundle = json!({
        "installNamespace": "sea", "serviceAccount": {"name": "installer", "namespace": "ops"},
        "overrides": [{"constraint": "maxOpenShiftVersion", "digest": DIGEST, "reason": "tested"}],
    });
    let full = declared(&json!({"bundle": bundle}));
    assert_rows! {
        object["metadata"]["name"] => "tide";
        object["metadata"]["labels"][PLATFORM_OPERATOR] => "tide";
        object["metadata"]["ownerReferences"][0]["uid"] => UID;
        object["spec"] => json!({
            "provisionerClassName": "core-rukpak-io-plain",
            "template": {"spec": {
                "provisionerClassName": "core-rukpak-io-registry",
                "source": {"type": "image", "image": {"ref": image("1.0.0")}},
            }},
        });
        serde_json::from_str::<BundleChoice>(&typed.annotations()[CHOSEN_BUNDLE]).unwrap() => chosen("1.0.0", None);
        // Reasons do not change the declaration.
        instance(&operator(&json!({})), &with_reasons) => object;
        class("registry+v1") => REGISTRY;
        class("plain+v0") => PLAIN;
        // Nothing else is chosen.
        class("helm+v3") => REGISTRY;
        full["spec"]["installNamespace"] => bundle["installNamespace"];
        full["spec"]["serviceAccount"] => bundle["serviceAccount"];
        full["spec"]["overrides"] => bundle["overrides"];
    }
}

// parity: openshift-9
#[test]
fn changed_own_fields_are_drift() {
    let desired = declared(&json!({}));
    let live = applied(&desired);
    assert!(is_good(&live, &desired));
    for (pointer, value) in ::tests::rows![
        "/spec/template/spec/source/image/ref" => json!("other");
        "/spec/template/spec/provisionerClassName" => json!("core-rukpak-io-plain");
        "/metadata/labels" => json!({});
        "/metadata/annotations" => json!({"mine": "x"});
        "/metadata/ownerReferences" => json!([]);
        "/metadata/ownerReferences/0/controller" => json!(false);
    ] {
        let mut live = live.clone();
        *live.pointer_mut(pointer).unwrap() = value;
        assert!(!is_good(&live, &desired), "{pointer}");
    }
}

#[test]
fn fields_added_by_an_admin_are_kept() {
    let desired = declared(&json!({}));
    let mut live = applied(&desired);
    live["metadata"]["labels"]["mine"] = "x".into();
    live["spec"]["paused"] = true.into();
    live["spec"]["crdDeletionPolicy"] = "Delete".into();
    // The place for overrides if OpenShift's CRD drops spec.bundle.
    let entry = json!({"constraint": "minKubeVersion", "digest": DIGEST, "reason": "tested"});
    live["spec"]["overrides"] = json!([entry]);
    let owners = live["metadata"]["ownerReferences"].as_array_mut();
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "other"});
    owners.unwrap().push(owner);
    assert!(is_good(&live, &desired));
}

#[test]
fn fields_removed_from_the_spec_are_drift() {
    let account = json!({"name": "installer", "namespace": "ops"});
    let entry =
        |reason: &str| json!({"constraint": "minKubeVersion", "digest": DIGEST, "reason": reason});
    let full = json!({"bundle": {
        "installNamespace": "sea", "serviceAccount": account, "overrides": [entry("a"), entry("b")],
    }});
    let live = applied(&declared(&full));
    assert!(is_good(&live, &declared(&full)));
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
        assert!(!is_good(&live, &declared(&spec)), "{field} {spec}");
    }
    // Also without optional fields.
    assert!(!is_good(&live, &declared(&json!({}))));
}

#[test]
fn malformed_managed_fields_are_ignored() {
    let desired = declared(&json!({}));
    for fields in [
        Value::Null,
        json!([]),
        json!([{}]),
        json!([{"manager": MANAGER, "operation": "Apply"}]),
        json!([{"manager": MANAGER, "operation": "Apply", "fieldsV1": []}]),
        json!([{"manager": MANAGER, "operation": "Apply", "fieldsV1": {"f:spec": 3, ".": {}}}]),
        json!([{"manager": MANAGER, "operation": "Apply", "subresource": "status", "fieldsV1": {"f:status": {}}}]),
    ] {
        let live = with!(applied(&desired) => |live| live["metadata"]["managedFields"] = fields);
        assert!(is_good(&live, &desired), "{live}");
    }
}
