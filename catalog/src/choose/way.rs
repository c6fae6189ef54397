//! Which steps lead on from what is installed.

use std::{
    cmp::Ordering,
    collections::{HashMap, HashSet},
};

use manifests::range::Range;

use super::{Installed, chooser::Place};
use crate::model::{Bundle, Entry};

/// The way on from what is installed.
#[derive(Debug)]
pub(super) struct Way<'a> {
    installed: &'a Installed,
    /// Bundles of the same version from which edges lead to what is installed.
    back: HashSet<&'a str>,
}

// === impl Way ===

impl<'a> Way<'a> {
    /// The way within a channel.
    pub(super) fn new(installed: &'a Installed, places: &[Place<'a>]) -> Self {
        let mut back = HashSet::new();
        if let Some(version) = &installed.version {
            let mut same = places.to_vec();
            same.retain(|it| it.bundle.version.cmp_precedence(version) == Ordering::Equal);
            let same: HashMap<&str, &Entry> = same
                .into_iter()
                .map(|it| (it.entry.name.as_str(), it.entry))
                .collect();
            // Each is looked at once, so this ends where edges lead in a circle.
            let mut next = vec![installed.name.as_str()];
            while let Some(name) = next.pop() {
                let Some(entry) = same.get(name) else {
                    continue;
                };
                for name in entry.replaces.iter().chain(&entry.skips) {
                    if same.contains_key(name.as_str()) && back.insert(name.as_str()) {
                        next.push(name);
                    }
                }
            }
        }
        Self { installed, back }
    }

    /// Whether a bundle is a step forward on an edge of the channel.
    pub(super) fn leads_to(&self, place: &Place<'_>) -> bool {
        self.installed.is_before(place.entry) && self.is_forward(place)
    }

    /// Whether a bundle at the end of an edge is a step forward. Edges that lead in a circle would never come to rest.
    pub(super) fn is_forward(&self, place: &Place<'_>) -> bool {
        let name = place.entry.name.as_str();
        match self.installed.cmp_version(place.bundle) {
            None | Some(Ordering::Less) => true,
            // Packed anew. A range speaks of versions, so that it cannot mean this.
            Some(Ordering::Equal) => {
                self.installed.is_named_by(place.entry) && !self.back.contains(name)
            }
            Some(Ordering::Greater) => false,
        }
    }
}

// === impl Installed ===

impl Installed {
    /// Whether it is this bundle. Names are unique in a package; who does not know the release means any.
    pub(super) fn is(&self, bundle: &Bundle) -> bool {
        self.name == bundle.name
            && self.version.as_ref().is_none_or(|it| match it.release {
                Some(_) => it.cmp_precedence(&bundle.version) == Ordering::Equal,
                None => it.version.cmp_precedence(&bundle.version.version) == Ordering::Equal,
            })
    }

    /// The same with all that a catalog knows of it.
    pub(super) fn known_as(&self, bundle: Option<&Bundle>) -> Self {
        let version = bundle.filter(|it| self.is(it)).map(|it| &it.version);
        Self {
            version: version.or(self.version.as_ref()).cloned(),
            ..self.clone()
        }
    }

    /// Whether an entry can be upgraded to from here.
    pub(super) fn is_before(&self, entry: &Entry) -> bool {
        let in_range = || {
            let version = &self.version.as_ref()?.version;
            let range = Range::parse(entry.skip_range.as_deref()?).ok()?;
            Some(range.matches(version))
        };
        entry.name != self.name && (self.is_named_by(entry) || in_range().unwrap_or_default())
    }

    /// Whether an edge names it.
    fn is_named_by(&self, entry: &Entry) -> bool {
        entry.replaces.as_deref() == Some(&self.name) || entry.skips.contains(&self.name)
    }

    fn cmp_version(&self, bundle: &Bundle) -> Option<Ordering> {
        let version = self.version.as_ref();
        version.map(|it| it.cmp_precedence(&bundle.version))
    }
}
