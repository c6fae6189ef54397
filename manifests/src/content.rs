//! Validated set of the files of a bundle or a catalog.
//!
//! Archives, registries and directories are untrusted input. Their bytes become [`Content`] only through a [`Builder`],
//! which normalizes every path, enforces [`Limits`] while it reads, and stores only regular files. Users of a `Content` do
//! not have to validate it again.
//!
//! ```
//! use manifests::content::{Builder, Limits};
//!
//! let mut files = Builder::new(Limits::default());
//! files.add("./manifests/csv.yaml", 0o644, &mut "kind: ClusterServiceVersion".as_bytes())?;
//! assert!(files.add("../etc/passwd", 0o644, &mut "".as_bytes()).is_err());
//! let content = files.finish();
//! assert_eq!(content.read("manifests/csv.yaml").unwrap(), "kind: ClusterServiceVersion");
//! # Ok::<(), manifests::content::Error>(())
//! ```

mod irregular;
mod layout;
mod limiter;
mod path_map;

use std::io::Read;

use bytes::Bytes;

pub use irregular::{Assessment, Irregular, Kind, Needed, Rejected, SkippedEntries};
pub use layout::{
    MetadataMatch, field_name, find_document, first_document, is_named_after, metadata_limits,
};
pub use limiter::EntryLimiter;
pub use path_map::PathMap;

/// Limits for reading content. Sizes are bytes of uncompressed content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Limits {
    /// Maximum size of all files together.
    pub total: u64,
    /// Maximum size of one file.
    pub file: u64,
    /// Maximum number of entries, including directories and skipped entries.
    pub entries: usize,
    /// Maximum length of a path in bytes.
    pub path: usize,
    /// Maximum number of components of a path, including the file name.
    pub depth: usize,
}

impl Default for Limits {
    /// Limits far above every known bundle (the largest is below 4 MiB), but small enough for a pod of 64 MiB.
    fn default() -> Self {
        Self {
            total: 32 << 20,
            file: 16 << 20,
            entries: 10_000,
            path: 1024,
            depth: 32,
        }
    }
}

/// Reason why an entry cannot become content.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The path leaves the root, is absolute, or is not a valid file name.
    #[error("path {path:?} {problem}; pack the bundle from its root directory with relative paths")]
    Path {
        /// The path in the source.
        path: String,
        /// Description of the problem.
        problem: &'static str,
    },
    /// The path is too long or too deep.
    #[error("path {path:?} exceeds the limit of {limit} {unit}; shorten it or raise {flag}")]
    PathTooLong {
        /// The path, truncated.
        path: String,
        /// The limit that was exceeded.
        limit: usize,
        /// The unit of the limit: bytes or components.
        unit: &'static str,
        /// The flag that raises the limit.
        flag: &'static str,
    },
    /// One file is too large.
    #[error(
        "file {path:?} is larger than the limit of {limit} bytes; remove it or raise --max-file-size"
    )]
    FileTooLarge {
        /// The path of the file.
        path: String,
        /// The limit in bytes.
        limit: u64,
    },
    /// All files together are too large.
    #[error(
        "content is larger than the limit of {limit} bytes (reached in {path:?}); reduce it or raise --max-size"
    )]
    TooLarge {
        /// The file in which the limit was reached.
        path: String,
        /// The limit in bytes.
        limit: u64,
    },
    /// The source has too many entries.
    #[error("content has more than {limit} entries; remove some or raise --max-entries")]
    TooManyEntries {
        /// The maximum number of entries.
        limit: usize,
    },
    /// The archive contains the same path twice.
    #[error("entry {path:?} appears twice; keep one of them")]
    Duplicate {
        /// The normalized path.
        path: String,
    },
    /// The parent of a path is a file, or a link, which refers to another location.
    #[error("{path:?} is not a directory, but {other:?} requires one; remove one of them")]
    FileAsFolder {
        /// The file or other entry that is not a directory.
        path: String,
        /// The path below it.
        other: String,
    },
    /// Reading a file failed.
    #[error("failed to read {path:?}")]
    Read {
        /// The path of the file.
        path: String,
        /// Error of the reader.
        #[source]
        source: std::io::Error,
    },
}

