//! What tables a database has: thirteen migrations have added to them.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::Connection;

/// What every generation has.
const NEEDED: [(&str, &[&str]); 4] = [
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

/// The columns of tables.
#[derive(Debug)]
pub(super) struct Layout(BTreeMap<String, BTreeSet<String>>);

// === impl Layout ===

impl Layout {
    /// Looks at the tables; views and what extensions provide are none. `Err` names what a catalog would have.
    pub(super) fn read(connection: &Connection) -> rusqlite::Result<Result<Self, String>> {
        let mut tables = BTreeMap::new();
        let mut statement = connection.prepare(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%' LIMIT 1000",
        )?;
        let names = statement.query_map([], |row| row.get::<_, String>(0))?;
        let names: Vec<String> = names.collect::<Result<_, _>>()?;
        let mut columns = connection.prepare("SELECT name FROM pragma_table_info(?1)")?;
        for name in names {
            let columns = columns.query_map([&name], |row| row.get::<_, String>(0))?;
            tables.insert(name, columns.collect::<Result<_, _>>()?);
        }
        let layout = Self(tables);
        for (table, columns) in NEEDED {
            if !layout.0.contains_key(table) {
                return Ok(Err(format!("table {table}")));
            }
            for column in columns {
                if !layout.has(table, column) {
                    return Ok(Err(format!("column {column} in table {table}")));
                }
            }
        }
        Ok(Ok(layout))
    }

    pub(super) fn has(&self, table: &str, column: &str) -> bool {
        self.0.get(table).is_some_and(|it| it.contains(column))
    }

    /// The column, or nothing in its place.
    pub(super) fn or_null<'a>(&self, table: &str, column: &'a str) -> &'a str {
        if self.has(table, column) {
            column
        } else {
            "NULL"
        }
    }
}
