//! What names an object, and what kinds there are.

use std::fmt;

use super::error::{Problem, Result};

/// The SHA-1 of an object.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Id([u8; Id::LEN]);

/// What an object is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Commit,
    Tree,
    Blob,
    Tag,
}

/// Computes an [`Id`]. What was made to collide with something else is found out.
pub(super) struct Hasher(sha1dc::Hasher);

impl Id {
    pub(super) const LEN: usize = 20;

    /// The id as packs and trees have it.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// The id as people and the protocol write it.
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

    /// The id of a whole object.
    pub(super) fn of(kind: Kind, bytes: &[u8]) -> Result<Self> {
        let mut hasher = Hasher::object(kind, bytes.len() as u64);
        hasher.update(bytes);
        hasher.finish()
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Id {
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
    /// For bytes that are no object, as a whole pack is.
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

    pub(super) fn finish(self) -> Result<Id> {
        let digest = self.0.finalize().map_err(|_| Problem::Collision)?;
        Ok(Id(digest.into()))
    }
}
