//! Reading a folder: never through a link, never from anything but a regular file.

use std::{
    ffi::OsString,
    fs, io,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::Path,
};

use manifests::content;

use crate::{
    Error, Options, Result, Skipped,
    select::Select,
    spool::Room,
    tree::{Builder, Tree},
};

/// Reads all files below the root. Folders wait on a list of their own, so depth costs no stack.
pub(crate) fn read(root: &Path, options: &Options, room: Room) -> Result<(Tree, Skipped)> {
    let mut walk = Walk {
        root,
        select: Select::new(options)?,
        files: Builder::new(options.limits, room),
        left: options.limits.entries,
        limit: options.limits.entries,
        skipped: Skipped::default(),
    };
    let mut waiting = vec![String::new()];
    while let Some(folder) = waiting.pop() {
        let mut below = walk.folder(&folder)?;
        below.reverse();
        waiting.append(&mut below);
    }
    Ok((walk.files.finish(), walk.skipped))
}

struct Walk<'a> {
    root: &'a Path,
    select: Select,
    files: Builder,
    /// Entries that may still be listed. Listing counts, not adding: a folder of millions is refused before its
    /// names fill the memory.
    left: usize,
    limit: usize,
    skipped: Skipped,
}

impl Walk<'_> {
    /// Reads the files of one folder and returns the folders in it that are to be read.
    fn folder(&mut self, folder: &str) -> Result<Vec<String>> {
        let mut below = Vec::new();
        for (name, kind) in self.list(folder)? {
            let Some(path) = name.to_str().map(|name| join(folder, name)) else {
                let path = join(folder, &name.to_string_lossy());
                if self.select.takes(&path) {
                    return Err(Error::Name { path });
                }
                self.skipped.unselected += 1;
                continue;
            };
            if !(self.select.takes(&path) || kind.is_dir() && self.select.enters(&path)) {
                self.skipped.unselected += 1;
            } else if kind.is_dir() {
                self.files.skip(&path)?;
                below.push(path);
            } else if kind.is_file() {
                self.file(&path)?;
            } else {
                self.files.skip(&path)?;
                let count = if kind.is_symlink() {
                    &mut self.skipped.symlinks
                } else {
                    &mut self.skipped.special
                };
                *count += 1;
            }
        }
        Ok(below)
    }

    /// The names in a folder, ordered, so that the same folder always fails at the same file.
    fn list(&mut self, folder: &str) -> Result<Vec<(OsString, fs::FileType)>> {
        let failed = |source| Error::Read {
            path: if folder.is_empty() { "." } else { folder }.to_owned(),
            source,
        };
        let mut names = Vec::new();
        for entry in fs::read_dir(self.root.join(folder)).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            self.left = self
                .left
                .checked_sub(1)
                .ok_or(content::Error::TooManyEntries { limit: self.limit })?;
            names.push((entry.file_name(), entry.file_type().map_err(failed)?));
        }
        names.sort_by(|(a, _), (b, _)| a.cmp(b));
        Ok(names)
    }

    fn file(&mut self, path: &str) -> Result<()> {
        let failed = |source| Error::Read {
            path: path.to_owned(),
            source,
        };
        let at = self.root.join(path);
        let (mut file, mode) = open_regular(&at).map_err(failed)?;
        self.files
            .add(path, mode, &mut file)
            .map_err(|error| match error {
                Error::Content(content::Error::Read { source, .. }) => failed(source),
                error => error,
            })
    }
}

/// Opens what was listed as a regular file, and makes sure that no link took its place meanwhile.
fn open_regular(path: &Path) -> io::Result<(fs::File, u32)> {
    let listed = fs::symlink_metadata(path)?;
    if !listed.is_file() {
        return Err(io::Error::other(
            "it was replaced while the folder was read",
        ));
    }
    let file = fs::File::open(path)?;
    let opened = file.metadata()?;
    if (listed.dev(), listed.ino()) != (opened.dev(), opened.ino()) {
        return Err(io::Error::other(
            "it was replaced while the folder was read",
        ));
    }
    Ok((file, opened.permissions().mode()))
}

fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() {
        name.to_owned()
    } else {
        format!("{folder}/{name}")
    }
}
