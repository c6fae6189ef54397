//! Entries of a tree object, and the file names that are rejected.

use std::collections::HashSet;

use super::{
    error::{Problem, Result},
    object_id::ObjectId,
};

/// An entry of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry<'a> {
    pub(super) name: &'a [u8],
    pub(super) sort: EntryKind,
    pub(super) id: ObjectId,
}

/// The kind of a directory entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EntryKind {
    Directory,
    /// A file with its permission bits, of which git stores only the executable bit.
    File(u32),
    Link,
    /// A commit of another repository.
    Submodule,
}

/// Parses the entries of a directory. Every name is non-empty and unique.
pub(super) fn entries(bytes: &[u8]) -> Result<Vec<Entry<'_>>> {
    const DAMAGED: Problem = Problem::Damaged {
        problem: "a tree is malformed",
    };
    let mut entries = Vec::new();
    let mut names = HashSet::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let (entry, after) = entry(rest).ok_or(DAMAGED)?;
        if !names.insert(entry.name) {
            return Err(Problem::Damaged {
                problem: "a tree lists a name twice",
            });
        }
        entries.push(entry);
        rest = after;
    }
    Ok(entries)
}

fn entry(bytes: &[u8]) -> Option<(Entry<'_>, &[u8])> {
    let space = bytes.iter().position(|byte| *byte == b' ')?;
    let (mode, rest) = bytes.split_at_checked(space)?;
    let rest = rest.get(1..)?;
    let end = rest.iter().position(|byte| *byte == 0)?;
    let (name, rest) = rest.split_at_checked(end)?;
    let id = rest.get(1..=ObjectId::LEN)?;
    // Old programs wrote a leading zero before the mode of directories, and the write permission of the group.
    let sort = match mode {
        b"40000" | b"040000" => EntryKind::Directory,
        b"100644" | b"100664" => EntryKind::File(0o644),
        b"100755" => EntryKind::File(0o755),
        b"120000" => EntryKind::Link,
        b"160000" => EntryKind::Submodule,
        _ => return None,
    };
    let id = ObjectId::from_bytes(id)?;
    (!name.is_empty()).then_some((Entry { name, sort, id }, rest.get(ObjectId::LEN + 1..)?))
}

/// Returns the problem of a name that git itself never stores in a directory.
///
/// Content is a map from paths to bytes, in which such a name is harmless. But content may be written to a disk
/// later, and the author of such a repository is malicious. Names that differ only in case are accepted.
pub(super) fn problem_of(name: &[u8]) -> Option<&'static str> {
    match name {
        b"." | b".." => return Some("leaves its directory"),
        name if name.contains(&b'/') => return Some("contains a slash"),
        _ => {}
    }
    // File systems of macOS ignore these characters, and those of Windows ignore trailing dots and spaces.
    let text = String::from_utf8_lossy(name);
    let text = text.split(|c| matches!(c, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}'));
    let text = text.collect::<String>().to_ascii_lowercase();
    let text = text.split(':').next().unwrap_or_default();
    let is_git = matches!(text.trim_end_matches([' ', '.']), ".git" | "git~1");
    is_git.then_some("is a name reserved by git")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_reserved_by_git_are_found_in_every_spelling() {
        let bad = ".. . a/b ../a /etc/passwd .git .GIT .gIt .git... \
            .git::$INDEX_ALLOCATION git~1 GIT~1 .g\u{200c}it \u{feff}.git";
        for name in bad.split(' ').chain([".git ", ".Git ", ".git. ."]) {
            let problem = problem_of(name.as_bytes());
            let expected = match name {
                "." | ".." => "leaves its directory",
                name if name.contains('/') => "contains a slash",
                _ => "is a name reserved by git",
            };
            assert_eq!(problem, Some(expected), "{name:?}");
        }
        let mut good = ".gitignore .gitmodules git a.git ... ..a".split(' ');
        assert_rows!(good.find(|name| problem_of(name.as_bytes()).is_some()) => None);
    }

    #[test]
    fn malformed_trees_are_rejected() {
        let lines = |text: &str| {
            let line = |line| [format!("{line}\0").as_bytes(), &[7; 20]].concat();
            text.split(',').flat_map(line).collect::<Vec<_>>()
        };
        assert!(entries(&[]).is_ok());
        let good = ["100644 a", "100644 a,40000 b", "100644 a,100644 A"];
        assert_rows!(good.into_iter().find(|text| entries(&lines(text)).is_err()) => None);
        let bad = ["100644 a,40000 a", "100644 ", "100600 a", " a"].map(lines);
        let short: [&[u8]; 3] = [b"100644 a", b"100644 a\0short", &[0; 40]];
        let mut bad = bad.iter().map(Vec::as_slice).chain(short);
        assert_eq!(bad.find(|bytes| entries(bytes).is_ok()), None);
    }
}
