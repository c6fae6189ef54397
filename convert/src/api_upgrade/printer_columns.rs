//! Printer columns: v1 uses `jsonPath` in place of `JSONPath`.

use serde_json::Value;

use super::{
    json::{Object, non_empty, take},
    schema::types,
};

/// Repairs in a list of columns that the API server requires.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct ColumnRepairs {
    /// Number of paths that were not simple, and of types that do not exist.
    pub(super) fixed: usize,
    /// Number of columns without a path.
    pub(super) dropped: usize,
}

/// Renames the path of each column, and repairs values that no API server accepts.
pub(super) fn reshape(columns: &mut Value) -> ColumnRepairs {
    let mut repaired = ColumnRepairs::default();
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
        let Some(path) = non_empty(column, "jsonPath") else {
            // The typed check rejects a value of another type.
            let has_other_type = column
                .get("jsonPath")
                .is_some_and(|path| !path.is_null() && path != "");
            repaired.dropped += usize::from(!has_other_type);
            return has_other_type;
        };
        if let Some(simple) = simple(path) {
            column.insert("jsonPath".into(), simple.into());
            repaired.fixed += 1;
        }
        repaired.fixed += usize::from(fix_type(column));
        true
    });
    repaired
}

/// Returns the path in the form that the API server requires, with a leading dot and without braces; `None` if it already
/// has that form.
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

/// Sets a type that columns support: they also have dates, but neither objects nor lists.
fn fix_type(column: &mut Object) -> bool {
    let kind = non_empty(column, "type").unwrap_or_default();
    if matches!(kind, "string" | "integer" | "number" | "boolean" | "date") {
        return false;
    }
    let fixed = types::repaired(kind)
        .filter(|fixed| !matches!(*fixed, "array" | "object"))
        .unwrap_or("string");
    column.insert("type".into(), fixed.into());
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
    fn columns_are_renamed_and_repaired() {
        let mut columns = json!([
            {"name": "a", "type": "string", "JSONPath": ".a"},
            {"name": "b", "type": "int", "JSONPath": "b", "jsonPath": ".ignored"},
            {"name": "c", "type": "object", "jsonPath": ".c", "priority": 1}, {"name": "d", "type": "date"},
            {"name": "e", "type": "date", "JSONPath": ""}, {"name": "f", "type": "date", "JSONPath": 5}, "odd",
        ]);
        assert_rows!(reshape(&mut columns) => ColumnRepairs { fixed: 3, dropped: 2 });
        assert_rows!(columns => json!([
            {"name": "a", "type": "string", "jsonPath": ".a"}, {"name": "b", "type": "integer", "jsonPath": ".b"},
            {"name": "c", "type": "string", "jsonPath": ".c", "priority": 1},
            {"name": "f", "type": "date", "jsonPath": 5}, "odd",
        ]));
    }
}
