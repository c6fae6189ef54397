//! The checked set of files that a bundle or a catalog consists of.
//!
//! Bytes come from strangers: an archive, a registry, a folder. They become [`Content`] only through a
//! [`Builder`], which normalizes every path, enforces [`Limits`] while it reads, and keeps regular files alone.
//! Whoever holds a `Content` need not check again.
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

mod gate;
mod irregular;
mod layout;
mod paths;

use std::io::Read;

use bytes::Bytes;

pub use gate::Gate;
pub use irregular::{Assessment, Irregular, Kind, Needed, Rejected, SkippedEntries};
pub use layout::{
    Found, field_name, find_document, first_document, is_named_after, metadata_limits,
};
pub use paths::Paths;

/// How much may be read. Sizes are bytes of uncompressed content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Limits {
    /// All files together.
    pub total: u64,
    /// One file.
    pub file: u64,
    /// Entries read, folders and skipped ones included.
    pub entries: usize,
    /// A path's length in bytes.
    pub path: usize,
    /// A path's folders, the file name included.
    pub depth: usize,
}

impl Default for Limits {
    /// Enough for every bundle known (the largest is below 4 MiB), small enough for a pod of 64 MiB.
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

/// Why an entry cannot become content.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The path leaves the root, is absolute, or cannot name a file.
    #[error("path {path:?} {problem}; pack the bundle from its own root with relative paths")]
    Path {
        /// As found.
        path: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The path is longer or deeper than allowed.
    #[error("path {path:?} is over the limit of {limit} {unit}; shorten it or raise {flag}")]
    PathTooLong {
        /// The path, cut to a readable length.
        path: String,
        /// The limit that was exceeded.
        limit: usize,
        /// Bytes or folders.
        unit: &'static str,
        /// The flag that raises the limit.
        flag: &'static str,
    },
    /// One file is larger than allowed.
    #[error(
        "file {path:?} is larger than the limit of {limit} bytes; remove it or raise --max-file-size"
    )]
    FileTooLarge {
        /// Its path.
        path: String,
        /// The limit in bytes.
        limit: u64,
    },
    /// All files together are larger than allowed.
    #[error(
        "content is larger than the limit of {limit} bytes (reached in {path:?}); reduce it or raise --max-size"
    )]
    TooLarge {
        /// The file in which the limit was reached.
        path: String,
        /// The limit in bytes.
        limit: u64,
    },
    /// More entries than allowed.
    #[error("content has more than {limit} entries; remove some or raise --max-entries")]
    TooManyEntries {
        /// The limit.
        limit: usize,
    },
    /// The same path stands twice in one archive.
    #[error("entry {path:?} appears twice; keep one of them")]
    Duplicate {
        /// Its normalized path.
        path: String,
    },
    /// A path lies below one that is a file, or a link, which leads elsewhere.
    #[error("{path:?} is not a directory, but {other:?} requires one; remove one of them")]
    FileAsFolder {
        /// The file or other entry that is not a directory.
        path: String,
        /// The path below it.
        other: String,
    },
    /// Reading failed.
    #[error("failed to read {path:?}")]
    Read {
        /// The file being read.
        path: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

/// One regular file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// What it holds.
    pub bytes: Bytes,
    /// Permission bits; only whether it may be executed survives packing.
    pub mode: u32,
}

/// An ordered set of regular files under normalized relative paths.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Content {
    files: Paths<File>,
}

impl Content {
    /// All files, ordered by path.
    pub fn files(&self) -> impl Iterator<Item = (&str, &File)> {
        self.files.iter()
    }

    /// The bytes of one file.
    pub fn read(&self, path: &str) -> Option<&Bytes> {
        self.files.get(path).map(|file| &file.bytes)
    }

    /// The files below a folder, with their paths relative to it, ordered. `""` is the root.
    pub fn folder<'a>(&'a self, folder: &'a str) -> impl Iterator<Item = (&'a str, &'a File)> {
        self.files.folder(folder)
    }

    /// Whether a folder has at least one file below it.
    pub fn has_folder(&self, folder: &str) -> bool {
        self.files.has_folder(folder)
    }

    /// The files below a folder as content of their own, with their paths relative to it.
    #[must_use]
    pub fn into_folder(self, folder: &str) -> Self {
        self.files.into_folder(folder).into()
    }

    /// Entries of the source that are not regular files, ordered by path.
    pub fn irregular(&self) -> impl Iterator<Item = (&str, &Irregular)> {
        self.files.irregular()
    }

    /// Assesses the entries of the source that are not regular files, as those of a bundle.
    pub fn assess(&self) -> Assessment<'_> {
        Assessment::new(&self.files, |_, file| Some(file.bytes.clone()))
    }

    /// The number of files.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// Whether there is no file at all.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// The size of all files in bytes.
    pub fn size(&self) -> u64 {
        self.files().map(|(_, file)| file.bytes.len() as u64).sum()
    }
}

impl From<Paths<File>> for Content {
    fn from(files: Paths<File>) -> Self {
        Self { files }
    }
}

