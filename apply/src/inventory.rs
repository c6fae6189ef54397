//! Inventory of an owner's objects, in memory.
//!
//! Each object has a fingerprint of the owner's fields, so that a change by another client is detected without a request.

use std::collections::BTreeMap;

use manifests::object::Identity;

use crate::managed_fields::Fingerprint;

/// Objects of an owner with their recorded state.
pub type Inventory = BTreeMap<Identity, Entry>;

/// Recorded state of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Entry {
    /// API version in which the object was applied.
    pub version: String,
    /// Fingerprint of the owner's fields after the last apply; `None` before the first one.
    pub fields: Option<Fingerprint>,
    /// Whether a rollout deletes and recreates the object. A repair does not restore its earlier form.
    pub recreating: bool,
}
