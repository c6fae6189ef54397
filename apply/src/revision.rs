//! Revisions: immutable records of rendered objects, from which an installation is repaired, rolled back and pruned.
//!
//! A record is one compressed stream of JSON lines: a [`Header`], and then the objects in apply order. It is divided into
//! parts that fit into Secrets ([`store`]). The digest of a revision ([`digest`]) identifies the objects that it applies.
//! The caller keeps the checksum of the stream elsewhere; it proves that the record was not changed. Bundles may contain
//! Secrets, so a record is as confidential as a Secret, and is never cached in memory.
//!
//! Encoding and decoding are pure; [`store`] does the I/O.

mod hash;
pub mod store;
#[cfg(test)]
mod tests;

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};

use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use manifests::object::Object;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

pub use self::hash::{InvalidHash, ObjectHash};
pub(crate) use self::hash::{digits, hash};
use crate::account::Account;

/// Maximum size of a part in bytes: a Secret holds at most 1 MiB.
pub const MAX_PART: usize = 900 << 10;
/// Maximum size of all parts of a revision in bytes.
pub const MAX_RECORD: usize = 32 << 20;
/// Maximum size of an uncompressed record in bytes. The rest of a larger stream is not read.
const MAX_STREAM: u64 = 512 << 20;
/// Format of a record. A provisioner rejects records of later formats.
const FORMAT: u32 = 1;

/// The first line of a record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Header<D> {
    /// The uid of the owner. The record of another owner is rejected.
    pub owner: String,
    /// The number of the revision.
    pub number: i64,
    /// The install namespace.
    pub namespace: String,
    /// The account that the objects are applied as; the provisioner's own for `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<Account>,
    /// Further data that the caller records.
    pub details: D,
}

/// A recorded revision.
#[derive(Debug, Clone, PartialEq)]
pub struct Revision<D> {
    /// Data of the revision except the objects.
    pub header: Header<D>,
    /// The rendered objects.
    pub objects: Vec<Object>,
}

/// A record that is ready to be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Encoded {
    /// The slices of the compressed stream.
    pub parts: Vec<Vec<u8>>,
    /// The SHA-256 of the compressed stream, as `sha256:<hex>`.
    pub checksum: String,
}

/// The reason why a revision cannot be recorded.
#[derive(Debug, thiserror::Error)]
pub enum EncodeError {
    /// The compressed record is too large.
    #[error(
        "the compressed record of the objects exceeds {} MiB; split the bundle",
        MAX_RECORD >> 20
    )]
    TooLarge,
    /// An object cannot be written as JSON.
    #[error("failed to record the objects: {0}")]
    Write(#[from] io::Error),
}

/// The reason why a record cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// The bytes are not those that were recorded.
    #[error("checksum mismatch: expected {recorded}, got {found}")]
    Checksum {
        /// The checksum of the bytes.
        found: String,
        /// The checksum in the status.
        recorded: String,
    },
    /// The bytes are not a record.
    #[error("invalid revision record: {0}")]
    Malformed(String),
    /// The record belongs to another revision or owner.
    #[error("the Secret contains revision {number} of the owner with uid {owner}")]
    Other {
        /// The recorded number.
        number: i64,
        /// The recorded uid of the owner.
        owner: String,
    },
    /// The record was written by a later provisioner.
    #[error("record format {0} requires a newer version of rukpak")]
    Format(u32),
}

/// The first line with the format and the number of objects.
#[derive(Serialize, Deserialize)]
struct Versioned<H> {
    format: u32,
    objects: usize,
    #[serde(flatten)]
    header: H,
}

/// Returns the digest that identifies a revision, as `sha256:<hex>`: of its objects in apply order, the account and the
/// install namespace. Two renderings with the same digest apply the same objects in the same way.
pub fn digest(objects: &[Object], account: Option<&Account>, namespace: &str) -> String {
    let mut hasher = Sha256::new();
    // Names have no line breaks, so that the fields cannot run into each other.
    hasher.update(namespace);
    hasher.update("\n");
    if let Some(account) = account {
        hasher.update(&account.namespace);
        hasher.update("/");
        hasher.update(&account.name);
    }
    hasher.update("\n");
    for object in objects {
        hasher.update(object.value().to_string());
        hasher.update("\n");
    }
    hex(hasher)
}

/// Encodes a revision.
///
/// # Errors
/// Returns an error if the record exceeds [`MAX_RECORD`].
pub fn encode<D: Serialize>(
    header: &Header<D>,
    objects: &[Object],
) -> Result<Encoded, EncodeError> {
    let mut stream = GzEncoder::new(Vec::new(), Compression::default());
    let first = Versioned {
        format: FORMAT,
        objects: objects.len(),
        header,
    };
    write_line(&mut stream, &first)?;
    for object in objects {
        write_line(&mut stream, object.value())?;
        if stream.get_ref().len() > MAX_RECORD {
            return Err(EncodeError::TooLarge);
        }
    }
    let stream = stream.finish()?;
    if stream.len() > MAX_RECORD {
        return Err(EncodeError::TooLarge);
    }
    let checksum = checksum(&stream);
    let parts = stream.chunks(MAX_PART).map(<[u8]>::to_vec).collect();
    Ok(Encoded { parts, checksum })
}

/// Decodes the concatenated parts of a revision. The `recorded` checksum, `number` and `owner` come from the status of the
/// owner, so that a record that was edited, truncated or taken from another owner is rejected.
///
/// # Errors
/// Returns an error if the bytes are not the recorded ones.
pub fn decode<D: DeserializeOwned>(
    stream: &[u8],
    recorded: &str,
    number: i64,
    owner: &str,
) -> Result<Revision<D>, DecodeError> {
    let found = checksum(stream);
    if found != recorded {
        return Err(DecodeError::Checksum {
            found,
            recorded: recorded.to_owned(),
        });
    }
    let malformed = |error: &dyn std::fmt::Display| DecodeError::Malformed(error.to_string());
    let mut lines = BufReader::new(GzDecoder::new(stream).take(MAX_STREAM)).lines();
    let mut line = || {
        let line = lines.next().ok_or_else(|| malformed(&"unexpected end"))?;
        line.map_err(|error| malformed(&error))
    };
    let first = line()?;
    // Other fields of a later format may differ.
    let Format { format } = serde_json::from_str(&first).map_err(|error| malformed(&error))?;
    if format > FORMAT {
        return Err(DecodeError::Format(format));
    }
    let Versioned::<Header<D>> {
        objects: count,
        header,
        ..
    } = serde_json::from_str(&first).map_err(|error| malformed(&error))?;
    if header.number != number || header.owner != owner {
        return Err(DecodeError::Other {
            number: header.number,
            owner: header.owner,
        });
    }
    let mut objects = Vec::new();
    for _ in 0..count {
        let value: Value = serde_json::from_str(&line()?).map_err(|error| malformed(&error))?;
        objects.push(Object::try_from(value).map_err(|error| malformed(&error))?);
    }
    Ok(Revision { header, objects })
}

#[derive(Deserialize)]
struct Format {
    format: u32,
}

fn write_line(stream: &mut GzEncoder<Vec<u8>>, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *stream, value)?;
    stream.write_all(b"\n")
}

fn checksum(stream: &[u8]) -> String {
    hex(Sha256::new_with_prefix(stream))
}

fn hex(hasher: Sha256) -> String {
    use std::fmt::Write as _;
    let mut text = String::with_capacity(71);
    text.push_str("sha256:");
    for byte in hasher.finalize() {
        let _ = write!(text, "{byte:02x}"); // writing to a String does not fail
    }
    text
}
