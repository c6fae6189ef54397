//! Which objects belong to an instance, in memory and in its status.

use std::collections::BTreeMap;

use manifests::object::Identity;

use crate::drift::Fingerprint;

/// The objects of an instance.
pub type Inventory = BTreeMap<Identity, Entry>;

/// What is remembered of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Entry {
    /// The API version it was applied in.
    pub version: String,
    /// Which of its fields are ours, as of the last time it was applied; `None` until it was.
    pub fields: Option<Fingerprint>,
}
