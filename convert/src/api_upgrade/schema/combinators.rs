//! allOf, anyOf, oneOf and not: in v1, they can only restrict the description of a node, and contain no description
//! themselves.

use std::collections::BTreeMap;

use manifests::path::Step;
use serde_json::{Value, json};

use super::{FORBIDDEN, INT_OR_STRING, PRESERVE, Repair, SchemaWalk, accept_any, as_object, types};
use crate::api_upgrade::json::{Object, flag, object, object_at};

const LISTS: &[&str] = &["allOf", "anyOf", "oneOf"];

/// Loss by reducing the branches of a combinator to restrictions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum PrecisionLoss {
    /// The combinator is unchanged.
    None,
    /// Keywords that the node itself already has were removed.
    Redundant,
    /// Restrictions were removed, so that more values are accepted.
    Constraints,
}

impl SchemaWalk {
    /// Declares the fields that the combinators of a node mention, and reduces them to restrictions of the node.
    pub(super) fn junctors(&mut self, schema: &mut Object) {
        let mut mentioned = MentionedFields::default();
        mentioned.branches(schema, true);
        let declared = mentioned.declare(schema, self.preserve);
        self.repairs.count(Repair::Declared, &self.at, declared);
        for key in LISTS.iter().chain(&["not"]) {
            let Some(junctor) = schema.remove(*key) else {
                continue;
            };
            let mut alone = Object::from_iter([((*key).to_owned(), junctor)]);
            let loss = if tolerated(key, &mut alone, schema) {
                PrecisionLoss::None
            } else {
                apply_type(&mut alone, schema)
            };
            self.at.push(Step::Key((*key).to_owned()));
            match loss {
                PrecisionLoss::None => {}
                PrecisionLoss::Redundant => self.count(Repair::Flattened),
                PrecisionLoss::Constraints => self.count(Repair::Relaxed),
            }
            self.at.pop();
            for (key, value) in alone {
                put(schema, &key, value);
            }
        }
    }
}

/// Adds a combinator to a node. A second one of the same kind must also match.
fn put(schema: &mut Object, key: &str, junctor: Value) {
    if !schema.contains_key(key) {
        schema.insert(key.to_owned(), junctor);
        return;
    }
    let also = json!({key: junctor});
    if let Value::Array(all) = schema.entry("allOf").or_insert_with(|| json!([])) {
        all.push(also);
    }
}

/// Reports whether a repetition of "an integer or a string" is at a location where the API server accepts it.
fn tolerated(key: &str, junctor: &mut Object, node: &Object) -> bool {
    if !types::is_int_or_string(node) {
        return false;
    }
    if key == "anyOf" {
        return junctor.get(key).and_then(types::int_or_string_branches) == Some(true);
    }
    // The first branch is kept, so the others are processed separately.
    let Some(Value::Array(all)) = junctor.get_mut(key).filter(|_| key == "allOf") else {
        return false;
    };
    let first = all
        .first()
        .and_then(|first| first.get("anyOf"))
        .and_then(types::int_or_string_branches);
    if first == Some(true)
        && let Some(Value::Object(first)) = all.first_mut()
    {
        first.remove("anyOf"); // The keyword of the node has the same effect.
    }
    false
}

/// Reduces the combinators of a branch, or of a node, to restrictions of the node.
fn apply_type(holder: &mut Object, node: &Object) -> PrecisionLoss {
    let mut loss = PrecisionLoss::None;
    if let Some(Value::Array(all)) = holder.get_mut("allOf") {
        for branch in all.iter_mut() {
            loss = loss.max(reduce(branch, node, false));
        }
        all.retain(|branch| !is_trivial(branch));
        if all.is_empty() {
            holder.remove("allOf");
        }
    }
    for key in ["anyOf", "oneOf"] {
        loss = loss.max(settle_choice(holder, key, node));
    }
    if let Some(not) = holder.get_mut("not") {
        match reduce(not, node, false) {
            // A relaxed inner schema would make its negation stricter.
            PrecisionLoss::Constraints => {
                holder.remove("not");
                loss = PrecisionLoss::Constraints;
            }
            other => loss = loss.max(other),
        }
    }
    loss
}

