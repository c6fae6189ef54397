//! Entries of a source that are not regular files: links, devices and the like.
//!
//! Content consists of regular files only, so all other entries are missing from it. The consequence depends on the
//! location: in the directories of a bundle, a missing entry is a missing object, and the bundle is rejected. Elsewhere the
//! entry is skipped and counted. Pure; no I/O.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{PathMap, is_at_or_below, layout};

/// Maximum number of paths in a summary; the others are counted.
const MAX_SHOWN: usize = 10;
/// Maximum length of a path or link target in a message, in characters.
const MAX_TEXT_LEN: usize = 200;

/// Kind of an entry that is not a regular file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A symbolic link.
    Symlink,
    /// A hard link of an archive to a file that the archive does not contain.
    HardLink,
    /// A device, FIFO or socket.
    Special,
    /// A sparse file of an archive.
    Sparse,
}

/// An entry that is not a regular file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Irregular {
    /// Kind of the entry.
    pub kind: Kind,
    /// Target of a link, truncated; `None` if unknown.
    pub target: Option<String>,
}

impl Irregular {
    /// Creates an entry without a target.
    pub fn new(kind: Kind) -> Self {
        Self { kind, target: None }
    }

    /// Creates a link with its target.
    pub fn link(kind: Kind, target: &str) -> Self {
        Self {
            kind,
            target: Some(shortened(target)),
        }
    }

    /// Describes an entry in place of one that the bundle requires: `is a symbolic link to "a", not a regular file`.
    pub fn problem(&self, needed: Needed) -> String {
        match needed {
            Needed::File => format!("is {self}, not a regular file"),
            Needed::Directory => format!("is {self}, not a directory"),
        }
    }

    /// Returns the remedy for the bundle author, in the imperative.
    pub fn remedy(&self, needed: Needed) -> &'static str {
        match (self.kind, needed) {
            (Kind::Symlink, Needed::File) => "replace the link with a copy of the file",
            // tar does not pack hard links to directories.
            (Kind::Symlink | Kind::HardLink, Needed::Directory) => {
                "replace the link with a copy of the directory"
            }
            (Kind::HardLink, Needed::File) => {
                "replace the link with a copy of the file, or pack the bundle with \"tar --hard-dereference\""
            }
            (Kind::Special, _) => "remove the entry from the bundle",
            (Kind::Sparse, _) => "pack the bundle without --sparse",
        }
    }
}

/// Kind of entry that the bundle requires at the path of an irregular entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needed {
    /// A regular file.
    File,
    /// A directory of the bundle, or a parent of one.
    Directory,
}

impl fmt::Display for Irregular {
    /// Describes the entry as a noun: `a symbolic link to "../crd.yaml"`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            Kind::Symlink => "a symbolic link",
            Kind::HardLink => "a hard link",
            Kind::Special => "a device, FIFO or socket",
            Kind::Sparse => "a sparse file",
        })?;
        match &self.target {
            Some(target) => write!(f, " to {target:?}"),
            None => Ok(()),
        }
    }
}

/// Counts and first paths of entries that are not part of the content because they are not regular files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SkippedEntries {
    /// Number of symbolic links.
    pub symlinks: usize,
    /// Number of hard links in archives to files that the archive does not contain.
    pub hard_links: usize,
    /// Number of devices, FIFOs and sockets.
    pub special: usize,
    /// Number of sparse files in archives.
    pub sparse_files: usize,
    /// First paths, truncated.
    pub paths: Vec<String>,
}

impl SkippedEntries {
    /// Counts the entries.
    pub fn count<'a>(entries: impl IntoIterator<Item = (&'a str, &'a Irregular)>) -> Self {
        let mut skipped = Self::default();
        for (path, entry) in entries {
            let number = match entry.kind {
                Kind::Symlink => &mut skipped.symlinks,
                Kind::HardLink => &mut skipped.hard_links,
                Kind::Special => &mut skipped.special,
                Kind::Sparse => &mut skipped.sparse_files,
            };
            *number += 1;
            if skipped.paths.len() < MAX_SHOWN {
                skipped.paths.push(shortened(path));
            }
        }
        skipped
    }

    /// Returns the number of entries.
    pub fn total(&self) -> usize {
        let numbers = [
            self.symlinks,
            self.hard_links,
            self.special,
            self.sparse_files,
        ];
        numbers.into_iter().fold(0, usize::saturating_add)
    }

    /// Reports whether no entry was skipped.
    pub fn is_empty(&self) -> bool {
        self.total() == 0
    }

    /// Formats the counts: `2 symbolic links, 1 special file`.
    pub fn numbers(&self) -> String {
        let numbers = [
            (self.symlinks, "symbolic link"),
            (self.hard_links, "hard link"),
            (self.special, "special file"),
            (self.sparse_files, "sparse file"),
        ];
        let numbers = numbers.into_iter().filter(|(number, _)| *number > 0);
        let numbers: Vec<String> = numbers
            .map(|(number, noun)| format!("{number} {noun}{}", if number == 1 { "" } else { "s" }))
            .collect();
        numbers.join(", ")
    }
}

