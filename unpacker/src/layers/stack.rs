//! What the layers read so far leave of those below.

use std::collections::{BTreeMap, BTreeSet};

/// What upper layers have done, by path.
#[derive(Debug, Default)]
pub(super) struct Stack {
    marks: BTreeMap<String, Mark>,
}

/// What stands at a path. The later in this list hides the more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Mark {
    /// A folder: a lower one shines through, anything else of that name does not.
    Folder,
    /// A folder through which nothing shines.
    Opaque,
    /// A file, a link, or nothing at all.
    Hide,
}

/// What one layer adds and hides.
#[derive(Debug, Default)]
pub(super) struct Fresh {
    /// Whether it is a folder.
    entries: BTreeMap<String, bool>,
    hidden: BTreeSet<String>,
    opaque: BTreeSet<String>,
    kept: BTreeSet<String>,
}

/// Two entries of one layer that cannot both be there.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Conflict {
    /// The path stands there twice.
    Twice(String),
    /// The first is no folder, and the second needs it to be one.
    FileAsFolder(String, String),
}

/// The folders above a path, from the topmost, without the root.
fn above(path: &str) -> impl Iterator<Item = &str> {
    let slashes = path.match_indices('/');
    slashes.filter_map(|(at, _)| path.get(..at))
}

/// The first of the paths below a folder.
fn first_below<'a, T>(paths: &'a BTreeMap<String, T>, folder: &str) -> Option<&'a String> {
    let below = format!("{folder}/");
    let (path, _) = paths.range(below.clone()..).next()?;
    path.starts_with(&below).then_some(path)
}

impl Stack {
    /// Whether anything but a folder that a lower layer has at this path is gone.
    pub(super) fn hides(&self, path: &str) -> bool {
        let covers = |folder: &str| {
            let mark = self.marks.get(folder);
            mark.is_some_and(|mark| *mark >= Mark::Opaque)
        };
        covers("")
            || above(path).any(covers)
            || self.marks.contains_key(path)
            || first_below(&self.marks, path).is_some()
    }

    /// Puts a layer below those that are there.
    pub(super) fn put_below(&mut self, layer: Fresh) {
        let entries = layer.entries.into_iter().map(|(path, is_folder)| {
            let mark = if is_folder { Mark::Folder } else { Mark::Hide };
            (path, mark)
        });
        let hidden = layer.hidden.into_iter().map(|path| (path, Mark::Hide));
        let opaque = layer.opaque.into_iter().map(|path| (path, Mark::Opaque));
        for (path, mark) in entries.chain(hidden).chain(opaque) {
            let known = self.marks.entry(path).or_insert(mark);
            *known = mark.max(*known);
        }
    }
}

impl Fresh {
    /// Adds a folder. It may come several times.
    pub(super) fn folder(&mut self, path: String) -> Result<(), Conflict> {
        self.check_above(&path)?;
        if self.entries.get(&path) == Some(&false) {
            let below = format!("{path}/");
            return Err(Conflict::FileAsFolder(path, below));
        }
        self.entries.insert(path, true);
        Ok(())
    }

    /// Adds anything else. Runtimes take the last of two, other tools the first, so there may be only one.
    pub(super) fn file(&mut self, path: &str) -> Result<(), Conflict> {
        self.check_above(path)?;
        match self.entries.get(path) {
            Some(false) => return Err(Conflict::Twice(path.to_owned())),
            Some(true) => {
                let below = format!("{path}/");
                return Err(Conflict::FileAsFolder(path.to_owned(), below));
            }
            None => {}
        }
        if let Some(below) = first_below(&self.entries, path) {
            return Err(Conflict::FileAsFolder(path.to_owned(), below.clone()));
        }
        self.entries.insert(path.to_owned(), false);
        Ok(())
    }

    /// Hides what lower layers have at and below a path.
    pub(super) fn hide(&mut self, path: String) {
        self.hidden.insert(path);
    }

