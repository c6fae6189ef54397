//! Files of a catalog: all files of a directory, regardless of their names, except those that an `.indexignore`
//! excludes.

mod indexignore;
mod meter;
mod mounted;
#[cfg(test)]
mod tests;

use std::{
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
};

use bytes::Bytes;
use manifests::content::{Content, Irregular, SkippedEntries};

use self::indexignore::IgnoreRules;
pub(crate) use self::meter::Meter;
pub use self::mounted::MountedDir;

/// Name of the files that exclude other files from the catalog.
pub const INDEXIGNORE: &str = ".indexignore";

/// Location of a catalog's files.
#[derive(Debug, Clone, Copy)]
pub enum Source<'a> {
    /// Directory on the local file system.
    Directory(&'a Path),
    /// Files in memory, from an image or an archive.
    Content(&'a Content),
    /// Files of an external provider.
    Files(&'a dyn FileSource),
}

/// Provider of files, such as those of an image that is too large for memory.
pub trait FileSource: Sync + std::fmt::Debug {
    /// Returns the relative paths of all files, with `/` as separator.
    fn paths(&self) -> Vec<String>;
    /// Opens a file.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read.
    fn open<'a>(&'a self, path: &str) -> io::Result<Box<dyn Read + 'a>>;
    /// Reports whether keys in property values are printed in their original order instead of sorted.
    fn is_ordered(&self) -> bool {
        false
    }
    /// Entries beside the files that are not regular files, such as links, with paths as in [`FileSource::paths`].
    fn irregular(&self) -> Vec<(String, Irregular)> {
        Vec::new()
    }
}

/// Limits for a catalog. The largest known one has some hundred megabytes and 10,000 bundles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of files and directories.
    pub files: usize,
    /// Maximum size of all files in bytes.
    pub total: u64,
    /// Maximum size of a document in bytes. At most one document is in memory per file that is being read.
    pub document: usize,
    /// Maximum number of values in a document, including keys.
    pub values: usize,
    /// Maximum number of documents in all files.
    pub documents: usize,
    /// Maximum number of bundles per package; a larger package is broken. The default is unlimited, as in opm. Callers
    /// that retain untrusted catalogs use [`MAX_BUNDLES`](crate::model::MAX_BUNDLES).
    pub package_bundles: usize,
    /// Maximum memory size of a package in bytes, with the same effect; see [`MAX_BYTES`](crate::model::MAX_BYTES).
    pub package_size: usize,
    /// Number of files that are read concurrently; 0 uses the number of processors.
    pub threads: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            files: 200_000,
            total: 4 << 30,
            document: 64 << 20,
            values: 8_000_000,
            documents: 2_000_000,
            package_bundles: usize::MAX,
            package_size: usize::MAX,
            threads: 0,
        }
    }
}

/// Reasons why a catalog cannot be read at all.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The directory, or a subdirectory, cannot be read.
    #[error("failed to read catalog directory {}; check that it exists and is readable", path.display())]
    Directory {
        /// Path of the directory.
        path: PathBuf,
        /// Cause of the failure.
        #[source]
        source: io::Error,
    },
    /// The catalog has too many files, bytes or documents.
    #[error(
        "the catalog has more than {limit} {unit}; exclude some with {INDEXIGNORE}, or split the catalog"
    )]
    TooLarge {
        /// Limit that was exceeded.
        limit: u64,
        /// Unit of the limit.
        unit: &'static str,
    },
    /// An `.indexignore` is invalid.
    #[error("{file}: {problem}; correct or remove the file")]
    Ignore {
        /// File, relative to the catalog.
        file: String,
        /// Description of the problem.
        problem: String,
    },
    /// A file is not valid gzip data.
    #[error("failed to decompress {}; compress it again", path.display())]
    Decompress {
        /// Path of the file.
        path: PathBuf,
        /// Cause of the failure.
        #[source]
        source: io::Error,
    },
}

/// A file of a catalog.
#[derive(Debug, Clone)]
pub(crate) struct Entry<'a> {
    /// Path relative to the catalog, with `/` as separator.
    pub(crate) path: String,
    location: EntryLocation<'a>,
}