impl fmt::Display for SkippedEntries {
    /// Formats counts and paths: `2 symbolic links (docs/a, docs/b)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}", self.numbers(), self.paths.join(", "))?;
        match self.total().saturating_sub(self.paths.len()) {
            0 => f.write_str(")"),
            more => write!(f, " and {more} more)"),
        }
    }
}

/// An entry without which a bundle is incomplete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rejected<'a> {
    /// Path of the entry.
    pub path: &'a str,
    /// Kind and target of the entry.
    pub entry: &'a Irregular,
    /// Kind of entry that the bundle requires at this path.
    pub needed: Needed,
}

/// Entries of a bundle that are not regular files, by their consequence.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Assessment<'a> {
    /// Entries at, above or below a directory of the bundle, ordered by path. The bundle is incomplete.
    pub rejected: Vec<Rejected<'a>>,
    /// All other entries.
    pub skipped: SkippedEntries,
}

impl<'a> Assessment<'a> {
    /// Assesses the entries of a bundle. `read` returns the content of its files.
    pub fn new<T, B: AsRef<[u8]>>(
        paths: &'a PathMap<T>,
        read: impl FnMut(&str, &T) -> Option<B>,
    ) -> Self {
        if paths.irregular().next().is_none() {
            return Self::default(); // no file has to be read
        }
        let directories = layout::directories(paths, read);
        let needed = |path: &str| {
            let is_any = |condition: &dyn Fn(&str) -> bool| {
                directories.iter().any(|directory| condition(directory))
            };
            if is_any(&|directory| is_at_or_below(directory, path)) {
                Some(Needed::Directory)
            } else if is_any(&|directory| is_at_or_below(path, directory)) {
                Some(Needed::File)
            } else {
                None
            }
        };
        let (mut rejected, mut skipped) = (Vec::new(), Vec::new());
        for (path, entry) in paths.irregular() {
            match needed(path) {
                Some(needed) => rejected.push(Rejected {
                    path,
                    entry,
                    needed,
                }),
                None => skipped.push((path, entry)),
            }
        }
        Self {
            rejected,
            skipped: SkippedEntries::count(skipped),
        }
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_TEXT_LEN) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::{Builder, Content, Limits};

    const SYMLINK: Kind = Kind::Symlink;

    fn content(files: &[(&str, &str)], links: &[&str]) -> Content {
        let mut builder = Builder::new(Limits::default());
        for (path, text) in files {
            builder.add(path, 0o644, &mut text.as_bytes()).unwrap();
        }
        for path in links {
            builder.record(path, Irregular::new(SYMLINK)).unwrap();
        }
        builder.finish()
    }

