//! Root of a schema, where a custom resource is a Kubernetes object.

use manifests::path::Step;
use serde_json::{Value, json};

use super::{EMBEDDED, INT_OR_STRING, PRESERVE, Repair, SchemaWalk, types};
use crate::api_upgrade::json::{Object, object_at};

/// Keywords that the root must not have beside a status subresource, which splits the schema in two.
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

impl SchemaWalk {
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
        let declared = types::declared_type(schema);
        if declared != Some("object") {
            schema.insert("type".into(), "object".into());
            self.count(if declared.is_some() {
                Repair::BadType
            } else {
                Repair::Typed
            });
        }
        if additional.is_some() {
            // A schema for all fields would also apply to apiVersion.
            schema.insert(PRESERVE.into(), true.into());
            self.count_if(Repair::Additional, additional != Some(Value::Bool(true)));
        }
        // Called before all other nodes, so that the report contains this path.
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
                let removed = field.remove("default").is_some();
                self.count_if(Repair::Default, removed);
            }
        }
    }

    /// Reduces the schema of metadata to its names, the only fields that a schema can describe.
    fn metadata(&mut self, metadata: Value) -> Value {
        let mut names_kept = Object::new();
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
                names_kept.insert(name.into(), schema.into());
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
        if let (false, Value::Object(metadata)) = (names_kept.is_empty(), &mut metadata) {
            let mut names = Object::from_iter([("properties".into(), Value::Object(names_kept))]);
            self.children(&mut names);
            metadata.extend(names);
        }
        self.at.truncate(self.at.len().saturating_sub(2));
        metadata
    }
}
