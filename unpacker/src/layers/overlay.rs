//! Overlay of the layers that were read so far, which determines the visible entries of lower layers.

use std::collections::{BTreeMap, BTreeSet};

/// The effects of all upper layers by path.
#[derive(Debug, Default)]
pub(super) struct Overlay {
    marks: BTreeMap<String, OverlayEntry>,
}

/// The effect at a path. Later variants hide more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum OverlayEntry {
    /// A directory. It merges with a lower directory, and hides other lower entries of its name.
    Directory,
    /// A directory that hides everything below it in lower layers.
    Opaque,
    /// A file, a link, or a deleted entry.
    Remove,
}

/// The entries that one layer adds and removes.
#[derive(Debug, Default)]
pub(super) struct LayerChanges {
    /// Added paths, and whether they are directories.
    entries: BTreeMap<String, bool>,
    hidden: BTreeSet<String>,
    opaque: BTreeSet<String>,
    files_read: BTreeSet<String>,
}

/// Two entries of one layer that exclude each other.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Conflict {
    /// The path occurs twice.
    Duplicate(String),
    /// The first path is not a directory, but the second one requires it to be one.
    FileAsFolder(String, String),
}

/// Returns the directories above a path from the topmost, without the root.
fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    let slashes = path.match_indices('/');
    slashes.filter_map(|(at, _)| path.get(..at))
}

/// Returns the first path below a directory.
fn first_below<'a, T>(paths: &'a BTreeMap<String, T>, dir: &str) -> Option<&'a String> {
    let below = format!("{dir}/");
    let (path, _) = paths.range(below.clone()..).next()?;
    path.starts_with(&below).then_some(path)
}

impl Overlay {
    /// Reports whether a lower layer's entry at this path is hidden, unless it is a directory.
    pub(super) fn hides(&self, path: &str) -> bool {
        let covers = |dir: &str| {
            let mark = self.marks.get(dir);
            mark.is_some_and(|mark| *mark >= OverlayEntry::Opaque)
        };
        covers("")
            || ancestors(path).any(covers)
            || self.marks.contains_key(path)
            || first_below(&self.marks, path).is_some()
    }

    /// Merges the next lower layer.
    pub(super) fn merge(&mut self, layer: LayerChanges) {
        let entries = layer.entries.into_iter().map(|(path, is_folder)| {
            let mark = if is_folder {
                OverlayEntry::Directory
            } else {
                OverlayEntry::Remove
            };
            (path, mark)
        });
        let hidden = layer
            .hidden
            .into_iter()
            .map(|path| (path, OverlayEntry::Remove));
        let opaque = layer
            .opaque
            .into_iter()
            .map(|path| (path, OverlayEntry::Opaque));
        for (path, mark) in entries.chain(hidden).chain(opaque) {
            let existing = self.marks.entry(path).or_insert(mark);
            *existing = mark.max(*existing);
        }
    }
}

impl LayerChanges {
    /// Adds a directory. It may occur several times.
    pub(super) fn dir(&mut self, path: String) -> Result<(), Conflict> {
        self.check_ancestors(&path)?;
        if self.entries.get(&path) == Some(&false) {
            let below = format!("{path}/");
            return Err(Conflict::FileAsFolder(path, below));
        }
        self.entries.insert(path, true);
        Ok(())
    }

    /// Adds another entry. Runtimes use the last of two equal paths and other tools the first, so duplicates are
    /// rejected.
    pub(super) fn file(&mut self, path: &str) -> Result<(), Conflict> {
        self.check_ancestors(path)?;
        match self.entries.get(path) {
            Some(false) => return Err(Conflict::Duplicate(path.to_owned())),
            Some(true) => {
                let below = format!("{path}/");
                return Err(Conflict::FileAsFolder(path.to_owned(), below));
            }
            None => {}
        }
        if let Some(child) = first_below(&self.entries, path) {
            return Err(Conflict::FileAsFolder(path.to_owned(), child.clone()));
        }
        self.entries.insert(path.to_owned(), false);
        Ok(())
    }

    /// Removes this path and everything below it from lower layers.
    pub(super) fn hide(&mut self, path: String) {
        self.hidden.insert(path);
    }

    /// Removes everything below a directory from lower layers.
    pub(super) fn opaque(&mut self, dir: String) {
        self.opaque.insert(dir);
    }

    /// Records that the file at this path was read.
    pub(super) fn record_read(&mut self, path: String) {
        self.files_read.insert(path);
    }

    /// Reports whether the file at this path was read from this layer.
    pub(super) fn has_file(&self, path: &str) -> bool {
        self.files_read.contains(path)
    }

    /// Rejects a path whose parent is a link or file: through a link, it would be at another place.
    fn check_ancestors(&self, path: &str) -> Result<(), Conflict> {
        match ancestors(path).find(|dir| self.entries.get(*dir) == Some(&false)) {
            Some(file) => Err(Conflict::FileAsFolder(file.to_owned(), path.to_owned())),
            None => Ok(()),
        }
    }
}
