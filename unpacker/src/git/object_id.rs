//! Names and kinds of git objects.

use std::fmt;

use super::error::{Problem, Result};

/// The name of an object: its SHA-1.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct ObjectId([u8; ObjectId::LEN]);

/// The kind of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Commit,
    Tree,
    Blob,
    Tag,
}

/// A hasher for an [`ObjectId`]. It detects crafted SHA-1 collisions.
pub(super) struct Hasher(sha1dc::Hasher);

impl ObjectId {
    pub(super) const LEN: usize = 20;

    /// Creates an id from its binary form, as used in packs and trees.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// Parses an id in hexadecimal form, as used in messages and in the protocol.
    pub(super) fn from_hex(text: &[u8]) -> Option<Self> {
        let digit = |byte: u8| {
            char::from(byte)
                .to_digit(16)
                .and_then(|d| u8::try_from(d).ok())
        };
        let mut bytes = [0; Self::LEN];
        let (pairs, rest) = text.as_chunks::<2>();
        if pairs.len() != Self::LEN || !rest.is_empty() {
            return None;
        }
        for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
            *byte = digit(*high)? << 4 | digit(*low)?;
        }
        Some(Self(bytes))
    }

    /// Computes the id of an object from its content.
    pub(super) fn compute(kind: Kind, bytes: &[u8]) -> Result<Self> {
        let mut hasher = Hasher::object(kind, bytes.len() as u64);
        hasher.update(bytes);
        hasher.finish()
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Commit => "commit",
            Self::Tree => "tree",
            Self::Blob => "blob",
            Self::Tag => "tag",
        }
    }
}

impl Hasher {
    /// Creates a hasher for data that is not an object, for example a whole pack.
    pub(super) fn plain() -> Self {
        Self(sha1dc::Hasher::new())
    }

    pub(super) fn object(kind: Kind, size: u64) -> Self {
        let mut hasher = Self::plain();
        hasher.update(format!("{} {size}\0", kind.name()).as_bytes());
        hasher
    }

    pub(super) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub(super) fn finish(self) -> Result<ObjectId> {
        let digest = self.0.finalize().map_err(|_| Problem::Collision)?;
        Ok(ObjectId(digest.into()))
    }
}
