//! How old what a watch shows may be: it is late, and our own last word must not be overlooked.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use manifests::api::bundle::Bundle;

use super::uid;

/// The resourceVersions of our last writes, by Bundle.
#[derive(Debug, Default)]
pub(super) struct Written(Mutex<HashMap<String, u64>>);

impl Written {
    /// Notes what the API server answered to a write.
    pub(super) fn note(&self, written: &Bundle) {
        // What is no number is later than everything that is seen.
        let version = version(written).unwrap_or(u64::MAX);
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(uid(written).to_owned(), version);
    }

    /// Reports whether a Bundle was seen after our last write.
    pub(super) fn is_before(&self, seen: &Bundle) -> bool {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match (all.get(uid(seen)), version(seen)) {
            (None, _) => true,
            (Some(written), Some(seen)) => *written <= seen,
            (Some(_), None) => false,
        }
    }

    /// Returns the newest known resourceVersion of a Bundle.
    pub(super) fn newest_version(&self, seen: &Bundle) -> Option<String> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match (all.get(uid(seen)), version(seen)) {
            (Some(written), Some(seen)) if *written > seen && *written != u64::MAX => {
                Some(written.to_string())
            }
            _ => seen.metadata.resource_version.clone(),
        }
    }

    /// The Bundle is gone.
    pub(super) fn forget(&self, uid: &str) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.remove(uid);
    }

    /// Forgets Bundles that do not exist.
    pub(super) fn retain(&self, exists: impl Fn(&str) -> bool) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|uid, _| exists(uid));
    }
}

fn version(bundle: &Bundle) -> Option<u64> {
    bundle.metadata.resource_version.as_ref()?.parse().ok()
}

#[cfg(test)]
mod tests {

    use super::*;

    fn bundle(uid: &str, version: &str) -> Bundle {
        object!({
            "metadata": {"name": "b", "uid": uid, "resourceVersion": version}, "spec": {"source": {"type": "image"}},
        })
    }

    #[test]
    fn a_watch_that_is_late_is_not_believed() {
        let written = Written::default();
        assert!(written.is_before(&bundle("a", "1")));
        written.note(&bundle("a", "9"));
        for (seen, version, expected) in [
            ("a", "8", false),
            ("a", "9", true),
            ("a", "10", true),
            ("a", "later", false),
            ("another", "1", true),
        ] {
            assert_rows!(written.is_before(&bundle(seen, version)) => expected, "{seen} {version}");
        }
        written.note(&bundle("a", "later"));
        assert!(!written.is_before(&bundle("a", "10")));
        for (noted, seen, expected) in [("9", "8", "9"), ("9", "10", "10"), ("later", "8", "8")] {
            written.note(&bundle("a", noted));
            assert_rows!(written.newest_version(&bundle("a", seen)).unwrap() => expected, "{noted} {seen}");
        }
        assert_eq!(
            written.newest_version(&bundle("another", "1")).unwrap(),
            "1"
        );
        written.retain(|uid| uid != "a");
        assert!(written.is_before(&bundle("a", "1")));
    }
}
