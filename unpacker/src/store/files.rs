//! Helpers for the files of the store and their names.

use std::{
    fs::{self, DirEntry, File},
    io,
    os::unix::fs::MetadataExt,
    path::Path,
};

use tracing::warn;

use super::{Error, Result};
use crate::Digest;

/// Returns the file name of content.
pub(super) fn name(digest: &Digest) -> String {
    format!("{}.tar", digest.hex())
}

/// Parses a digest without its algorithm.
pub(super) fn digest(hex: &str) -> Option<Digest> {
    format!("sha256:{hex}").parse().ok()
}

/// Returns the content that a file contains, by the name of the file.
pub(super) fn content(entry: &DirEntry) -> Option<Digest> {
    digest(entry.file_name().to_str()?.strip_suffix(".tar")?)
}

/// Lists a directory. Entries that cannot be read are skipped.
pub(super) fn entries(dir: &Path) -> Result<impl Iterator<Item = DirEntry>> {
    let entries = fs::read_dir(dir).map_err(Error::file("list", dir))?;
    Ok(entries.filter_map(io::Result::ok))
}

/// Removes a foreign file. A directory does not belong to the store and is left alone.
pub(super) fn remove(entry: &DirEntry) {
    if let Err(error) = fs::remove_file(entry.path()) {
        warn!(path = ?entry.path(), %error, "failed to remove a foreign file from the content store");
    }
}

/// Returns the total size of all files in a directory.
pub(super) fn size(dir: &Path) -> Result<u64> {
    let sizes = entries(dir)?.filter_map(|entry| {
        let metadata = entry.metadata().ok()?; // removed since the listing, or not permitted
        metadata.is_file().then_some(metadata.len())
    });
    Ok(sizes.sum())
}

/// Reports whether `path` refers to the open file.
pub(super) fn is_at(file: &File, path: &Path) -> bool {
    let identity = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
    match (file.metadata(), fs::symlink_metadata(path)) {
        (Ok(open), Ok(current)) => identity(open) == identity(current),
        _ => false,
    }
}
