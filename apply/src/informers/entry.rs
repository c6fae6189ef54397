//! The stored state of an object, reduced to the fields that decisions need.

use std::{
    borrow::Borrow,
    collections::HashSet,
    hash::{DefaultHasher, Hash, Hasher},
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
    /// `None` stands for [`ORDINARY`], the state of nearly all objects.
    pub(super) rare: Option<Box<RareState>>,
}

/// State that differs from [`ORDINARY`] for few objects at a time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct RareState {
    pub(super) deleting: bool,
    pub(super) health: Health,
    pub(super) writer: Option<Arc<str>>,
    /// Number of the write note if the provisioner wrote the object and the watch has not confirmed it; otherwise `None`.
    pub(super) note: Option<u64>,
}

/// State of a healthy object that only the provisioner has written, as the watch has reported it.
static ORDINARY: RareState = RareState {
    deleting: false,
    health: Health::Current,
    writer: None,
    note: None,
};

/// An object in the table of its scope, hashed and compared by its key. It is one pointer wide, because up to half of the
/// slots of a hash table are empty.
#[derive(Debug)]
pub(super) struct CachedObject(Box<(Key, Entry)>);

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
    pub(super) fn rare(&self) -> &RareState {
        self.rare.as_deref().unwrap_or(&ORDINARY)
    }

    pub(super) fn is_newer_note_than(&self, other: &Self) -> bool {
        self.rare().note.is_some() && self.version > other.version
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
        let (rare, other_rare) = (self.rare(), other.rare());
        self.owner == other.owner
            && self.uid == other.uid
            && self.fields == other.fields
            && rare.deleting == other_rare.deleting
            && rare.health == other_rare.health
    }

    pub(super) fn seen(&self) -> ObservedObject {
        let rare = self.rare();
        ObservedObject {
            version: self.version,
            fields: self.fields,
            hash: self.hash,
            deleting: rare.deleting,
            health: rare.health.clone(),
            writer: rare.writer.clone(),
        }
    }
}

// === impl RareState ===

impl RareState {
    /// Returns the state as an entry stores it.
    pub(super) fn boxed(self) -> Option<Box<Self>> {
        (self != ORDINARY).then(|| Box::new(self))
    }
}

// === impl CachedObject ===

impl CachedObject {
    pub(super) fn new(key: Key, entry: Entry) -> Self {
        Self(Box::new((key, entry)))
    }

    pub(super) fn key(&self) -> &Key {
        &self.0.0
    }

    pub(super) fn entry(&self) -> &Entry {
        &self.0.1
    }
}

impl Borrow<Key> for CachedObject {
    fn borrow(&self) -> &Key {
        self.key()
    }
}

impl PartialEq for CachedObject {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for CachedObject {}

impl Hash for CachedObject {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}