/// A regular file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Content of the file.
    pub bytes: Bytes,
    /// Permission bits; packing preserves only the executable bit.
    pub mode: u32,
}

/// Ordered set of regular files with normalized relative paths.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Content {
    files: PathMap<File>,
}

impl Content {
    /// Returns all files, ordered by path.
    pub fn files(&self) -> impl Iterator<Item = (&str, &File)> {
        self.files.iter()
    }

    /// Returns the bytes of a file.
    pub fn read(&self, path: &str) -> Option<&Bytes> {
        self.files.get(path).map(|file| &file.bytes)
    }

    /// Returns the files below a directory, ordered, with their paths relative to it. `""` is the root.
    pub fn dir<'a>(&'a self, directory: &'a str) -> impl Iterator<Item = (&'a str, &'a File)> {
        self.files.dir(directory)
    }

    /// Reports whether a directory contains at least one file.
    pub fn has_folder(&self, directory: &str) -> bool {
        self.files.has_folder(directory)
    }

    /// Returns the files below a directory as separate content, with their paths relative to it.
    #[must_use]
    pub fn into_folder(self, directory: &str) -> Self {
        self.files.into_folder(directory).into()
    }

    /// Returns the entries of the source that are not regular files, ordered by path.
    pub fn irregular(&self) -> impl Iterator<Item = (&str, &Irregular)> {
        self.files.irregular()
    }

    /// Assesses the entries of the source that are not regular files, as those of a bundle.
    pub fn assess(&self) -> Assessment<'_> {
        Assessment::new(&self.files, |_, file| Some(file.bytes.clone()))
    }

    /// Returns the number of files.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// Reports whether the content has no files.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Returns the size of all files in bytes.
    pub fn size(&self) -> u64 {
        self.files().map(|(_, file)| file.bytes.len() as u64).sum()
    }
}

impl From<PathMap<File>> for Content {
    fn from(files: PathMap<File>) -> Self {
        Self { files }
    }
}

impl From<Content> for PathMap<File> {
    fn from(content: Content) -> Self {
        content.files
    }
}

/// Builder of [`Content`], which adds entries one by one within limits.
#[derive(Debug)]
pub struct Builder {
    gate: EntryLimiter<File>,
}

impl Builder {
    /// Creates an empty builder with these limits.
    pub fn new(limits: Limits) -> Self {
        Self {
            gate: EntryLimiter::new(limits),
        }
    }

    /// Reads one regular file to its end, or to the limit.
    ///
    /// # Errors
    /// Returns an error if the path is not acceptable, a limit is reached, the path already exists, or reading fails.
    pub fn add(&mut self, path: &str, mode: u32, reader: &mut dyn Read) -> Result<(), Error> {
        self.gate.add(path, reader, |path, reader| {
            let mut bytes = Vec::new();
            reader
                .read_to_end(&mut bytes)
                .map_err(|source| Error::Read {
                    path: path.to_owned(),
                    source,
                })?;
            bytes.shrink_to_fit(); // otherwise, a file could take twice its size, and content twice its limit
            Ok(File {
                bytes: bytes.into(),
                mode: mode & 0o777,
            })
        })
    }

    /// Validates and counts an entry without content: a directory, or a skipped entry.
    ///
    /// # Errors
    /// Returns an error if the path is not acceptable, or the source has too many entries.
    pub fn skip(&mut self, path: &str) -> Result<(), Error> {
        self.gate.skip(path)
    }

    /// Records an entry that is not a regular file.
    ///
    /// # Errors
    /// Returns an error if the path is not acceptable or already exists, if it lies below or above another entry that is
    /// not a directory, or if the source has too many entries.
    pub fn record(&mut self, path: &str, entry: Irregular) -> Result<(), Error> {
        self.gate.record(path, entry)
    }

    /// Returns the content that was read.
    pub fn finish(self) -> Content {
        self.gate.finish().into()
    }
}

