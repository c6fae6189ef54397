//! Fixtures for the tests of several modules.

use std::sync::Arc;

use apply::{
    discovery::ApiKind,
    plan::{self, ApplyStep, Wave},
    revision::ObjectHash,
};
use kube::{Resource, core::ApiResource};
use manifests::{
    api::bundle_instance::{BundleInstance, BundleInstanceSpec},
    content::{Builder, Content, Limits},
    object::{Identity, Object},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Returns an object with these fields. A Bundle or BundleInstance has the class for plain manifests and an image source,
/// unless the fields set others.
pub(crate) fn object<K: Resource<DynamicType = ()> + DeserializeOwned>(mut fields: Value) -> K {
    let kind = K::kind(&());
    let source = json!({"type": "image", "image": {"ref": "a"}});
    let defaults = match &*kind {
        "Bundle" => json!({"provisionerClassName": "core-rukpak-io-plain", "source": source}),
        "BundleInstance" => json!({
            "provisionerClassName": "core-rukpak-io-plain", "template": {"spec": {"source": source}},
        }),
        _ => json!({}),
    };
    for (field, value) in defaults.as_object().unwrap() {
        if fields["spec"][field].is_null() {
            fields["spec"][field] = value.clone();
        }
    }
    fields["apiVersion"] = K::api_version(&()).into();
    fields["kind"] = kind.into();
    serde_json::from_value(fields).unwrap()
}

pub(crate) fn spec(fields: &Value) -> BundleInstanceSpec {
    object::<BundleInstance>(json!({"metadata": {"name": "a"}, "spec": fields})).spec
}

/// Returns a condition that changed at the beginning of 2026.
pub(crate) fn condition(type_: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({"type": type_, "status": status, "reason": reason, "message": message,
           "lastTransitionTime": "2026-01-01T00:00:00Z"})
}

pub(crate) fn content(files: &[(&str, &str)]) -> Content {
    let mut builder = Builder::new(Limits::default());
    for (path, text) in files {
        builder.add(path, 0o644, &mut text.as_bytes()).unwrap();
    }
    builder.finish()
}

pub(crate) fn identity(group: &str, kind: &str, namespace: &str, name: &str) -> Identity {
    let [group, kind, namespace, name] = [group, kind, namespace, name].map(str::to_owned);
    Identity {
        group,
        kind,
        namespace,
        name,
    }
}

/// Returns the step that applies a namespaced object.
pub(crate) fn step(object: Value, wave: Wave) -> ApplyStep {
    let object = Object::try_from(object).unwrap();
    ApplyStep {
        wave,
        hash: ObjectHash::new(&object),
        kind: Arc::new(ApiKind {
            resource: ApiResource::from_gvk(&plan::kind_of(&object)),
            namespaced: true,
        }),
        object,
    }
}
