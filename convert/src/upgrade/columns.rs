//! Printer columns: v1 spells `JSONPath` like every other field.

use serde_json::Value;

use super::{
    json::{Object, filled, take},
    schema::types,
};

/// What had to be repaired in a list of columns for the API server to accept them.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Repaired {
    /// Paths that were not simple ones, or types that do not exist.
    pub(super) mended: usize,
    /// Columns without any path.
    pub(super) dropped: usize,
}

/// Renames the path of each column and mends what no API server accepted.
pub(super) fn reshape(columns: &mut Value) -> Repaired {
    let mut repaired = Repaired::default();
    let Value::Array(list) = columns else {
        return repaired;
    };
    list.retain_mut(|column| {
        let Value::Object(column) = column else {
            return true;
        };
        if let Some(path) = take(column, "JSONPath") {
            column.insert("jsonPath".into(), path);
        }
        let Some(path) = filled(column, "jsonPath") else {
            // Some other type is for the typed check to refuse.
            let keep = column
                .get("jsonPath")
                .is_some_and(|path| !path.is_null() && path != "");
            repaired.dropped += usize::from(!keep);
            return keep;
        };
        if let Some(simple) = simple(path) {
            column.insert("jsonPath".into(), simple.into());
            repaired.mended += 1;
        }
        repaired.mended += usize::from(mend_type(column));
        true
    });
    repaired
}

/// The path as the API server wants it, with a leading dot and without braces; nothing when it is one already.
fn simple(path: &str) -> Option<String> {
    if path.starts_with('.') {
        return None;
    }
    let bare = path.trim();
    let bare = bare
        .strip_prefix('{')
        .and_then(|rest| rest.strip_suffix('}'))
        .unwrap_or(bare);
    let bare = bare.strip_prefix('$').unwrap_or(bare);
    Some(format!(".{}", bare.trim_start_matches('.')))
}

/// A column has a type of its own set, with dates in it and without objects and lists.
fn mend_type(column: &mut Object) -> bool {
    let kind = filled(column, "type").unwrap_or_default();
    if matches!(kind, "string" | "integer" | "number" | "boolean" | "date") {
        return false;
    }
    let mended = types::repaired(kind)
        .filter(|known| !matches!(*known, "array" | "object"))
        .unwrap_or("string");
    column.insert("type".into(), mended.into());
    true
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_become_simple_ones() {
        assert_each!(|old, new| simple(old).as_deref() => new;
            ".status.phase" => None;
            "status.phase" => Some(".status.phase");
            "{.status.phase}" => Some(".status.phase");
            "$.status" => Some(".status");
            " .a " => Some(".a");
            "{$.a}" => Some(".a");
        );
    }

    #[test]
    fn columns_are_renamed_and_mended() {
        let mut columns = json!([
            {"name": "a", "type": "string", "JSONPath": ".a"},
            {"name": "b", "type": "int", "JSONPath": "b", "jsonPath": ".ignored"},
            {"name": "c", "type": "object", "jsonPath": ".c", "priority": 1}, {"name": "d", "type": "date"},
            {"name": "e", "type": "date", "JSONPath": ""}, {"name": "f", "type": "date", "JSONPath": 5}, "odd",
        ]);
        assert_rows!(reshape(&mut columns) => Repaired { mended: 3, dropped: 2 });
        let expected = json!([
            {"name": "a", "type": "string", "jsonPath": ".a"}, {"name": "b", "type": "integer", "jsonPath": ".b"},
            {"name": "c", "type": "string", "jsonPath": ".c", "priority": 1},
            {"name": "f", "type": "date", "jsonPath": 5}, "odd",
        ]);
        assert_eq!(columns, expected);
    }
}
