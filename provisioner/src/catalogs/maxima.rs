//! What catalogs say of the newest OpenShift that an installed bundle runs on. No I/O.
//!
//! What a catalog said counts until it says otherwise: while it is away, the last word stays. So it is kept, and written
//! down for whoever runs next. A catalog that cannot be asked must not be overruled by one that comes after it.

use std::collections::BTreeMap;

pub use manifests::api::identity::key;
use manifests::{api::bounds, object::shortened};

/// What catalogs say of a bundle now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    /// The catalog that decides has the bundle, with this max OpenShift version or none: see
    /// [`MaxOpenShiftVersion::text`](manifests::openshift::MaxOpenShiftVersion::text).
    Says(Option<String>),
    /// All catalogs are read, and none has such a bundle.
    Absent,
    /// A catalog that would decide cannot be asked now; and what the first one says of those that come after it.
    Away(Option<String>),
}

/// What is known of bundles, by their [`key`].
pub type Maxima = BTreeMap<String, String>;

// === impl Said ===

impl Said {
    /// What is kept, given what was kept before.
    fn kept(&self, last: Option<&String>) -> Option<String> {
        match self {
            Self::Says(value) => value.clone().map(bounded),
            Self::Absent => None,
            Self::Away(_) => last.cloned(),
        }
    }

    /// What counts, given what was kept. Where nothing was, whoever can be asked has the word meanwhile; that is not kept.
    pub(super) fn counts(self, last: Option<&String>) -> Option<String> {
        let kept = self.kept(last);
        match self {
            Self::Away(others) => kept.or(others.map(bounded)),
            Self::Says(_) | Self::Absent => kept,
        }
    }
}

/// What counts of what catalogs say, and what of it is to be kept, given what was kept before. Bundles that are gone are
/// forgotten.
pub fn maxima(before: &Maxima, said: impl IntoIterator<Item = (String, Said)>) -> (Maxima, Maxima) {
    let (mut counting, mut keeping) = (Maxima::new(), Maxima::new());
    for (key, said) in said {
        let last = before.get(&key);
        if let Some(kept) = said.kept(last) {
            keeping.insert(key.clone(), kept);
        }
        if let Some(value) = said.counts(last) {
            counting.insert(key, value);
        }
    }
    (counting, keeping)
}

/// A release is short, and of anything else a word tells enough.
fn bounded(value: String) -> String {
    let longest = bounds::WORD as usize / 4; // characters have up to four bytes
    if value.len() <= longest {
        return value;
    }
    shortened(&value, longest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogs::{Catalogs, known::Known};

    fn all(pairs: &[(&str, &str)]) -> Maxima {
        let pairs = pairs.iter();
        pairs
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    }

    // parity: max-6
    #[test]
    fn the_last_word_of_a_catalog_stays_while_it_is_away() {
        let before = all(&["a", "b", "c", "gone", "e"].map(|key| (key, "4.12")));
        let text = |it: &str| Some(it.to_owned());
        let said = [
            ("a", Said::Says(text("4.13"))),
            ("b", Said::Away(text("4.14"))), // of another one, which comes after it
            ("c", Said::Absent),
            ("d", Said::Away(None)),
            ("e", Said::Says(None)),
            ("f", Said::Away(text("4.14"))),
        ];
        let said = said.map(|(key, said)| (key.to_owned(), said));
        let (counting, keeping) = maxima(&before, said);
        assert_rows!(counting => all(&[("a", "4.13"), ("b", "4.12"), ("f", "4.14")]));
        assert_eq!(keeping, all(&[("a", "4.13"), ("b", "4.12")]));
    }

    #[test]
    fn what_was_written_down_counts_for_everybody_while_catalogs_are_away() {
        let catalogs = Catalogs::default();
        let mut changes = catalogs.changes();
        let maximum = || catalogs.maximum("etcd", "etcd.v1", "sha256:a");
        assert_eq!((catalogs.kept(), maximum()), (None, None));
        let key = key("etcd", "etcd.v1", "sha256:a");
        catalogs.keep(all(&[(&key, "4.13")]));
        assert_rows! {
            maximum().as_deref() => Some("4.13");
            changes.has_changed().unwrap() => true, "whoever asked before asks again";
            // What comes later is from catalogs, which have told of it themselves.
            { changes.mark_unchanged(); catalogs.keep(all(&[(&key, "4.14")])); maximum() } => Some("4.14".to_owned());
            changes.has_changed().unwrap() => false;
            // There are none, and so none is away.
            { catalogs.change(Known::has_none); maximum() } => None;
        }
    }

    /// However many there are: what is written down is bounded, not what counts.
    #[test]
    fn all_of_them_count_and_a_word_of_each() {
        let many = (0..3000).map(|n| (n.to_string(), Said::Says(Some("4".repeat(100_000)))));
        let (counting, keeping) = maxima(&Maxima::new(), many);
        assert_eq!((counting.len(), keeping.len()), (3000, 3000));
        let mut values = counting.values().chain(keeping.values());
        assert!(values.all(|it| it.len() <= bounds::WORD as usize));
    }
}
