//! Names of layer entries: their path in the image, and their effect on lower layers.

use crate::{Result, archive::refuse, tar::pax::to_utf8};

/// A path relative to the root of the image.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LayerPath {
    /// Path without `.`, repeated slashes, and leading or trailing slashes; empty for the root. Bytes that are not
    /// UTF-8 are replaced.
    pub(crate) path: String,
    /// Whether the name is UTF-8, so that no byte was replaced.
    pub(crate) is_text: bool,
}

/// The effect of an entry.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Whiteout {
    /// Adds an entry at this path.
    Add(String),
    /// Removes this path and everything below it from lower layers.
    Remove(String),
    /// Removes everything below this directory from lower layers.
    Opaque(String),
    /// No effect: metadata of the file system on which the image was built.
    Nothing,
}

const WHITEOUT: &str = ".wh.";
const META: &str = ".wh..wh.";
const OPAQUE: &str = ".wh..wh..opq";

impl LayerPath {
    /// Parses a name. Rejects names that readers could interpret differently: with `..`, or with a zero byte, at
    /// which some readers stop.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self> {
        const REMEDY: &str = "build the image again with another tool";
        if bytes.contains(&0) {
            return refuse(&to_utf8(bytes), "named with a zero byte", REMEDY);
        }
        let text = String::from_utf8_lossy(bytes);
        let is_text = matches!(text, std::borrow::Cow::Borrowed(_));
        let parts = || text.split('/').filter(|part| !matches!(*part, "" | "."));
        if parts().any(|part| part == "..") {
            return refuse(&to_utf8(bytes), "named with \"..\"", REMEDY);
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

    /// Returns the effect of an entry with this name.
    pub(super) fn change(&self) -> Result<Whiteout> {
        let path = self.path.as_str();
        let (dir, base) = path.rsplit_once('/').unwrap_or(("", path));
        if base == OPAQUE {
            return Ok(Whiteout::Opaque(dir.to_owned()));
        }
        if path.split('/').any(|part| part.starts_with(META)) {
            return Ok(Whiteout::Nothing);
        }
        let reject = |kind| {
            let remedy = "build the image again with another tool";
            refuse(path, kind, remedy)
        };
        if dir.split('/').any(|part| part.starts_with(WHITEOUT)) {
            return reject("below a whiteout");
        }
        match base.strip_prefix(WHITEOUT) {
            // Joined to the directory, these names would refer to the directory or its parent.
            Some("" | "." | "..") => reject("a whiteout without a name"),
            Some(removed) if dir.is_empty() => Ok(Whiteout::Remove(removed.to_owned())),
            Some(removed) => Ok(Whiteout::Remove(format!("{dir}/{removed}"))),
            None => Ok(Whiteout::Add(path.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_from_the_root_and_whiteouts_by_their_prefix() {
        type Kind = fn(String) -> Whiteout;
        let read = |name: &str| LayerPath::read(name.as_bytes()).and_then(|name| name.change());
        let [add, hide, opaque]: [Kind; 3] = [Whiteout::Add, Whiteout::Remove, Whiteout::Opaque];
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
        let mut nothing = "a/.wh..wh.plnk .wh..wh.plnk/3.4 .wh..wh.aufs a/.wh..wh.b".split(' ');
        assert_rows!(nothing.find(|name| read(name).ok() != Some(Whiteout::Nothing)) => None);
        let bad = "a/.wh. .wh. .wh.. a/.wh... .wh.a/b a/.wh.b/.wh.c .. ../a /../a a/../b a/../../b a/../.wh.b .wh.a/../b \
            a/.wh.b/../c ../.wh.a a\0b";
        assert_eq!(bad.split_whitespace().find(|name| read(name).is_ok()), None);
        let odd = LayerPath::read(b"manifests/\xff").unwrap();
        assert_eq!((&*odd.path, odd.is_text), ("manifests/\u{fffd}", false));
    }
}