fn settle_choice(holder: &mut Object, key: &str, node: &Object) -> PrecisionLoss {
    let Some(junctor) = holder.get_mut(key) else {
        return PrecisionLoss::None;
    };
    if types::is_int_or_string(node) && types::int_or_string_branches(junctor).is_some() {
        holder.remove(key); // The keyword of the node has the same effect.
        return PrecisionLoss::Redundant;
    }
    let Value::Array(branches) = junctor else {
        return PrecisionLoss::None;
    };
    let loss = branches
        .iter_mut()
        .map(|branch| reduce(branch, node, false))
        .max()
        .unwrap_or(PrecisionLoss::None);
    if loss < PrecisionLoss::Constraints {
        return loss;
    }
    let trivial = branches.iter().any(is_trivial);
    let Some(branches) = holder.remove(key) else {
        return loss;
    };
    if !trivial {
        // Relaxed branches can overlap, which oneOf would reject; one of them must still match.
        put(holder, "anyOf", branches);
    }
    loss
}

/// Reports whether a branch accepts all values.
fn is_trivial(branch: &Value) -> bool {
    branch.as_object().is_some_and(Object::is_empty)
}

/// Reduces one branch to restrictions of the node.
///
/// The API server does not apply branches to null, but it applies them to null in fields and items.
fn reduce(branch: &mut Value, node: &Object, asked_about_null: bool) -> PrecisionLoss {
    let Some(branch) = as_object(branch) else {
        return PrecisionLoss::None;
    };
    branch.retain(|_, value| !value.is_null());
    let mut loss = types_of(branch, node, asked_about_null);
    for (keyword, validates) in FORBIDDEN {
        if branch.remove(*keyword).is_some() {
            loss = loss.max(if *validates {
                PrecisionLoss::Constraints
            } else {
                PrecisionLoss::Redundant
            });
        }
    }
    for keyword in [
        "default",
        "description",
        "title",
        PRESERVE,
        "x-kubernetes-list-type",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-map-type",
    ] {
        if branch.remove(keyword).is_some() {
            loss = loss.max(PrecisionLoss::Redundant);
        }
    }
    for keyword in [
        "additionalProperties",
        "uniqueItems",
        "x-kubernetes-embedded-resource",
        "x-kubernetes-validations",
    ] {
        match branch.remove(keyword) {
            None => {}
            Some(Value::Bool(open)) if open == (keyword == "additionalProperties") => {
                loss = loss.max(PrecisionLoss::Redundant);
            }
            Some(_) => loss = PrecisionLoss::Constraints,
        }
    }
    loss.max(fields_of(branch, node))
        .max(apply_type(branch, node))
}

/// Removes the type of a branch. Nothing is lost if the node has the same type.
fn types_of(branch: &mut Object, node: &Object, asked_about_null: bool) -> PrecisionLoss {
    let mut loss = PrecisionLoss::None;
    if types::normalize(branch) != types::Normalized::Unchanged {
        loss = PrecisionLoss::Redundant;
    }
    let nullable = branch.remove("nullable");
    if nullable.is_some() {
        loss = PrecisionLoss::Redundant;
    }
    let refuses_null =
        asked_about_null && flag(node, "nullable") && nullable != Some(Value::Bool(true));
    if let Some(branch_type) = types::declared_type(branch) {
        let node_type = types::declared_type(node);
        let same = node_type == Some(branch_type)
            || (branch_type == "number" && node_type == Some("integer"));
        loss = if same && !refuses_null {
            loss.max(PrecisionLoss::Redundant)
        } else {
            PrecisionLoss::Constraints
        };
        branch.remove("type");
    } else if branch.remove("type").is_some() {
        loss = PrecisionLoss::Constraints;
    }
    if branch.remove(INT_OR_STRING).is_some() {
        let same = types::is_int_or_string(node);
        loss = loss.max(if same {
            PrecisionLoss::Redundant
        } else {
            PrecisionLoss::Constraints
        });
    }
    loss
}

