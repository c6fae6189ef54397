//! What tables a database has: thirteen migrations have added to them.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::Connection;

use super::Problem;

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
/// What later ones have besides.
const LATER: [&str; 5] = [
    "properties",
    "dependencies",
    "related_image",
    "api_provider",
    "api_requirer",
];
/// Columns that a table may have: opm's have ten at most.
const MOST_COLUMNS: usize = 100;
/// What a row is found by, however it is otherwise called.
pub(super) const ROW: &str = "_rowid_";

/// The columns of tables.
#[derive(Debug)]
pub(super) struct Layout(BTreeMap<String, BTreeSet<String>>);

// === impl Layout ===

impl Layout {
    /// Looks at the tables that a catalog may have.
    pub(super) fn read(connection: &Connection) -> Result<Self, Problem> {
        refuse_what_runs(connection)?;
        let mut tables = BTreeMap::new();
        for name in names(connection)? {
            if let Some(columns) = columns(connection, &name)? {
                tables.insert(name, columns);
            }
        }
        let layout = Self(tables);
        for (table, columns) in NEEDED {
            if !layout.0.contains_key(table) {
                return Err(Problem::Foreign(format!("table {table}")));
            }
            for column in columns {
                if !layout.has(table, column) {
                    let missing = format!("column {column} in table {table}");
                    return Err(Problem::Foreign(missing));
                }
            }
        }
        for table in layout.0.keys() {
            check(connection, table)?;
        }
        Ok(layout)
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

    /// An expression for the bytes of a row.
    pub(super) fn size(&self, table: &str) -> String {
        let columns = self.0.get(table).into_iter().flatten();
        let sizes = columns.map(|it| {
            let quoted = it.replace('"', "\"\"");
            format!("ifnull(octet_length(\"{quoted}\"), 0)")
        });
        sizes.collect::<Vec<_>>().join(" + ")
    }
}

/// Views and virtual tables are programs of whoever has written them, which SQLite runs when it only looks at them. How
/// they are declared can be written in many ways; what is none of them, SQLite itself writes in one.
fn refuse_what_runs(connection: &Connection) -> Result<(), Problem> {
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
    let name = super::tables::text(row.get_ref(0)?).unwrap_or_default();
    Err(Problem::Runs(name.chars().take(100).collect()))
}

/// The tables that are wanted and whose rows have numbers.
fn names(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut statement = connection.prepare(
        "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table' AND wr = 0",
    )?;
    let names = statement.query_map([], |row| row.get::<_, String>(0))?;
    let needed = NEEDED.map(|(name, _)| name);
    let is_wanted = |it: &String| needed.contains(&it.as_str()) || LATER.contains(&it.as_str());
    names
        .filter(|it| it.as_ref().map_or(true, is_wanted))
        .collect()
}

/// The columns of a table, if they are all plain: what is computed would be run, and one in the place of the rows' numbers
/// has no index.
fn columns(connection: &Connection, table: &str) -> rusqlite::Result<Option<BTreeSet<String>>> {
    let mut statement = connection.prepare("SELECT name, hidden FROM pragma_table_xinfo(?1)")?;
    let mut rows = statement.query([table])?;
    let mut columns = BTreeSet::new();
    while let Some(row) = rows.next()? {
        let (name, hidden) = (row.get::<_, String>(0)?, row.get::<_, i64>(1)?);
        let is_plain = hidden == 0 && !name.eq_ignore_ascii_case(ROW);
        if !is_plain || columns.len() >= MOST_COLUMNS {
            return Ok(None);
        }
        columns.insert(name);
    }
    Ok(Some(columns))
}

/// Sees that no page of a table is in two places: a file of some kilobytes could have rows without end, or of any size.
fn check(connection: &Connection, table: &str) -> Result<(), Problem> {
    let mut found = None;
    connection.pragma(None, "quick_check", table, |row| {
        found.get_or_insert(row.get::<_, String>(0)?);
        Ok(())
    })?;
    match found {
        Some(found) if found != "ok" => Err(Problem::Damaged(found.chars().take(200).collect())),
        _ => Ok(()),
    }
}
