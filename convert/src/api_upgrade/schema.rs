//! Structural schemas, which v1 requires so that the API server can prune and default.
//!
//! v1beta1 also accepted schemas that only validate. The conversion never prunes a field that was preserved. It rejects no
//! custom resource that was accepted, with one exception: a value such as a string where the schema describes fields
//! without requiring an object. Where v1 cannot express a restriction, the schema is relaxed.

mod combinators;
mod defaults;
mod list_type;
mod repairs;
mod root;
#[cfg(test)]
mod tests;
pub(super) mod types;

use manifests::path::{Path, Step};
use serde_json::{Value, json};

use self::{
    repairs::{Repair, RepairCounts},
    types::Normalized,
};
use super::{
    json::{Object, flag, object_at},
    notes::UpgradeNotes,
};

/// Marks a node that preserves unknown fields.
const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
/// Marks a node that accepts integers and strings.
const INT_OR_STRING: &str = "x-kubernetes-int-or-string";
/// Marks a node that is an embedded Kubernetes object.
const EMBEDDED: &str = "x-kubernetes-embedded-resource";

/// Keywords that every version forbids or ignores, and whether they had an effect on validation.
const FORBIDDEN: &[(&str, bool)] = &[
    ("$ref", true),
    ("$schema", false),
    ("additionalItems", true),
    ("definitions", false),
    ("dependencies", true),
    ("id", false),
    ("patternProperties", true),
];

/// Makes the schema of one version structural.
pub(super) fn make_structural(
    schema: &mut Value,
    preserve: bool,
    status: bool,
    at: &Path,
    notes: &mut UpgradeNotes<'_>,
) {
    let mut walk = SchemaWalk {
        preserve,
        at: at.steps().to_vec(),
        repairs: RepairCounts::default(),
    };
    if let Some(schema) = as_object(schema) {
        walk.root(schema, status);
    }
    walk.repairs.report(notes);
}

/// Returns the schema as a mapping. Null and true have no effect; the typed check rejects all other values.
fn as_object(schema: &mut Value) -> Option<&mut Object> {
    if schema.is_null() || *schema == Value::Bool(true) {
        *schema = json!({});
    }
    schema.as_object_mut()
}

/// Returns a node that accepts any value.
fn accept_any() -> Value {
    json!({PRESERVE: true, "nullable": true})
}

/// Traversal of a schema, from the root to the leaves and back.
struct SchemaWalk {
    /// Whether the CRD preserved unknown fields.
    preserve: bool,
    /// Current path in the original object.
    at: Vec<Step>,
    repairs: RepairCounts,
}

impl SchemaWalk {
    fn count(&mut self, repair: Repair) {
        self.repairs.count(repair, &self.at, 1);
    }

    fn count_if(&mut self, repair: Repair, happened: bool) {
        self.repairs.count(repair, &self.at, usize::from(happened));
    }

    /// Processes a node below the root.
    fn node(&mut self, schema: &mut Value) {
        let Some(schema) = as_object(schema) else {
            return;
        };
        self.before(schema);
        self.children(schema);
        self.after(schema);
    }

    /// Applies the repairs on which the children of a node depend.
    fn before(&mut self, schema: &mut Object) {
        schema.retain(|_, value| !value.is_null());
        for (keyword, validates) in FORBIDDEN {
            if let Some(value) = schema.remove(*keyword) {
                let repair = if *validates {
                    Repair::Forbidden(keyword)
                } else {
                    Repair::NoEffect(keyword)
                };
                self.count_if(repair, value != "");
            }
        }
        let unique = flag(schema, "uniqueItems");
        if unique {
            schema.remove("uniqueItems");
        }
        self.count_if(Repair::Forbidden("uniqueItems"), unique);
        // v1beta1 treated false as absent, but v1 rejects it.
        if schema.get(PRESERVE) == Some(&Value::Bool(false)) {
            schema.remove(PRESERVE);
        }
        match types::normalize(schema) {
            Normalized::Unchanged => {}
            Normalized::Nullable => self.count(Repair::Nullable),
            Normalized::IntOrString => self.count(Repair::IntOrString),
            Normalized::Repaired => self.count(Repair::BadType),
        }
        self.int_or_string(schema);
        self.items(schema);
        self.infer(schema);
        self.additional(schema);
    }

    /// Detects the former representations of "an integer or a string", before a keyword existed.
    fn int_or_string(&mut self, schema: &mut Object) {
        let marked = types::is_int_or_string(schema);
        if !marked && types::declared_type(schema).is_some() {
            return;
        }
        let mut detected = marked;
        for key in ["anyOf", "oneOf"] {
            if let Some(in_order) = schema.get(key).and_then(types::int_or_string_branches) {
                detected = true;
                // The API server accepts only this form of a repetition of the keyword.
                if key == "oneOf" || !in_order {
                    schema.remove(key);
                }
            }
        }
        if !marked
            && (detected
                || schema
                    .get("format")
                    .is_some_and(|format| format == "int-or-string"))
        {
            schema.insert(INT_OR_STRING.into(), true.into());
            self.admit_null(schema);
            self.count(Repair::IntOrString);
        }
    }

