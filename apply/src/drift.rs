//! Whether an object is still as it was applied: told by our own entry in its managedFields.
//!
//! The API server removes a field from our entry as soon as another client changes or removes the field. Defaults, status and
//! fields of others never come in. So the entry says what comparing values could only guess, and it is part of the
//! metadata that watches bring anyway.

pub mod fights;
#[cfg(test)]
mod tests;

use std::{fmt, str::FromStr};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use manifests::object::Identity;
use serde::Deserialize as _;
use serde_json::Value;

use crate::{
    informers::{Seen, View},
    inventory::{Entry, Inventory},
    revision::{InvalidHash, digits, hash},
};

/// A short hash of the fields that are ours: 12 hexadecimal digits, equal for equal fields whatever their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(u64);

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
        let entries =
            Vec::<ManagedFieldsEntry>::deserialize(metadata.get("managedFields")?).ok()?;
        Self::of_entries(&entries, manager)
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
