//! Reader for catalogs in SQLite databases, the format of index images before file-based catalogs.
//!
//! ```text
//! index.db ─► schema ─► rows: names, edges, row IDs ─► edges: replaces and skips of each channel
//!                                                                   │
//! documents, load, render, serve ◄── one file of blobs per package ─┴◄── bundles, read with their package
//! ```
//!
//! A database implements [`FileSource`]: it looks like a directory with one file per package, which contains the blobs that
//! `opm migrate` writes. The blobs are built while they are read, one bundle at a time, so a database is never in
//! memory. Nothing is written, not even a journal, and nothing in the database is executed. A database with views or
//! virtual tables is rejected. So is one with a page in two places, which could have an infinite number of rows. A
//! budget that depends on the file size limits the reads. Without it, a bundle in thousands of packages could turn a
//! megabyte into terabytes.
//!
//! All schema versions are supported. Older ones lack tables and columns. The missing data is then taken from the
//! source that opm's migrations use: APIs from `api_provider` and `api_requirer`, versions from the
//! ClusterServiceVersion. The ClusterServiceVersion also supplies images and required APIs in databases without tables
//! for them.

mod budget;
mod connection;
mod documents;
mod edges;
mod interner;
mod rows;
mod schema;
#[cfg(test)]
mod tests;

use std::{
    fs::File,
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

use rusqlite::ErrorCode;
use tempfile::NamedTempFile;

use self::{
    connection::SqliteConnection,
    documents::PackageBlobs,
    rows::{RowIndex, RowLimits},
};
use crate::source::{FileSource, Limits};

/// Start of every SQLite database.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// Reasons why a file is not a usable catalog.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("failed to read database {}; check that it exists and is readable", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Cause of the failure.
        #[source]
        source: io::Error,
    },
    /// SQLite cannot read the file.
    #[error("failed to read database {}; run \"PRAGMA integrity_check\" in sqlite3, and fetch the database again if it is corrupt", path.display())]
    Sqlite {
        /// Path of the file.
        path: PathBuf,
        /// Error of SQLite.
        #[source]
        source: rusqlite::Error,
    },
    /// The file is damaged.
    #[error("database {} is corrupt ({found}); fetch it again", path.display())]
    Damaged {
        /// Path of the file.
        path: PathBuf,
        /// Defect that SQLite reported.
        found: String,
    },
    /// The database contains a view or a virtual table, whose code would run during a read.
    #[error("database {} contains {name:?}, which is not a table; views, triggers and virtual tables are not executed; drop it", path.display())]
    ContainsCode {
        /// Path of the file.
        path: PathBuf,
        /// Name of the view or table.
        name: String,
    },
    /// Reading the database exceeds the budget for its size.
    #[error("database {} exceeds the read budget for its size, because the same rows would be read repeatedly; check for bundles of several packages, or rebuild it with opm", path.display())]
    BudgetExceeded {
        /// Path of the file.
        path: PathBuf,
    },
    /// The database is not a catalog.
    #[error("{} is not a catalog: missing {missing}; use a database from an index image or from opm", path.display())]
    NotACatalog {
        /// Path of the file.
        path: PathBuf,
        /// Missing table or column.
        missing: String,
    },
    /// The database exceeds a limit.
    #[error("database {} has more than {limit} {unit}", path.display())]
    TooLarge {
        /// Path of the file.
        path: PathBuf,
        /// Limit that was exceeded.
        limit: u64,
        /// Unit of the limit.
        unit: &'static str,
    },
}

/// An [`Error`] without the path of the file.
#[derive(Debug)]
enum Problem {
    Sqlite(rusqlite::Error),
    Damaged(String),
    ContainsCode(String),
    BudgetExceeded,
    NotACatalog(String),
    TooLarge { limit: u64, unit: &'static str },
}

// === impl Error ===

impl Error {
    /// Reports whether every further read of the same database fails, because the failure was not caused by a shortage
    /// of disk space or memory.
    pub fn is_terminal(&self) -> bool {
        match self {
            Self::File { .. } => false,
            Self::Sqlite { source, .. } => !matches!(
                source.sqlite_error_code(),
                Some(
                    ErrorCode::DiskFull
                        | ErrorCode::OutOfMemory
                        | ErrorCode::SystemIoFailure
                        | ErrorCode::CannotOpen
                        | ErrorCode::OperationInterrupted
                )
            ),
            Self::Damaged { .. }
            | Self::ContainsCode { .. }
            | Self::BudgetExceeded { .. }
            | Self::NotACatalog { .. }
            | Self::TooLarge { .. } => true,
        }
    }
}

/// A catalog in a database.
#[derive(Debug)]
pub struct Database {
    limits: Limits,
    tables: SqliteConnection,
    rows: RowIndex,
    /// Temporary copy of the database, if any. It is removed on drop.
    _copy: Option<NamedTempFile>,
}

/// Reports whether a file starts like a SQLite database.
///
/// # Errors
/// Returns an error if the file cannot be read.
pub fn is_database(path: &Path) -> io::Result<bool> {
    let mut start = Vec::with_capacity(MAGIC.len());
    File::open(path)?
        .take(MAGIC.len() as u64)
        .read_to_end(&mut start)?;
    Ok(start == MAGIC)
}

// === impl Problem ===

impl Problem {
    fn into_error(self, path: &Path) -> Error {
        let path = path.to_owned();
        match self {
            Self::Sqlite(source) => Error::Sqlite { path, source },
            Self::Damaged(found) => Error::Damaged { path, found },
            Self::ContainsCode(name) => Error::ContainsCode { path, name },
            Self::BudgetExceeded => Error::BudgetExceeded { path },
            Self::NotACatalog(missing) => Error::NotACatalog { path, missing },
            Self::TooLarge { limit, unit } => Error::TooLarge { path, limit, unit },
        }
    }
}

impl From<rusqlite::Error> for Problem {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

// === impl Database ===

impl Database {
    /// Opens a database that no process writes to, and reads its packages, channels and edges.
    ///
    /// # Errors
    /// Returns an error if the database cannot be read, is not a catalog, or exceeds a limit.
    pub fn open(path: &Path, limits: &Limits) -> Result<Self, Error> {
        Self::from_path(path.to_owned(), None, limits)
    }

