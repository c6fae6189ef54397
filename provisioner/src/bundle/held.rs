//! Content that must not be evicted: what Bundles name.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use unpacker::{Digest, store::Hold};

/// Each is an open file, and a process may not have many. What is not held can be fetched again.
const MOST: usize = 400;

/// Content in use, by the Bundle that names it.
#[derive(Debug, Default)]
pub(super) struct Held(Mutex<HashMap<String, Hold>>);

impl Held {
    /// Holds a Bundle's content. What cannot be fetched again is held in any case.
    pub(super) fn keep(&self, uid: &str, hold: Hold, can_be_fetched: bool) {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if held.len() < MOST || !can_be_fetched || held.contains_key(uid) {
            held.insert(uid.to_owned(), hold);
        }
    }

    /// The Bundle is gone.
    pub(super) fn release(&self, uid: &str) {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.remove(uid);
    }

    /// Releases what belongs to Bundles that do not exist.
    pub(super) fn retain(&self, exists: impl Fn(&str) -> bool) {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.retain(|uid, _| exists(uid));
    }

    /// Reports whether a Bundle's content is held.
    pub(super) fn has(&self, uid: &str, digest: &Digest) -> bool {
        let held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.get(uid).is_some_and(|hold| hold.digest() == *digest)
    }
}
