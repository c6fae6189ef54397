//! Comparison of the old and the new schema of one version: restrictions that affect clients of the old one.

use manifests::object::truncate;
use serde_json::Value;

use super::{
    format,
    schema::{Bounds, Limit, ListType, Schema, Type},
    value_path::{ROOT, ValuePath},
};
use crate::first_few;

/// Maximum number of reported differences; a rewritten schema has thousands.
const MAX_REPORTED: usize = 20;
/// Maximum length of a value in a message, in characters.
const MAX_VALUE: usize = 60;

/// Differences between two schemas.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Comparison {
    /// Restrictions: `spec.size: maximum: lowered from 10 to 5`.
    pub(super) narrowed: Vec<String>,
    /// Number of all restrictions, including those that are not listed.
    pub(super) narrowed_count: usize,
    /// Rules that may reject custom resources and that only the API server can evaluate.
    pub(super) unchecked: Vec<String>,
    /// Changes for custom resources that do not set a field.
    pub(super) notes: Vec<String>,
    /// Whether a value that the old schema accepts and keeps may be rejected, or lose a field. False is always correct.
    pub(super) can_invalidate: bool,
}

/// Compares two schemas of whole custom resources.
pub(super) fn compare(old: &Schema, new: &Schema) -> Comparison {
    let mut comparison = Comparison::default();
    comparison.node(old, new, &ROOT);
    comparison
}

impl Comparison {
    fn node(&mut self, old: &Schema, new: &Schema, path: &ValuePath<'_>) {
        if old == new {
            return;
        }
        self.types(old, new, path);
        self.values(old, new, path);
        self.bounds(&old.bounds, &new.bounds, path);
        self.defaults(old, new, path);
        self.rules(old, new, path);
        self.required(old, new, path);
        self.fields(old, new, path);
        match (&old.items, &new.items) {
            (Some(old), Some(new)) => self.node(old, new, &path.items()),
            (None, Some(_)) => self.can_invalidate = true,
            (_, None) => {}
        }
        self.can_invalidate |= old.logical != new.logical
            || (old.nullable && !new.nullable)
            || (old.preserve && !new.preserve)
            || (new.embedded && !old.embedded)
            || (new.list != ListType::Any && new.list != old.list);
    }

    fn types(&mut self, old: &Schema, new: &Schema, path: &ValuePath<'_>) {
        if !accepts_types(old, new) {
            let (old, new) = (type_name(old), type_name(new));
            self.narrow(path, "type", format_args!("changed from {old} to {new}"));
        }
    }

    fn values(&mut self, old: &Schema, new: &Schema, path: &ValuePath<'_>) {
        match (&old.allowed, &new.allowed) {
            (None, Some(new)) => {
                self.narrow(
                    path,
                    "enum",
                    format_args!("added, only {} remain", format_values(new)),
                );
            }
            (Some(old), Some(new)) => {
                let removed: Vec<_> = old
                    .iter()
                    .filter(|&value| !new.contains(value))
                    .cloned()
                    .collect();
                if !removed.is_empty() {
                    self.narrow(
                        path,
                        "enum",
                        format_args!("{} removed", format_values(&removed)),
                    );
                }
            }
            (_, None) => {}
        }
        if let Some(pattern) = new.pattern.as_ref()
            && old.pattern.as_ref() != Some(pattern)
        {
            self.can_invalidate = true;
            if !pattern.is_readable() {
                let text = truncate(&pattern.text, MAX_VALUE);
                self.mark_unchecked(format!("{path}: pattern {text:?}"));
            }
        }
        if let Some(format) = new.format.as_ref()
            && old.format.as_ref() != Some(format)
        {
            self.can_invalidate = true;
            if format::is_unknown(format) {
                self.mark_unchecked(format!("{path}: format {:?}", truncate(format, MAX_VALUE)));
            }
        }
    }

    fn bounds(&mut self, old: &Bounds, new: &Bounds, path: &ValuePath<'_>) {
        self.limit("maximum", old.maximum, new.maximum, false, path);
        self.limit("minimum", old.minimum, new.minimum, true, path);
        for (name, old, new) in [
            ("maxLength", old.max_length, new.max_length),
            ("maxItems", old.max_items, new.max_items),
            ("maxProperties", old.max_properties, new.max_properties),
        ] {
            match (old, new) {
                (None, Some(new)) => self.narrow(path, name, format_args!("{new} added")),
                (Some(old), Some(new)) if new < old => {
                    self.narrow(path, name, format_args!("lowered from {old} to {new}"));
                }
                _ => {}
            }
        }
        for (name, old, new) in [
            ("minLength", old.min_length, new.min_length),
            ("minItems", old.min_items, new.min_items),
            ("minProperties", old.min_properties, new.min_properties),
        ] {
            // A missing minimum is equivalent to 0.
            let (old, new) = (old.unwrap_or_default(), new.unwrap_or_default());
            if new > old {
                self.narrow(path, name, format_args!("raised from {old} to {new}"));
            }
        }
        if new.multiple_of.is_some() && new.multiple_of != old.multiple_of {
            self.can_invalidate = true;
        }
    }

