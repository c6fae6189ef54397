//! Fingerprints of the provisioner's entry in `managedFields`. [`crate::drift`] compares them with those after the last
//! apply.
//!
//! The API server removes a field from the entry as soon as another client changes or removes the field. Defaults, status
//! and fields of other managers never enter it. The entry therefore shows exactly what a comparison of values could only
//! guess. It is part of the metadata that every watch transfers.

#[cfg(test)]
mod tests;

use std::{fmt, str::FromStr};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use serde::Deserialize as _;
use serde_json::Value;

use crate::revision::{InvalidHash, digits, hash};

/// Operation of the provisioner's entry in `managedFields`. The API server keeps one such entry per manager and
/// subresource.
const APPLY: &str = "Apply";

/// Short hash of the provisioner's fields: 12 hexadecimal digits, equal for equal fields in any order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(u64);

/// Returns the entry of `manager` for applies of the object itself.
fn applied_entry<'a>(
    entries: &'a [ManagedFieldsEntry],
    manager: &str,
) -> Option<&'a ManagedFieldsEntry> {
    entries.iter().find(|entry| {
        entry.manager.as_deref() == Some(manager)
            && entry.operation.as_deref() == Some(APPLY)
            && entry.subresource.as_deref().is_none_or(str::is_empty)
    })
}

/// Returns the time at which an apply of `manager` last changed the object, by the clock of the API server.
pub(crate) fn last_applied(entries: &[ManagedFieldsEntry], manager: &str) -> Option<Timestamp> {
    Some(applied_entry(entries, manager)?.time.as_ref()?.0)
}

// === impl Fingerprint ===

const DIGITS: usize = 12;

impl Fingerprint {
    /// Fingerprint of applied fields whose former state is unknown. It differs from every observed one, so the object is
    /// applied again.
    pub const UNKNOWN: Self = Self(0);

    /// Returns the fingerprint of `manager` in an object's metadata; `None` if the manager owns no field.
    pub fn from_metadata(metadata: &Value, manager: &str) -> Option<Self> {
        let entries =
            Vec::<ManagedFieldsEntry>::deserialize(metadata.get("managedFields")?).ok()?;
        Self::from_entries(&entries, manager)
    }

    /// Returns the fingerprint of `manager` in typed metadata; `None` if the manager owns no field.
    pub fn from_entries(entries: &[ManagedFieldsEntry], manager: &str) -> Option<Self> {
        let applied = applied_entry(entries, manager)?;
        Self::from_fields(&applied.fields_v1.as_ref()?.0)
    }

    fn from_fields(fields: &Value) -> Option<Self> {
        if fields.as_object().is_none_or(serde_json::Map::is_empty) {
            return None;
        }
        Some(Self(hash(fields) >> 16))
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:0DIGITS$x}", self.0)
    }
}

impl FromStr for Fingerprint {
    type Err = InvalidHash;

    fn from_str(text: &str) -> Result<Self, InvalidHash> {
        digits(text, DIGITS).map(Self)
    }
}
