//! Catalogs in SQLite databases, as index images carried them before there were file-based ones.
//!
//! ```text
//!  index.db ─► layout ─► rows: names, edges, where the rest is ─► graph: replaces and skips of each channel
//!                                                                   │
//!  walk, load, render, serve ◄── one file of blobs for each package ┴◄── bundles, read when their package is
//! ```
//!
//! A database is [`Files`]: for everybody else it is a folder with a file for each package, in which the blobs are that
//! `opm migrate` writes. They are made while they are read, a bundle at a time, so a database is never in memory. Nothing
//! is written, not even a journal, and nothing of it is run: a database with views or virtual tables is refused, and so is
//! one with a page in two places, which could have rows without end. What is read of it has a price, by the size of the
//! file, so that a bundle in thousands of packages does not make terabytes of a megabyte.
//!
//! All generations are read. Older ones lack tables and columns; what stood there later is then taken from where opm's
//! migrations take it: APIs from `api_provider` and `api_requirer`, versions, and before there were tables of them also images
//! and the APIs that are needed, from the ClusterServiceVersion.

mod budget;
mod documents;
mod graph;
mod layout;
mod names;
mod rows;
mod tables;
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
    documents::Documents,
    rows::{Most, Rows},
    tables::Tables,
};
use crate::source::{Files, Limits};

/// How every database begins.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// Why a file is no catalog.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be read at all.
    #[error("failed to read the database {}; is it there, and may you read it?", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// SQLite does not understand it.
    #[error("failed to read the database {}; if it is damaged, fetch it again: \"PRAGMA integrity_check\" of sqlite3 tells more", path.display())]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// What SQLite says.
        #[source]
        source: rusqlite::Error,
    },
    /// It is not what SQLite writes.
    #[error("the database {} is damaged; fetch it again ({found})", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What SQLite has found.
        found: String,
    },
    /// It has a view or a virtual table: a program that is run when it is read.
    #[error("the database {} has {name:?}, which is no table, and what stands in a database is not run; drop it, for no catalog needs it", path.display())]
    Runs {
        /// The file.
        path: PathBuf,
        /// What it is called.
        name: String,
    },
    /// To read it costs more than a catalog of its size can.
    #[error("the database {} is not read to its end, for the same of it would be read again and again; look for bundles of several packages, or make it anew with opm", path.display())]
    Costly {
        /// The file.
        path: PathBuf,
    },
    /// It is a database of something else.
    #[error("{} is no catalog: it has no {missing}; a catalog's database comes from an index image, or from opm", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// The table or column.
        missing: String,
    },
    /// It has more than it may.
    #[error("the database {} has more than {limit} {unit}", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The limit.
        limit: u64,
        /// Of what.
        unit: &'static str,
    },
}

/// The same, before anybody says of which file.
#[derive(Debug)]
enum Problem {
    Sqlite(rusqlite::Error),
    Damaged(String),
    Runs(String),
    Costly,
    Foreign(String),
    TooLarge { limit: u64, unit: &'static str },
}

// === impl Error ===

impl Error {
    /// Whether the same database fails again however often it is read: neither disk nor memory was short.
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
            | Self::Runs { .. }
            | Self::Costly { .. }
            | Self::Foreign { .. }
            | Self::TooLarge { .. } => true,
        }
    }
}

/// A catalog in a database.
#[derive(Debug)]
pub struct Database {
    limits: Limits,
    tables: Tables,
    rows: Rows,
    /// Gone with the catalog, if it is a copy.
    _copy: Option<NamedTempFile>,
}

/// Whether a file begins as databases do.
///
/// # Errors
/// When it cannot be read.
pub fn is_database(path: &Path) -> io::Result<bool> {
    let mut start = Vec::with_capacity(MAGIC.len());
    File::open(path)?
        .take(MAGIC.len() as u64)
        .read_to_end(&mut start)?;
    Ok(start == MAGIC)
}

// === impl Problem ===

impl Problem {
    fn of(self, path: &Path) -> Error {
        let path = path.to_owned();
        match self {
            Self::Sqlite(source) => Error::Sqlite { path, source },
            Self::Damaged(found) => Error::Damaged { path, found },
            Self::Runs(name) => Error::Runs { path, name },
            Self::Costly => Error::Costly { path },
            Self::Foreign(missing) => Error::Foreign { path, missing },
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
    /// Opens a database that nobody writes to, and reads which packages, channels and edges there are.
    ///
    /// # Errors
    /// When it cannot be read, is none of a catalog, or exceeds a limit.
    pub fn open(path: &Path, limits: &Limits) -> Result<Self, Error> {
        Self::of(path.to_owned(), None, limits)
    }

    /// The same of a stream, which is kept in a file for as long.
    ///
    /// # Errors
    /// As [`open`](Self::open), and when there is no space for it.
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
        let mut most = stream.take(limits.total.saturating_add(1));
        io::copy(&mut most, &mut copy).map_err(failed)?;
        copy.flush().map_err(failed)?;
        Self::of(path, Some(copy), limits)
    }

    /// The database that files are, as those of an index image: the only one of them. Nothing if they are something else.
    ///
    /// # Errors
    /// As [`copy`](Self::copy).
    pub fn alone(files: &dyn Files, limits: &Limits) -> Result<Option<Self>, Error> {
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

    fn of(path: PathBuf, copy: Option<NamedTempFile>, limits: &Limits) -> Result<Self, Error> {
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
        let tables = Tables::open(&path, metadata.len(), limits)?;
        let most = Most {
            rows: limits.documents,
            names: limits.document,
        };
        let rows = tables.names(|it| Rows::read(it, &tables.layout, most))?;
        Ok(Self {
            limits: *limits,
            tables,
            rows,
            _copy: copy,
        })
    }

    /// What belongs to no package or channel and is therefore no part of the catalog, in words.
    pub fn left_out(&self) -> &[String] {
        &self.rows.left_out
    }
}

impl Files for Database {
    fn paths(&self) -> Vec<String> {
        self.rows
            .package_names()
            .map(|it| format!("{it}.json"))
            .collect()
    }

    fn open<'a>(&'a self, path: &str) -> io::Result<Box<dyn Read + 'a>> {
        let package = path.strip_suffix(".json").unwrap_or(path);
        Ok(Box::new(Text {
            documents: Documents::new(&self.tables, &self.rows, package, self.limits.document),
            buffer: Vec::new(),
            read: 0,
        }))
    }

    fn keeps_order(&self) -> bool {
        true
    }
}

/// The blobs of a package one after the other.
struct Text<'a> {
    documents: Documents<'a>,
    buffer: Vec<u8>,
    read: usize,
}

impl Read for Text<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.read == self.buffer.len() {
            self.buffer.clear();
            self.read = 0;
            if !self.documents.next(&mut self.buffer)? {
                return Ok(0);
            }
        }
        let mut rest = self.buffer.get(self.read..).unwrap_or_default();
        let count = rest.read(out)?;
        self.read += count;
        Ok(count)
    }
}
