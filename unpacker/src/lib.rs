//! Reads folders and archives from strangers into checked [`Content`], and packs content into archives.
//!
//! No path of a source ever becomes a path on disk: what is too large for memory waits in a file without a name.
//! Everything is bounded while it is read: the number of
//! entries, the length and depth of paths, the size of a file and of all files ([`Limits`]), and with them the
//! bytes that an archive may inflate to ([`Options::stream_limit`]), skipped entries, headers and padding included.
//!
//! ```text
//!  folder ─────────────────────────── walk ─┐
//!  file, stream ── inflate ── meter ── tar ─┼── Gate (paths, limits) ──> Tree ──> Content
//!  layers ──────── inflate ── meter ── tar ─┘
//!
//!  Content ── pack ──> the same bytes for the same content, and their digest
//! ```
//!
//! | entry                                   | in a directory      | in an archive                              |
//! | --------------------------------------- | ------------------- | ------------------------------------------ |
//! | regular file                            | read                | read                                       |
//! | symbolic link                           | recorded            | recorded                                   |
//! | hard link                               | a file like another | read, if the archive has the file; else recorded |
//! | device, FIFO, socket                    | recorded            | recorded                                   |
//! | sparse file                             | a file like another | recorded                                   |
//! | name that leaves the root, is not UTF-8 | refused             | refused                                    |
//!
//! Recorded entries are not part of the content. A bundle that has one in `manifests/` or `metadata/` is rejected, because its object
//! would be missing ([`Tree::ensure_regular`]); elsewhere they are skipped and counted. In a directory on this machine,
//! a symbolic link in `manifests/` or `metadata/` to a regular file of the same directory tree is read as that file.
//!
//! Wherever two readers of tar could see different content, the archive is refused: two names for one entry, two
//! sizes for one file, data behind the end, a folder with a body.
//! Layers of images have rules of their own.
//!
//! ```
//! use unpacker::{Format, Options};
//!
//! let folder = tempfile::tempdir()?;
//! std::fs::create_dir(folder.path().join("manifests"))?;
//! std::fs::write(folder.path().join("manifests/csv.yaml"), "kind: ClusterServiceVersion")?;
//! let unpacked = unpacker::open(folder.path(), &Options::default())?;
//!
//! let mut archive = Vec::new();
//! let digest = unpacker::pack(&unpacked.content, Format::TarGz, &mut archive)?;
//! assert!(digest.to_string().starts_with("sha256:"));
//! assert_eq!(unpacker::stream(archive.as_slice(), &Options::default())?, unpacked);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#[cfg(test)]
#[macro_use(assert_each, assert_rows, with)]
extern crate tests;

#[cfg(feature = "sources")]
pub mod access;
mod archive;
mod block;
#[cfg(feature = "sources")]
pub mod configmaps;
mod digest;
mod error;
#[cfg(feature = "sources")]
pub mod fetch;
mod folder;
#[cfg(feature = "sources")]
pub mod git;
#[cfg(feature = "sources")]
pub mod http;
#[cfg(feature = "sources")]
pub mod image;
mod inflate;
pub mod job;
#[cfg(feature = "sources")]
pub mod layers;
#[cfg(feature = "sources")]
pub mod local;
#[cfg(feature = "sources")]
pub mod oci;
mod pack;
mod pax;
#[cfg(feature = "sources")]
pub mod registry;
mod select;
#[cfg(feature = "sources")]
pub mod source;
mod spool;
#[cfg(feature = "sources")]
pub mod store;
pub mod tree;
#[cfg(feature = "sources")]
pub mod unpack;
#[cfg(feature = "sources")]
pub mod web;
pub mod wire;

use std::{
    fs,
    io::Read,
    path::{Path, PathBuf},
};

#[cfg(feature = "sources")]
pub use access::Access;
pub use digest::{Digest, NotADigest};
pub use error::{Error, Result};
#[cfg(feature = "sources")]
pub use fetch::{Fetched, Progress, fetch, local, resolve};
pub use manifests::content::{Content, Limits, SkippedEntries};
pub use pack::{Format, pack};
#[cfg(feature = "sources")]
pub use source::Source;
#[cfg(feature = "sources")]
pub use store::Store;
pub use tree::{FileInfo, Tree};
#[cfg(feature = "sources")]
pub use unpack::{Pinned, unpack};

use manifests::content::Paths;
use spool::Room;

