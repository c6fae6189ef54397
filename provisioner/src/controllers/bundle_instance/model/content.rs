//! The bundles of the model, and the kinds of their objects.

use std::sync::Arc;

use apply::discovery::{ApiKind, DiscoveredKinds};
use kube::core::{ApiResource, GroupVersionKind};

use super::*;

pub(super) const NAMESPACE: &str = "default";
const GROUP: &str = "model.example.com";
pub(super) const CRD_NAME: &str = "widgets.model.example.com";
/// The objects that a bundle can have. The first four are ConfigMaps, and the data of `fixed` cannot be changed.
const OBJECTS: &str = "map-0 map-1 map-2 fixed operator api server hook definition widget";

/// The objects of a bundle, each with one of two values. The value of the CRD is its storage version.
#[derive(Debug, Clone)]
pub(super) struct Content(BTreeMap<&'static str, u8>);

/// A random bundle. It has a custom resource only if it has the CRD.
pub(super) fn content() -> impl Strategy<Value = Content> {
    let value = prop_oneof![1 => Just(None), 2 => (1..=2_u8).prop_map(Some)];
    let count = OBJECTS.split(' ').count();
    prop::collection::vec(value, count).prop_map(|values| {
        let objects = OBJECTS.split(' ').zip(values);
        let objects = objects.filter_map(|(name, value)| Some((name, value?)));
        let mut objects: BTreeMap<_, _> = objects.collect();
        if !objects.contains_key("definition") {
            objects.remove("widget");
        }
        Content(objects)
    })
}

/// All objects that a bundle can have, so that operations can choose one.
pub(super) fn identities() -> Vec<Identity> {
    let everything = OBJECTS.split(' ').map(|name| (name, 1));
    let everything = Content(everything.collect()).objects(0);
    everything.iter().map(placed).collect()
}

/// The identity of an object in its namespace.
pub(super) fn placed(object: &Object) -> Identity {
    let mut identity = object.identity();
    let is_namespaced = kind(&plan::kind_of(object)).namespaced;
    if is_namespaced && identity.namespace.is_empty() {
        NAMESPACE.clone_into(&mut identity.namespace);
    }
    identity
}

impl Content {
    pub(super) fn new(objects: &[(&'static str, u8)]) -> Self {
        Self(objects.iter().copied().collect())
    }

    pub(super) fn objects(&self, config: u8) -> Vec<Object> {
        let object = |(name, value): (&&str, &u8)| object(name, *value, config);
        self.0.iter().map(object).collect()
    }
}

fn object(name: &str, value: u8, config: u8) -> Object {
    let data = json!({"value": value.to_string()});
    let object = match name {
        "operator" => json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
            "spec": {"version": value, "config": config},
        }),
        "api" => json!({
            "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": "v1.model"},
            "spec": {"group": "model"},
        }),
        "server" => json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": {"port": 443},
        }),
        // The Service answers the webhook.
        "hook" => json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "metadata": {"name": name},
            "webhooks": [{"name": "hook.example.com", "clientConfig": {"service": {"name": "server", "namespace": NAMESPACE}}}],
        }),
        "definition" => crd(value),
        "widget" => widget("operand", value),
        "fixed" => json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data, "immutable": true,
        }),
        _ => json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data,
        }),
    };
    Object::try_from(object).unwrap()
}

/// The CRD with the version `v1`, or with `v1` and the storage version `v2`.
fn crd(storage: u8) -> Value {
    let version = |number: u8| {
        json!({
            "name": format!("v{number}"), "served": true, "storage": number == storage,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"size": {"type": "integer"}}}},
        })
    };
    let versions: Vec<Value> = (1..=storage).map(version).collect();
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": CRD_NAME},
        "spec": {
            "group": GROUP, "scope": "Namespaced", "versions": versions,
            "names": {"kind": "Widget", "plural": "widgets", "singular": "widget", "listKind": "WidgetList"},
        },
    })
}

fn widget(name: &str, size: u8) -> Value {
    json!({"apiVersion": format!("{GROUP}/v1"), "kind": "Widget", "metadata": {"name": name}, "size": size})
}

pub(super) fn precious() -> Object {
    let mut precious = widget("precious", 1);
    precious["metadata"]["namespace"] = json!(NAMESPACE);
    Object::try_from(precious).unwrap()
}

pub(super) fn is_widget(identity: &Identity) -> bool {
    identity.group == GROUP && identity.kind == "Widget"
}

/// Answers for kinds as discovery does. Widgets are served while their CRD exists.
pub(super) fn found(objects: &[Object], has_crd: bool) -> DiscoveredKinds {
    let kinds = objects.iter().map(plan::kind_of);
    let served = kinds.map(|gvk| {
        let is_served = gvk.group != GROUP || has_crd;
        let found = is_served.then(|| Arc::new(kind(&gvk)));
        (gvk, found)
    });
    served.collect()
}

fn kind(gvk: &GroupVersionKind) -> ApiKind {
    let cluster_wide = "APIService ValidatingWebhookConfiguration CustomResourceDefinition";
    ApiKind {
        resource: ApiResource::from_gvk(gvk),
        namespaced: !cluster_wide.split(' ').any(|kind| kind == gvk.kind),
    }
}
