//! Whether an object is still as it was applied: told by our own entry in its managedFields.

use serde_json::Value;

/// A short hash of the fields that are ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(u64);

impl Fingerprint {
    /// Of an object's metadata; `None` when no field is ours.
    pub fn of(metadata: &Value, manager: &str) -> Option<Self> {
        todo!()
    }
}

pub mod fights {
    //! Somebody who sets the same field again and again is not fought for ever.
}
