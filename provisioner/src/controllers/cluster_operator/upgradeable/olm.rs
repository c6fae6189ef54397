//! The differences between the gate and the ClusterOperator of OLM v0.
//!
//! OLM v0 evaluates the same ClusterServiceVersions by other rules. It reads one annotation and no catalog, accepts more
//! forms of a value, blocks cluster upgrades for a value that it rejects, and does not report a missing one. An admin reads
//! both ClusterOperators. So the message of the gate names every ClusterServiceVersion that OLM evaluates differently, with
//! the reason. Pure; no I/O.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::{self, Write as _},
};

use manifests::{
    object::truncate,
    openshift::{MAX_ANNOTATION, MAX_PROPERTY, Release, olm_v0},
};

use super::{
    InstalledOperator, Outcome,
    message::{joined, one_line},
};

/// The name of OLM v0's ClusterOperator.
pub const CLUSTER_OPERATOR: &str = "operator-lifecycle-manager";
/// Maximum length of a line, in bytes; nine causes fit into a message with its first line.
const MAX_LINE: usize = 3 << 9;
/// Maximum length of the detail of one ClusterServiceVersion, in characters.
const MAX_DETAIL: usize = 120;

/// The reading of one ClusterServiceVersion by OLM v0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reading {
    /// The annotation is missing. OLM writes the annotation on every ClusterServiceVersion that OLM takes from a catalog,
    /// so this one comes from elsewhere.
    NotFromCatalog,
    /// The annotation declares no max OpenShift version.
    Undeclared,
    /// OLM compares this release with the cluster's next one.
    Release(Release),
    /// OLM rejects the value with this error, truncated, and blocks cluster upgrades.
    Rejected(String),
}

/// The ClusterServiceVersions that OLM evaluates differently, by effect and cause.
#[derive(Default)]
pub(super) struct Differences {
    causes: BTreeMap<(Effect, Cause), BTreeSet<String>>,
}

/// The effect of OLM's evaluation where it differs from that of the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Effect {
    Blocks,
    DoesNotBlock,
    DoesNotWarn,
}

/// The rule of OLM that the gate does not share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Cause {
    Rejected,
    Catalog,
    Tolerant,
    Annotation,
    Undeclared,
}

// === impl Reading ===

impl Reading {
    /// Reads the annotation `operatorframework.io/properties` of a ClusterServiceVersion.
    pub fn new(annotation: Option<&str>) -> Self {
        let Some(annotation) = annotation else {
            return Self::NotFromCatalog;
        };
        match olm_v0::read_annotation(annotation) {
            Ok(None) => Self::Undeclared,
            Ok(Some(release)) => Self::Release(release),
            Err(error) => Self::Rejected(truncate(&one_line(&error.to_string()), MAX_DETAIL)),
        }
    }

    fn blocks(&self, cluster: Release) -> bool {
        match self {
            Self::NotFromCatalog | Self::Undeclared => false,
            Self::Release(release) => !release.allows_next(cluster),
            Self::Rejected(_) => true,
        }
    }
}

// === impl Differences ===

impl Differences {
    /// Adds the operator if OLM evaluates it differently.
    pub(super) fn add(&mut self, operator: &InstalledOperator, cluster: Release) {
        let Some(reading) = &operator.olm else {
            return;
        };
        let outcome = operator.outcome(cluster);
        let effect = match (&outcome, reading.blocks(cluster)) {
            (Outcome::Passes, false) | (Outcome::Blocks(_), true) => return,
            (_, true) => Effect::Blocks,
            (Outcome::Blocks(_), false) => Effect::DoesNotBlock,
            (_, false) => Effect::DoesNotWarn,
        };
        let read = match reading {
            Reading::Release(release) => format!("OLM reads {release}"),
            _ => "OLM reads no value".to_owned(),
        };
        let declared = operator.max_openshift.as_deref().unwrap_or_default();
        let declared = one_line(declared.trim_matches('"'));
        let (cause, detail) = match (reading, outcome) {
            (Reading::Rejected(error), _) => (Cause::Rejected, error.clone()),
            (_, Outcome::Undeclared) => (Cause::Undeclared, String::new()),
            _ if operator.is_from_catalog => {
                let detail = format!("{read}, the catalog declares {declared}");
                (Cause::Catalog, detail)
            }
            (Reading::Release(_), Outcome::Undetermined(_)) => (Cause::Tolerant, read),
            _ => (Cause::Annotation, declared.into_owned()),
        };
        let mut name = operator.label();
        if !detail.is_empty() {
            name = format!("{name} ({})", truncate(&detail, MAX_DETAIL));
        }
        let names = self.causes.entry((effect, cause)).or_default();
        names.insert(name);
    }

    /// Returns a line per cause; empty if OLM and the gate agree.
    pub(super) fn text(&self) -> String {
        if self.causes.is_empty() {
            return String::new();
        }
        let mut text = format!(
            "ClusterOperator {CLUSTER_OPERATOR} evaluates these ClusterServiceVersions differently:"
        );
        for ((effect, cause), names) in &self.causes {
            let names: Vec<&String> = names.iter().collect();
            let names = joined(&names, ", ", MAX_LINE);
            let _ = write!(text, "\n- {effect}, because OLM {cause}: {names}"); // writing to a String does not fail
        }
        text
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Blocks => "blocks the upgrade",
            Self::DoesNotBlock => "does not block the upgrade",
            Self::DoesNotWarn => "does not warn",
        })
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rejected => f.write_str("blocks upgrades on values that it rejects"),
            Self::Catalog => f.write_str("ignores the value in the catalog"),
            Self::Tolerant => f.write_str("accepts values that are not <major>.<minor>"),
            Self::Annotation => write!(f, "ignores the annotation {MAX_ANNOTATION}"),
            Self::Undeclared => write!(f, "accepts a missing {MAX_PROPERTY}"),
        }
    }
}

#[cfg(test)]
mod tests;
