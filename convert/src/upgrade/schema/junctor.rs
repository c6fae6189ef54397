//! allOf, anyOf, oneOf and not: in v1 they can restrict what a node describes, but describe nothing themselves.

use std::collections::BTreeMap;

use manifests::path::Step;
use serde_json::{Value, json};

use super::{FORBIDDEN, INT_OR_STRING, PRESERVE, Repair, Walk, any, as_object, types};
use crate::upgrade::json::{Object, flag, object, object_at};

const LISTS: &[&str] = &["allOf", "anyOf", "oneOf"];

/// What a junctor lost when its branches were reduced to restrictions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Loss {
    /// Nothing changed.
    None,
    /// Something went that the node itself says.
    Words,
    /// It accepts values that it did not accept.
    Strength,
}

impl Walk {
    /// Declares what the junctors of a node mention, then reduces them to restrictions of it.
    pub(super) fn junctors(&mut self, schema: &mut Object) {
        let mut demand = Demand::default();
        demand.branches(schema, true);
        let declared = demand.declare(schema, self.preserve);
        self.tally.count(Repair::Declared, &self.at, declared);
        for key in LISTS.iter().chain(&["not"]) {
            let Some(junctor) = schema.remove(*key) else {
                continue;
            };
            let mut alone = Object::from_iter([((*key).to_owned(), junctor)]);
            let loss = if tolerated(key, &mut alone, schema) {
                Loss::None
            } else {
                settle(&mut alone, schema)
            };
            self.at.push(Step::Key((*key).to_owned()));
            match loss {
                Loss::None => {}
                Loss::Words => self.count(Repair::Tidied),
                Loss::Strength => self.count(Repair::Loosened),
            }
            self.at.pop();
            for (key, value) in alone {
                put(schema, &key, value);
            }
        }
    }
}

/// Adds a junctor to a node; a second one of the same kind must hold as well.
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

/// The two places in which the API server lets "an integer or a string" be said again.
fn tolerated(key: &str, junctor: &mut Object, node: &Object) -> bool {
    if !types::is_int_or_string(node) {
        return false;
    }
    if key == "anyOf" {
        return junctor.get(key).and_then(types::int_or_string_branches) == Some(true);
    }
    // The first branch is kept as it is, so the others are settled apart from it.
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
        first.remove("anyOf"); // The node's own keyword says it.
    }
    false
}

/// Reduces the junctors of a branch, or of a node, to restrictions of the node.
fn settle(holder: &mut Object, node: &Object) -> Loss {
    let mut loss = Loss::None;
    if let Some(Value::Array(all)) = holder.get_mut("allOf") {
        for branch in all.iter_mut() {
            loss = loss.max(reduce(branch, node, false));
        }
        all.retain(|branch| !says_nothing(branch));
        if all.is_empty() {
            holder.remove("allOf");
        }
    }
    for key in ["anyOf", "oneOf"] {
        loss = loss.max(settle_choice(holder, key, node));
    }
    if let Some(not) = holder.get_mut("not") {
        match reduce(not, node, false) {
            // The less the inner schema demands, the more its negation refuses.
            Loss::Strength => {
                holder.remove("not");
                loss = Loss::Strength;
            }
            other => loss = loss.max(other),
        }
    }
    loss
}

fn settle_choice(holder: &mut Object, key: &str, node: &Object) -> Loss {
    let Some(junctor) = holder.get_mut(key) else {
        return Loss::None;
    };
    if types::is_int_or_string(node) && types::int_or_string_branches(junctor).is_some() {
        holder.remove(key); // The node's own keyword says it.
        return Loss::Words;
    }
    let Value::Array(branches) = junctor else {
        return Loss::None;
    };
    let loss = branches
        .iter_mut()
        .map(|branch| reduce(branch, node, false))
        .max()
        .unwrap_or(Loss::None);
    if loss < Loss::Strength {
        return loss;
    }
    let trivial = branches.iter().any(says_nothing);
    let Some(branches) = holder.remove(key) else {
        return loss;
    };
    if !trivial {
        // Looser branches can overlap, which oneOf would refuse; one of them still has to hold.
        put(holder, "anyOf", branches);
    }
    loss
}

/// Whether a branch accepts everything.
fn says_nothing(branch: &Value) -> bool {
    branch.as_object().is_some_and(Object::is_empty)
}