    fn limit(
        &mut self,
        name: &str,
        old: Option<Limit>,
        new: Option<Limit>,
        is_minimum: bool,
        path: &ValuePath<'_>,
    ) {
        let Some(new) = new else { return };
        let exclusive = if new.exclusive { ", exclusive" } else { "" };
        let Some(old) = old else {
            let value = new.value;
            return self.narrow(path, name, format_args!("{value} added{exclusive}"));
        };
        let (is_narrower, change) = if is_minimum {
            (new.value > old.value, "raised")
        } else {
            (new.value < old.value, "lowered")
        };
        if is_narrower {
            let (old, new) = (old.value, new.value);
            self.narrow(
                path,
                name,
                format_args!("{change} from {old} to {new}{exclusive}"),
            );
        } else if new.value.total_cmp(&old.value).is_eq() && new.exclusive && !old.exclusive {
            let value = new.value;
            self.narrow(
                path,
                name,
                format_args!("the new limit excludes {value} itself"),
            );
        }
    }

    /// Compares defaults. A new default changes the meaning of custom resources that do not set the field, but breaks no
    /// client that reads them. Clients may rely on a default that was changed or removed.
    fn defaults(&mut self, old: &Schema, new: &Schema, path: &ValuePath<'_>) {
        match (&old.default, &new.default) {
            (Some(old), Some(new)) if old != new => {
                let (old, new) = (format_value(old), format_value(new));
                self.narrow(path, "default", format_args!("changed from {old} to {new}"));
            }
            (Some(old), None) => {
                self.narrow(
                    path,
                    "default",
                    format_args!("{} removed", format_value(old)),
                );
            }
            (None, Some(new)) if self.notes.len() < MAX_REPORTED => {
                self.notes
                    .push(format!("{path}: default: {} added", format_value(new)));
            }
            _ => {}
        }
    }

    fn rules(&mut self, old: &Schema, new: &Schema, path: &ValuePath<'_>) {
        for rule in new.rules.difference(&old.rules) {
            self.mark_unchecked(format!("{path}: rule {:?}", truncate(rule, 2 * MAX_VALUE)));
        }
    }

    fn required(&mut self, old: &Schema, new: &Schema, path: &ValuePath<'_>) {
        for name in new.required.difference(&old.required) {
            let has_default = new
                .properties
                .get(name)
                .is_some_and(|field| field.default.is_some());
            if !(has_default || is_object(path, new) && is_everywhere(name)) {
                self.narrow(&path.key(name), "required", format_args!("added"));
            }
        }
    }

    fn fields(&mut self, old: &Schema, new: &Schema, path: &ValuePath<'_>) {
        for (name, field) in &old.properties {
            if is_object(path, old) && is_everywhere(name) && !new.properties.contains_key(name) {
                continue;
            }
            let at = path.key(name);
            match (new.properties.get(name), &new.additional) {
                (Some(new), _) => self.node(field, new, &at),
                (None, Some(new)) => self.node(field, new, &at),
                (None, None) if new.preserve => {}
                (None, None) => self.narrow(&at, "existing field", format_args!("removed")),
            }
        }
        let keeps_all = old.preserve || old.additional.is_some();
        if keeps_all
            && new
                .properties
                .keys()
                .any(|name| !old.properties.contains_key(name))
        {
            self.can_invalidate = true;
        }
        let any = path.key("*");
        match (&old.additional, &new.additional) {
            (Some(old), Some(new)) => self.node(old, new, &any),
            (Some(_), None) if !new.preserve => {
                self.narrow(&any, "existing field", format_args!("removed"));
            }
            (None, Some(_)) if old.preserve => self.can_invalidate = true,
            _ => {}
        }
    }

    fn narrow(&mut self, path: &ValuePath<'_>, check: &str, message: std::fmt::Arguments<'_>) {
        self.can_invalidate = true;
        self.narrowed_count += 1;
        if self.narrowed.len() < MAX_REPORTED {
            self.narrowed.push(format!("{path}: {check}: {message}"));
        }
    }

    fn mark_unchecked(&mut self, message: String) {
        if self.unchecked.len() < MAX_REPORTED {
            self.unchecked.push(message);
        }
    }
}

/// Reports whether the node is a Kubernetes object, whose schema may omit `apiVersion`, `kind` and `metadata`.
fn is_object(path: &ValuePath<'_>, schema: &Schema) -> bool {
    path.is_root() || schema.embedded
}

/// Reports whether every object has the field.
pub(super) fn is_everywhere(name: &str) -> bool {
    matches!(name, "apiVersion" | "kind" | "metadata")
}

/// Returns the types that a schema accepts; `None` for any type.
fn types(schema: &Schema) -> Option<&[Type]> {
    if schema.int_or_string {
        return Some(&[Type::Integer, Type::String]);
    }
    Some(match schema.type_? {
        Type::Object => &[Type::Object],
        Type::Array => &[Type::Array],
        Type::String => &[Type::String],
        Type::Integer => &[Type::Integer],
        Type::Number => &[Type::Integer, Type::Number],
        Type::Boolean => &[Type::Boolean],
    })
}

fn accepts_types(old: &Schema, new: &Schema) -> bool {
    match (types(old), types(new)) {
        (_, None) => true,
        (None, Some(_)) => false,
        (Some(old), Some(new)) => old.iter().all(|type_| new.contains(type_)),
    }
}

fn type_name(schema: &Schema) -> &'static str {
    if schema.int_or_string {
        return "integer or string";
    }
    schema.type_.map_or("any", Type::name)
}

fn format_value(value: &Value) -> String {
    truncate(&value.to_string(), MAX_VALUE)
}

fn format_values(values: &[Value]) -> String {
    let values: Vec<_> = values.iter().map(format_value).collect();
    first_few(&values, 10)
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod proptests;
