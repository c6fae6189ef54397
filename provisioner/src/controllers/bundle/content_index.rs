//! Index of the Bundles whose content this process has stored: referenced by their status, rejected, or not recorded in a
//! status yet. The content of a deleted Bundle leaves the store.
//!
//! The Bundle controller fetches the content of an unpacked Bundle once after the process has started, so that conversions
//! find it. Content that the store evicts later is fetched when a conversion needs it: a store that is too small for all
//! Bundles would otherwise evict and fetch without end. Uploads cannot be fetched, and are held in the store.

use std::collections::HashMap;

use manifests::api::bundle::Bundle;
use parking_lot::Mutex;
use unpacker::{Digest, store::Hold};

use super::{cache::content, source, uid};

/// Digests of contents by the uid of the Bundle, with the hold of an upload.
#[derive(Debug, Default)]
pub struct Contents(Mutex<HashMap<String, (Digest, Option<Hold>)>>);

impl Contents {
    /// Records the content that was stored for a Bundle.
    pub(super) fn record(&self, bundle: &Bundle, content: Digest) {
        let mut contents = self.0.lock();
        let entry = contents.entry(uid(bundle).to_owned());
        let (recorded, hold) = entry.or_insert((content, None));
        if *recorded != content {
            (*recorded, *hold) = (content, None);
        }
    }

    /// Reports whether content was stored for a Bundle that exists.
    pub(super) fn has(&self, content: Digest) -> bool {
        let contents = self.0.lock();
        contents.values().any(|(recorded, _)| *recorded == content)
    }

    /// Records that the store has the content of a Bundle. An upload is held until the Bundle is deleted.
    pub(super) fn insert(&self, bundle: &Bundle, hold: Hold) {
        let digest = hold.digest();
        let hold = source::is_upload(&bundle.spec.source).then_some(hold);
        let mut contents = self.0.lock();
        contents.insert(uid(bundle).to_owned(), (digest, hold));
    }

    /// Reports whether the content of a Bundle was in the store, so that it may be fetched when a conversion needs it.
    pub(super) fn may_be_evicted(&self, bundle: &Bundle) -> bool {
        let contents = self.0.lock();
        let entry = contents.get(uid(bundle));
        entry.is_some_and(|(digest, hold)| hold.is_none() && content(bundle) == Some(*digest))
    }

    /// Makes the next reconcile of the Bundle fetch its content, because a conversion needs it.
    pub(super) fn demand(&self, bundle: &Bundle) {
        self.forget(uid(bundle));
    }

    /// Removes a Bundle, and returns the content that was stored for it.
    pub(super) fn forget(&self, uid: &str) -> Option<Digest> {
        let mut contents = self.0.lock();
        contents.remove(uid).map(|(content, _)| content)
    }

    /// Removes Bundles that do not exist.
    pub(super) fn retain(&self, exists: impl Fn(&str) -> bool) {
        let mut contents = self.0.lock();
        contents.retain(|uid, _| exists(uid));
    }
}
