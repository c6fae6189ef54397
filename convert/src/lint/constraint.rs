//! Compound constraints of the type `olm.constraint`.

use manifests::{object::type_name, path::Path};
use serde_json::Value;

use super::properties::{Problem, field, range_field};

/// Maximum size that OLM's resolver accepts, in bytes.
pub(super) const LIMIT: usize = 2 << 16;

const KINDS: [&str; 6] = ["all", "any", "cel", "gvk", "not", "package"];

/// Adds all problems of a constraint and of nested constraints.
pub(super) fn check(constraint: &Value, path: Path, problems: &mut Vec<Problem>) {
    let Value::Object(map) = constraint else {
        return problems.push(Problem::new(
            path,
            format!("is {}, not a constraint", type_name(constraint)),
        ));
    };
    for key in map
        .keys()
        .filter(|key| !KINDS.contains(&key.as_str()) && *key != "failureMessage")
    {
        problems.push(Problem::new(
            path.clone().key(key),
            format!("has the unknown field {key:?}"),
        ));
    }
    let kinds: Vec<&str> = KINDS
        .into_iter()
        .filter(|kind| map.contains_key(*kind))
        .collect();
    if kinds.len() != 1 {
        let found = if kinds.is_empty() {
            "none".to_owned()
        } else {
            kinds.join(", ")
        };
        let problem = format!("needs exactly one of {}; found: {found}", KINDS.join(", "));
        problems.push(Problem::new(path.clone(), problem));
    }
    for (kind, value) in map {
        let path = path.clone().key(kind);
        match kind.as_str() {
            "failureMessage" if !value.is_string() => {
                problems.push(Problem::new(
                    path,
                    format!("is {}, not a string", type_name(value)),
                ));
            }
            "cel" => field(value, "rule", &path, problems),
            "gvk" => {
                for name in ["group", "version", "kind"] {
                    field(value, name, &path, problems);
                }
            }
            "package" => {
                field(value, "packageName", &path, problems);
                range_field(value, "versionRange", &path, problems);
            }
            "all" | "any" | "not" => nested(value, &path, problems),
            _ => {}
        }
    }
}

fn nested(value: &Value, path: &Path, problems: &mut Vec<Problem>) {
    let path = path.clone().key("constraints");
    match value
        .get("constraints")
        .and_then(Value::as_array)
        .map(Vec::as_slice)
    {
        None | Some([]) => problems.push(Problem::new(path.parent(), "has no constraints".into())),
        Some(constraints) => {
            for (at, constraint) in constraints.iter().enumerate() {
                check(constraint, path.clone().index(at), problems);
            }
        }
    }
}
