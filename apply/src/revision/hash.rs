//! The hash of a recorded object.

use std::{fmt, str::FromStr};

use manifests::object::Object;
use sha2::{Digest as _, Sha256};

/// A short hash of an object as its revision records it: 16 hexadecimal digits. Applied objects carry the hash in the
/// annotation `core.rukpak.io/object-hash`, which tells the forms of two revisions apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectHash(u64);

/// A text that is not an object hash.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("an object hash is 16 lower-case hexadecimal digits")]
pub struct InvalidHash;

impl ObjectHash {
    /// Computes the hash of a rendered object.
    pub fn new(object: &Object) -> Self {
        // The maps of a JSON value are sorted, so that equal objects are equal texts.
        let digest: [u8; 32] = Sha256::digest(object.value().to_string()).into();
        let mut number = 0;
        for byte in digest.iter().take(8) {
            number = number << 8 | u64::from(*byte);
        }
        Self(number)
    }
}

impl fmt::Display for ObjectHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl FromStr for ObjectHash {
    type Err = InvalidHash;

    fn from_str(text: &str) -> Result<Self, InvalidHash> {
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if text.len() != 16 || !text.bytes().all(is_digit) {
            return Err(InvalidHash);
        }
        u64::from_str_radix(text, 16)
            .map(Self)
            .map_err(|_| InvalidHash)
    }
}
