//! The types of schema nodes: JSON schema and its readers know more of them than v1 does.

use serde_json::Value;

use crate::upgrade::json::Object;

/// The types v1 knows.
const KNOWN: &[&str] = &["array", "boolean", "integer", "number", "object", "string"];

/// A type v1 knows, as it spells it.
pub(in crate::upgrade) fn known(name: &str) -> Option<&'static str> {
    KNOWN.iter().find(|known| **known == name).copied()
}

/// The type that a name stands for, which is often the name in some programming language.
pub(in crate::upgrade) fn repaired(name: &str) -> Option<&'static str> {
    let name = name.trim().to_ascii_lowercase();
    known(&name).or_else(|| {
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

/// What became of a node's type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Normalized {
    /// It was fine, or absent.
    Fine,
    /// It allowed null, and now says so as v1 does.
    Nullable,
    /// It named an integer or a string.
    IntOrString,
    /// It was no type at all.
    Repaired,
}

/// Leaves at most one type of v1 in a node.
pub(super) fn normalize(schema: &mut Object) -> Normalized {
    let names: Vec<&str> = match schema.get("type") {
        None => return Normalized::Fine,
        Some(Value::String(name)) if known(name).is_some() => return Normalized::Fine,
        Some(Value::String(name)) => vec![name],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        Some(_) => Vec::new(),
    };
    let nullable = names.contains(&"null");
    let mut found: Vec<&'static str> = names.iter().filter_map(|name| repaired(name)).collect();
    found.sort_unstable();
    found.dedup();
    let unknown = names
        .iter()
        .any(|name| *name != "null" && !name.is_empty() && repaired(name).is_none());
    schema.remove("type");
    if nullable {
        schema.insert("nullable".into(), true.into());
    }
    match found.as_slice() {
        [one] if !unknown => {
            schema.insert("type".into(), (*one).into());
            if nullable {
                Normalized::Nullable
            } else {
                Normalized::Repaired
            }
        }
        ["integer", "string"] if !unknown => {
            schema.insert("x-kubernetes-int-or-string".into(), true.into());
            Normalized::IntOrString
        }
        [] if nullable && !unknown => Normalized::Nullable,
        _ => Normalized::Repaired,
    }
}

/// The type that a node says it has.
pub(super) fn stated(schema: &Object) -> Option<&'static str> {
    schema.get("type").and_then(Value::as_str).and_then(known)
}

/// The type that a node has without saying so, by what it demands of its values.
pub(super) fn implied(schema: &Object) -> Option<&'static str> {
    let branches = |key: &str| -> Option<Vec<Option<&'static str>>> {
        let list = schema.get(key)?.as_array()?;
        Some(
            list.iter()
                .map(|branch| branch.as_object().and_then(stated))
                .collect(),
        )
    };
    let agreed = |key: &str| -> Option<&'static str> {
        let all = branches(key)?;
        let first = all.first().copied().flatten()?;
        all.iter().all(|one| *one == Some(first)).then_some(first)
    };
    stated(schema)
        .or_else(|| branches("allOf")?.into_iter().flatten().next())
        .or_else(|| agreed("anyOf"))
        .or_else(|| agreed("oneOf"))
        .or_else(|| listed(schema))
}

/// The one type of everything an `enum` lists.
fn listed(schema: &Object) -> Option<&'static str> {
    let values = schema.get("enum")?.as_array()?;
    let first = kind(values.first()?)?;
    values
        .iter()
        .all(|value| kind(value) == Some(first))
        .then_some(first)
}

/// The type of a value.
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

/// Whether a node accepts integers and strings.
pub(super) fn is_int_or_string(schema: &Object) -> bool {
    crate::upgrade::json::flag(schema, "x-kubernetes-int-or-string")
}

/// Whether a list of branches says nothing but "an integer or a string", and in the order the API server wants.
pub(super) fn int_or_string_branches(branches: &Value) -> Option<bool> {
    let [first, second] = branches.as_array()?.as_slice() else {
        return None;
    };
    let only_type = |branch: &Value| {
        let branch = branch.as_object()?;
        stated(branch).filter(|_| branch.len() == 1)
    };
    match (only_type(first)?, only_type(second)?) {
        ("integer", "string") => Some(true),
        ("string", "integer") => Some(false),
        _ => None,
    }
}
