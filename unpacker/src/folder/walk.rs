//! Listing a folder and what is below it.

use std::{
    ffi::OsString,
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::Path,
};

use manifests::content::{self, Gate};

use super::{Bounds, Found, Survey, failed};
use crate::{Error, Options, Result, Skipped, select::Select};

/// Folders in a container's root in which not all is the image's.
const RUNTIME_FOLDERS: [&str; 5] = ["bin", "dev", "etc", "proc", "sys"];
/// Files in a container's root that name the machine.
const RUNTIME_FILES: [&str; 2] = ["product_name", "product_uuid"];

/// Lists all that is selected. Folders wait on a list of their own, so depth costs no stack.
pub(super) fn walk(root: &Path, options: &Options, bounds: Bounds) -> Result<Survey> {
    let device = match bounds {
        Bounds::Everything => None,
        Bounds::Container => Some(fs::metadata(root).map_err(|error| failed("", error))?.dev()),
    };
    let mut walk = Walk {
        root,
        select: Select::new(options)?,
        device,
        files: Gate::new(options.limits),
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
    Ok(Survey {
        root: root.to_owned(),
        files: walk.files.finish(),
        skipped: walk.skipped,
    })
}

struct Walk<'a> {
    root: &'a Path,
    select: Select,
    /// The only file system that is entered.
    device: Option<u64>,
    files: Gate<Found>,
    /// Entries that may still be listed. Listing counts, not adding: a folder of millions is refused before its
    /// names fill the memory.
    left: usize,
    limit: usize,
    skipped: Skipped,
}

impl Walk<'_> {
    /// Notes the files of one folder and returns the folders in it that are to be listed.
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
            let is_wanted = self.select.takes(&path) || kind.is_dir() && self.select.enters(&path);
            if !is_wanted || self.is_of_runtime(&path, kind)? {
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
        let failed = |source| failed(folder, source);
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
        let listed = self.look(path)?;
        let found = Found {
            mode: listed.permissions().mode(),
            size: listed.len(),
            device: listed.dev(),
            inode: listed.ino(),
        };
        Ok(self.files.note(path, found.size, found)?)
    }

    /// Whether the runtime put this here. Only of folders does the device tell: on an overlay, a file may bear that
    /// of the layer it is in.
    fn is_of_runtime(&self, path: &str, kind: fs::FileType) -> Result<bool> {
        let Some(device) = self.device else {
            return Ok(false);
        };
        if kind.is_dir() {
            Ok(RUNTIME_FOLDERS.contains(&path) || self.look(path)?.dev() != device)
        } else {
            Ok(RUNTIME_FILES.contains(&path))
        }
    }

    fn look(&self, path: &str) -> Result<fs::Metadata> {
        fs::symlink_metadata(self.root.join(path)).map_err(|error| failed(path, error))
    }
}

fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() {
        name.to_owned()
    } else {
        format!("{folder}/{name}")
    }
}