impl From<Content> for Paths<File> {
    fn from(content: Content) -> Self {
        content.files
    }
}

/// Builds [`Content`] entry by entry, under limits.
#[derive(Debug)]
pub struct Builder {
    gate: Gate<File>,
}

impl Builder {
    /// An empty set under these limits.
    pub fn new(limits: Limits) -> Self {
        Self {
            gate: Gate::new(limits),
        }
    }

    /// Reads one regular file to its end, or to the limit.
    ///
    /// # Errors
    /// When the path is not acceptable, a limit is reached, the path exists already or reading fails.
    pub fn add(&mut self, path: &str, mode: u32, reader: &mut dyn Read) -> Result<(), Error> {
        self.gate.add(path, reader, |path, reader| {
            let mut bytes = Vec::new();
            reader
                .read_to_end(&mut bytes)
                .map_err(|source| Error::Read {
                    path: path.to_owned(),
                    source,
                })?;
            bytes.shrink_to_fit(); // or a file could hold twice its size, and content twice its limit
            Ok(File {
                bytes: bytes.into(),
                mode: mode & 0o777,
            })
        })
    }

    /// Checks and counts an entry that carries no content: a folder, or one that is skipped.
    ///
    /// # Errors
    /// When the path is not acceptable or there are too many entries.
    pub fn skip(&mut self, path: &str) -> Result<(), Error> {
        self.gate.skip(path)
    }

    /// Records an entry that is not a regular file.
    ///
    /// # Errors
    /// Returns an error if the path is not acceptable, exists already, lies below or above another entry that is not a
    /// directory, or there are too many entries.
    pub fn record(&mut self, path: &str, entry: Irregular) -> Result<(), Error> {
        self.gate.record(path, entry)
    }

    /// What has been read.
    pub fn finish(self) -> Content {
        self.gate.finish().into()
    }
}

/// A relative path without `.`, doubled slashes or a trailing one; `..` and absolute paths are refused, not resolved.
///
/// # Errors
/// When the path is absolute, empty, contains `..`, a backslash or a control character.
pub fn normalize(path: &str) -> Result<String, Error> {
    let refuse = |problem| {
        Err(Error::Path {
            path: path.chars().take(200).collect(),
            problem,
        })
    };
    if path.starts_with('/') {
        return refuse("is absolute");
    }
    if path.chars().any(char::is_control) {
        return refuse("contains a control character");
    }
    if path.contains('\\') {
        return refuse("contains a backslash");
    }
    let mut normal = String::with_capacity(path.len());
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => return refuse("leaves the root through \"..\""),
            part => {
                if !normal.is_empty() {
                    normal.push('/');
                }
                normal.push_str(part);
            }
        }
    }
    if normal.is_empty() {
        return refuse("names no file");
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
    fn paths_are_normalised_and_cannot_leave_the_root() {
        for (paths, normal) in ::tests::rows![
            &["a"][..] => Some("a");
            &["./a/b", "a//b/", "a/./b"] => Some("a/b");
            &["..a/b.."] => Some("..a/b..");
            &["", ".", "/a", "a/../b", "..", "a\\..\\b", "a\0b", "a\nb"] => None;
        ] {
            for &path in paths {
                assert_eq!(normalize(path).ok().as_deref(), normal, "{path:?}");
            }
        }
    }

    #[test]
    fn limits_are_named_when_they_are_reached() {
        let limits = with!(Limits::default() => total: 20, file: 6, entries: 3, path: 8, depth: 2);
        let cases = ::tests::rows![
            "a", "1234567", 20 => "larger than the limit of 6 bytes";
            "123456789", "", 20 => "limit of 8 bytes";
            "a/b/c", "", 20 => "limit of 2 folders";
            "x", "123456", 10 => "content is larger than the limit of 10 bytes";
        ];
        for (path, text, total, message) in cases {
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
    fn the_same_path_twice_is_refused_however_it_is_spelt() {
        let mut files = Builder::new(Limits::default());
        add(&mut files, "a/b", "1").unwrap();
        let mut again = |path| add(&mut files, path, "2");
        assert!(matches!(again("./a//b"), Err(Error::Duplicate { .. })));
        assert!(matches!(again("a/b/c"), Err(Error::FileAsFolder { .. })));
        assert!(matches!(again("a"), Err(Error::FileAsFolder { .. })));
    }

    #[test]
    fn folders_list_their_own_files_only() {
        let mut files = Builder::new(Limits::default());
        for path in "manifests/b manifests/a/c manifests2/x manifest z".split(' ') {
            add(&mut files, path, path).unwrap();
        }
        let content = files.finish();
        assert_rows!(content.folder("manifests").map(|(name, _)| name).collect::<Vec<_>>() => ["a/c", "b"]);
        assert_eq!(content.folder("").count(), 5);
        assert!(content.has_folder("manifests2") && !content.has_folder("z"));
        assert_rows!(content.into_folder("manifests").files().map(|(name, _)| name).collect::<Vec<_>>() => ["a/c", "b"]);
    }
}
