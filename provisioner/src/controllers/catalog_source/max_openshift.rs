//! Max OpenShift versions that catalogs declare for installed bundles. Pure; no I/O.
//!
//! The version that a catalog declared last is effective until the catalog declares another one, even while the catalog is
//! unavailable. It is therefore recorded and persisted for the next process. An unavailable catalog must not be overruled
//! by one of lower priority.

use std::collections::BTreeMap;

pub use manifests::api::bundle_identity::key;
use manifests::{api::limits, object::truncate};

/// Max OpenShift version that catalogs currently declare for a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CatalogMaximum {
    /// The authoritative catalog has the bundle, with this max OpenShift version or none: see
    /// [`MaxOpenShiftVersion::raw`](manifests::openshift::MaxOpenShiftVersion::raw).
    Declared(Option<String>),
    /// All catalogs are loaded, and none has the bundle.
    NotFound,
    /// A catalog of higher priority is unavailable. Contains the version that the first available catalog declares.
    Unavailable(Option<String>),
}

/// Max OpenShift versions of bundles, by their [`key`].
pub type MaxOpenShiftVersions = BTreeMap<String, String>;

// === impl CatalogMaximum ===

impl CatalogMaximum {
    /// Returns the version to record, given the recorded one.
    fn to_record(&self, last: Option<&String>) -> Option<String> {
        match self {
            Self::Declared(value) => value.clone().map(bounded),
            Self::NotFound => None,
            Self::Unavailable(_) => last.cloned(),
        }
    }

    /// Returns the effective version, given the recorded one. Without a recorded one, an available catalog of lower
    /// priority decides for the time being. That version is not recorded.
    pub(super) fn effective(self, last: Option<&String>) -> Option<String> {
        let recorded = self.to_record(last);
        match self {
            Self::Unavailable(others) => recorded.or(others.map(bounded)),
            Self::Declared(_) | Self::NotFound => recorded,
        }
    }
}

/// Returns the effective versions and the versions to record, given the recorded ones. Bundles that are not in `declared`
/// are dropped.
pub fn update_maxima(
    before: &MaxOpenShiftVersions,
    declared: impl IntoIterator<Item = (String, CatalogMaximum)>,
) -> (MaxOpenShiftVersions, MaxOpenShiftVersions) {
    let (mut effective, mut to_record) = (MaxOpenShiftVersions::new(), MaxOpenShiftVersions::new());
    for (key, declared) in declared {
        let last = before.get(&key);
        if let Some(version) = declared.to_record(last) {
            to_record.insert(key.clone(), version);
        }
        if let Some(value) = declared.effective(last) {
            effective.insert(key, value);
        }
    }
    (effective, to_record)
}

/// Truncates a version. Valid releases are short, and a few characters of an invalid one are enough.
fn bounded(value: String) -> String {
    let max_len = limits::WORD as usize / 4; // characters have up to four bytes
    if value.len() <= max_len {
        return value;
    }
    truncate(&value, max_len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controllers::catalog_source::{Catalogs, catalog_cache::CatalogCache};

    fn all(pairs: &[(&str, &str)]) -> MaxOpenShiftVersions {
        let pairs = pairs.iter();
        pairs
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    }

    // parity: max-6
    #[test]
    fn last_value_counts_while_its_catalog_is_unavailable() {
        let before = all(&["a", "b", "c", "removed", "e"].map(|key| (key, "4.12")));
        let text = |value: &str| Some(value.to_owned());
        let values = [
            ("a", CatalogMaximum::Declared(text("4.13"))),
            ("b", CatalogMaximum::Unavailable(text("4.14"))), // of a catalog of lower priority
            ("c", CatalogMaximum::NotFound),
            ("d", CatalogMaximum::Unavailable(None)),
            ("e", CatalogMaximum::Declared(None)),
            ("f", CatalogMaximum::Unavailable(text("4.14"))),
        ];
        let values = values.map(|(key, value)| (key.to_owned(), value));
        let (counting, keeping) = update_maxima(&before, values);
        assert_rows!(counting => all(&[("a", "4.13"), ("b", "4.12"), ("f", "4.14")]));
        assert_eq!(keeping, all(&[("a", "4.13"), ("b", "4.12")]));
    }

    #[test]
    fn recorded_values_count_while_catalogs_are_unavailable() {
        let catalogs = Catalogs::default();
        let mut changes = catalogs.changes();
        let maximum = || catalogs.effective_maximum("etcd", "etcd.v1", "sha256:a");
        assert_eq!((catalogs.recorded_maxima(), maximum()), (None, None));
        let key = key("etcd", "etcd.v1", "sha256:a");
        catalogs.record_maxima(all(&[(&key, "4.13")]));
        assert_rows! {
            maximum().as_deref() => Some("4.13");
            changes.has_changed().unwrap() => true, "callers query again";
            // Later values come from catalogs, whose changes have been published already.
            { changes.mark_unchanged(); catalogs.record_maxima(all(&[(&key, "4.14")])); maximum() } => Some("4.14".to_owned());
            changes.has_changed().unwrap() => false;
            // Without catalogs, none is unavailable.
            { catalogs.change(CatalogCache::clear); maximum() } => None;
        }
    }

    /// The number of recorded versions is bounded, that of effective ones is not.
    #[test]
    fn every_value_counts_and_is_truncated() {
        let declared = || CatalogMaximum::Declared(Some("4".repeat(100_000)));
        let many = (0..3000).map(|number| (number.to_string(), declared()));
        let (counting, keeping) = update_maxima(&MaxOpenShiftVersions::new(), many);
        assert_eq!((counting.len(), keeping.len()), (3000, 3000));
        let mut values = counting.values().chain(keeping.values());
        assert!(values.all(|value| value.len() <= limits::WORD as usize));
    }
}
