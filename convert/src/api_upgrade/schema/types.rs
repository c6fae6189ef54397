//! Types of schema nodes: JSON schema and its parsers support more types than v1.

use serde_json::Value;

use crate::api_upgrade::json::Object;

/// The types of v1.
const TYPES: &[&str] = &["array", "boolean", "integer", "number", "object", "string"];

/// Returns a type of v1 in its static spelling.
pub(in crate::api_upgrade) fn known_type(name: &str) -> Option<&'static str> {
    TYPES.iter().find(|candidate| **candidate == name).copied()
}

/// Returns the type for a name, which is often that of a programming language.
pub(in crate::api_upgrade) fn repaired(name: &str) -> Option<&'static str> {
    let name = name.trim().to_ascii_lowercase();
    known_type(&name).or_else(|| {
        Some(match name.as_str() {
            "int" | "int32" | "int64" | "long" | "uint" | "uint32" | "uint64" => "integer",
            "float" | "float32" | "float64" | "double" => "number",
            "bool" => "boolean",
            "str" | "text" | "date" | "datetime" | "date-time" | "byte" | "password" => "string",
            "map" | "dict" | "struct" | "hash" => "object",
            "list" | "slice" => "array",
            _ => return None,
        })
    })
}

/// Result of normalizing the type of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Normalized {
    /// The type was valid, or absent.
    Unchanged,
    /// The type included null, which is now expressed as in v1.
    Nullable,
    /// The type included integers and strings.
    IntOrString,
    /// The type did not exist.
    Repaired,
}

/// Reduces the type of a node to at most one type of v1.
pub(super) fn normalize(schema: &mut Object) -> Normalized {
    let names: Vec<&str> = match schema.get("type") {
        None => return Normalized::Unchanged,
        Some(Value::String(name)) if known_type(name).is_some() => return Normalized::Unchanged,
        Some(Value::String(name)) => vec![name],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        Some(_) => Vec::new(),
    };
    let nullable = names.contains(&"null");
    let mut types: Vec<&'static str> = names.iter().filter_map(|name| repaired(name)).collect();
    types.sort_unstable();
    types.dedup();
    let has_unknown = names
        .iter()
        .any(|name| *name != "null" && !name.is_empty() && repaired(name).is_none());
    schema.remove("type");
    if nullable {
        schema.insert("nullable".into(), true.into());
    }
    match types.as_slice() {
        [one] if !has_unknown => {
            schema.insert("type".into(), (*one).into());
            if nullable {
                Normalized::Nullable
            } else {
                Normalized::Repaired
            }
        }
        ["integer", "string"] if !has_unknown => {
            schema.insert("x-kubernetes-int-or-string".into(), true.into());
            Normalized::IntOrString
        }
        [] if nullable && !has_unknown => Normalized::Nullable,
        _ => Normalized::Repaired,
    }
}

/// Returns the declared type of a node.
pub(super) fn declared_type(schema: &Object) -> Option<&'static str> {
    schema
        .get("type")
        .and_then(Value::as_str)
        .and_then(known_type)
}

/// Returns the type of a node that its restrictions imply, if none is declared.
pub(super) fn inferred_type(schema: &Object) -> Option<&'static str> {
    let branches = |key: &str| -> Option<Vec<Option<&'static str>>> {
        let list = schema.get(key)?.as_array()?;
        Some(
            list.iter()
                .map(|branch| branch.as_object().and_then(declared_type))
                .collect(),
        )
    };
    let agreed = |key: &str| -> Option<&'static str> {
        let all = branches(key)?;
        let first = all.first().copied().flatten()?;
        all.iter().all(|one| *one == Some(first)).then_some(first)
    };
    declared_type(schema)
        .or_else(|| branches("allOf")?.into_iter().flatten().next())
        .or_else(|| agreed("anyOf"))
        .or_else(|| agreed("oneOf"))
        .or_else(|| listed(schema))
}

/// Returns the common type of all values in an `enum`.
fn listed(schema: &Object) -> Option<&'static str> {
    let values = schema.get("enum")?.as_array()?;
    let first = kind(values.first()?)?;
    values
        .iter()
        .all(|value| kind(value) == Some(first))
        .then_some(first)
}

/// Returns the type of a value.
fn kind(value: &Value) -> Option<&'static str> {
    Some(match value {
        Value::Null => return None,
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    })
}

/// Reports whether a node accepts integers and strings.
pub(super) fn is_int_or_string(schema: &Object) -> bool {
    crate::api_upgrade::json::flag(schema, "x-kubernetes-int-or-string")
}

/// Returns whether branches that only express "an integer or a string" have the order that the API server requires; `None`
/// for other branches.
pub(super) fn int_or_string_branches(branches: &Value) -> Option<bool> {
    let [first, second] = branches.as_array()?.as_slice() else {
        return None;
    };
    let only_type = |branch: &Value| {
        let branch = branch.as_object()?;
        declared_type(branch).filter(|_| branch.len() == 1)
    };
    match (only_type(first)?, only_type(second)?) {
        ("integer", "string") => Some(true),
        ("string", "integer") => Some(false),
        _ => None,
    }
}
