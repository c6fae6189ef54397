//! Schemas as v1 wants them: structural, so that the API server can prune and default.
//!
//! v1beta1 also took schemas that only validate. Making one structural never prunes a field that was kept, and
//! refuses no custom resource that was accepted, except for one that has, say, a text where the schema describes
//! fields without saying that they are those of an object. Where v1 cannot express something, the schema gets looser.

mod defaults;
mod junctor;
mod root;
mod tally;
#[cfg(test)]
mod tests;
mod topology;
pub(super) mod types;

use manifests::path::{Path, Step};
use serde_json::{Value, json};

use self::{
    tally::{Repair, Tally},
    types::Normalized,
};
use super::{
    json::{Object, flag, object_at},
    notes::Notes,
};

/// Marks a node whose unknown fields are kept.
const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
/// Marks a node that accepts integers and strings.
const INT_OR_STRING: &str = "x-kubernetes-int-or-string";
/// Marks a node that is a Kubernetes object in itself.
const EMBEDDED: &str = "x-kubernetes-embedded-resource";

/// Keywords every version forbids or ignores, and whether they validated something where they were read.
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
    notes: &mut Notes<'_>,
) {
    let mut walk = Walk {
        preserve,
        at: at.steps().to_vec(),
        tally: Tally::default(),
    };
    if let Some(schema) = as_object(schema) {
        walk.root(schema, status);
    }
    walk.tally.report(notes);
}

/// The schema as a mapping; null and true say nothing, and anything else is for the typed check to refuse.
fn as_object(schema: &mut Value) -> Option<&mut Object> {
    if schema.is_null() || *schema == Value::Bool(true) {
        *schema = json!({});
    }
    schema.as_object_mut()
}

/// A node that accepts any value.
fn any() -> Value {
    json!({PRESERVE: true, "nullable": true})
}

/// A walk through a schema, from the root to the leaves and back.
struct Walk {
    /// Whether the definition preserved unknown fields.
    preserve: bool,
    /// Where the walk is, in the object as it was.
    at: Vec<Step>,
    tally: Tally,
}

impl Walk {
    fn count(&mut self, repair: Repair) {
        self.tally.count(repair, &self.at, 1);
    }

    fn count_if(&mut self, repair: Repair, happened: bool) {
        self.tally.count(repair, &self.at, usize::from(happened));
    }

    /// A node below the root.
    fn node(&mut self, schema: &mut Value) {
        let Some(schema) = as_object(schema) else {
            return;
        };
        self.before(schema);
        self.children(schema);
        self.after(schema);
    }

    /// What a node's children need to know is settled first.
    fn before(&mut self, schema: &mut Object) {
        schema.retain(|_, value| !value.is_null());
        for (keyword, validates) in FORBIDDEN {
            if let Some(value) = schema.remove(*keyword) {
                let repair = if *validates {
                    Repair::Forbidden(keyword)
                } else {
                    Repair::Inert(keyword)
                };
                self.count_if(repair, value != "");
            }
        }
        let unique = flag(schema, "uniqueItems");
        if unique {
            schema.remove("uniqueItems");
        }
        self.count_if(Repair::Forbidden("uniqueItems"), unique);
        // v1beta1 took false for absent; v1 refuses it.
        if schema.get(PRESERVE) == Some(&Value::Bool(false)) {
            schema.remove(PRESERVE);
        }
        match types::normalize(schema) {
            Normalized::Fine => {}
            Normalized::Nullable => self.count(Repair::Nullable),
            Normalized::IntOrString => self.count(Repair::IntOrString),
            Normalized::Repaired => self.count(Repair::BadType),
        }
        self.int_or_string(schema);
        self.items(schema);
        self.infer(schema);
        self.additional(schema);
    }