    #[test]
    fn directories_of_the_bundle_need_regular_files() {
        let named =
            "annotations:\n  operators.operatorframework.io.bundle.manifests.v1: /deploy/olm/\n";
        let unusual = "annotations:\n  operators.operatorframework.io.bundle.metadata.v1: about/\n";
        let outside = "annotations:\n  operators.operatorframework.io.bundle.manifests.v1: ../x\n";
        for (annotations, links, rejected) in ::tests::rows![
            "", &["manifests/a.yaml"][..] => "manifests/a.yaml";
            "", &["metadata/a.yaml"] => "metadata/a.yaml";
            "", &["manifests"] => "manifests";
            "", &["manifests/deep/a.yaml"] => "manifests/deep/a.yaml";
            "", &["manifests2", "manifests.yaml", "tests/a"] => "";
            "", &["deploy/olm/a.yaml"] => "";
            named, &["deploy/olm/a.yaml"] => "deploy/olm/a.yaml";
            named, &["manifests/a.yaml"] => "";
            named, &["deploy/a.yaml", "deploy2"] => "";
            unusual, &["about/a.yaml"] => "about/a.yaml";
            unusual, &["metadata/a.yaml"] => "metadata/a.yaml";
            outside, &["manifests/a.yaml"] => "manifests/a.yaml";
            ":", &["manifests/a.yaml", "x"] => "manifests/a.yaml";
            "", &["manifests/b", "x", "metadata/c"] => "manifests/b metadata/c";
        ] {
            let files = [
                ("deploy/olm/csv.yaml", ""),
                ("metadata/annotations.yaml", annotations),
            ];
            let content = content(&files, links);
            let found = content.assess();
            let paths: Vec<_> = found.rejected.iter().map(|entry| entry.path).collect();
            assert_eq!(paths.join(" "), rejected, "{annotations:?} {links:?}");
            assert_eq!(found.skipped.total(), links.len() - paths.len());
        }
    }

    #[test]
    fn links_take_the_place_of_files_and_directories() {
        let named =
            "annotations:\n  operators.operatorframework.io.bundle.manifests.v1: deploy/olm/\n";
        for (link, needed) in [
            ("deploy", Needed::Directory),
            ("deploy/olm", Needed::Directory),
            ("deploy/olm/a.yaml", Needed::File),
            ("manifests", Needed::Directory),
            ("metadata/a.yaml", Needed::File),
        ] {
            let content = content(&[("metadata/annotations.yaml", named)], &[link]);
            let rejected: Vec<_> = content.assess().rejected;
            assert_rows!(rejected.iter().map(|entry| (entry.path, entry.needed)).collect::<Vec<_>>() => [(link, needed)]);
        }
    }

    #[test]
    fn a_bundle_below_a_directory_keeps_its_entries() {
        let links = ["b/manifests/link", "b/docs", "latest"];
        let content = content(&[("b/manifests/csv.yaml", "")], &links);
        assert_eq!(content.assess().rejected, []);
        let content = content.into_folder("b");
        let found = content.assess();
        assert_rows!(found.rejected.iter().map(|entry| entry.path).collect::<Vec<_>>() => ["manifests/link"]);
        assert_eq!(found.skipped.paths, ["../latest", "docs"]);
    }

    #[test]
    fn summaries_count_all_and_show_the_first_paths() {
        let paths: Vec<String> = (0..12).map(|at| format!("docs/{at:02}")).collect();
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        let skipped = content(&[], &paths).assess().skipped;
        assert_eq!((skipped.symlinks, skipped.paths.len()), (12, MAX_SHOWN));
        let pattern = "12 symbolic links (docs/00, docs/01, *docs/09 and 2 more)";
        let text = skipped.to_string();
        assert!(::tests::table::matches(pattern, &text), "{text}");
        let one = Irregular::new(Kind::Special);
        let one = SkippedEntries::count([("x".repeat(300).as_str(), &one)]);
        assert_rows!((&*one.numbers(), one.paths[0].chars().count()) => ("1 special file", MAX_TEXT_LEN + 1));
    }

    #[test]
    fn entries_are_described_with_kind_target_and_remedy() {
        let (file, directory) = (Needed::File, Needed::Directory);
        for (kind, target, needed, expected) in ::tests::rows![
            SYMLINK, Some("../a"), file
                => "is a symbolic link to \"../a\", not a regular file; replace the link with a copy of the file";
            SYMLINK, None, directory => "is a symbolic link, not a directory; replace the link with a copy of the directory";
            Kind::HardLink, Some("a"), file
                => "is a hard link to \"a\", not a regular file; replace the link with a copy of the file, or pack";
            Kind::HardLink, Some("a"), directory
                => "is a hard link to \"a\", not a directory; replace the link with a copy of the directory";
            Kind::Special, None, directory => "is a device, FIFO or socket, not a directory; remove";
            Kind::Sparse, None, file => "is a sparse file, not a regular file; pack";
        ] {
            let entry = match target {
                Some(target) => Irregular::link(kind, target),
                None => Irregular::new(kind),
            };
            let text = format!("{}; {}", entry.problem(needed), entry.remedy(needed));
            assert!(text.starts_with(expected), "{text}");
        }
    }
}
