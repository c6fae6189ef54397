//! The names in a layer: where they are in the image, and what they say about lower layers.

use crate::{Result, archive::refuse, pax::lossy};

/// A path from the root of the image.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Name {
    /// Without `.`, doubled slashes, a leading or a trailing one; empty for the root. What is no text is replaced.
    pub(crate) path: String,
    /// Whether nothing was replaced.
    pub(crate) is_text: bool,
}

/// What an entry does.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// Something is at this path from now on.
    Add(String),
    /// What lower layers have at and below this path is gone.
    Hide(String),
    /// What lower layers have below this folder is gone.
    Opaque(String),
    /// It is a note of the file system that the image was built on.
    Nothing,
}

const WHITEOUT: &str = ".wh.";
const META: &str = ".wh..wh.";
const OPAQUE: &str = ".wh..wh..opq";

impl Name {
    /// Refuses what a reader could take for a path elsewhere: `..`, and a zero, at which some end.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self> {
        const REMEDY: &str = "build the image again with another tool";
        if bytes.contains(&0) {
            return refuse(&lossy(bytes), "named with a zero byte", REMEDY);
        }
        let text = String::from_utf8_lossy(bytes);
        let is_text = matches!(text, std::borrow::Cow::Borrowed(_));
        let parts = || text.split('/').filter(|part| !matches!(*part, "" | "."));
        if parts().any(|part| part == "..") {
            return refuse(&lossy(bytes), "named with \"..\"", REMEDY);
        }
        let mut path = String::with_capacity(text.len());
        for part in parts() {
            if !path.is_empty() {
                path.push('/');
            }
            path.push_str(part);
        }
        Ok(Self { path, is_text })
    }

    /// What an entry of this name does.
    pub(super) fn change(&self) -> Result<Change> {
        let path = self.path.as_str();
        let (folder, base) = path.rsplit_once('/').unwrap_or(("", path));
        if base == OPAQUE {
            return Ok(Change::Opaque(folder.to_owned()));
        }
        if path.split('/').any(|part| part.starts_with(META)) {
            return Ok(Change::Nothing);
        }
        let bad = |kind| {
            let remedy = "build the image again with another tool";
            refuse(path, kind, remedy)
        };
        if folder.split('/').any(|part| part.starts_with(WHITEOUT)) {
            return bad("below a whiteout");
        }
        match base.strip_prefix(WHITEOUT) {
            // Joined to the folder, these would be the folder itself or the one above.
            Some("" | "." | "..") => bad("a whiteout of no name"),
            Some(gone) if folder.is_empty() => Ok(Change::Hide(gone.to_owned())),
            Some(gone) => Ok(Change::Hide(format!("{folder}/{gone}"))),
            None => Ok(Change::Add(path.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_from_the_root_and_whiteouts_by_their_prefix() {
        let add = |path: &str| Some(Change::Add(path.to_owned()));
        let hide = |path: &str| Some(Change::Hide(path.to_owned()));
        let opaque = |path: &str| Some(Change::Opaque(path.to_owned()));
        for (name, change) in [
            ("a/b", add("a/b")),
            ("./a//b/", add("a/b")),
            ("/a/./b", add("a/b")),
            ("//a", add("a")),
            ("/", add("")),
            ("./", add("")),
            ("", add("")),
            ("a/.wha", add("a/.wha")),
            ("a/x.wh.b", add("a/x.wh.b")),
            (".wh.a", hide("a")),
            ("./.wh.a", hide("a")),
            ("/a/.wh.b", hide("a/b")),
            ("a/.wh.b/", hide("a/b")),
            ("a/.wh..b", hide("a/.b")),
            ("a/.wh.....", hide("a/....")),
            ("a/.wh..wh..opq", opaque("a")),
            (".wh..wh..opq", opaque("")),
            ("a/.wh..wh.plnk", Some(Change::Nothing)),
            (".wh..wh.plnk/3.4", Some(Change::Nothing)),
            (".wh..wh.aufs", Some(Change::Nothing)),
            ("a/.wh..wh.b", Some(Change::Nothing)),
            ("a/.wh.", None),
            (".wh.", None),
            (".wh..", None),
            ("a/.wh...", None),
            (".wh.a/b", None),
            ("a/.wh.b/.wh.c", None),
            ("..", None),
            ("../a", None),
            ("/../a", None),
            ("a/../b", None),
            ("a/../.wh.b", None),
            (".wh.a/../b", None),
            ("a\0b", None),
        ] {
            let found = Name::read(name.as_bytes()).and_then(|name| name.change());
            assert_eq!(found.ok(), change, "{name:?}");
        }
        let odd = Name::read(b"manifests/\xff").unwrap();
        assert_eq!(
            (odd.path.as_str(), odd.is_text),
            ("manifests/\u{fffd}", false)
        );
    }
}
