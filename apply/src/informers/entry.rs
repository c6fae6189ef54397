//! The facts about an object that decisions need.

use std::{
    collections::HashSet,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::Arc,
};

use crate::{
    drift::Fingerprint,
    health::Health,
    informers::{Seen, scope::Key},
    revision::ObjectHash,
};

/// An object, in little space.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    /// The instance that its labels name.
    pub(super) owner: Arc<str>,
    /// A hash of the uid: a later object with the same name has another one.
    pub(super) uid: u64,
    pub(super) version: u64,
    pub(super) fields: Option<Fingerprint>,
    pub(super) hash: Option<ObjectHash>,
    pub(super) deleting: bool,
    /// Nothing for `Current`, as nearly all objects are.
    pub(super) health: Option<Box<Health>>,
    pub(super) writer: Option<Arc<str>>,
    /// That we wrote it and the watch has not told of it yet; which note it was.
    pub(super) note: Option<u64>,
}

/// Returns the hash of a uid.
pub(super) fn hash(uid: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    uid.hash(&mut hasher);
    hasher.finish()
}

/// Returns a resourceVersion to compare: a number, in every API server that has etcd behind it. Another text is 0, which is
/// never later than the version that a watch reports.
pub(super) fn number(resource_version: &str) -> u64 {
    resource_version.parse().unwrap_or_default()
}

// === impl Entry ===

impl Entry {
    pub(super) fn is_newer_note_than(&self, other: &Self) -> bool {
        self.note.is_some() && self.version > other.version
    }

    /// Whom it concerns that this has come in the place of another.
    pub(super) fn concern(
        &self,
        old: Option<&Self>,
        key: &Key,
        concerned: &mut HashSet<(Arc<str>, Key)>,
    ) {
        if old.is_some_and(|old| old.decides_as(self)) {
            return;
        }
        concerned.insert((Arc::clone(&self.owner), key.clone()));
        if let Some(old) = old {
            concerned.insert((Arc::clone(&old.owner), key.clone()));
        }
    }

    /// Reports whether no decision would be another one: resourceVersions change with every status and annotation.
    fn decides_as(&self, other: &Self) -> bool {
        self.owner == other.owner
            && self.uid == other.uid
            && self.fields == other.fields
            && self.deleting == other.deleting
            && self.health == other.health
    }

    pub(super) fn seen(&self) -> Seen {
        Seen {
            version: self.version,
            fields: self.fields,
            hash: self.hash,
            deleting: self.deleting,
            health: self.health.as_deref().cloned().unwrap_or_default(),
            writer: self.writer.clone(),
        }
    }
}