    /// Recognizes the ways in which people said "an integer or a string" before there was a keyword for it.
    fn int_or_string(&mut self, schema: &mut Object) {
        let marked = types::is_int_or_string(schema);
        if !marked && types::stated(schema).is_some() {
            return;
        }
        let mut found = marked;
        for key in ["anyOf", "oneOf"] {
            if let Some(in_order) = schema.get(key).and_then(types::int_or_string_branches) {
                found = true;
                // The API server tolerates only this very form of what the keyword says already.
                if key == "oneOf" || !in_order {
                    schema.remove(key);
                }
            }
        }
        if !marked
            && (found
                || schema
                    .get("format")
                    .is_some_and(|format| format == "int-or-string"))
        {
            schema.insert(INT_OR_STRING.into(), true.into());
            self.admit_null(schema);
            self.count(Repair::IntOrString);
        }
    }

    /// Without a type only `enum` kept null out, whatever allOf and the like say; with one, the API server drops it.
    fn admit_null(&self, schema: &mut Object) {
        if self.preserve && !schema.contains_key("enum") && !flag(schema, EMBEDDED) {
            schema.insert("nullable".into(), true.into());
        }
    }

    /// A list has one schema for all of its items.
    fn items(&mut self, schema: &mut Object) {
        if let Some(Value::Array(tuple)) = schema.get_mut("items") {
            let (one, last) = (tuple.len() == 1, tuple.pop());
            let items = last.filter(|_| one).unwrap_or_else(|| json!({}));
            schema.insert("items".into(), items);
            self.count(Repair::Tuple);
        } else if types::stated(schema) == Some("array") && !schema.contains_key("items") {
            schema.insert("items".into(), any());
            self.count(Repair::Items);
        }
    }

    /// States the type that the node's keywords leave no doubt about.
    fn infer(&mut self, schema: &mut Object) {
        if types::stated(schema).is_some() || types::is_int_or_string(schema) {
            return;
        }
        let has = |key: &str| schema.contains_key(key);
        let inferred = if has("properties") || has("additionalProperties") || flag(schema, EMBEDDED)
        {
            Some("object")
        } else if has("items") {
            Some("array")
        } else {
            types::implied(schema)
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

    /// Known fields and a schema for all fields exclude each other.
    fn additional(&mut self, schema: &mut Object) {
        let known =
            object_at(schema, &["properties"]).is_some_and(|properties| !properties.is_empty());
        let Some(additional) = schema.get("additionalProperties") else {
            return;
        };
        let (open, closed) = (
            *additional == Value::Bool(true),
            *additional == Value::Bool(false),
        );
        if open && self.preserve {
            // The API server would empty the objects in such a field: it prunes what no schema describes.
            schema.remove("additionalProperties");
        } else if flag(schema, EMBEDDED) || (known && !open) {
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

    /// What depends on the node's children is settled last.
    fn after(&mut self, schema: &mut Object) {
        self.junctors(schema);
        if flag(schema, EMBEDDED) {
            let object =
                types::stated(schema) == Some("object") && !types::is_int_or_string(schema);
            if object {
                self.identity(schema);
                // Without either the API server would prune all of it, and refuses it therefore.
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
        self.count_if(Repair::Topology, topology::repair(schema));
        let refused = defaults::remove_refused(schema, self.preserve);
        self.count_if(Repair::Default, refused);
    }

    /// Keeps unknown fields where they were kept, and any value where there was no type.
    fn open(&mut self, schema: &mut Object) {
        if types::is_int_or_string(schema) {
            schema.remove(PRESERVE);
            return;
        }
        let repair = match types::stated(schema) {
            None => Repair::Any,
            Some("object") if self.preserve && !schema.contains_key("additionalProperties") => {
                Repair::Preserved
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

    /// The fields that make an object a Kubernetes object have the types they have.
    fn identity(&mut self, schema: &mut Object) {
        for (name, kind) in [
            ("apiVersion", "string"),
            ("kind", "string"),
            ("metadata", "object"),
        ] {
            let Some(field) = object_at(schema, &["properties", name]) else {
                continue;
            };
            if types::stated(field) != Some(kind) {
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
