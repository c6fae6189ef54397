//! Reader of untrusted directories and archives into checked [`Content`], and packer of content into archives.
//!
//! No path of a source becomes a path on disk; data too large for memory is stored in an unnamed file. All input is
//! limited while it is read: the number of entries, the length and depth of paths, and the size of a file and of all
//! files ([`Limits`]). These limits also determine the maximum decompressed size of an archive ([`Options::stream_limit`]),
//! including skipped entries, headers and padding.
//!
//! ```text
//!  directory ─────────────────────────── walk ─┐
//!  file, stream ── decompress ── meter ── tar ─┼── EntryLimiter (paths, limits) ──> Tree ──> Content
//!  layers ──────── decompress ── meter ── tar ─┘
//!
//!  Content ── pack ──> deterministic archive and its digest
//! ```
//!
//! | entry                                   | in a directory      | in an archive                              |
//! | --------------------------------------- | ------------------- | ------------------------------------------ |
//! | regular file                            | read                | read                                       |
//! | symbolic link                           | recorded            | recorded                                   |
//! | hard link                               | a file like another | read, if the archive has the file; else recorded |
//! | device, FIFO, socket                    | recorded            | recorded                                   |
//! | sparse file                             | a file like another | recorded                                   |
//! | name that leaves the root, is not UTF-8 | rejected            | rejected                                   |
//!
//! Recorded entries are not part of the content. A bundle with a recorded entry in `manifests/` or `metadata/` is
//! rejected, because its object would be missing ([`Tree::ensure_regular`]). Elsewhere they are skipped and counted.
//! In a local directory, a symbolic link in `manifests/` or `metadata/` to a regular file of the same directory tree
//! is read as that file.
//!
//! An archive is rejected if two readers of tar could see different content. Examples are two names for one entry,
//! two sizes for one file, data after the end, and a directory with a body. Layers of images have additional rules.
//!
//! ```
//! use unpacker::{Format, Options};
//!
//! let directory = tempfile::tempdir()?;
//! std::fs::create_dir(directory.path().join("manifests"))?;
//! std::fs::write(directory.path().join("manifests/csv.yaml"), "kind: ClusterServiceVersion")?;
//! let unpacked = unpacker::open(directory.path(), &Options::default())?;
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
#[cfg(feature = "sources")]
pub mod config_maps;
mod decompress;
mod digest;
mod dir;
mod error;
#[cfg(feature = "sources")]
pub mod fetch;
#[cfg(feature = "sources")]
mod fetched;
#[cfg(feature = "sources")]
pub mod git;
#[cfg(feature = "sources")]
pub mod http_archive;
#[cfg(feature = "sources")]
pub mod http_client;
#[cfg(feature = "sources")]
pub mod image;
pub mod job;
#[cfg(feature = "sources")]
pub mod layers;
#[cfg(feature = "sources")]
pub mod local;
#[cfg(feature = "sources")]
pub mod oci;
mod pack;
#[cfg(feature = "sources")]
mod progress;
#[cfg(feature = "sources")]
pub mod registry;
mod select;
#[cfg(feature = "sources")]
pub mod source;
mod spool;
#[cfg(feature = "sources")]
pub mod store;
mod tar;
pub mod transfer;
pub mod tree;
#[cfg(feature = "sources")]
mod trust;
#[cfg(feature = "sources")]
pub mod unpack;

use std::{
    ffi::OsStr,
    fs,
    io::Read,
    path::{Path, PathBuf},
};

#[cfg(feature = "sources")]
pub use access::Access;
pub use digest::{Digest, ParseDigestError};
pub use error::{Error, Result};
#[cfg(feature = "sources")]
pub use fetch::{fetch, local, resolve};
#[cfg(feature = "sources")]
pub use fetched::Fetched;
pub use manifests::content::{Content, Limits, SkippedEntries};
pub use pack::{Format, pack};
#[cfg(feature = "sources")]
pub use progress::Progress;
#[cfg(feature = "sources")]
pub use source::Source;
#[cfg(feature = "sources")]
pub use store::Store;
#[cfg(feature = "sources")]
pub use store::shared_fetches::Pinned;
pub use tree::{FileInfo, Tree};
#[cfg(feature = "sources")]
pub use unpack::unpack;

use spool::Storage;

/// Options for reading a source.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// Limits of the content.
    pub limits: Limits,
    /// Selected part of the source. Other entries are counted, but not read, and do not count toward the size.
    /// Therefore a few directories of a large checkout can be read.
    pub select: Selection,
    /// Directory of the unnamed file for content that is too large for memory; `None` uses the directory for
    /// temporary files of the system.
    pub spool: Option<PathBuf>,
    /// Limits for the search of selected entries in an image.
    pub image: ImageLimits,
}

