//! Checked files like [`Content`], with large files on disk instead of in memory.
//!
//! ```
//! use unpacker::{Options, Tree};
//!
//! let directory = tempfile::tempdir()?;
//! std::fs::write(directory.path().join("csv.yaml"), "kind: ClusterServiceVersion")?;
//! let (tree, _) = unpacker::open_tree(directory.path(), &Options::default())?;
//! let files: Vec<_> = tree.files().map(|(path, file)| (path, file.size)).collect();
//! assert_eq!(files, [("csv.yaml", 27)]);
//! let digest = tree.write_tar(std::io::sink())?;
//! assert_eq!(Tree::from_content(tree.into_content()?).write_tar(std::io::sink())?, digest);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#[cfg(feature = "sources")]
use std::collections::BTreeMap;
use std::{
    env,
    io::{Read, Write},
};

use manifests::content::{
    self, Assessment, Content, EntryLimiter, File, Irregular, Limits, PathMap, SkippedEntries,
};

use crate::{
    Digest, Error, Format, Options, Result,
    pack::{self, Packed},
    spool::{Failure, Piece, Spool, Storage},
};

/// An ordered set of regular files under normalized relative paths. The first MiB is in memory, the rest in an
/// unnamed temporary file.
#[derive(Debug)]
pub struct Tree {
    files: PathMap<StoredFile>,
    spool: Spool,
}

/// The metadata of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileInfo {
    /// Size in bytes.
    pub size: u64,
    /// Permission bits. Only the executable bit is preserved in archives.
    pub mode: u32,
}

#[derive(Debug)]
struct StoredFile {
    piece: Piece,
    mode: u32,
}

impl Tree {
    /// Returns the number of files.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// Reports whether the tree contains no files.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Returns the size of all files in bytes.
    pub fn size(&self) -> u64 {
        self.files().map(|(_, file)| file.size).sum()
    }

    /// Returns all files, ordered by path.
    pub fn files(&self) -> impl Iterator<Item = (&str, FileInfo)> {
        self.files.iter().map(|(path, file)| {
            let info = FileInfo {
                size: file.piece.size(),
                mode: file.mode,
            };
            (path, info)
        })
    }

    /// Returns a reader of one file.
    pub fn read(&self, path: &str) -> Option<impl Read + '_> {
        let file = self.files.get(path)?;
        Some(self.spool.reader(&file.piece))
    }

    /// Returns the entries of the source that are not regular files, ordered by path.
    pub fn irregular(&self) -> impl Iterator<Item = (&str, &Irregular)> {
        self.files.irregular()
    }

    /// Verifies that a bundle lacks none of its manifests and metadata because of an entry that is not a regular
    /// file. Returns the other such entries.
    ///
    /// # Errors
    /// Returns an error that names the first of these entries.
    pub fn ensure_regular(&self) -> Result<SkippedEntries> {
        let Assessment { rejected, skipped } = Assessment::new(&self.files, |_, file| {
            let mut bytes = Vec::new();
            let read = self.spool.reader(&file.piece).read_to_end(&mut bytes);
            read.ok().map(|_| bytes)
        });
        match rejected.split_first() {
            None => Ok(skipped),
            Some((first, others)) => Err(Error::Irregular {
                path: first.path.to_owned(),
                entry: first.entry.clone(),
                needed: first.needed,
                more: others.len(),
            }),
        }
    }

    /// Loads all files into memory.
    ///
    /// # Errors
    /// Returns an error if the temporary file cannot be read.
    pub fn into_content(self) -> Result<Content> {
        let Self { files, spool } = self;
        let files = files.try_map(|path, StoredFile { piece, mode }| {
            let bytes = match piece {
                Piece::Memory(bytes) => bytes,
                Piece::Disk { size, .. } => {
                    // A growing buffer would briefly need twice as much memory.
                    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or_default());
                    let read = spool.reader(&piece).read_to_end(&mut bytes);
                    read.map_err(|source| Error::Read {
                        path: path.to_owned(),
                        source,
                    })?;
                    bytes.into()
                }
            };
            Ok::<_, Error>(File { bytes, mode })
        })?;
        Ok(files.into())
    }

    /// Creates a tree from content. The files stay in memory.
    pub fn from_content(content: Content) -> Self {
        let files = PathMap::from(content).map(|File { bytes, mode }| StoredFile {
            piece: Piece::Memory(bytes),
            mode,
        });
        Self {
            files,
            spool: Spool::new(Storage::Memory),
        }
    }

    /// Writes the files like [`pack`](crate::pack), but with fast compression. The tar archive inside is the same.
    ///
    /// # Errors
    /// Returns an error if writing fails, or if the temporary file cannot be read.
    pub fn pack(&self, format: Format, writer: impl Write) -> Result<Digest> {
        let files = self.files.iter().map(|(path, file)| Packed {
            path,
            mode: file.mode,
            size: file.piece.size(),
            reader: self.spool.reader(&file.piece),
        });
        pack::write(files, format, writer)
    }

    /// Writes the tar archive whose digest is the content digest, independent of the source.
    ///
    /// # Errors
    /// Returns an error if writing fails, or if the temporary file cannot be read.
    pub fn write_tar(&self, writer: impl Write) -> Result<Digest> {
        self.pack(Format::Tar, writer)
    }

    /// Writes a tar.gz archive for a receiver that checks the bundle. Unlike [`Tree::pack`], the archive includes the
    /// entries that are not regular files. Returns the content digest, which does not depend on these.
    ///
    /// # Errors
    /// Returns an error if writing fails, or if the temporary file cannot be read.
    pub fn deliver(&self, writer: impl Write) -> Result<Digest> {
        let files = self.files.iter().map(|(path, file)| Packed {
            path,
            mode: file.mode,
            size: file.piece.size(),
            reader: self.spool.reader(&file.piece),
        });
        let mut gzip = pack::gzip(writer);
        let (digest, _) = pack::deliver(files, self.files.irregular(), &mut gzip)?;
        let finished = gzip.finish().and_then(|mut writer| writer.flush());
        finished.map_err(|source| Error::Write { source })?;
        Ok(digest)
    }

    /// Removes the top-level directory of a bundle that was packed with it, as in `tar czf bundle.tgz bundle/`.
    ///
    /// The tree is returned unchanged if it has `manifests` or `metadata` at its root, if it has other top-level entries,
    /// or if the directory contains neither of the two. In these cases it is not a bundle in a directory, and a guess
    /// would hide a mistake.
    #[must_use]
    pub fn strip_top_folder(self) -> Self {
        let Self { files, spool } = self;
        let files = match top_folder(&files) {
            Some(top) => files.into_folder(&top),
            None => files,
        };
        Self { files, spool }
    }
}

