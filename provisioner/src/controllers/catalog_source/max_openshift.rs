//! Max OpenShift versions that catalogs declare for installed bundles. Pure; no I/O.
//!
//! The version that a catalog declared last is effective until the catalog declares another one, even while the catalog is
//! unavailable. It is therefore recorded and persisted for the next process. An unavailable catalog must not be overruled
//! by one of lower priority.

use std::collections::BTreeMap;

pub use manifests::api::bundle_identity::key;
use manifests::api::limits;
use manifests::object::truncate;

/// Max OpenShift version that catalogs currently declare for a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    /// The authoritative catalog has the bundle, with this max OpenShift version or none: see
    /// [`MaxOpenShiftVersion::text`](manifests::openshift::MaxOpenShiftVersion::text).
    Says(Option<String>),
    /// All catalogs are loaded, and none has the bundle.
    Absent,
    /// A catalog of higher priority is unavailable. Contains the version that the first available catalog declares.
    Away(Option<String>),
}

/// Max OpenShift versions of bundles, by their [`key`].
pub type Maxima = BTreeMap<String, String>;

// === impl Said ===

impl Said {
    /// Returns the version to record, given the recorded one.
    fn kept(&self, last: Option<&String>) -> Option<String> {
        match self {
            Self::Says(value) => value.clone().map(bounded),
            Self::Absent => None,
            Self::Away(_) => last.cloned(),
        }
    }

    /// Returns the effective version, given the recorded one. Without a recorded one, an available catalog of lower
    /// priority decides for the time being. That version is not recorded.
    pub(super) fn counts(self, last: Option<&String>) -> Option<String> {
        let recorded = self.kept(last);
        match self {
            Self::Away(others) => recorded.or(others.map(bounded)),
            Self::Says(_) | Self::Absent => recorded,
        }
    }
}

/// Returns the effective versions and the versions to record, given the recorded ones. Bundles that are not in `declared`
/// are dropped.
pub fn maxima(
    before: &Maxima,
    declared: impl IntoIterator<Item = (String, Said)>,
) -> (Maxima, Maxima) {
    let (mut effective, mut to_record) = (Maxima::new(), Maxima::new());
    for (key, declared) in declared {
        let last = before.get(&key);
        if let Some(version) = declared.kept(last) {
            to_record.insert(key.clone(), version);
        }
        if let Some(value) = declared.counts(last) {
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

    fn all(pairs: &[(&str, &str)]) -> Maxima {
        let pairs = pairs.iter();
        pairs
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    }

    // parity: max-6
    #[test]
    fn last_value_counts_while_its_catalog_is_unavailable() {
        let before = all(&["a", "b", "c", "gone", "e"].map(|key| (key, "4.12")));
        let text = |value: &str| Some(value.to_owned());
        let values = [
            ("a", Said::Says(text("4.13"))),
            ("b", Said::Away(text("4.14"))), // of another one, which comes after it
            ("c", Said::Absent),
            ("d", Said::Away(None)),
            ("e", Said::Says(None)),
            ("f", Said::Away(text("4.14"))),
        ];
        let values = values.map(|(key, value)| (key.to_owned(), value));
        let (counting, keeping) = maxima(&before, values);
        assert_rows!(counting => all(&[("a", "4.13"), ("b", "4.12"), ("f", "4.14")]));
        assert_eq!(keeping, all(&[("a", "4.13"), ("b", "4.12")]));
    }

    #[test]
    fn recorded_values_count_while_catalogs_are_unavailable() {
        let catalogs = Catalogs::default();
        let mut changes = catalogs.changes();
        let maximum = || catalogs.maximum("etcd", "etcd.v1", "sha256:a");
        assert_eq!((catalogs.kept(), maximum()), (None, None));
        let key = key("etcd", "etcd.v1", "sha256:a");
        catalogs.keep(all(&[(&key, "4.13")]));
        assert_rows! {
            maximum().as_deref() => Some("4.13");
            changes.has_changed().unwrap() => true, "whoever asked before asks again";
            // Later values come from catalogs, whose changes have been published already.
            { changes.mark_unchanged(); catalogs.keep(all(&[(&key, "4.14")])); maximum() } => Some("4.14".to_owned());
            changes.has_changed().unwrap() => false;
            // Without catalogs, none is unavailable.
            { catalogs.change(CatalogCache::clear); maximum() } => None;
        }
    }

    /// The number of recorded versions is bounded, that of effective ones is not.
    #[test]
    fn every_value_counts_and_is_truncated() {
        let many = (0..3000).map(|n| (n.to_string(), Said::Says(Some("4".repeat(100_000)))));
        let (counting, keeping) = maxima(&Maxima::new(), many);
        assert_eq!((counting.len(), keeping.len()), (3000, 3000));
        let mut values = counting.values().chain(keeping.values());
        assert!(values.all(|value| value.len() <= limits::WORD as usize));
    }
}