/// The limits for all entries of an image. Entries that are not selected cost only time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageLimits {
    /// Maximum number of uncompressed bytes in all layers.
    pub bytes: u64,
    /// Maximum number of entries in all layers.
    pub entries: u64,
    /// Maximum number of layers.
    pub layers: usize,
}

impl Default for ImageLimits {
    /// Returns limits above the size of any image with an operating system.
    fn default() -> Self {
        Self {
            bytes: 8 << 30,
            entries: 2_000_000,
            layers: 256,
        }
    }
}

/// The part of a source that is read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Selection {
    /// All of a directory, archive or repository; for an image, the directories that its labels name.
    #[default]
    Default,
    /// Everything, also for an image.
    All,
    /// These directories and files, relative to the root of the source.
    Only(Vec<String>),
}

impl Options {
    /// Returns the maximum number of tar bytes to read: four times the content, for entries that are not selected,
    /// plus 4 KiB per entry for headers and padding. The same limit applies to compressed bytes.
    pub fn stream_limit(&self) -> u64 {
        let entries = u64::try_from(self.limits.entries).unwrap_or(u64::MAX);
        let content = self.limits.total.saturating_mul(4);
        content.saturating_add(entries.saturating_mul(4096))
    }
}

/// A completely read source.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unpacked {
    /// Regular files, and the entries that are not regular files.
    pub content: Content,
    /// Number of entries outside of [`Options::select`]. A directory without selected entries counts once.
    pub unselected: usize,
}

/// Reads a directory, or a tar archive that may be compressed with gzip or zstd. The format is detected by the
/// content, not by the name.
///
/// # Errors
/// Returns an error if the source cannot be read, has another format, contains rejected entries, or exceeds a limit.
pub fn open(path: &Path, options: &Options) -> Result<Unpacked> {
    unpacked(open_in(path, options, Storage::Memory)?)
}

/// Reads a directory or an archive into a [`Tree`]; otherwise like [`open`]. Also returns the number of entries that
/// are not selected.
///
/// # Errors
/// Returns the errors of [`open`], and an error if a temporary file cannot be written.
pub fn open_tree(path: &Path, options: &Options) -> Result<(Tree, usize)> {
    open_in(path, options, options.storage())
}

fn open_in(path: &Path, options: &Options, storage: Storage) -> Result<(Tree, usize)> {
    let failed = |source| Error::Open {
        path: path.to_owned(),
        source,
    };
    let kind = fs::metadata(path).map_err(failed)?.file_type();
    let read = if kind.is_dir() {
        dir::read(path, options, storage)
    } else if kind.is_file() {
        archive::read(fs::File::open(path).map_err(failed)?, options, storage)
    } else {
        return Err(Error::NotReadable {
            path: path.to_owned(),
        });
    };
    read.map_err(|source| Error::Unpack {
        path: path.to_owned(),
        source: Box::new(explain_manifest(path, source)),
    })
}

/// Replaces the remedy of an error if the path is a file of a bundle or a catalog instead of its directory.
fn explain_manifest(path: &Path, error: Error) -> Error {
    let extension = path.extension().and_then(OsStr::to_str);
    match (error, extension.unwrap_or_default()) {
        (Error::NotArchive { .. }, extension @ ("json" | "yaml" | "yml")) => Error::NotArchive {
            found: if extension == "json" { "JSON" } else { "YAML" },
            remedy: "use the directory of the file",
        },
        (error, _) => error,
    }
}

/// Reads a tar archive to its end, for example from standard input or an upload. It may be compressed with gzip or
/// zstd.
///
/// # Errors
/// Returns an error if the stream cannot be read, has another format, contains rejected entries, or exceeds a limit.
pub fn stream(reader: impl Read, options: &Options) -> Result<Unpacked> {
    unpacked(archive::read(reader, options, Storage::Memory)?)
}

/// Reads an archive into a [`Tree`]; otherwise like [`stream`]. Also returns the number of entries that are not
/// selected.
///
/// # Errors
/// Returns the errors of [`stream`], and an error if a temporary file cannot be written.
pub fn stream_tree(reader: impl Read, options: &Options) -> Result<(Tree, usize)> {
    archive::read(reader, options, options.storage())
}

fn unpacked((tree, unselected): (Tree, usize)) -> Result<Unpacked> {
    let content = tree.into_content()?;
    Ok(Unpacked {
        content,
        unselected,
    })
}
