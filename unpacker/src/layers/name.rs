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
        let read = |name: &str| Name::read(name.as_bytes()).and_then(|name| name.change());
        let kinds: [fn(String) -> Change; 3] = [Change::Add, Change::Hide, Change::Opaque];
        let [add, hide, opaque] = kinds;
        assert_each!(|name, kind, path| read(name).ok() => Some(kind(path.to_owned()));
            "a/b", add => "a/b";
            "./a//b/", add => "a/b";
            "/a/./b", add => "a/b";
            "//a", add => "a";
            "/", add => "";
            "./", add => "";
            "", add => "";
            "a/.wha", add => "a/.wha";
            "a/x.wh.b", add => "a/x.wh.b";
            ".wh.a", hide => "a";
            "./.wh.a", hide => "a";
            "/a/.wh.b", hide => "a/b";
            "a/.wh.b/", hide => "a/b";
            "a/.wh..b", hide => "a/.b";
            "a/.wh.....", hide => "a/....";
            "a/.wh..wh..opq", opaque => "a";
            ".wh..wh..opq", opaque => "";
        );
        for name in "a/.wh..wh.plnk .wh..wh.plnk/3.4 .wh..wh.aufs a/.wh..wh.b".split(' ') {
            assert_eq!(read(name).ok(), Some(Change::Nothing), "{name:?}");
        }
        let bad = "a/.wh. .wh. .wh.. a/.wh... .wh.a/b a/.wh.b/.wh.c .. ../a /../a a/../b a/../../b a/../.wh.b .wh.a/../b \
            a/.wh.b/../c ../.wh.a a\0b";
        for name in bad.split_whitespace() {
            assert!(read(name).is_err(), "{name:?}");
        }
        let odd = Name::read(b"manifests/\xff").unwrap();
        assert_eq!((&*odd.path, odd.is_text), ("manifests/\u{fffd}", false));
    }
}
