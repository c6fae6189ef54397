//! The objects of an owner, in memory.
//!
//! Each object has a fingerprint of the fields of the owner, so that a change by another client is found without a request.

use std::collections::BTreeMap;

use manifests::object::Identity;

use crate::drift::Fingerprint;

/// The objects of an owner.
pub type Inventory = BTreeMap<Identity, Entry>;

/// What is remembered of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Entry {
    /// The API version it was applied in.
    pub version: String,
    /// Which of its fields are ours, as of the last time it was applied; `None` until it was.
    pub fields: Option<Fingerprint>,
    /// Whether a rollout deletes the object and creates it again. Repairs do not bring back its older form.
    pub recreating: bool,
}
