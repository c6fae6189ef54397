//! Two schemas of one version, old and new: what is taken away from whoever uses the old one.

use manifests::object::shortened;
use serde_json::Value;

use super::{
    format,
    place::{Place, ROOT},
    schema::{Bounds, Limit, List, Schema, Type},
};
use crate::first_few;

/// How many differences are told; a schema that was written anew has thousands.
const MAX_TOLD: usize = 20;
/// How long a value may be in a message.
const MAX_VALUE: usize = 60;

/// What is different.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Comparison {
    /// What is taken away: `spec.size: maximum: lowered from 10 to 5`.
    pub(super) narrowed: Vec<String>,
    /// How many there are in all.
    pub(super) narrowed_in_all: usize,
    /// Rules that may reject custom resources and that only the API server can evaluate.
    pub(super) unchecked: Vec<String>,
    /// What changes for whoever does not set a field.
    pub(super) notes: Vec<String>,
    /// Whether a value that the old schema accepts, and keeps, may be rejected or lose something. Never wrong when false.
    pub(super) can_invalidate: bool,
}

/// Compares two schemas of whole custom resources.
pub(super) fn compare(old: &Schema, new: &Schema) -> Comparison {
    let mut comparison = Comparison::default();
    comparison.node(old, new, &ROOT);
    comparison
}

impl Comparison {
    fn node(&mut self, old: &Schema, new: &Schema, place: &Place<'_>) {
        if old == new {
            return;
        }
        self.types(old, new, place);
        self.values(old, new, place);
        self.bounds(&old.bounds, &new.bounds, place);
        self.defaults(old, new, place);
        self.rules(old, new, place);
        self.required(old, new, place);
        self.fields(old, new, place);
        match (&old.items, &new.items) {
            (Some(old), Some(new)) => self.node(old, new, &place.items()),
            (None, Some(_)) => self.can_invalidate = true,
            (_, None) => {}
        }
        self.can_invalidate |= old.junctors != new.junctors
            || (old.nullable && !new.nullable)
            || (old.preserve && !new.preserve)
            || (new.embedded && !old.embedded)
            || (new.list != List::Any && new.list != old.list);
    }

    fn types(&mut self, old: &Schema, new: &Schema, place: &Place<'_>) {
        if !accepts_types(old, new) {
            let (old, new) = (type_name(old), type_name(new));
            self.narrow(place, "type", format_args!("changed from {old} to {new}"));
        }
    }

    fn values(&mut self, old: &Schema, new: &Schema, place: &Place<'_>) {
        match (&old.allowed, &new.allowed) {
            (None, Some(new)) => {
                self.narrow(
                    place,
                    "enum",
                    format_args!("added, only {} remain", told(new)),
                );
            }
            (Some(old), Some(new)) => {
                let gone: Vec<_> = old
                    .iter()
                    .filter(|&value| !new.contains(value))
                    .cloned()
                    .collect();
                if !gone.is_empty() {
                    self.narrow(place, "enum", format_args!("{} removed", told(&gone)));
                }
            }
            (_, None) => {}
        }
        if let Some(pattern) = new.pattern.as_ref()
            && old.pattern.as_ref() != Some(pattern)
        {
            self.can_invalidate = true;
            if !pattern.is_readable() {
                let text = shortened(&pattern.text, MAX_VALUE);
                self.uncheck(format!("{place}: pattern {text:?}"));
            }
        }
        if let Some(format) = new.format.as_ref()
            && old.format.as_ref() != Some(format)
        {
            self.can_invalidate = true;
            if format::is_unknown(format) {
                self.uncheck(format!(
                    "{place}: format {:?}",
                    shortened(format, MAX_VALUE)
                ));
            }
        }
    }

