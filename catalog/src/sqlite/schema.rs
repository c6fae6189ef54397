//! Tables of a database. Thirteen migrations of opm have added to them.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::Connection;

use super::Problem;

/// Tables and columns that every schema version has.
const REQUIRED_TABLES: [(&str, &[&str]); 4] = [
    ("operatorbundle", &["name", "csv", "bundle"]),
    ("package", &["name", "default_channel"]),
    (
        "channel",
        &["name", "package_name", "head_operatorbundle_name"],
    ),
    (
        "channel_entry",
        &[
            "entry_id",
            "channel_name",
            "package_name",
            "operatorbundle_name",
            "replaces",
            "depth",
        ],
    ),
];
/// Tables of later schema versions.
const OPTIONAL_TABLES: [&str; 5] = [
    "properties",
    "dependencies",
    "related_image",
    "api_provider",
    "api_requirer",
];
/// Maximum number of columns in a table. opm's tables have at most ten.
const MAX_COLUMNS: usize = 100;
/// Name of the row ID that no table can redefine.
pub(super) const ROW_ID: &str = "_rowid_";

/// Columns of each table.
#[derive(Debug)]
pub(super) struct Schema(BTreeMap<String, BTreeSet<String>>);

// === impl Schema ===

impl Schema {
    /// Reads the relevant tables and checks that the database is a catalog.
    pub(super) fn read(connection: &Connection) -> Result<Self, Problem> {
        reject_code(connection)?;
        let mut tables = BTreeMap::new();
        for name in names(connection)? {
            if let Some(columns) = columns(connection, &name)? {
                tables.insert(name, columns);
            }
        }
        let layout = Self(tables);
        for (table, columns) in REQUIRED_TABLES {
            if !layout.0.contains_key(table) {
                return Err(Problem::NotACatalog(format!("table {table}")));
            }
            for column in columns {
                if !layout.has(table, column) {
                    let missing = format!("column {column} in table {table}");
                    return Err(Problem::NotACatalog(missing));
                }
            }
        }
        for table in layout.0.keys() {
            check(connection, table)?;
        }
        Ok(layout)
    }

    pub(super) fn has(&self, table: &str, column: &str) -> bool {
        self.0
            .get(table)
            .is_some_and(|columns| columns.contains(column))
    }

    /// Returns the name of the column, or `NULL` if it does not exist.
    pub(super) fn or_null<'a>(&self, table: &str, column: &'a str) -> &'a str {
        if self.has(table, column) {
            column
        } else {
            "NULL"
        }
    }

    /// Returns an SQL expression for the size of a row in bytes.
    pub(super) fn size(&self, table: &str) -> String {
        let columns = self.0.get(table).into_iter().flatten();
        let sizes = columns.map(|column| {
            let quoted = column.replace('"', "\"\"");
            format!("ifnull(octet_length(\"{quoted}\"), 0)")
        });
        sizes.collect::<Vec<_>>().join(" + ")
    }
}

/// Rejects views and virtual tables: SQLite would run their code during a read. Their declarations can be written in
/// many ways, but SQLite writes those of tables and indexes in a single form.
fn reject_code(connection: &Connection) -> Result<(), Problem> {
    let mut statement = connection.prepare(
        "SELECT name FROM sqlite_master WHERE sql IS NOT NULL
            AND CAST(sql AS TEXT) NOT LIKE 'CREATE TABLE %'
            AND CAST(sql AS TEXT) NOT LIKE 'CREATE INDEX %'
            AND CAST(sql AS TEXT) NOT LIKE 'CREATE UNIQUE INDEX %'
            AND CAST(sql AS TEXT) NOT LIKE 'CREATE TRIGGER %'",
    )?;
    let mut rows = statement.query([])?;
    let Some(row) = rows.next()? else {
        return Ok(());
    };
    let name = super::connection::text(row.get_ref(0)?).unwrap_or_default();
    Err(Problem::ContainsCode(name.chars().take(100).collect()))
}

/// Returns the relevant tables whose rows have IDs.
fn names(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut statement = connection.prepare(
        "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table' AND wr = 0",
    )?;
    let names = statement.query_map([], |row| row.get::<_, String>(0))?;
    let required = REQUIRED_TABLES.map(|(name, _)| name);
    let is_relevant = |name: &String| {
        required.contains(&name.as_str()) || OPTIONAL_TABLES.contains(&name.as_str())
    };
    names
        .filter(|name| name.as_ref().map_or(true, is_relevant))
        .collect()
}

/// Returns the columns of a table, or `None` if a column is unsuitable. A generated column would run code, and a column
/// that hides the row ID has no index.
fn columns(connection: &Connection, table: &str) -> rusqlite::Result<Option<BTreeSet<String>>> {
    let mut statement = connection.prepare("SELECT name, hidden FROM pragma_table_xinfo(?1)")?;
    let mut rows = statement.query([table])?;
    let mut columns = BTreeSet::new();
    while let Some(row) = rows.next()? {
        let (name, hidden) = (row.get::<_, String>(0)?, row.get::<_, i64>(1)?);
        let is_plain = hidden == 0 && !name.eq_ignore_ascii_case(ROW_ID);
        if !is_plain || columns.len() >= MAX_COLUMNS {
            return Ok(None);
        }
        columns.insert(name);
    }
    Ok(Some(columns))
}

/// Checks that no page of a table is in two places. A small file could otherwise have an infinite number of rows, or
/// rows of any size.
fn check(connection: &Connection, table: &str) -> Result<(), Problem> {
    let mut result = None;
    connection.pragma(None, "quick_check", table, |row| {
        result.get_or_insert(row.get::<_, String>(0)?);
        Ok(())
    })?;
    match result {
        Some(result) if result != "ok" => Err(Problem::Damaged(result.chars().take(200).collect())),
        _ => Ok(()),
    }
}