    /// Opens a database from a stream. It is copied to a temporary file, which is removed with this value.
    ///
    /// # Errors
    /// Returns the errors of [`open`](Self::open), and an error if the disk is full.
    pub fn copy(stream: &mut dyn Read, limits: &Limits) -> Result<Self, Error> {
        let mut copy =
            NamedTempFile::with_prefix("rukpak-index-").map_err(|source| Error::File {
                path: std::env::temp_dir(),
                source,
            })?;
        let path = copy.path().to_owned();
        let failed = |source| Error::File {
            path: path.clone(),
            source,
        };
        let mut limited = stream.take(limits.total.saturating_add(1));
        io::copy(&mut limited, &mut copy).map_err(failed)?;
        copy.flush().map_err(failed)?;
        Self::from_path(path, Some(copy), limits)
    }

    /// Opens the database if it is the only file, as in an index image. Returns `None` for other content.
    ///
    /// # Errors
    /// Returns the errors of [`copy`](Self::copy).
    pub fn private_copy(files: &dyn FileSource, limits: &Limits) -> Result<Option<Self>, Error> {
        let paths = files.paths();
        let [path] = paths.as_slice() else {
            return Ok(None);
        };
        let failed = |source| Error::File {
            path: path.into(),
            source,
        };
        let mut start = Vec::with_capacity(MAGIC.len());
        let mut file = files.open(path).map_err(failed)?;
        let mut first = file.by_ref().take(MAGIC.len() as u64);
        first.read_to_end(&mut start).map_err(failed)?;
        if start != MAGIC {
            return Ok(None);
        }
        Self::copy(&mut start.as_slice().chain(file), limits).map(Some)
    }

    fn from_path(
        path: PathBuf,
        copy: Option<NamedTempFile>,
        limits: &Limits,
    ) -> Result<Self, Error> {
        let failed = |source| Error::File {
            path: path.clone(),
            source,
        };
        let metadata = std::fs::metadata(&path).map_err(failed)?;
        if !metadata.is_file() {
            return Err(failed(io::Error::other("not a regular file")));
        }
        if metadata.len() > limits.total {
            return Err(Error::TooLarge {
                path,
                limit: limits.total,
                unit: "bytes",
            });
        }
        let tables = SqliteConnection::open(&path, metadata.len(), limits)?;
        let row_limits = RowLimits {
            rows: limits.documents,
            names: limits.document,
        };
        let rows = tables
            .with_name_limit(|connection| RowIndex::read(connection, &tables.layout, row_limits))?;
        Ok(Self {
            limits: *limits,
            tables,
            rows,
            _copy: copy,
        })
    }

    /// Returns descriptions of the entries that belong to no package or channel and are not part of the catalog.
    pub fn left_out(&self) -> &[String] {
        &self.rows.left_out
    }
}

impl FileSource for Database {
    fn paths(&self) -> Vec<String> {
        self.rows
            .package_names()
            .map(|package| format!("{package}.json"))
            .collect()
    }

    fn open<'a>(&'a self, path: &str) -> io::Result<Box<dyn Read + 'a>> {
        let package = path.strip_suffix(".json").unwrap_or(path);
        Ok(Box::new(BlobReader {
            documents: PackageBlobs::new(&self.tables, &self.rows, package, self.limits.document),
            buffer: Vec::new(),
            read: 0,
        }))
    }

    fn is_ordered(&self) -> bool {
        true
    }
}

/// Reader of the consecutive blobs of a package.
struct BlobReader<'a> {
    documents: PackageBlobs<'a>,
    buffer: Vec<u8>,
    read: usize,
}

impl Read for BlobReader<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.read == self.buffer.len() {
            self.buffer.clear();
            self.read = 0;
            if !self.documents.next(&mut self.buffer)? {
                return Ok(0);
            }
        }
        let mut remaining = self.buffer.get(self.read..).unwrap_or_default();
        let count = remaining.read(out)?;
        self.read += count;
        Ok(count)
    }
}
