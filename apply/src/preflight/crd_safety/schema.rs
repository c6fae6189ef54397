//! Schema of a version, parsed once for the comparison and the validation.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::pattern::Pattern;

/// Maximum depth of a schema. Deeper levels accept every value; the API server does not parse JSON of this depth.
const MAX_DEPTH: usize = 100;

/// A structural schema without its descriptions.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a keyword of its own"
)]
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Schema {
    pub(super) type_: Option<Type>,
    pub(super) nullable: bool,
    pub(super) int_or_string: bool,
    /// Whether unknown fields are kept.
    pub(super) preserve: bool,
    /// Whether the value is a complete Kubernetes object.
    pub(super) embedded: bool,
    pub(super) properties: BTreeMap<String, Schema>,
    /// Schema of the values in a mapping with free keys.
    pub(super) additional: Option<Box<Schema>>,
    pub(super) items: Option<Box<Schema>>,
    pub(super) required: BTreeSet<String>,
    pub(super) allowed: Option<Vec<Value>>,
    pub(super) format: Option<String>,
    pub(super) pattern: Option<Pattern>,
    pub(super) bounds: Bounds,
    pub(super) list: ListType,
    pub(super) default: Option<Value>,
    pub(super) logical: LogicalSchemas,
    /// CEL rules.
    pub(super) rules: BTreeSet<String>,
}

/// Type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Type {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
}

/// Lower and upper bounds of a value.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Bounds {
    pub(super) maximum: Option<Limit>,
    pub(super) minimum: Option<Limit>,
    pub(super) multiple_of: Option<f64>,
    pub(super) max_length: Option<u64>,
    pub(super) min_length: Option<u64>,
    pub(super) max_items: Option<u64>,
    pub(super) min_items: Option<u64>,
    pub(super) max_properties: Option<u64>,
    pub(super) min_properties: Option<u64>,
}

/// A bound of a number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Limit {
    pub(super) value: f64,
    /// Whether the bound itself is rejected.
    pub(super) exclusive: bool,
}

/// Uniqueness rule for the items of a list.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) enum ListType {
    /// Items may be equal.
    #[default]
    Any,
    /// The values of the items are unique.
    Set,
    /// The values of these fields are unique.
    Map(Vec<String>),
}

/// Logical combinations of schemas.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct LogicalSchemas {
    pub(super) all_of: Vec<Schema>,
    pub(super) any_of: Vec<Schema>,
    pub(super) one_of: Vec<Schema>,
    pub(super) not: Option<Box<Schema>>,
}

impl Schema {
    /// Reads the schema of whole custom resources. An invalid schema accepts every object.
    pub(super) fn read(value: &Value) -> Self {
        let mut schema = Self::at_depth(value, 0);
        schema.type_.get_or_insert(Type::Object);
        schema
    }

    /// Makes every object keep unknown fields. This is the effect of `preserveUnknownFields`, which CRDs created before
    /// Kubernetes 1.16 may still have.
    pub(super) fn keep_unknown(&mut self) {
        self.preserve = true;
        self.properties.values_mut().for_each(Self::keep_unknown);
        let nested = [&mut self.additional, &mut self.items];
        for schema in nested.into_iter().flatten() {
            schema.keep_unknown();
        }
    }

    fn at_depth(value: &Value, depth: usize) -> Self {
        let Value::Object(map) = value else {
            return Self::default();
        };
        if depth >= MAX_DEPTH {
            return Self {
                preserve: true,
                ..Self::default()
            };
        }
        let nested = |value: &Value| Self::at_depth(value, depth + 1);
        let list = |key: &'static str| -> Vec<Self> { entries(map, key).map(nested).collect() };
        Self {
            type_: string(map, "type").and_then(Type::read),
            nullable: flag(map, "nullable"),
            int_or_string: flag(map, "x-kubernetes-int-or-string"),
            preserve: flag(map, "x-kubernetes-preserve-unknown-fields"),
            embedded: flag(map, "x-kubernetes-embedded-resource"),
            properties: map
                .get("properties")
                .and_then(Value::as_object)
                .into_iter()
                .flatten()
                .map(|(name, schema)| (name.clone(), nested(schema)))
                .collect(),
            additional: match map.get("additionalProperties") {
                None | Some(Value::Null | Value::Bool(false)) => None,
                Some(Value::Bool(true)) => Some(Box::new(Self {
                    preserve: true,
                    ..Self::default()
                })),
                Some(schema) => Some(Box::new(nested(schema))),
            },
            items: map.get("items").map(|items| Box::new(nested(items))),
            required: strings(map, "required").collect(),
            allowed: map
                .get("enum")
                .and_then(Value::as_array)
                .filter(|allowed| !allowed.is_empty())
                .cloned(),
            format: string(map, "format")
                .filter(|format| !format.is_empty())
                .map(str::to_owned),
            pattern: string(map, "pattern")
                .filter(|pattern| !pattern.is_empty())
                .map(Pattern::new),
            bounds: Bounds::read(map),
            list: match string(map, "x-kubernetes-list-type") {
                Some("set") => ListType::Set,
                Some("map") => ListType::Map(strings(map, "x-kubernetes-list-map-keys").collect()),
                _ => ListType::Any,
            },
            default: map.get("default").filter(|value| !value.is_null()).cloned(),
            logical: LogicalSchemas {
                all_of: list("allOf"),
                any_of: list("anyOf"),
                one_of: list("oneOf"),
                not: map.get("not").map(|not| Box::new(nested(not))),
            },
            rules: entries(map, "x-kubernetes-validations")
                .filter_map(|rule| rule.get("rule")?.as_str())
                .map(str::to_owned)
                .collect(),
        }
    }
}

impl Type {
    fn read(text: &str) -> Option<Self> {
        Some(match text {
            "object" => Self::Object,
            "array" => Self::Array,
            "string" => Self::String,
            "integer" => Self::Integer,
            "number" => Self::Number,
            "boolean" => Self::Boolean,
            _ => return None,
        })
    }

    /// Returns the name of the type in schemas.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
        }
    }
}

impl Bounds {
    fn read(map: &Map<String, Value>) -> Self {
        let number = |key: &str| map.get(key).and_then(Value::as_f64);
        let count = |key: &str| map.get(key).and_then(Value::as_u64);
        let limit = |key: &str, exclusive: &str| {
            Some(Limit {
                value: number(key)?,
                exclusive: flag(map, exclusive),
            })
        };
        Self {
            maximum: limit("maximum", "exclusiveMaximum"),
            minimum: limit("minimum", "exclusiveMinimum"),
            multiple_of: number("multipleOf"),
            max_length: count("maxLength"),
            min_length: count("minLength"),
            max_items: count("maxItems"),
            min_items: count("minItems"),
            max_properties: count("maxProperties"),
            min_properties: count("minProperties"),
        }
    }
}

fn flag(map: &Map<String, Value>, key: &str) -> bool {
    map.get(key) == Some(&Value::Bool(true))
}

fn string<'a>(map: &'a Map<String, Value>, key: &str) -> Option<&'a str> {
    map.get(key).and_then(Value::as_str)
}

fn entries<'a>(
    map: &'a Map<String, Value>,
    key: &'static str,
) -> impl Iterator<Item = &'a Value> + use<'a> {
    map.get(key).and_then(Value::as_array).into_iter().flatten()
}

fn strings<'a>(
    map: &'a Map<String, Value>,
    key: &'static str,
) -> impl Iterator<Item = String> + use<'a> {
    entries(map, key)
        .filter_map(Value::as_str)
        .map(str::to_owned)
}
