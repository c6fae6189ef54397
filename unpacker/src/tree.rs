//! Checked files of any size: as [`Content`], but what is large waits on disk and not in memory.
//!
//! ```
//! use unpacker::{Options, Tree};
//!
//! let folder = tempfile::tempdir()?;
//! std::fs::write(folder.path().join("csv.yaml"), "kind: ClusterServiceVersion")?;
//! let (tree, _) = unpacker::open_tree(folder.path(), &Options::default())?;
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
    self, Assessment, Content, File, Gate, Irregular, Limits, Paths, SkippedEntries,
};

use crate::{
    Digest, Error, Format, Options, Result,
    pack::{self, Packed},
    spool::{Failure, Piece, Room, Spool},
};

/// An ordered set of regular files under normalized relative paths. The first few MiB are in memory, the rest in an
/// unnamed temporary file.
#[derive(Debug)]
pub struct Tree {
    files: Paths<Kept>,
    spool: Spool,
}

/// What is known of a file without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileInfo {
    /// Its bytes.
    pub size: u64,
    /// Permission bits; only whether it may be executed survives packing.
    pub mode: u32,
}

#[derive(Debug)]
struct Kept {
    piece: Piece,
    mode: u32,
}

impl Tree {
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
        self.files().map(|(_, file)| file.size).sum()
    }

    /// All files, ordered by path.
    pub fn files(&self) -> impl Iterator<Item = (&str, FileInfo)> {
        self.files.iter().map(|(path, kept)| {
            let info = FileInfo {
                size: kept.piece.size(),
                mode: kept.mode,
            };
            (path, info)
        })
    }

    /// The bytes of one file.
    pub fn read(&self, path: &str) -> Option<impl Read + '_> {
        let kept = self.files.get(path)?;
        Some(self.spool.reader(&kept.piece))
    }

    /// Entries of the source that are not regular files, ordered by path.
    pub fn irregular(&self) -> impl Iterator<Item = (&str, &Irregular)> {
        self.files.irregular()
    }

    /// Makes sure that a bundle lacks none of its manifests and metadata because of an entry that is not a regular
    /// file. Returns the other such entries.
    ///
    /// # Errors
    /// Returns an error that names the first of these entries.
    pub fn ensure_regular(&self) -> Result<SkippedEntries> {
        let Assessment { rejected, skipped } = Assessment::new(&self.files, |_, kept| {
            let mut bytes = Vec::new();
            let read = self.spool.reader(&kept.piece).read_to_end(&mut bytes);
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

    /// All files in memory.
    ///
    /// # Errors
    /// When the temporary file cannot be read.
    pub fn into_content(self) -> Result<Content> {
        let Self { files, spool } = self;
        let files = files.try_map(|path, Kept { piece, mode }| {
            let bytes = match piece {
                Piece::Memory(bytes) => bytes,
                Piece::Disk { size, .. } => {
                    // Growing would take twice as much for a moment.
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

    /// The same files, which stay in memory.
    pub fn from_content(content: Content) -> Self {
        let files = Paths::from(content).map(|File { bytes, mode }| Kept {
            piece: Piece::Memory(bytes),
            mode,
        });
        Self {
            files,
            spool: Spool::new(Room::Memory),
        }
    }

    /// Writes the files as [`pack`](crate::pack) does, but compresses fast rather than well: the tar within is the same.
    ///
    /// # Errors
    /// When writing fails, or the temporary file cannot be read.
    pub fn pack(&self, format: Format, writer: impl Write) -> Result<Digest> {
        let files = self.files.iter().map(|(path, kept)| Packed {
            path,
            mode: kept.mode,
            size: kept.piece.size(),
            reader: self.spool.reader(&kept.piece),
        });
        pack::write(files, format, writer)
    }

    /// Writes the tar whose digest is the digest of this content, wherever it came from.
    ///
    /// # Errors
    /// When writing fails, or the temporary file cannot be read.
    pub fn write_tar(&self, writer: impl Write) -> Result<Digest> {
        self.pack(Format::Tar, writer)
    }

    /// Writes a tar.gz for a receiver that checks the bundle itself: unlike [`Tree::pack`], it has also the entries that
    /// are not regular files. Returns the digest of the content, which does not depend on these.
    ///
    /// # Errors
    /// Returns an error if writing fails, or the temporary file cannot be read.
    pub fn deliver(&self, writer: impl Write) -> Result<Digest> {
        let files = self.files.iter().map(|(path, kept)| Packed {
            path,
            mode: kept.mode,
            size: kept.piece.size(),
            reader: self.spool.reader(&kept.piece),
        });
        let mut gzip = pack::gzip(writer);
        let (digest, _) = pack::deliver(files, self.files.irregular(), &mut gzip)?;
        let finished = gzip.finish().and_then(|mut writer| writer.flush());
        finished.map_err(|source| Error::Write { source })?;
        Ok(digest)
    }

    /// Takes the bundle out of the one folder that it was packed with: [`strip_top_folder`](crate::strip_top_folder).
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

/// The folder that holds everything, if the bundle is in there.
pub(crate) fn top_folder<T>(files: &Paths<T>) -> Option<String> {
    let is_bundle =
        |at: &str| ["manifests", "metadata"].map(|name| files.has_folder(&format!("{at}{name}")));
    let (path, _) = files.iter().next()?;
    let (top, _) = path.split_once('/')?;
    let alone = files.folder(top).count() == files.len();
    let found =
        alone && is_bundle("") == [false, false] && is_bundle(&format!("{top}/")) != [false, false];
    found.then(|| top.to_owned())
}

/// Builds a [`Tree`] file by file, under limits.
#[derive(Debug)]
pub(crate) struct Builder {
    gate: Gate<Kept>,
    spool: Spool,
    #[cfg(feature = "sources")]
    aside: Aside,
}

/// Files that are no content themselves, but may get a second name that is.
#[cfg(feature = "sources")]
#[derive(Debug)]
struct Aside {
    files: BTreeMap<String, Kept>,
    /// Of each file, and of all there ever were: their bytes stay in the spool.
    limits: Limits,
    size: u64,
}

impl Builder {
    pub(crate) fn new(limits: Limits, room: Room) -> Self {
        Self {
            gate: Gate::new(limits),
            spool: Spool::new(room),
            #[cfg(feature = "sources")]
            aside: Aside {
                files: BTreeMap::new(),
                limits,
                size: 0,
            },
        }
    }

    /// Reads one regular file to its end, or to the limit.
    pub(crate) fn add(&mut self, path: &str, mode: u32, reader: &mut dyn Read) -> Result<()> {
        let spool = &mut self.spool;
        self.gate.add(path, reader, |path, reader| {
            let piece = spool.keep(reader).map_err(|failure| match failure {
                Failure::Write(error) => error,
                Failure::Read(source) => Error::Content(content::Error::Read {
                    path: path.to_owned(),
                    source,
                }),
            })?;
            let mode = mode & 0o777;
            Ok(Kept { piece, mode })
        })
    }

    /// Checks and counts an entry that carries no content.
    pub(crate) fn skip(&mut self, path: &str) -> Result<()> {
        Ok(self.gate.skip(path)?)
    }

    /// Checks, counts and records an entry that is not a regular file.
    pub(crate) fn record(&mut self, path: &str, entry: Irregular) -> Result<()> {
        Ok(self.gate.record(path, entry)?)
    }

    /// Adds a file under a second name, if there is one under the first. It counts as if it was read again, which it
    /// is whenever the tree is packed.
    pub(crate) fn link(&mut self, path: &str, target: &str) -> Result<bool> {
        let Some(Kept { piece, mode }) = self.linked(target) else {
            return Ok(false);
        };
        let (piece, mode) = (piece.clone(), *mode);
        let size = piece.size();
        self.gate.note(path, size, Kept { piece, mode })?;
        Ok(true)
    }

    fn linked(&self, target: &str) -> Option<&Kept> {
        // A file that is set aside belongs to the layer that is read; an upper layer may have another one of its name.
        #[cfg(feature = "sources")]
        if let Some(kept) = self.aside.files.get(target) {
            return Some(kept);
        }
        self.gate.paths().get(target)
    }

    /// Whether so many bytes more can be set aside.
    #[cfg(feature = "sources")]
    pub(crate) fn has_room_aside(&self, size: u64) -> bool {
        let Aside {
            limits, size: used, ..
        } = &self.aside;
        size <= limits.file && used.saturating_add(size) <= limits.total
    }

    /// Keeps a file for [`Self::link`] alone.
    #[cfg(feature = "sources")]
    pub(crate) fn set_aside(
        &mut self,
        path: &str,
        mode: u32,
        reader: &mut dyn Read,
    ) -> Result<(), Failure> {
        let piece = self.spool.keep(reader)?;
        self.aside.size += piece.size();
        let mode = mode & 0o777;
        self.aside
            .files
            .insert(path.to_owned(), Kept { piece, mode });
        Ok(())
    }

    /// Forgets what was set aside.
    #[cfg(feature = "sources")]
    pub(crate) fn forget_aside(&mut self) {
        self.aside.files.clear();
    }

    pub(crate) fn finish(self) -> Tree {
        Tree {
            files: self.gate.finish(),
            spool: self.spool,
        }
    }
}

impl Options {
    /// Where large content waits.
    pub(crate) fn room(&self) -> Room {
        Room::Disk(self.spool.clone().unwrap_or_else(env::temp_dir))
    }
}
