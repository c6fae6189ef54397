//! Uploads that the content store must not evict: they cannot be fetched again.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use manifests::api::bundle::Bundle;
use unpacker::store::Hold;

use super::{source, uid};

/// The holds of uploads, by the uid of the Bundle.
#[derive(Debug, Default)]
pub(super) struct HeldUploads(Mutex<HashMap<String, Hold>>);

impl HeldUploads {
    /// Holds the content of a Bundle until the Bundle is deleted, if the content is an upload.
    pub(super) fn insert(&self, bundle: &Bundle, hold: Hold) {
        if source::is_upload(&bundle.spec.source) {
            let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            held.insert(uid(bundle).to_owned(), hold);
        }
    }

    /// Releases the upload of a Bundle.
    pub(super) fn release(&self, uid: &str) {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.remove(uid);
    }

    /// Releases the uploads of Bundles that do not exist.
    pub(super) fn retain(&self, exists: impl Fn(&str) -> bool) {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.retain(|uid, _| exists(uid));
    }
}