    /// Hides what lower layers have below a folder.
    pub(super) fn opaque(&mut self, folder: String) {
        self.opaque.insert(folder);
    }

    /// Remembers that the file at this path was read.
    pub(super) fn keep(&mut self, path: String) {
        self.kept.insert(path);
    }

    /// Whether the file at this path was read from this layer.
    pub(super) fn has_file(&self, path: &str) -> bool {
        self.kept.contains(path)
    }

    /// Through a link, a path would be elsewhere.
    fn check_above(&self, path: &str) -> Result<(), Conflict> {
        match above(path).find(|folder| self.entries.get(*folder) == Some(&false)) {
            Some(file) => Err(Conflict::FileAsFolder(file.to_owned(), path.to_owned())),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `d/` is a folder, `-p` a whiteout, `o!` an opaque folder, anything else a file.
    fn layer(entries: &str) -> Result<Fresh, Conflict> {
        let mut fresh = Fresh::default();
        for entry in entries.split_whitespace() {
            if let Some(path) = entry.strip_suffix('/') {
                fresh.folder(path.to_owned())?;
            } else if let Some(path) = entry.strip_prefix('-') {
                fresh.hide(path.to_owned());
            } else if let Some(path) = entry.strip_suffix('!') {
                fresh.opaque(path.to_owned());
            } else {
                fresh.file(entry)?;
            }
        }
        Ok(fresh)
    }

    #[test]
    fn upper_layers_hide_what_they_have_delete_or_cover() {
        let cases: [(&[&str], &str, &str); 14] = [
            // upper layers from the top, then what they hide and what they leave of lower files
            (&["a"], "a a/b", "b ab"),
            (&["a/"], "a", "a/b"),
            (&["a/b"], "a a/b a/b/c", "a/c b"),
            (&["-a"], "a a/b a/b/c", "ab b"),
            (&["-a/b"], "a/b a/b/c a", "a/c"),
            (&["a!"], "a a/b a/b/c", "b"),
            (&["!"], "a a/b", ""),
            (&["", "-a"], "a", "b"),
            (&["a/", "-a"], "a a/b", "b"),
            (&["a/", "a"], "a a/b", "b"),
            (&["a/b", "a"], "a a/c", "b"),
            (&["a", "a/"], "a a/b", "b"),
            (&["a!", "a/b/c"], "a a/b a/b/c", "b"),
            (&["a/b/", "a/b/c"], "a a/b a/b/c", "a/b/d"),
        ];
        for (layers, hidden, left) in cases {
            let mut stack = Stack::default();
            for entries in layers {
                stack.put_below(layer(entries).unwrap());
            }
            for path in hidden.split_whitespace() {
                assert!(stack.hides(path), "{layers:?} must hide {path}");
            }
            for path in left.split_whitespace() {
                assert!(!stack.hides(path), "{layers:?} must not hide {path}");
            }
        }
    }

    #[test]
    fn one_layer_says_one_thing_about_a_path() {
        for (entries, expected) in [
            ("a/ a/b a/ a/c", None),
            ("a -a b/c -b -b/c b!", None),
            ("a -a/b a!", None),
            ("a/b/c a/", None),
            ("a a", Some(("a", ""))),
            ("a a/b", Some(("a", "a/b"))),
            ("a/b a", Some(("a", "a/b"))),
            ("a/ a", Some(("a", "a"))),
            ("a a/", Some(("a", "a"))),
            ("a a/b/", Some(("a", "a/b"))),
            ("a/b/c/ a/b", Some(("a/b", "a/b/c"))),
        ] {
            let found = layer(entries).err();
            let named = found.as_ref().map(|conflict| match conflict {
                Conflict::FileAsFolder(file, other) => (file.as_str(), other.trim_end_matches('/')),
                Conflict::Twice(path) => (path.as_str(), ""),
            });
            assert_eq!(named, expected, "{entries}");
        }
    }
}