/// Removes fields and items that the node does not declare, because a branch can only restrict declared ones.
fn fields_of(branch: &mut Object, node: &Object) -> PrecisionLoss {
    let mut loss = PrecisionLoss::None;
    if let Some(properties) = object_at(branch, &["properties"]) {
        let declared = object(node, "properties");
        properties.retain(|name, field| {
            let declared_field = declared
                .and_then(|declared| object(declared, name))
                .filter(|_| name != "metadata");
            let Some(declared_field) = declared_field else {
                loss = PrecisionLoss::Constraints;
                return false;
            };
            loss = loss.max(reduce(field, declared_field, true));
            !is_trivial(field)
        });
        if properties.is_empty() {
            branch.remove("properties");
        }
    }
    match (branch.get_mut("items"), object(node, "items")) {
        (None, _) => return loss,
        (Some(items), Some(declared_field)) if !items.is_array() => {
            loss = loss.max(reduce(items, declared_field, true));
            if !is_trivial(items) {
                return loss;
            }
        }
        _ => loss = PrecisionLoss::Constraints,
    }
    branch.remove("items");
    loss
}

/// Fields that the branches of a node mention.
#[derive(Debug, Default)]
struct MentionedFields {
    kind: Kind,
    properties: BTreeMap<String, MentionedFields>,
    items: Option<Box<MentionedFields>>,
}

/// The type on which all mentions agree.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Kind {
    #[default]
    Unknown,
    One(&'static str),
    Conflicting,
}

impl MentionedFields {
    /// Collects from all branches. Negated branches do not determine types.
    fn branches(&mut self, holder: &Object, typed: bool) {
        for key in LISTS {
            for branch in holder
                .get(*key)
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
            {
                self.branch(branch, typed);
            }
        }
        if let Some(not) = holder.get("not") {
            self.branch(not, false);
        }
    }

    fn branch(&mut self, branch: &Value, typed: bool) {
        let Some(branch) = branch.as_object() else {
            return;
        };
        if let Some(properties) = object(branch, "properties") {
            // The API server forbids conditions on metadata here.
            for (name, field) in properties.iter().filter(|(name, _)| *name != "metadata") {
                self.properties
                    .entry(name.clone())
                    .or_default()
                    .mention(field, typed);
            }
        }
        if let Some(items) = branch.get("items").filter(|items| items.is_object()) {
            self.items.get_or_insert_default().mention(items, typed);
        }
        self.branches(branch, typed);
    }

    fn mention(&mut self, field: &Value, typed: bool) {
        if let Some(kind) = field
            .as_object()
            .and_then(types::inferred_type)
            .filter(|_| typed)
        {
            self.kind = match self.kind {
                Kind::Unknown => Kind::One(kind),
                Kind::One(previous) if previous == kind => self.kind,
                _ => Kind::Conflicting,
            };
        }
        self.branch(field, typed);
    }

    /// Declares missing fields in a node, and returns their number.
    fn declare(self, node: &mut Object, preserve: bool) -> usize {
        let mut declared = 0;
        // A node cannot have both known fields and a schema for all fields.
        if !self.properties.is_empty() && !node.contains_key("additionalProperties") {
            let properties = node.entry("properties").or_insert_with(|| json!({}));
            if let Value::Object(properties) = properties {
                for (name, mentioned) in self.properties {
                    declared += mentioned.declare_as(properties, &name, preserve);
                }
            }
        }
        if let Some(items) = self.items {
            declared += items.declare_as(node, "items", preserve);
        }
        declared
    }

    fn declare_as(self, parent: &mut Object, name: &str, preserve: bool) -> usize {
        if let Some(existing) = parent.get_mut(name) {
            return existing
                .as_object_mut()
                .map_or(0, |existing| self.declare(existing, preserve));
        }
        let mut node = Object::new();
        match self.kind {
            Kind::One(kind) => {
                node.insert("type".into(), kind.into());
                if kind == "object" && preserve {
                    node.insert(PRESERVE.into(), true.into());
                }
                if kind == "array" && self.items.is_none() {
                    node.insert("items".into(), accept_any());
                }
            }
            Kind::Unknown | Kind::Conflicting => {
                node.extend([
                    (PRESERVE.to_owned(), true.into()),
                    ("nullable".to_owned(), true.into()),
                ]);
            }
        }
        let declared = self.declare(&mut node, preserve) + 1;
        parent.insert(name.to_owned(), node.into());
        declared
    }
}
