//! The stored state of an object, reduced to the fields that decisions need.

use std::{
    collections::HashSet,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::Arc,
};

use super::{ObservedObject, scope::Key};
use crate::{health::Health, managed_fields::Fingerprint, revision::ObjectHash};

/// Compact state of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    /// Instance in the owner label.
    pub(super) owner: Arc<str>,
    /// Hash of the uid, which distinguishes a later object of the same name.
    pub(super) uid: u64,
    pub(super) version: u64,
    pub(super) fields: Option<Fingerprint>,
    pub(super) hash: Option<ObjectHash>,
    pub(super) deleting: bool,
    /// `None` stands for `Current`, the state of nearly all objects.
    pub(super) health: Option<Box<Health>>,
    pub(super) writer: Option<Arc<str>>,
    /// Number of the write note if the provisioner wrote the object and the watch has not confirmed it; otherwise `None`.
    pub(super) note: Option<u64>,
}

/// Returns the hash of a uid.
pub(super) fn hash(uid: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    uid.hash(&mut hasher);
    hasher.finish()
}

/// Returns a resourceVersion as a number that can be compared, as every API server with etcd has them. Other texts become
/// 0, which is never later than the version that a watch reports.
pub(super) fn number(resource_version: &str) -> u64 {
    resource_version.parse().unwrap_or_default()
}

// === impl Entry ===

impl Entry {
    pub(super) fn is_newer_note_than(&self, other: &Self) -> bool {
        self.note.is_some() && self.version > other.version
    }

    /// Adds the owners that are affected when this entry replaces `old`.
    pub(super) fn collect_affected(
        &self,
        old: Option<&Self>,
        key: &Key,
        affected: &mut HashSet<(Arc<str>, Key)>,
    ) {
        if old.is_some_and(|old| old.decides_as(self)) {
            return;
        }
        affected.insert((Arc::clone(&self.owner), key.clone()));
        if let Some(old) = old {
            affected.insert((Arc::clone(&old.owner), key.clone()));
        }
    }

    /// Reports whether both entries lead to the same decisions. The resourceVersion is ignored: it changes with every
    /// status and annotation.
    fn decides_as(&self, other: &Self) -> bool {
        self.owner == other.owner
            && self.uid == other.uid
            && self.fields == other.fields
            && self.deleting == other.deleting
            && self.health == other.health
    }

    pub(super) fn seen(&self) -> ObservedObject {
        ObservedObject {
            version: self.version,
            fields: self.fields,
            hash: self.hash,
            deleting: self.deleting,
            health: self.health.as_deref().cloned().unwrap_or_default(),
            writer: self.writer.clone(),
        }
    }
}