/// How to read a source.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// How much may be read.
    pub limits: Limits,
    /// Which part of it. What lies outside is counted as an entry, but not read and not counted as size, so that a
    /// few folders of a large checkout can be taken.
    pub select: Selection,
    /// The folder of the unnamed file in which content waits that is too large for memory; the system's folder for
    /// temporary files if there is none.
    pub spool: Option<PathBuf>,
    /// How much of an image may be gone through in search of what is selected.
    pub image: ImageLimits,
}

/// How much of an image may be gone through: what is not selected costs nothing but time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageLimits {
    /// Uncompressed bytes of all layers.
    pub bytes: u64,
    /// Entries of all layers.
    pub entries: u64,
    /// Layers.
    pub layers: usize,
}

impl Default for ImageLimits {
    /// More than any image with an operating system in it.
    fn default() -> Self {
        Self {
            bytes: 8 << 30,
            entries: 2_000_000,
            layers: 256,
        }
    }
}

/// Which part of a source is read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Selection {
    /// Of a folder, an archive or a repository everything; of an image the folders that its labels name.
    #[default]
    Natural,
    /// Everything, of an image too.
    All,
    /// These folders and files, relative to the root of the source.
    Only(Vec<String>),
}

impl Options {
    /// The bytes of tar that are read at most: four times the content, for entries that are not selected, and 4 KiB
    /// for each entry's headers and padding. The same holds for the bytes before they are inflated.
    pub fn stream_limit(&self) -> u64 {
        let entries = u64::try_from(self.limits.entries).unwrap_or(u64::MAX);
        let content = self.limits.total.saturating_mul(4);
        content.saturating_add(entries.saturating_mul(4096))
    }
}

/// A source that has been read to its end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unpacked {
    /// Its regular files, and the entries that are not regular files.
    pub content: Content,
    /// The number of entries outside of [`Options::select`]; a directory of which nothing is selected counts once.
    pub unselected: usize,
}

/// Reads a folder, or a tar that may be compressed with gzip or zstd, told apart by what they hold and not by their names.
///
/// # Errors
/// When the source cannot be read, is none of these, holds what is refused, or exceeds a limit.
pub fn open(path: &Path, options: &Options) -> Result<Unpacked> {
    unpacked(open_in(path, options, Room::Memory)?)
}

/// Reads a folder or an archive as [`open`] does, into a [`Tree`]. Also returns the number of entries that are not
/// selected.
///
/// # Errors
/// As [`open`], and when a temporary file cannot be written.
pub fn open_tree(path: &Path, options: &Options) -> Result<(Tree, usize)> {
    open_in(path, options, options.room())
}

fn open_in(path: &Path, options: &Options, room: Room) -> Result<(Tree, usize)> {
    let failed = |source| Error::Open {
        path: path.to_owned(),
        source,
    };
    let kind = fs::metadata(path).map_err(failed)?.file_type();
    let read = if kind.is_dir() {
        folder::read(path, options, room)
    } else if kind.is_file() {
        archive::read(fs::File::open(path).map_err(failed)?, options, room)
    } else {
        return Err(Error::Kind {
            path: path.to_owned(),
        });
    };
    read.map_err(|source| Error::Unpack {
        path: path.to_owned(),
        source: Box::new(source),
    })
}

/// Reads a tar, which may be compressed with gzip or zstd, from standard input or an upload, to its end.
///
/// # Errors
/// When the stream cannot be read, is neither, holds what is refused, or exceeds a limit.
pub fn stream(reader: impl Read, options: &Options) -> Result<Unpacked> {
    unpacked(archive::read(reader, options, Room::Memory)?)
}

/// Reads an archive as [`stream`] does, into a [`Tree`]. Also returns the number of entries that are not selected.
///
/// # Errors
/// As [`stream`], and when a temporary file cannot be written.
pub fn stream_tree(reader: impl Read, options: &Options) -> Result<(Tree, usize)> {
    archive::read(reader, options, options.room())
}

fn unpacked((tree, unselected): (Tree, usize)) -> Result<Unpacked> {
    let content = tree.into_content()?;
    Ok(Unpacked {
        content,
        unselected,
    })
}

/// Takes the bundle out of the one folder that it was packed with, as in `tar czf bundle.tgz bundle/`.
///
/// Content stays as it is if it has `manifests` or `metadata` at its root, has anything beside that one folder, or
/// that folder has neither of the two: then it is no bundle in a folder, and guessing would only hide a mistake.
#[must_use]
pub fn strip_top_folder(content: Content) -> Content {
    let files = Paths::from(content);
    match tree::top_folder(&files) {
        Some(top) => files.into_folder(&top).into(),
        None => files.into(),
    }
}
