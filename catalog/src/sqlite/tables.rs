//! The tables of a database, as they are read: row by row, without trust in what stands in them, and at a price.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use rusqlite::{
    Connection, OpenFlags, OptionalExtension, config::DbConfig, limits::Limit, types::ValueRef,
};

use super::{
    Error, Problem,
    budget::Budget,
    layout::{Layout, ROW},
    names::LONGEST,
};
use crate::source::Limits;

/// What finding a row costs, whatever it has.
const SEEK: u64 = 100;

/// A database that is open. One of its connections is enough: reading rows is the least of what is done with them.
#[derive(Debug)]
pub(super) struct Tables {
    pub(super) path: PathBuf,
    connection: Mutex<Connection>,
    pub(super) layout: Layout,
    budget: Arc<Budget>,
}

// === impl Tables ===

impl Tables {
    /// Opens a file of so many bytes, and sees that it can be read.
    pub(super) fn open(path: &Path, size: u64, limits: &Limits) -> Result<Self, Error> {
        let budget = Arc::new(Budget::new(size));
        let open = || {
            let connection = connect(path, limits, &budget)?;
            let layout = Layout::read(&connection)?;
            Ok((connection, layout))
        };
        let (connection, layout) = open().map_err(|it| explain(it, path, &budget))?;
        Ok(Self {
            path: path.to_owned(),
            connection: Mutex::new(connection),
            layout,
            budget,
        })
    }

    /// Shows the connection to who reads nothing but names.
    pub(super) fn names<T>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, Problem>,
    ) -> Result<T, Error> {
        let connection = self.connection();
        let read = || {
            // Longer ones are not even read. What is no UTF-8 becomes that.
            let longest = i32::try_from(4 * LONGEST).unwrap_or(i32::MAX);
            let before = connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, longest)?;
            let read = read(&connection);
            connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, before)?;
            read
        };
        read().map_err(|it| explain(it, &self.path, &self.budget))
    }

    /// Texts of a row. What the table or the row does not have is nothing.
    pub(super) fn texts<const N: usize>(
        &self,
        table: &str,
        columns: [&str; N],
        row: Option<i64>,
    ) -> io::Result<[Option<String>; N]> {
        let none = [const { None }; N];
        let Some(row) = row else {
            return Ok(none);
        };
        let found = self.row(table, columns, row);
        let found = found.map_err(|it| match explain(it, &self.path, &self.budget) {
            // The file is known to who is told.
            Error::Sqlite { source, .. } => io::Error::other(source),
            error => io::Error::other(error),
        })?;
        Ok(found.unwrap_or(none))
    }

    fn row<const N: usize>(
        &self,
        table: &str,
        columns: [&str; N],
        row: i64,
    ) -> Result<Option<[Option<String>; N]>, Problem> {
        if self.budget.is_spent() {
            return Err(Problem::Costly);
        }
        let columns = columns.map(|it| self.layout.or_null(table, it)).join(", ");
        // What lies before a column is passed over, so all of the row has its price.
        let size = self.layout.size(table);
        let query = format!("SELECT {columns}, {size} FROM {table} WHERE {ROW} = ?1");
        let connection = self.connection();
        let mut statement = connection.prepare_cached(&query)?;
        let found = statement.query_row([row], |row| {
            let mut texts = [const { None }; N];
            for (at, out) in texts.iter_mut().enumerate() {
                *out = text(row.get_ref(at)?);
            }
            Ok((texts, row.get::<_, i64>(N)?))
        });
        let found = found.optional()?;
        let size = found.as_ref().map_or(0, |(_, size)| size.unsigned_abs());
        self.budget.spend(SEEK.saturating_add(size));
        Ok(found.map(|(texts, _)| texts))
    }

    fn connection(&self) -> MutexGuard<'_, Connection> {
        self.connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a problem is when nothing is left to be spent: SQLite says only that it was interrupted.
fn explain(problem: Problem, path: &Path, budget: &Budget) -> Error {
    match problem {
        Problem::Sqlite(_) if budget.is_spent() => Problem::Costly.of(path),
        problem => problem.of(path),
    }
}

/// Without locks, for nobody writes; and without trust in what stands in it.
fn connect(path: &Path, limits: &Limits, budget: &Arc<Budget>) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_URI;
    let mut connection = Connection::open_with_flags(uri(path), flags)?;
    budget.watch(&mut connection)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false)?;
    let longest = i32::try_from(limits.document).unwrap_or(i32::MAX);
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, longest)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    // They are expressions, which would be run while tables are checked.
    connection.pragma_update(None, "ignore_check_constraints", true)?;
    Ok(connection)
}

/// SQLite reads a path of its own kind: what is no letter or digit is written with its number.
fn uri(path: &Path) -> String {
    use std::os::unix::ffi::OsStrExt;

    let byte = |byte: &u8| match byte {
        b'/' | b'.' | b'-' | b'_' | b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => {
            char::from(*byte).to_string()
        }
        other => format!("%{other:02x}"),
    };
    let path: String = path.as_os_str().as_bytes().iter().map(byte).collect();
    format!("file:{path}?mode=ro&immutable=1")
}

/// A value as Go's driver reads it into a text; nothing of NULL.
pub(super) fn text(value: ValueRef<'_>) -> Option<String> {
    match value {
        ValueRef::Null => None,
        ValueRef::Integer(number) => Some(number.to_string()),
        ValueRef::Real(number) => Some(number.to_string()),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
            Some(String::from_utf8_lossy(bytes).into_owned())
        }
    }
}