/// Returns the directory that contains all files, if it contains a bundle.
fn top_folder(files: &PathMap<StoredFile>) -> Option<String> {
    let is_bundle =
        |at: &str| ["manifests", "metadata"].map(|name| files.has_folder(&format!("{at}{name}")));
    let (path, _) = files.iter().next()?;
    let (top, _) = path.split_once('/')?;
    let is_only_dir = files.dir(top).count() == files.len();
    let is_top_folder = is_only_dir
        && is_bundle("") == [false, false]
        && is_bundle(&format!("{top}/")) != [false, false];
    is_top_folder.then(|| top.to_owned())
}

/// Builds a [`Tree`] file by file within limits.
#[derive(Debug)]
pub(crate) struct Builder {
    gate: EntryLimiter<StoredFile>,
    spool: Spool,
    #[cfg(feature = "sources")]
    set_aside_files: SetAside,
}

/// Files that are not part of the content, but that hard links may make part of it.
#[cfg(feature = "sources")]
#[derive(Debug)]
struct SetAside {
    files: BTreeMap<String, StoredFile>,
    /// Limits for each file, and for all files that were ever set aside: their data stays in the spool.
    limits: Limits,
    size: u64,
}

impl Builder {
    pub(crate) fn new(limits: Limits, storage: Storage) -> Self {
        Self {
            gate: EntryLimiter::new(limits),
            spool: Spool::new(storage),
            #[cfg(feature = "sources")]
            set_aside_files: SetAside {
                files: BTreeMap::new(),
                limits,
                size: 0,
            },
        }
    }

    /// Reads one regular file to its end or to the limit.
    pub(crate) fn add(&mut self, path: &str, mode: u32, reader: &mut dyn Read) -> Result<()> {
        let spool = &mut self.spool;
        self.gate.add(path, reader, |path, reader| {
            let piece = spool.store(reader).map_err(|failure| match failure {
                Failure::Write(error) => error,
                Failure::Read(source) => Error::Content(content::Error::Read {
                    path: path.to_owned(),
                    source,
                }),
            })?;
            let mode = mode & 0o777;
            Ok(StoredFile { piece, mode })
        })
    }

    /// Checks and counts an entry without content.
    pub(crate) fn skip(&mut self, path: &str) -> Result<()> {
        Ok(self.gate.skip(path)?)
    }

    /// Checks, counts and records an entry that is not a regular file.
    pub(crate) fn record(&mut self, path: &str, entry: Irregular) -> Result<()> {
        Ok(self.gate.record(path, entry)?)
    }

    /// Adds a file under a second name, if the first name exists. Its size counts again, because the file is packed
    /// twice.
    pub(crate) fn link(&mut self, path: &str, target: &str) -> Result<bool> {
        let Some(StoredFile { piece, mode }) = self.linked(target) else {
            return Ok(false);
        };
        let (piece, mode) = (piece.clone(), *mode);
        let size = piece.size();
        self.gate
            .count_entry(path, size, StoredFile { piece, mode })?;
        Ok(true)
    }

    fn linked(&self, target: &str) -> Option<&StoredFile> {
        // A file that was set aside belongs to the current layer. An upper layer may have another file with this
        // name.
        #[cfg(feature = "sources")]
        if let Some(file) = self.set_aside_files.files.get(target) {
            return Some(file);
        }
        self.gate.paths().get(target)
    }

    /// Reports whether a file of this size can be set aside.
    #[cfg(feature = "sources")]
    pub(crate) fn has_room_aside(&self, size: u64) -> bool {
        let SetAside {
            limits, size: used, ..
        } = &self.set_aside_files;
        size <= limits.file && used.saturating_add(size) <= limits.total
    }

    /// Stores a file for [`Self::link`] only.
    #[cfg(feature = "sources")]
    pub(crate) fn set_aside(
        &mut self,
        path: &str,
        mode: u32,
        reader: &mut dyn Read,
    ) -> Result<(), Failure> {
        let piece = self.spool.store(reader)?;
        self.set_aside_files.size += piece.size();
        let mode = mode & 0o777;
        self.set_aside_files
            .files
            .insert(path.to_owned(), StoredFile { piece, mode });
        Ok(())
    }

    /// Drops the files that were set aside.
    #[cfg(feature = "sources")]
    pub(crate) fn drop_set_aside(&mut self) {
        self.set_aside_files.files.clear();
    }

    pub(crate) fn finish(self) -> Tree {
        Tree {
            files: self.gate.finish(),
            spool: self.spool,
        }
    }
}

impl Options {
    /// Returns the storage for large content.
    pub(crate) fn storage(&self) -> Storage {
        Storage::Disk(self.spool.clone().unwrap_or_else(env::temp_dir))
    }
}
