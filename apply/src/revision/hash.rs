//! The hash of a recorded object.

use std::{fmt, str::FromStr};

use manifests::object::Object;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// A short hash of an object as its revision records it: 16 hexadecimal digits. Applied objects carry the hash in the
/// annotation `core.rukpak.io/object-hash`, which distinguishes the forms of two revisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectHash(u64);

/// A text that is neither an object hash nor a [`crate::managed_fields::Fingerprint`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("an object hash is 16 lower-case hexadecimal digits, a fingerprint 12")]
pub struct InvalidHash;

impl ObjectHash {
    /// Computes the hash of a rendered object.
    pub fn new(object: &Object) -> Self {
        Self(hash(object.value()))
    }
}

/// Returns the first eight bytes of the SHA-256 of a JSON value.
pub(crate) fn hash(value: &Value) -> u64 {
    // The maps of a JSON value are sorted, so that equal values are equal texts.
    let digest = Sha256::digest(value.to_string());
    let first = digest.first_chunk();
    first.map_or(0, |bytes| u64::from_be_bytes(*bytes))
}

/// Parses a number of exactly `length` lower-case hexadecimal digits.
pub(crate) fn digits(text: &str, length: usize) -> Result<u64, InvalidHash> {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    if text.len() != length || !text.bytes().all(is_digit) {
        return Err(InvalidHash);
    }
    u64::from_str_radix(text, 16).map_err(|_| InvalidHash)
}

impl fmt::Display for ObjectHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl FromStr for ObjectHash {
    type Err = InvalidHash;

    fn from_str(text: &str) -> Result<Self, InvalidHash> {
        digits(text, 16).map(Self)
    }
}
