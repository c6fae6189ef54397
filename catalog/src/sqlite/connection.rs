//! Read access to the tables of a database, row by row. Their content is untrusted, and each read is charged to the
//! budget.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::Mutex;
use rusqlite::{
    Connection, OpenFlags, OptionalExtension, config::DbConfig, limits::Limit, types::ValueRef,
};

use super::{
    Error, Problem,
    budget::ReadBudget,
    interner::MAX_NAME_LEN,
    schema::{ROW_ID, Schema},
};
use crate::source::Limits;

/// Cost of finding a row, regardless of its size.
const SEEK: u64 = 100;

/// An open database. A single connection is sufficient, because reading rows is a small part of the work.
#[derive(Debug)]
pub(super) struct SqliteConnection {
    pub(super) path: PathBuf,
    connection: Mutex<Connection>,
    pub(super) layout: Schema,
    budget: Arc<ReadBudget>,
}

// === impl SqliteConnection ===

impl SqliteConnection {
    /// Opens a file of `size` bytes and checks that it is a readable catalog.
    pub(super) fn open(path: &Path, size: u64, limits: &Limits) -> Result<Self, Error> {
        let budget = Arc::new(ReadBudget::new(size));
        let open = || {
            let connection = connect(path, limits, &budget)?;
            let layout = Schema::read(&connection)?;
            Ok((connection, layout))
        };
        let (connection, layout) = open().map_err(|problem| explain(problem, path, &budget))?;
        Ok(Self {
            path: path.to_owned(),
            connection: Mutex::new(connection),
            layout,
            budget,
        })
    }

    /// Runs `read` with a connection that reads values up to the length of names only.
    pub(super) fn with_name_limit<T>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, Problem>,
    ) -> Result<T, Error> {
        let connection = self.connection.lock();
        let read = || {
            // SQLite does not read longer values. Invalid UTF-8 is replaced afterwards.
            let max_length = i32::try_from(4 * MAX_NAME_LEN).unwrap_or(i32::MAX);
            let before = connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, max_length)?;
            let read = read(&connection);
            connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, before)?;
            read
        };
        read().map_err(|problem| explain(problem, &self.path, &self.budget))
    }

    /// Reads columns of a row as text. A missing row or column yields `None`.
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
        let result = self.row(table, columns, row);
        let result =
            result.map_err(|problem| match explain(problem, &self.path, &self.budget) {
                // The caller knows the path of the file.
                Error::Sqlite { source, .. } => io::Error::other(source),
                error => io::Error::other(error),
            })?;
        Ok(result.unwrap_or(none))
    }

    fn row<const N: usize>(
        &self,
        table: &str,
        columns: [&str; N],
        row: i64,
    ) -> Result<Option<[Option<String>; N]>, Problem> {
        if self.budget.is_spent() {
            return Err(Problem::BudgetExceeded);
        }
        let columns = columns
            .map(|column| self.layout.or_null(table, column))
            .join(", ");
        // SQLite passes over all columns before the requested one, so the whole row is charged.
        let size = self.layout.size(table);
        let query = format!("SELECT {columns}, {size} FROM {table} WHERE {ROW_ID} = ?1");
        let connection = self.connection.lock();
        let mut statement = connection.prepare_cached(&query)?;
        let result = statement.query_row([row], |row| {
            let mut texts = [const { None }; N];
            for (at, out) in texts.iter_mut().enumerate() {
                *out = text(row.get_ref(at)?);
            }
            Ok((texts, row.get::<_, i64>(N)?))
        });
        let result = result.optional()?;
        let size = result.as_ref().map_or(0, |(_, size)| size.unsigned_abs());
        self.budget.spend(SEEK.saturating_add(size));
        Ok(result.map(|(texts, _)| texts))
    }
}

/// Converts a problem to an error. SQLite reports an exceeded budget only as an interruption.
fn explain(problem: Problem, path: &Path, budget: &ReadBudget) -> Error {
    match problem {
        Problem::Sqlite(_) if budget.is_spent() => Problem::BudgetExceeded.into_error(path),
        problem => problem.into_error(path),
    }
}

/// Opens a database that is untrusted. Locks are not used, because no process writes to it.
fn connect(path: &Path, limits: &Limits, budget: &Arc<ReadBudget>) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_URI;
    let mut connection = Connection::open_with_flags(uri(path), flags)?;
    budget.install_progress_handler(&mut connection)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false)?;
    let max_length = i32::try_from(limits.document).unwrap_or(i32::MAX);
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, max_length)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    // CHECK constraints are expressions, which would run during the check of the tables.
    connection.pragma_update(None, "ignore_check_constraints", true)?;
    Ok(connection)
}

/// Returns the URI of a path for SQLite. All characters except letters, digits and `/.-_` are percent-encoded.
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

/// Converts a value to text as Go's driver does; NULL yields `None`.
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
