//! resourceVersions of the provisioner's own writes. They reveal that a watch is behind and shows an object as it was
//! before the last write.

use std::collections::HashMap;

use kube::Resource;
use parking_lot::Mutex;

/// resourceVersions of the last writes, by the uid of the object.
#[derive(Debug, Default)]
pub(crate) struct Written(Mutex<HashMap<String, u64>>);

impl Written {
    /// Records the object that the API server returned for a write.
    pub(crate) fn note(&self, written: &impl Resource) {
        // A malformed version counts as newer than all observed versions.
        let version = version(written).unwrap_or(u64::MAX);
        let mut versions = self.0.lock();
        versions.insert(uid(written).to_owned(), version);
    }

    /// Reports whether an observed object includes the last write.
    pub(crate) fn is_before(&self, observed: &impl Resource) -> bool {
        let versions = self.0.lock();
        match (versions.get(uid(observed)), version(observed)) {
            (None, _) => true,
            (Some(written), Some(observed)) => *written <= observed,
            (Some(_), None) => false,
        }
    }

    /// Returns the newest known resourceVersion of an object.
    pub(crate) fn newest_version(&self, observed: &impl Resource) -> Option<String> {
        let versions = self.0.lock();
        match (versions.get(uid(observed)), version(observed)) {
            (Some(written), Some(observed)) if *written > observed && *written != u64::MAX => {
                Some(written.to_string())
            }
            _ => observed.meta().resource_version.clone(),
        }
    }

    /// Removes an object that was deleted.
    pub(crate) fn forget(&self, uid: &str) {
        let mut versions = self.0.lock();
        versions.remove(uid);
    }

    /// Removes objects that do not exist.
    pub(crate) fn retain(&self, exists: impl Fn(&str) -> bool) {
        let mut versions = self.0.lock();
        versions.retain(|uid, _| exists(uid));
    }
}

fn version(object: &impl Resource) -> Option<u64> {
    object.meta().resource_version.as_ref()?.parse().ok()
}

fn uid(object: &impl Resource) -> &str {
    object.meta().uid.as_deref().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use manifests::api::bundle::Bundle;

    use super::*;

    fn bundle(uid: &str, version: &str) -> Bundle {
        object!({
            "metadata": {"name": "b", "uid": uid, "resourceVersion": version}, "spec": {"source": {"type": "image"}},
        })
    }

    #[test]
    fn stale_watch_events_are_ignored() {
        let written = Written::default();
        assert!(written.is_before(&bundle("a", "1")));
        written.note(&bundle("a", "9"));
        assert_each!(|observed, version, expected| written.is_before(&bundle(observed, version)) => expected;
            "a", "8" => false;
            "a", "9" => true;
            "a", "10" => true;
            "a", "later" => false;
            "another", "1" => true;
        );
        written.note(&bundle("a", "later"));
        assert!(!written.is_before(&bundle("a", "10")));
        let newest = |uid, version| written.newest_version(&bundle(uid, version)).unwrap();
        for (noted, observed, expected) in [("9", "8", "9"), ("9", "10", "10"), ("later", "8", "8")]
        {
            written.note(&bundle("a", noted));
            assert_eq!(newest("a", observed), expected, "{noted} {observed}");
        }
        assert_eq!(newest("another", "1"), "1");
        written.retain(|uid| uid != "a");
        assert!(written.is_before(&bundle("a", "1")));
    }
}
