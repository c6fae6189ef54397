//! The root of a schema, where a custom resource is a Kubernetes object.

use manifests::path::Step;
use serde_json::{Value, json};

use super::{EMBEDDED, INT_OR_STRING, PRESERVE, Repair, Walk, types};
use crate::upgrade::json::{Object, object_at};

/// What the root cannot have beside a status subresource, which splits the schema in two.
const NOT_WITH_STATUS: &[&str] = &[
    "allOf",
    "anyOf",
    "enum",
    "maxProperties",
    "minProperties",
    "not",
    "oneOf",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-map-type",
];

impl Walk {
    /// Makes the whole schema structural.
    pub(super) fn root(&mut self, schema: &mut Object, status: bool) {
        schema.retain(|_, value| !value.is_null());
        let metadata =
            object_at(schema, &["properties"]).and_then(|properties| properties.remove("metadata"));
        let mut lost = false;
        let mut remove = |schema: &mut Object, key: &str| {
            lost |= schema
                .remove(key)
                .is_some_and(|value| value != Value::Bool(false) && value != json!([]));
        };
        for key in ["nullable", "default", INT_OR_STRING] {
            remove(schema, key);
        }
        if status {
            for key in NOT_WITH_STATUS {
                remove(schema, key);
            }
        }
        let additional = schema.remove("additionalProperties");
        self.count_if(Repair::Root, lost);
        self.before(schema);
        schema.remove(INT_OR_STRING);
        schema.remove("nullable");
        let stated = types::stated(schema);
        if stated != Some("object") {
            schema.insert("type".into(), "object".into());
            self.count(if stated.is_some() {
                Repair::BadType
            } else {
                Repair::Typed
            });
        }
        if additional.is_some() {
            // A schema for all fields would be one for apiVersion too.
            schema.insert(PRESERVE.into(), true.into());
            self.count_if(Repair::Additional, additional != Some(Value::Bool(true)));
        }
        // First of all nodes, so that this is the place that is reported.
        self.open(schema);
        self.children(schema);
        if let Some(metadata) = metadata {
            let metadata = self.metadata(metadata);
            if let Some(properties) = object_at(schema, &["properties"]) {
                properties.insert("metadata".into(), metadata);
            }
        }
        self.after(schema);
        if !schema.contains_key(EMBEDDED) {
            self.identity(schema);
        }
        for name in ["apiVersion", "kind"] {
            if let Some(field) = object_at(schema, &["properties", name]) {
                let refused = field.remove("default").is_some();
                self.count_if(Repair::Default, refused);
            }
        }
    }

    /// Of the metadata only its names can be described.
    fn metadata(&mut self, metadata: Value) -> Value {
        let mut kept = Object::new();
        let plain =
            metadata == json!({"type": "object"}) || metadata == json!({}) || metadata.is_null();
        let mut removed = !plain;
        if let Value::Object(mut metadata) = metadata
            && let Some(properties) = object_at(&mut metadata, &["properties"])
        {
            let only_names = properties
                .keys()
                .all(|name| matches!(name.as_str(), "name" | "generateName"));
            let names = ["generateName", "name"].map(|name| (name, properties.remove(name)));
            for (name, schema) in names {
                let Some(Value::Object(mut schema)) = schema else {
                    continue;
                };
                schema.remove("default");
                kept.insert(name.into(), schema.into());
            }
            removed = !only_names
                || metadata
                    .keys()
                    .any(|key| !matches!(key.as_str(), "type" | "properties"));
        }
        self.at
            .extend(["properties", "metadata"].map(|key| Step::Key(key.into())));
        self.count_if(Repair::Metadata, removed);
        let mut metadata = json!({"type": "object"});
        if let (false, Value::Object(metadata)) = (kept.is_empty(), &mut metadata) {
            let mut names = Object::from_iter([("properties".into(), Value::Object(kept))]);
            self.children(&mut names);
            metadata.extend(names);
        }
        self.at.truncate(self.at.len().saturating_sub(2));
        metadata
    }
}
