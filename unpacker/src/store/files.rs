//! Small things done with files and their names.

use std::{
    fs::{self, DirEntry, File},
    io,
    os::unix::fs::MetadataExt,
    path::Path,
};

use tracing::warn;

use super::{Error, Result};
use crate::Digest;

/// The name of content.
pub(super) fn name(digest: &Digest) -> String {
    format!("{}.tar", digest.hex())
}

/// The digest with these hexadecimal digits.
pub(super) fn digest(hex: &str) -> Option<Digest> {
    format!("sha256:{hex}").parse().ok()
}

/// The content that a file is, by its name.
pub(super) fn content(entry: &DirEntry) -> Option<Digest> {
    digest(entry.file_name().to_str()?.strip_suffix(".tar")?)
}

/// What a folder holds. What cannot be looked at is left out.
pub(super) fn entries(folder: &Path) -> Result<impl Iterator<Item = DirEntry>> {
    let entries = fs::read_dir(folder).map_err(Error::file("list", folder))?;
    Ok(entries.filter_map(io::Result::ok))
}

/// Removes what is in the way. A folder is not ours, whatever it is; it stays.
pub(super) fn remove(entry: &DirEntry) {
    if let Err(error) = fs::remove_file(entry.path()) {
        warn!(path = ?entry.path(), %error, "cannot remove what does not belong into the content store");
    }
}

/// The sizes of all files of a folder.
pub(super) fn size(folder: &Path) -> Result<u64> {
    let sizes = entries(folder)?.filter_map(|entry| {
        let about = entry.metadata().ok()?; // gone meanwhile, or no permission
        about.is_file().then_some(about.len())
    });
    Ok(sizes.sum())
}

/// Whether an open file is the one that stands there.
pub(super) fn is_at(file: &File, path: &Path) -> bool {
    let at = |about: fs::Metadata| (about.dev(), about.ino());
    match (file.metadata(), fs::symlink_metadata(path)) {
        (Ok(open), Ok(there)) => at(open) == at(there),
        _ => false,
    }
}
