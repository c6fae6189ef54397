//! Parent directories that layers write into without an entry for the directory itself.
//!
//! In place of such a directory, a lower layer may have a symbolic link. Container runtimes follow the link and write
//! to its target, so files land in another directory than the layer names. For example, `archive.Apply` of containerd
//! resolves parents, and replaces an existing link only by an entry of the same name. Such images are rejected if
//! selected entries lie below the link. As in containerd, an entry for the directory or a whiteout replaces the link
//! for the following entries. Pure; no I/O.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use manifests::content;

use crate::{Error, Result, select::Select};

/// Maximum length of a path whose parents are recorded, in bytes. Linux has no longer paths.
const MAX_PATH_LEN: usize = 4096;
/// Maximum number of bytes of all recorded names, with [`OVERHEAD`] for each.
const MAX_NAMES: usize = 32 << 20;
/// Memory of a name in addition to its bytes.
const OVERHEAD: usize = 64;
/// Maximum length of a path in a message, in characters.
const MAX_TEXT_LEN: usize = 200;

/// Parent directories of the layers read so far, from the topmost.
#[derive(Debug, Default)]
pub(super) struct Parents {
    /// Parents of upper layers that no later layer has an entry for, each with a path below it.
    open: BTreeMap<String, Arc<str>>,
    /// Such parents of the current layer.
    current: BTreeMap<String, Arc<str>>,
    /// Entries of the current layer so far.
    entries: HashMap<String, Entry>,
    /// Bytes of names in `open`, and in the maps of the current layer.
    size: usize,
    current_size: usize,
}

/// An entry of the current layer in the place of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Entry {
    /// A directory whose lower entries are visible, or a parent that is already recorded.
    Directory,
    /// A directory or a deleted path without lower entries.
    Opaque,
}

/// Returns the parents of a path, from the deepest, without the root.
fn parents(path: &str) -> impl Iterator<Item = &str> {
    path.rmatch_indices('/')
        .filter_map(|(at, _)| path.get(..at))
}

impl Parents {
    /// Adds a directory entry.
    pub(super) fn directory(&mut self, path: &str, select: &Select) -> Result<()> {
        if !select.descends_into(path) {
            return Ok(());
        }
        let is_opaque = select.matches(path) && self.enter(path)?;
        self.remove(path);
        let entry = if is_opaque {
            Entry::Opaque
        } else {
            Entry::Directory
        };
        match self.entries.get(path) {
            Some(Entry::Opaque) => Ok(()),
            _ => self.insert(path, entry),
        }
    }

    /// Adds a whiteout of a path. `name` is the name of the whiteout entry.
    pub(super) fn whiteout(&mut self, path: &str, name: &str, select: &Select) -> Result<()> {
        if !select.descends_into(path) {
            return Ok(());
        }
        if select.matches(path) {
            self.enter(name)?;
        }
        self.close(path);
        self.insert(path, Entry::Opaque)
    }

    /// Adds the marker of an opaque directory, `""` for the root. `name` is the name of the marker entry.
    pub(super) fn opaque(&mut self, directory: &str, name: &str, select: &Select) -> Result<()> {
        if !select.descends_into(directory) {
            return Ok(());
        }
        if select.matches(directory) {
            self.enter(name)?;
        }
        self.close_below(directory);
        self.insert(directory, Entry::Opaque)
    }

    /// Adds another entry that is not a symbolic link.
    pub(super) fn file(&mut self, path: &str, select: &Select) -> Result<()> {
        if select.matches(path) {
            self.enter(path)?;
        }
        if select.descends_into(path) {
            self.close(path);
        }
        Ok(())
    }

    /// Adds a symbolic link.
    ///
    /// # Errors
    /// Returns an error if selected entries of this layer or of an upper layer lie below the link.
    pub(super) fn link(&mut self, path: &str, select: &Select) -> Result<()> {
        if let Some(below) = self.current.get(path).or_else(|| self.open.get(path)) {
            return Err(conflict(path, below));
        }
        self.file(path, select)
    }

    /// Ends the current layer; the next one is the layer below.
    pub(super) fn end_layer(&mut self) {
        self.entries.clear();
        self.current_size = 0;
        for (directory, below) in std::mem::take(&mut self.current) {
            let size = size(&directory, &below);
            self.remove(&directory);
            self.size += size;
            self.open.insert(directory, below);
        }
    }

    /// Records the parents of a path that the current layer has no entry for. Returns true if no entry of a lower
    /// layer is visible in the nearest parent.
    fn enter(&mut self, path: &str) -> Result<bool> {
        if path.len() > MAX_PATH_LEN {
            return Ok(false); // longer than any path in content
        }
        let mut missing = Vec::new();
        let mut is_opaque = false;
        for directory in parents(path).chain([""]) {
            match self.entries.get(directory) {
                None => missing.push(directory),
                Some(Entry::Directory) => break, // its parents are recorded
                Some(Entry::Opaque) => {
                    is_opaque = true;
                    break;
                }
            }
        }
        let below: Arc<str> = Arc::from(path);
        for directory in missing
            .into_iter()
            .filter(|directory| !directory.is_empty())
        {
            if is_opaque {
                self.insert(directory, Entry::Opaque)?;
            } else {
                self.insert(directory, Entry::Directory)?;
                self.spend(size(directory, path))?;
                self.current
                    .insert(directory.to_owned(), Arc::clone(&below));
            }
        }
        Ok(is_opaque)
    }

    /// Removes a path and everything below it: the current layer replaces it.
    fn close(&mut self, path: &str) {
        self.remove(path);
        self.close_below(path);
    }

    fn remove(&mut self, path: &str) {
        if let Some(below) = self.open.remove(path) {
            self.size = self.size.saturating_sub(size(path, &below));
        }
    }

    fn close_below(&mut self, directory: &str) {
        if directory.is_empty() {
            self.open.clear();
            self.size = 0;
            return;
        }
        let below = format!("{directory}/");
        while let Some((path, _)) = self.open.range(below.clone()..).next()
            && path.starts_with(&below)
        {
            let path = path.clone();
            self.remove(&path);
        }
    }

    fn insert(&mut self, path: &str, entry: Entry) -> Result<()> {
        if let Some(existing) = self.entries.get_mut(path) {
            *existing = entry;
            return Ok(());
        }
        self.spend(path.len() + OVERHEAD)?;
        self.entries.insert(path.to_owned(), entry);
        Ok(())
    }

    fn spend(&mut self, bytes: usize) -> Result<()> {
        self.current_size += bytes;
        if self.size + self.current_size <= MAX_NAMES {
            return Ok(());
        }
        Err(Error::ImageTooLarge {
            problem: "bytes of directory names",
            limit: MAX_NAMES as u64,
        })
    }
}

/// Returns the memory of the names of a directory and of a path below it.
fn size(directory: &str, below: &str) -> usize {
    directory.len() + below.len() + OVERHEAD
}

fn conflict(directory: &str, below: &str) -> Error {
    let shortened = |path: &str| path.chars().take(MAX_TEXT_LEN).collect();
    Error::Content(content::Error::FileAsFolder {
        path: shortened(directory),
        other: shortened(below),
    })
}