    fn bounds(&mut self, old: &Bounds, new: &Bounds, place: &Place<'_>) {
        self.limit("maximum", old.maximum, new.maximum, false, place);
        self.limit("minimum", old.minimum, new.minimum, true, place);
        for (name, old, new) in [
            ("maxLength", old.max_length, new.max_length),
            ("maxItems", old.max_items, new.max_items),
            ("maxProperties", old.max_properties, new.max_properties),
        ] {
            match (old, new) {
                (None, Some(new)) => self.narrow(place, name, format_args!("{new} added")),
                (Some(old), Some(new)) if new < old => {
                    self.narrow(place, name, format_args!("lowered from {old} to {new}"));
                }
                _ => {}
            }
        }
        for (name, old, new) in [
            ("minLength", old.min_length, new.min_length),
            ("minItems", old.min_items, new.min_items),
            ("minProperties", old.min_properties, new.min_properties),
        ] {
            // 0 is what there is without.
            let (old, new) = (old.unwrap_or_default(), new.unwrap_or_default());
            if new > old {
                self.narrow(place, name, format_args!("raised from {old} to {new}"));
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
        place: &Place<'_>,
    ) {
        let Some(new) = new else { return };
        let exclusive = if new.exclusive { ", exclusive" } else { "" };
        let Some(old) = old else {
            let value = new.value;
            return self.narrow(place, name, format_args!("{value} added{exclusive}"));
        };
        let (is_narrower, change) = if is_minimum {
            (new.value > old.value, "raised")
        } else {
            (new.value < old.value, "lowered")
        };
        if is_narrower {
            let (old, new) = (old.value, new.value);
            self.narrow(
                place,
                name,
                format_args!("{change} from {old} to {new}{exclusive}"),
            );
        } else if new.value.total_cmp(&old.value).is_eq() && new.exclusive && !old.exclusive {
            let value = new.value;
            self.narrow(
                place,
                name,
                format_args!("{value} itself is no longer allowed"),
            );
        }
    }

    /// A default that is new changes what a custom resource means that does not set the field, but breaks nobody who
    /// looks at it; one that is different, or gone, was relied upon.
    fn defaults(&mut self, old: &Schema, new: &Schema, place: &Place<'_>) {
        match (&old.default, &new.default) {
            (Some(old), Some(new)) if old != new => {
                let (old, new) = (one(old), one(new));
                self.narrow(
                    place,
                    "default",
                    format_args!("changed from {old} to {new}"),
                );
            }
            (Some(old), None) => {
                self.narrow(place, "default", format_args!("{} removed", one(old)));
            }
            (None, Some(new)) if self.notes.len() < MAX_TOLD => {
                self.notes
                    .push(format!("{place}: default: {} added", one(new)));
            }
            _ => {}
        }
    }

    fn rules(&mut self, old: &Schema, new: &Schema, place: &Place<'_>) {
        for rule in new.rules.difference(&old.rules) {
            self.uncheck(format!(
                "{place}: rule {:?}",
                shortened(rule, 2 * MAX_VALUE)
            ));
        }
    }

    fn required(&mut self, old: &Schema, new: &Schema, place: &Place<'_>) {
        for name in new.required.difference(&old.required) {
            let has_default = new
                .properties
                .get(name)
                .is_some_and(|field| field.default.is_some());
            if !(has_default || is_object(place, new) && is_everywhere(name)) {
                self.narrow(&place.key(name), "required", format_args!("added"));
            }
        }
    }

    fn fields(&mut self, old: &Schema, new: &Schema, place: &Place<'_>) {
        for (name, field) in &old.properties {
            if is_object(place, old) && is_everywhere(name) && !new.properties.contains_key(name) {
                continue;
            }
            let at = place.key(name);
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
        let any = place.key("*");
        match (&old.additional, &new.additional) {
            (Some(old), Some(new)) => self.node(old, new, &any),
            (Some(_), None) if !new.preserve => {
                self.narrow(&any, "existing field", format_args!("removed"));
            }
            (None, Some(_)) if old.preserve => self.can_invalidate = true,
            _ => {}
        }
    }

    fn narrow(&mut self, place: &Place<'_>, check: &str, message: std::fmt::Arguments<'_>) {
        self.can_invalidate = true;
        self.narrowed_in_all += 1;
        if self.narrowed.len() < MAX_TOLD {
            self.narrowed.push(format!("{place}: {check}: {message}"));
        }
    }

    fn uncheck(&mut self, message: String) {
        if self.unchecked.len() < MAX_TOLD {
            self.unchecked.push(message);
        }
    }
}

/// Reports whether the node is a Kubernetes object, whose `apiVersion`, `kind` and `metadata` no schema has to mention.
fn is_object(place: &Place<'_>, schema: &Schema) -> bool {
    place.is_root() || schema.embedded
}

/// What every object has.
pub(super) fn is_everywhere(name: &str) -> bool {
    matches!(name, "apiVersion" | "kind" | "metadata")
}

/// The types a schema accepts; `None` for any.
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

fn one(value: &Value) -> String {
    shortened(&value.to_string(), MAX_VALUE)
}

fn told(values: &[Value]) -> String {
    let values: Vec<_> = values.iter().map(one).collect();
    first_few(&values, 10)
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod random;
