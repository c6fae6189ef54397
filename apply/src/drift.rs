//! Whether an object is still as it was applied: told by our own entry in its managedFields.
//!
//! The API server removes a field from our entry as soon as another client changes or removes the field. Defaults, status and
//! fields of others never come in. So the entry says what comparing values could only guess, and it is part of the
//! metadata that watches bring anyway.

pub mod fights;
#[cfg(test)]
mod tests;

use std::{fmt, io, str::FromStr};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use manifests::object::Identity;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::{
    informers::{Seen, View},
    inventory::{Entry, Inventory},
};

/// A short hash of the fields that are ours: 12 hexadecimal digits, equal for equal fields whatever their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(u64);

/// The reason why a text is no fingerprint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a fingerprint is 12 lower-case hexadecimal digits")]
pub struct NotAFingerprint;

/// The objects that have to be applied again: gone, stripped of our labels, with fields that are ours no longer, or
/// never seen to be applied. What is being deleted is left until it is gone; what no watch can tell about is left.
pub fn drifted(inventory: &Inventory, view: &View) -> Vec<Identity> {
    inventory
        .iter()
        .filter(|(identity, entry)| match view.objects.get(identity) {
            Some(seen) => has_drifted(entry, seen),
            None => view.absent.contains(identity),
        })
        .map(|(identity, _)| identity.clone())
        .collect()
}

fn has_drifted(entry: &Entry, seen: &Seen) -> bool {
    !seen.deleting && entry.fields != seen.fields
}

// === impl Fingerprint ===

/// The operation and the subresource that our entry is known by; the API server keeps one such entry for each manager.
const APPLY: &str = "Apply";
const DIGITS: usize = 12;

impl Fingerprint {
    /// The fingerprint of fields that were applied and whose former state is unknown: the object is applied again.
    pub const UNKNOWN: Self = Self(0);

    /// Of an object's metadata; `None` when no field is ours.
    pub fn of(metadata: &Value, manager: &str) -> Option<Self> {
        let text = |entry: &Value, field| {
            entry
                .get(field)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let ours = metadata
            .get("managedFields")?
            .as_array()?
            .iter()
            .find(|entry| {
                text(entry, "manager") == manager
                    && text(entry, "operation") == APPLY
                    && text(entry, "subresource").is_empty()
            })?;
        Self::of_fields(ours.get("fieldsV1")?)
    }

    /// The same, of metadata that have a type.
    pub fn of_entries(entries: &[ManagedFieldsEntry], manager: &str) -> Option<Self> {
        let ours = entries.iter().find(|entry| {
            entry.manager.as_deref() == Some(manager)
                && entry.operation.as_deref() == Some(APPLY)
                && entry.subresource.as_deref().is_none_or(str::is_empty)
        })?;
        Self::of_fields(&ours.fields_v1.as_ref()?.0)
    }

    fn of_fields(fields: &Value) -> Option<Self> {
        if fields.as_object().is_none_or(serde_json::Map::is_empty) {
            return None;
        }
        let mut hash = Hasher(Sha256::new());
        // Maps of serde_json are sorted, so equal fields are equal bytes. A hasher takes everything.
        serde_json::to_writer(&mut hash, fields).ok()?;
        let digest: [u8; 32] = hash.0.finalize().into();
        let [number @ .., _, _] = *digest.first_chunk::<8>()?;
        let number = number
            .iter()
            .fold(0, |number, &byte| number << 8 | u64::from(byte));
        Some(Self(number))
    }
}

struct Hasher(Sha256);

impl io::Write for Hasher {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:0DIGITS$x}", self.0)
    }
}

impl FromStr for Fingerprint {
    type Err = NotAFingerprint;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if text.len() != DIGITS || !text.bytes().all(digit) {
            return Err(NotAFingerprint);
        }
        u64::from_str_radix(text, 16)
            .map(Self)
            .map_err(|_| NotAFingerprint)
    }
}

impl Serialize for Fingerprint {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Fingerprint {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}