#[derive(Debug, Clone)]
enum EntryLocation<'a> {
    Disk(PathBuf),
    Memory(&'a Bytes),
    External(&'a dyn FileSource),
}

// === impl Source ===

impl<'a> Source<'a> {
    /// Returns all files of the catalog, sorted by path.
    pub(crate) fn entries(self, limits: &Limits) -> Result<Vec<Entry<'a>>, Error> {
        let all = self.all(limits)?;
        let ignored = ignored(&all)?;
        let mut entries: Vec<_> = all
            .into_iter()
            .filter(|entry| !entry.is_indexignore() && !ignored.is_ignored(&entry.path))
            .collect();
        entries.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(entries)
    }

    /// Counts the entries that are missing from the catalog because they are not regular files. Those of a local
    /// directory are read, or are findings.
    ///
    /// # Errors
    /// Returns an error if an `.indexignore` cannot be read.
    pub fn skipped(self, limits: &Limits) -> Result<SkippedEntries, Error> {
        let mut irregular: Vec<(String, Irregular)> = match self {
            Self::Directory(_) => return Ok(SkippedEntries::default()),
            Self::Content(content) => content
                .irregular()
                .map(|(path, entry)| (path.to_owned(), entry.clone()))
                .collect(),
            Self::Files(files) => files.irregular(),
        };
        if !irregular.is_empty() {
            let ignored = ignored(&self.all(limits)?)?;
            irregular.retain(|(path, _)| !ignored.is_ignored(path));
        }
        let entries = irregular.iter().map(|(path, entry)| (path.as_str(), entry));
        Ok(SkippedEntries::count(entries))
    }

    /// Returns all files, including ignored ones.
    fn all(self, limits: &Limits) -> Result<Vec<Entry<'a>>, Error> {
        Ok(match self {
            Self::Directory(root) => on_disk(root, limits, |_| true)?
                .into_iter()
                .map(|(path, location)| Entry {
                    path,
                    location: EntryLocation::Disk(location),
                })
                .collect(),
            Self::Content(content) => content
                .files()
                .map(|(path, file)| Entry {
                    path: path.to_owned(),
                    location: EntryLocation::Memory(&file.bytes),
                })
                .collect(),
            Self::Files(files) => files
                .paths()
                .into_iter()
                .map(|path| Entry {
                    path,
                    location: EntryLocation::External(files),
                })
                .collect(),
        })
    }
}

/// Reads all `.indexignore` files.
fn ignored(all: &[Entry<'_>]) -> Result<IgnoreRules, Error> {
    let mut ignored = IgnoreRules::default();
    for entry in all.iter().filter(|entry| entry.is_indexignore()) {
        let fail = |problem| Error::Ignore {
            file: entry.path.clone(),
            problem,
        };
        let text = entry.text().map_err(|error| fail(error.to_string()))?;
        ignored.add(&entry.path, &text).map_err(fail)?;
    }
    Ok(ignored)
}

/// Describes entries that are missing from a catalog, with the remedy; `None` if nothing is missing.
pub fn describe_skipped(skipped: &SkippedEntries) -> Option<String> {
    (!skipped.is_empty()).then(|| {
        format!(
            "skipped entries that are not regular files: {skipped}; replace them with regular files if they belong to the \
             catalog"
        )
    })
}

// === impl Entry ===

impl Entry<'_> {
    pub(crate) fn open(&self) -> io::Result<Box<dyn Read + '_>> {
        Ok(match &self.location {
            EntryLocation::Disk(path) => {
                // Opening a pipe would block, and reading a device may never end.
                if !fs::metadata(path)?.is_file() {
                    return Err(io::Error::other("not a regular file"));
                }
                Box::new(File::open(path)?)
            }
            EntryLocation::Memory(bytes) => Box::new(bytes.as_ref()),
            EntryLocation::External(files) => files.open(&self.path)?,
        })
    }

    fn is_indexignore(&self) -> bool {
        self.path.rsplit('/').next() == Some(INDEXIGNORE)
    }

    fn text(&self) -> io::Result<String> {
        const LIMIT: u64 = 1 << 20;
        let mut bytes = Vec::new();
        self.open()?.take(LIMIT + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > LIMIT {
            return Err(io::Error::other("larger than 1 MiB"));
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// Lists all files below a directory with their relative paths, except those whose name is not retained. As in Go,
/// links to files are followed, and links to directories are not.
fn on_disk(
    root: &Path,
    limits: &Limits,
    is_retained: impl Fn(&str) -> bool,
) -> Result<Vec<(String, PathBuf)>, Error> {
    let (mut files, mut count, mut total) = (Vec::new(), 0, 0u64);
    let mut directories = vec![(root.to_owned(), String::new())];
    while let Some((directory, prefix)) = directories.pop() {
        let failed = |source| Error::Directory {
            path: directory.clone(),
            source,
        };
        for entry in fs::read_dir(&directory).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            count += 1;
            if count > limits.files {
                return Err(Error::TooLarge {
                    limit: limits.files as u64,
                    unit: "files",
                });
            }
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if !is_retained(&name) {
                continue;
            }
            let path = format!("{prefix}{name}");
            if entry.file_type().map_err(failed)?.is_dir() {
                directories.push((entry.path(), format!("{path}/")));
                continue;
            }
            total += fs::metadata(entry.path()).map_or(0, |metadata| metadata.len());
            if total > limits.total {
                return Err(Error::TooLarge {
                    limit: limits.total,
                    unit: "bytes",
                });
            }
            files.push((path, entry.path()));
        }
    }
    Ok(files)
}
