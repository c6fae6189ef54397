//! The bundles of the model, and the kinds of their objects.

use std::sync::Arc;

use apply::discovery::{Found, Kind};
use kube::core::{ApiResource, GroupVersionKind};
use manifests::object::{Identity, Object};
use proptest::prelude::*;
use serde_json::{Value, json};

/// The install namespace.
pub(super) const NAMESPACE: &str = "default";
/// The API group of the custom resources.
const GROUP: &str = "model.example.com";
/// The definition of the custom resources.
pub(super) const DEFINITION: &str = "widgets.model.example.com";

/// The objects of a bundle: absent, or with one of several values.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Content {
    maps: [Option<u8>; 3],
    /// A ConfigMap whose data cannot be changed.
    fixed: Option<u8>,
    workload: Option<u8>,
    has_api: bool,
    hook: Hook,
    /// The storage version of the definition.
    definition: Option<u8>,
    /// A custom resource, if the bundle has the definition.
    widget: Option<u8>,
}

/// A webhook configuration and the Service that answers it.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Hook {
    None,
    Service,
    Configuration,
    Both,
}

/// A random bundle.
pub(super) fn content() -> impl Strategy<Value = Content> {
    let value = || prop_oneof![1 => Just(None), 2 => (1..=2_u8).prop_map(Some)];
    let hook = prop_oneof![
        Just(Hook::None),
        Just(Hook::Service),
        Just(Hook::Configuration),
        Just(Hook::Both),
    ];
    let maps = [value().boxed(), value().boxed(), value().boxed()];
    let others = (any::<bool>(), hook, value(), value());
    (maps, value(), value(), others).prop_map(
        |(maps, fixed, workload, (has_api, hook, definition, widget))| Content {
            maps,
            fixed,
            workload,
            has_api,
            hook,
            definition,
            widget: widget.filter(|_| definition.is_some()),
        },
    )
}

/// All objects that a bundle can have, so that operations can choose one.
pub(super) fn identities() -> Vec<Identity> {
    let everything = Content {
        maps: [Some(1); 3],
        fixed: Some(1),
        workload: Some(1),
        has_api: true,
        hook: Hook::Both,
        definition: Some(1),
        widget: Some(1),
    };
    let objects = everything.objects(0);
    objects.iter().map(placed).collect()
}

/// The identity of an object in its namespace.
fn placed(object: &Object) -> Identity {
    let mut identity = object.identity();
    let is_namespaced = kind(&apply::plan::kind_of(object)).namespaced;
    if is_namespaced && identity.namespace.is_empty() {
        NAMESPACE.clone_into(&mut identity.namespace);
    }
    identity
}

impl Content {
    /// Renders the objects of the bundle with a configuration.
    pub(super) fn objects(&self, config: u8) -> Vec<Object> {
        let mut objects = Vec::new();
        let mut add = |value: Value| objects.push(Object::try_from(value).unwrap());
        for (number, data) in self.maps.iter().enumerate() {
            if let Some(data) = data {
                add(config_map(&format!("map-{number}"), *data, false));
            }
        }
        if let Some(data) = self.fixed {
            add(config_map("fixed", data, true));
        }
        if let Some(version) = self.workload {
            add(json!({
                "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "operator"},
                "spec": {"version": version, "config": config},
            }));
        }
        if self.has_api {
            add(json!({
                "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
                "metadata": {"name": "v1.model"}, "spec": {"group": "model"},
            }));
        }
        if matches!(self.hook, Hook::Service | Hook::Both) {
            add(json!({
                "apiVersion": "v1", "kind": "Service", "metadata": {"name": "server"},
                "spec": {"port": 443},
            }));
        }
        if matches!(self.hook, Hook::Configuration | Hook::Both) {
            let service = json!({"name": "server", "namespace": NAMESPACE});
            add(json!({
                "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
                "metadata": {"name": "hook"},
                "webhooks": [{"name": "hook.example.com", "clientConfig": {"service": service}}],
            }));
        }
        if let Some(storage) = self.definition {
            add(definition(storage));
        }
        if let Some(size) = self.widget {
            add(widget("operand", size));
        }
        objects
    }
}

fn config_map(name: &str, data: u8, is_immutable: bool) -> Value {
    let mut map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
        "data": {"value": data.to_string()},
    });
    if is_immutable {
        map["immutable"] = json!(true);
    }
    map
}

/// The definition with the version `v1`, or with `v1` and the storage version `v2`.
fn definition(storage: u8) -> Value {
    let version = |number: u8| {
        json!({
            "name": format!("v{number}"), "served": true, "storage": number == storage,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"size": {"type": "integer"}}}},
        })
    };
    let versions: Vec<Value> = (1..=storage).map(version).collect();
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": DEFINITION},
        "spec": {
            "group": GROUP, "scope": "Namespaced", "versions": versions,
            "names": {"kind": "Widget", "plural": "widgets", "singular": "widget", "listKind": "WidgetList"},
        },
    })
}

/// A custom resource.
fn widget(name: &str, size: u8) -> Value {
    json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": "Widget", "metadata": {"name": name}, "size": size,
    })
}

/// A custom resource that a user created.
pub(super) fn precious() -> Object {
    let mut precious = widget("precious", 1);
    precious["metadata"]["namespace"] = json!(NAMESPACE);
    Object::try_from(precious).unwrap()
}

/// Reports whether an object is a custom resource.
pub(super) fn is_widget(identity: &Identity) -> bool {
    identity.group == GROUP && identity.kind == "Widget"
}

/// Answers for kinds as discovery does. Widgets are served while their definition exists.
pub(super) fn found(objects: &[Object], has_definition: bool) -> Found {
    let kinds = objects.iter().map(apply::plan::kind_of);
    kinds
        .map(|gvk| {
            let is_served = gvk.group != GROUP || has_definition;
            let found = is_served.then(|| Arc::new(kind(&gvk)));
            (gvk, found)
        })
        .collect()
}

fn kind(gvk: &GroupVersionKind) -> Kind {
    let is_cluster_wide = matches!(
        gvk.kind.as_str(),
        "APIService" | "ValidatingWebhookConfiguration" | "CustomResourceDefinition"
    );
    Kind {
        resource: ApiResource::from_gvk(gvk),
        namespaced: !is_cluster_wide,
    }
}
