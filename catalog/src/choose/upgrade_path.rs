//! Upgrade path: the edges of a channel that lead on from the installed bundle.

use std::{
    cmp::Ordering,
    collections::{HashMap, HashSet},
};

use manifests::version_range::Range;

use super::{Installed, resolver::CandidateEntry};
use crate::model::{Bundle, Entry};

/// Upgrade path from the installed bundle.
#[derive(Debug)]
pub(super) struct UpgradePath<'a> {
    installed: &'a Installed,
    /// Bundles of the same version from which edges lead to the installed bundle.
    predecessors: HashSet<&'a str>,
}

// === impl UpgradePath ===

impl<'a> UpgradePath<'a> {
    /// Creates the upgrade path within a channel.
    pub(super) fn new(installed: &'a Installed, candidates: &[CandidateEntry<'a>]) -> Self {
        let mut predecessors = HashSet::new();
        if let Some(version) = &installed.version {
            let mut same = candidates.to_vec();
            same.retain(|candidate| {
                candidate.bundle.version.cmp_precedence(version) == Ordering::Equal
            });
            let same: HashMap<&str, &Entry> = same
                .into_iter()
                .map(|candidate| (candidate.entry.name.as_str(), candidate.entry))
                .collect();
            // Each bundle is visited once, so cycles of edges terminate.
            let mut next = vec![installed.name.as_str()];
            while let Some(name) = next.pop() {
                let Some(entry) = same.get(name) else {
                    continue;
                };
                for name in entry.replaces.iter().chain(&entry.skips) {
                    if same.contains_key(name.as_str()) && predecessors.insert(name.as_str()) {
                        next.push(name);
                    }
                }
            }
        }
        Self {
            installed,
            predecessors,
        }
    }

    /// Reports whether an edge of the channel leads to the bundle, and the bundle is a step forward.
    pub(super) fn reaches(&self, candidate: &CandidateEntry<'_>) -> bool {
        self.installed.precedes(candidate.entry) && self.is_newer(candidate)
    }

    /// Reports whether the target of an edge is a step forward. Other edges are not followed: a cycle would never end.
    pub(super) fn is_newer(&self, candidate: &CandidateEntry<'_>) -> bool {
        let name = candidate.entry.name.as_str();
        match self.installed.cmp_version(candidate.bundle) {
            None | Some(Ordering::Less) => true,
            // Rebuild of the same version. A range contains versions, so it cannot refer to a rebuild.
            Some(Ordering::Equal) => {
                self.installed.is_referenced_by(candidate.entry)
                    && !self.predecessors.contains(name)
            }
            Some(Ordering::Greater) => false,
        }
    }
}

// === impl Installed ===

impl Installed {
    /// Reports whether the bundle is installed. Names are unique in a package. Without a known release, any release
    /// matches.
    pub(super) fn is_bundle(&self, bundle: &Bundle) -> bool {
        self.name == bundle.name
            && self
                .version
                .as_ref()
                .is_none_or(|version| match version.release {
                    Some(_) => version.cmp_precedence(&bundle.version) == Ordering::Equal,
                    None => {
                        version.version.cmp_precedence(&bundle.version.version) == Ordering::Equal
                    }
                })
    }

    /// Returns the installed bundle with the version that a catalog declares for it.
    pub(super) fn with_known_version(&self, bundle: Option<&Bundle>) -> Self {
        let version = bundle
            .filter(|bundle| self.is_bundle(bundle))
            .map(|bundle| &bundle.version);
        Self {
            version: version.or(self.version.as_ref()).cloned(),
            ..self.clone()
        }
    }

    /// Reports whether the entry is an upgrade of the installed bundle.
    pub(super) fn precedes(&self, entry: &Entry) -> bool {
        let in_range = || {
            let version = &self.version.as_ref()?.version;
            let range = Range::parse(entry.skip_range.as_deref()?).ok()?;
            Some(range.matches(version))
        };
        entry.name != self.name && (self.is_referenced_by(entry) || in_range().unwrap_or_default())
    }

    /// Reports whether an edge of the entry names the installed bundle.
    fn is_referenced_by(&self, entry: &Entry) -> bool {
        entry.replaces.as_deref() == Some(&self.name) || entry.skips.contains(&self.name)
    }

    fn cmp_version(&self, bundle: &Bundle) -> Option<Ordering> {
        let version = self.version.as_ref();
        version.map(|version| version.cmp_precedence(&bundle.version))
    }
}