    /// Allows null. Without a type, only `enum` excluded null, despite allOf and similar keywords; with a type, the API
    /// server drops null.
    fn admit_null(&self, schema: &mut Object) {
        if self.preserve && !schema.contains_key("enum") && !flag(schema, EMBEDDED) {
            schema.insert("nullable".into(), true.into());
        }
    }

    /// Sets one schema for all items of a list.
    fn items(&mut self, schema: &mut Object) {
        if let Some(Value::Array(tuple)) = schema.get_mut("items") {
            let (one, last) = (tuple.len() == 1, tuple.pop());
            let items = last.filter(|_| one).unwrap_or_else(|| json!({}));
            schema.insert("items".into(), items);
            self.count(Repair::Tuple);
        } else if types::declared_type(schema) == Some("array") && !schema.contains_key("items") {
            schema.insert("items".into(), accept_any());
            self.count(Repair::Items);
        }
    }

    /// Sets the type that the keywords of a node imply.
    fn infer(&mut self, schema: &mut Object) {
        if types::declared_type(schema).is_some() || types::is_int_or_string(schema) {
            return;
        }
        let has = |key: &str| schema.contains_key(key);
        let inferred = if has("properties") || has("additionalProperties") || flag(schema, EMBEDDED)
        {
            Some("object")
        } else if has("items") {
            Some("array")
        } else {
            types::inferred_type(schema)
        };
        if let Some(inferred) = inferred {
            schema.insert("type".into(), inferred.into());
            self.count(Repair::Typed);
            self.admit_null(schema);
            if inferred == "array" && !schema.contains_key("items") {
                self.items(schema);
            }
        }
    }

    /// Removes a schema for all fields beside known fields, because v1 forbids the combination.
    fn additional(&mut self, schema: &mut Object) {
        let has_properties =
            object_at(schema, &["properties"]).is_some_and(|properties| !properties.is_empty());
        let Some(additional) = schema.get("additionalProperties") else {
            return;
        };
        let (open, closed) = (
            *additional == Value::Bool(true),
            *additional == Value::Bool(false),
        );
        if open && self.preserve {
            // The API server would empty the objects in such a field, because it prunes undescribed fields.
            schema.remove("additionalProperties");
        } else if flag(schema, EMBEDDED) || (has_properties && !open) {
            schema.remove("additionalProperties");
            if !closed {
                schema.insert(PRESERVE.into(), true.into());
            }
            self.count(Repair::Additional);
        }
    }

    fn children(&mut self, schema: &mut Object) {
        if let Some(properties) = object_at(schema, &["properties"]) {
            self.at.push(Step::Key("properties".into()));
            for (name, property) in properties {
                self.at.push(Step::Key(name.clone()));
                self.node(property);
                self.at.pop();
            }
            self.at.pop();
        }
        for key in ["items", "additionalProperties"] {
            if let Some(child) = schema.get_mut(key).filter(|child| !child.is_boolean()) {
                self.at.push(Step::Key(key.into()));
                self.node(child);
                self.at.pop();
            }
        }
    }

    /// Applies the repairs that depend on the children of a node.
    fn after(&mut self, schema: &mut Object) {
        self.junctors(schema);
        if flag(schema, EMBEDDED) {
            let object =
                types::declared_type(schema) == Some("object") && !types::is_int_or_string(schema);
            if object {
                self.identity(schema);
                // Without either, the API server would prune the whole object, and therefore rejects the schema.
                if object_at(schema, &["properties"]).is_none_or(|properties| properties.is_empty())
                {
                    schema.insert(PRESERVE.into(), true.into());
                }
            } else {
                schema.remove(EMBEDDED);
            }
            self.count_if(Repair::Topology, !object);
        }
        self.open(schema);
        self.count_if(Repair::Topology, list_type::repair(schema));
        let removed = defaults::remove_refused(schema, self.preserve);
        self.count_if(Repair::Default, removed);
    }

    /// Preserves unknown fields where they were preserved, and accepts any value where no type existed.
    fn open(&mut self, schema: &mut Object) {
        if types::is_int_or_string(schema) {
            schema.remove(PRESERVE);
            return;
        }
        let repair = match types::declared_type(schema) {
            None => Repair::Any,
            Some("object") if self.preserve && !schema.contains_key("additionalProperties") => {
                Repair::PreserveUnknown
            }
            Some(_) => return,
        };
        if !flag(schema, PRESERVE) {
            schema.insert(PRESERVE.into(), true.into());
            if repair == Repair::Any {
                self.admit_null(schema);
            }
            self.count(repair);
        }
    }

    /// Sets the types of the fields that identify a Kubernetes object.
    fn identity(&mut self, schema: &mut Object) {
        for (name, kind) in [
            ("apiVersion", "string"),
            ("kind", "string"),
            ("metadata", "object"),
        ] {
            let Some(field) = object_at(schema, &["properties", name]) else {
                continue;
            };
            if types::declared_type(field) != Some(kind) {
                field.insert("type".into(), kind.into());
                field.remove(INT_OR_STRING);
                if kind == "string" {
                    field.remove(PRESERVE);
                }
                self.count(Repair::Typed);
            }
        }
    }
}