/// Reports whether a normalized path is a directory or lies below it.
pub fn is_at_or_below(path: &str, directory: &str) -> bool {
    path.strip_prefix(directory)
        .is_some_and(|remaining| remaining.is_empty() || remaining.starts_with('/'))
}

/// Returns a relative path without `.`, double slashes and a trailing slash. Rejects `..` and absolute paths instead of
/// resolving them.
///
/// # Errors
/// Returns an error if the path is absolute, empty, or contains `..`, a backslash or a control character.
pub fn normalize(path: &str) -> Result<String, Error> {
    let reject = |problem| {
        Err(Error::Path {
            path: path.chars().take(200).collect(),
            problem,
        })
    };
    if path.starts_with('/') {
        return reject("is absolute");
    }
    if path.chars().any(char::is_control) {
        return reject("contains a control character");
    }
    if path.contains('\\') {
        return reject("contains a backslash");
    }
    let mut normal = String::with_capacity(path.len());
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => return reject("leaves the root through \"..\""),
            part => {
                if !normal.is_empty() {
                    normal.push('/');
                }
                normal.push_str(part);
            }
        }
    }
    if normal.is_empty() {
        return reject("does not name a file");
    }
    Ok(normal)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(files: &mut Builder, path: &str, text: &str) -> Result<(), Error> {
        files.add(path, 0o644, &mut text.as_bytes())
    }

    #[test]
    fn paths_are_normalized_and_cannot_leave_the_root() {
        assert_each!(|paths, normal| paths.iter().find(|path| normalize(path).ok().as_deref() != normal) => None;
            &["a"][..] => Some("a");
            &["./a/b", "a//b/", "a/./b"] => Some("a/b");
            &["..a/b.."] => Some("..a/b..");
            &["", ".", "/a", "a/../b", "..", "a\\..\\b", "a\0b", "a\nb"] => None;
        );
    }

    #[test]
    fn exceeded_limits_are_named() {
        let limits = with!(Limits::default() => total: 20, file: 6, entries: 3, path: 8, depth: 2);
        for (path, text, total, message) in ::tests::rows![
            "a", "1234567", 20 => "larger than the limit of 6 bytes";
            "123456789", "", 20 => "limit of 8 bytes";
            "a/b/c", "", 20 => "limit of 2 directories";
            "x", "123456", 10 => "content is larger than the limit of 10 bytes";
        ] {
            let mut files = Builder::new(Limits { total, ..limits });
            add(&mut files, "first", "12345").unwrap();
            let error = add(&mut files, path, text).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
        let mut files = Builder::new(limits);
        for path in ["a", "b", "c"] {
            files.skip(path).unwrap();
        }
        assert_rows!(matches!(add(&mut files, "d", ""), Err(Error::TooManyEntries { limit: 3 })) => true);
    }

    #[test]
    fn duplicate_path_is_rejected_in_every_spelling() {
        let mut files = Builder::new(Limits::default());
        add(&mut files, "a/b", "1").unwrap();
        let mut again = |path| add(&mut files, path, "2");
        assert!(matches!(again("./a//b"), Err(Error::Duplicate { .. })));
        assert!(matches!(again("a/b/c"), Err(Error::FileAsFolder { .. })));
        assert!(matches!(again("a"), Err(Error::FileAsFolder { .. })));
    }

    #[test]
    fn directories_list_only_their_own_files() {
        let mut files = Builder::new(Limits::default());
        for path in "manifests/b manifests/a/c manifests2/x manifest z".split(' ') {
            add(&mut files, path, path).unwrap();
        }
        let content = files.finish();
        assert_rows!(content.dir("manifests").map(|(name, _)| name).collect::<Vec<_>>() => ["a/c", "b"]);
        assert_rows!((content.dir("").count(), ["manifests2", "z"].map(|dir| content.has_folder(dir))) => (5, [true, false]));
        assert_rows!(content.into_folder("manifests").files().map(|(name, _)| name).collect::<Vec<_>>() => ["a/c", "b"]);
    }
}
