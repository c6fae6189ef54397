//! Which files of a folder are a catalog: all of them, whatever their names, but those that an `.indexignore` excludes.

mod ignored;
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

use self::ignored::Ignored;
pub(crate) use self::meter::Meter;
pub use self::mounted::Mounted;

/// The name of the files that tell which others are no part of the catalog.
pub const INDEXIGNORE: &str = ".indexignore";

/// Where the files of a catalog are.
#[derive(Debug, Clone, Copy)]
pub enum Source<'a> {
    /// A folder on this machine.
    Folder(&'a Path),
    /// Files in memory, as they came from an image or an archive.
    Content(&'a Content),
    /// Files that somebody else keeps.
    Files(&'a dyn Files),
}

/// Files that somebody else keeps, such as those of an image that is too large for memory.
pub trait Files: Sync + std::fmt::Debug {
    /// The paths of all files, relative, parts joined by `/`.
    fn paths(&self) -> Vec<String>;
    /// Opens one of them.
    ///
    /// # Errors
    /// When it cannot be read.
    fn open<'a>(&'a self, path: &str) -> io::Result<Box<dyn Read + 'a>>;
    /// Whether keys in the values of properties are printed in the order in which they stand there, and not sorted.
    fn keeps_order(&self) -> bool {
        false
    }
    /// Entries beside the files that are not regular files, such as links, with paths as in [`Files::paths`].
    fn irregular(&self) -> Vec<(String, Irregular)> {
        Vec::new()
    }
}

/// How much a catalog may demand. The largest known has some hundred megabytes and 10,000 bundles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Files, folders included.
    pub files: usize,
    /// Bytes of all files.
    pub total: u64,
    /// Bytes of one document. There is never more than one of them in memory for each file that is being read.
    pub document: usize,
    /// Values in one document, keys included.
    pub values: usize,
    /// Documents in all files.
    pub documents: usize,
    /// Bundles of one package; one with more is broken. opm has no such bound, so there is none unless it is asked for;
    /// who keeps what strangers tell has [`MOST_BUNDLES`](crate::model::MOST_BUNDLES).
    pub package_bundles: usize,
    /// Bytes that are kept of one package, in the same way; see [`MOST_BYTES`](crate::model::MOST_BYTES).
    pub package_size: usize,
    /// Files that are read at once; 0 for as many as there are processors.
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

/// Why there is no catalog at all.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The folder, or one below it, cannot be read.
    #[error("failed to read the catalog's folder {}; is it there, and may you read it?", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// More files, bytes or documents than allowed.
    #[error(
        "the catalog has more than {limit} {unit}; leave some out with {INDEXIGNORE} or split it"
    )]
    TooLarge {
        /// The limit.
        limit: u64,
        /// Of what.
        unit: &'static str,
    },
    /// An `.indexignore` that cannot be read.
    #[error("{file}: {problem}; correct it or remove it")]
    Ignore {
        /// The file, relative to the catalog.
        file: String,
        /// What is wrong.
        problem: String,
    },
    /// A part that is no gzip.
    #[error("{} cannot be unzipped; compress it again", path.display())]
    Zipped {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// A file of a catalog.
#[derive(Debug, Clone)]
pub(crate) struct Entry<'a> {
    /// Relative to the catalog, parts joined by `/`.
    pub(crate) path: String,
    place: Place<'a>,
}