/// Reduces one branch to restrictions of the node.
///
/// The API server does not ask branches about null, but it asks what branches say of fields and items.
fn reduce(branch: &mut Value, node: &Object, asked_about_null: bool) -> Loss {
    let Some(branch) = as_object(branch) else {
        return Loss::None;
    };
    branch.retain(|_, value| !value.is_null());
    let mut loss = types_of(branch, node, asked_about_null);
    for (keyword, validates) in FORBIDDEN {
        if branch.remove(*keyword).is_some() {
            loss = loss.max(if *validates {
                Loss::Strength
            } else {
                Loss::Words
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
            loss = loss.max(Loss::Words);
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
                loss = loss.max(Loss::Words);
            }
            Some(_) => loss = Loss::Strength,
        }
    }
    loss.max(fields_of(branch, node)).max(settle(branch, node))
}

/// A branch has no type of its own, which is no loss when the node has the same.
fn types_of(branch: &mut Object, node: &Object, asked_about_null: bool) -> Loss {
    let mut loss = Loss::None;
    if types::normalize(branch) != types::Normalized::Fine {
        loss = Loss::Words;
    }
    let nullable = branch.remove("nullable");
    if nullable.is_some() {
        loss = Loss::Words;
    }
    let refuses_null =
        asked_about_null && flag(node, "nullable") && nullable != Some(Value::Bool(true));
    if let Some(wanted) = types::stated(branch) {
        let given = types::stated(node);
        let same = given == Some(wanted) || (wanted == "number" && given == Some("integer"));
        loss = if same && !refuses_null {
            loss.max(Loss::Words)
        } else {
            Loss::Strength
        };
        branch.remove("type");
    } else if branch.remove("type").is_some() {
        loss = Loss::Strength;
    }
    if branch.remove(INT_OR_STRING).is_some() {
        let same = types::is_int_or_string(node);
        loss = loss.max(if same { Loss::Words } else { Loss::Strength });
    }
    loss
}

/// A branch can only restrict fields and items that the node declares.
fn fields_of(branch: &mut Object, node: &Object) -> Loss {
    let mut loss = Loss::None;
    if let Some(properties) = object_at(branch, &["properties"]) {
        let declared = object(node, "properties");
        properties.retain(|name, field| {
            let known = declared
                .and_then(|declared| object(declared, name))
                .filter(|_| name != "metadata");
            let Some(known) = known else {
                loss = Loss::Strength;
                return false;
            };
            loss = loss.max(reduce(field, known, true));
            !says_nothing(field)
        });
        if properties.is_empty() {
            branch.remove("properties");
        }
    }
    match (branch.get_mut("items"), object(node, "items")) {
        (None, _) => return loss,
        (Some(items), Some(known)) if !items.is_array() => {
            loss = loss.max(reduce(items, known, true));
            if !says_nothing(items) {
                return loss;
            }
        }
        _ => loss = Loss::Strength,
    }
    branch.remove("items");
    loss
}

/// What the branches of a node mention, by field.
#[derive(Debug, Default)]
struct Demand {
    kind: Kind,
    properties: BTreeMap<String, Demand>,
    items: Option<Box<Demand>>,
}

/// The type that all mentions agree on.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Kind {
    #[default]
    Unknown,
    One(&'static str),
    Disputed,
}

impl Demand {
    /// Collects from all branches; what is negated tells nothing about types.
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
            // The API server forbids reasoning about metadata here.
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
        if let Some(kind) = field.as_object().and_then(types::implied).filter(|_| typed) {
            self.kind = match self.kind {
                Kind::Unknown => Kind::One(kind),
                Kind::One(known) if known == kind => self.kind,
                _ => Kind::Disputed,
            };
        }
        self.branch(field, typed);
    }

    /// Declares in a node what it does not declare yet; how many fields that were.
    fn declare(self, node: &mut Object, preserve: bool) -> usize {
        let mut declared = 0;
        // A node cannot have both known fields and a schema for all fields.
        if !self.properties.is_empty() && !node.contains_key("additionalProperties") {
            let properties = node.entry("properties").or_insert_with(|| json!({}));
            if let Value::Object(properties) = properties {
                for (name, demand) in self.properties {
                    declared += demand.declare_as(properties, &name, preserve);
                }
            }
        }
        if let Some(items) = self.items {
            declared += items.declare_as(node, "items", preserve);
        }
        declared
    }

    fn declare_as(self, parent: &mut Object, name: &str, preserve: bool) -> usize {
        if let Some(known) = parent.get_mut(name) {
            return known
                .as_object_mut()
                .map_or(0, |known| self.declare(known, preserve));
        }
        let mut node = Object::new();
        match self.kind {
            Kind::One(kind) => {
                node.insert("type".into(), kind.into());
                if kind == "object" && preserve {
                    node.insert(PRESERVE.into(), true.into());
                }
                if kind == "array" && self.items.is_none() {
                    node.insert("items".into(), any());
                }
            }
            Kind::Unknown | Kind::Disputed => {
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