#[derive(Debug, Clone)]
enum Place<'a> {
    Disk(PathBuf),
    Memory(&'a Bytes),
    Elsewhere(&'a dyn Files),
}

// === impl Source ===

impl<'a> Source<'a> {
    /// All files that are a part of the catalog, ordered by path.
    pub(crate) fn entries(self, limits: &Limits) -> Result<Vec<Entry<'a>>, Error> {
        let all = self.all(limits)?;
        let ignored = ignored(&all)?;
        let mut entries: Vec<_> = all
            .into_iter()
            .filter(|it| !it.is_indexignore() && !ignored.covers(&it.path))
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
            Self::Folder(_) => return Ok(SkippedEntries::default()),
            Self::Content(content) => content
                .irregular()
                .map(|(path, entry)| (path.to_owned(), entry.clone()))
                .collect(),
            Self::Files(files) => files.irregular(),
        };
        if !irregular.is_empty() {
            let ignored = ignored(&self.all(limits)?)?;
            irregular.retain(|(path, _)| !ignored.covers(path));
        }
        let entries = irregular.iter().map(|(path, entry)| (path.as_str(), entry));
        Ok(SkippedEntries::count(entries))
    }

    /// All files, also those that are ignored.
    fn all(self, limits: &Limits) -> Result<Vec<Entry<'a>>, Error> {
        Ok(match self {
            Self::Folder(root) => on_disk(root, limits, |_| true)?
                .into_iter()
                .map(|(path, place)| Entry {
                    path,
                    place: Place::Disk(place),
                })
                .collect(),
            Self::Content(content) => content
                .files()
                .map(|(path, file)| Entry {
                    path: path.to_owned(),
                    place: Place::Memory(&file.bytes),
                })
                .collect(),
            Self::Files(files) => files
                .paths()
                .into_iter()
                .map(|path| Entry {
                    path,
                    place: Place::Elsewhere(files),
                })
                .collect(),
        })
    }
}

/// Reads every `.indexignore`.
fn ignored(all: &[Entry<'_>]) -> Result<Ignored, Error> {
    let mut ignored = Ignored::default();
    for entry in all.iter().filter(|it| it.is_indexignore()) {
        let fail = |problem| Error::Ignore {
            file: entry.path.clone(),
            problem,
        };
        let text = entry.text().map_err(|error| fail(error.to_string()))?;
        ignored.add(&entry.path, &text).map_err(fail)?;
    }
    Ok(ignored)
}

/// Describes entries that are missing from a catalog, with the remedy; `None` if there are none.
pub fn describe_skipped(skipped: &SkippedEntries) -> Option<String> {
    (!skipped.is_empty()).then(|| {
        format!(
            "skipped entries that are not regular files: {skipped}; put regular files in their place if they belong to the \
             catalog"
        )
    })
}

// === impl Entry ===

impl Entry<'_> {
    pub(crate) fn open(&self) -> io::Result<Box<dyn Read + '_>> {
        Ok(match &self.place {
            Place::Disk(path) => {
                // A pipe would be waited for, and a device may never end.
                if !fs::metadata(path)?.is_file() {
                    return Err(io::Error::other("not a regular file"));
                }
                Box::new(File::open(path)?)
            }
            Place::Memory(bytes) => Box::new(bytes.as_ref()),
            Place::Elsewhere(files) => files.open(&self.path)?,
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

/// All files below a folder, with their paths in it, but for what has a name that is not kept. Links to files are followed
/// and links to folders are not, as in Go.
fn on_disk(
    root: &Path,
    limits: &Limits,
    keeps: impl Fn(&str) -> bool,
) -> Result<Vec<(String, PathBuf)>, Error> {
    let (mut files, mut seen, mut total) = (Vec::new(), 0, 0u64);
    let mut folders = vec![(root.to_owned(), String::new())];
    while let Some((folder, prefix)) = folders.pop() {
        let failed = |source| Error::Folder {
            path: folder.clone(),
            source,
        };
        for entry in fs::read_dir(&folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            seen += 1;
            if seen > limits.files {
                return Err(Error::TooLarge {
                    limit: limits.files as u64,
                    unit: "files",
                });
            }
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if !keeps(&name) {
                continue;
            }
            let path = format!("{prefix}{name}");
            if entry.file_type().map_err(failed)?.is_dir() {
                folders.push((entry.path(), format!("{path}/")));
                continue;
            }
            total += fs::metadata(entry.path()).map_or(0, |it| it.len());
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
