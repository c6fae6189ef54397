//! Comparison of two forms of a CRD, without its custom resources.

use std::collections::{BTreeMap, BTreeSet};

use manifests::object::{get_path, text};
use serde_json::Value;

use super::{
    compare::{Comparison, compare},
    schema::Schema,
};

/// The fields of a CRD that the check reads.
#[derive(Debug)]
pub(super) struct CrdSummary {
    pub(super) group: String,
    pub(super) plural: String,
    kind: String,
    scope: String,
    /// Versions in which custom resources may be stored.
    stored: BTreeSet<String>,
    /// Whether a conversion webhook is declared.
    webhook: bool,
    versions: BTreeMap<String, Version>,
}

#[derive(Debug)]
struct Version {
    served: bool,
    schema: Schema,
}

impl CrdSummary {
    /// Reads a CRD. Missing fields are empty: the API server rejects such a CRD.
    pub(super) fn read(value: &Value) -> Self {
        let string = |keys: &[&str]| text(value, keys).unwrap_or_default().to_owned();
        let list = |keys: &[&str]| {
            get_path(value, keys)
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
        };
        let preserves_unknown_fields =
            get_path(value, &["spec", "preserveUnknownFields"]) == Some(&Value::Bool(true));
        let versions = list(&["spec", "versions"])
            .filter_map(|version| {
                let schema =
                    get_path(version, &["schema", "openAPIV3Schema"]).unwrap_or(&Value::Null);
                let mut schema = Schema::read(schema);
                if preserves_unknown_fields {
                    schema.keep_unknown();
                }
                let served = version.get("served") == Some(&Value::Bool(true));
                let name = text(version, &["name"])?.to_owned();
                Some((name, Version { served, schema }))
            })
            .collect();
        Self {
            group: string(&["spec", "group"]),
            plural: string(&["spec", "names", "plural"]),
            kind: string(&["spec", "names", "kind"]),
            scope: string(&["spec", "scope"]),
            stored: list(&["status", "storedVersions"])
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect(),
            webhook: text(value, &["spec", "conversion", "strategy"]) == Some("Webhook"),
            versions,
        }
    }
}

/// Assessment of a new form of a CRD, and the custom resources to validate.
#[derive(Debug, Default)]
pub(super) struct CrdAssessment {
    /// Changes that are not safe.
    pub(super) problems: Vec<String>,
    /// Number of further unsafe changes that are not listed.
    pub(super) more: usize,
    /// New rules that only the API server can evaluate.
    pub(super) unchecked: Vec<String>,
    /// Versions that the new CRD stops serving, and new defaults.
    pub(super) notes: Vec<String>,
    /// Custom resources to validate.
    pub(super) targets: Vec<Target>,
}

/// Custom resources of one version, and the schemas to validate them with.
#[derive(Debug)]
pub(super) struct Target {
    /// Version in which they are listed.
    pub(super) version: String,
    /// Current schema of that version.
    pub(super) old: Schema,
    /// New schemas that must accept the custom resources.
    pub(super) new: Vec<TargetSchema>,
}

/// A new schema that must accept custom resources.
#[derive(Debug)]
pub(super) struct TargetSchema {
    /// Version of the schema.
    pub(super) version: String,
    /// Schema of the version.
    pub(super) schema: Schema,
    /// Whether the schema must also keep all fields, because it replaces the one that the custom resources were written
    /// for.
    pub(super) preserves_unknown: bool,
}

/// Compares the CRD in the cluster with the one that replaces it.
pub(super) fn assess(old: &CrdSummary, new: &CrdSummary) -> CrdAssessment {
    let mut assessment = CrdAssessment::default();
    for (field, old, new) in [
        ("scope", &old.scope, &new.scope),
        ("kind", &old.kind, &new.kind),
    ] {
        if old != new {
            assessment
                .problems
                .push(format!("{field} changed from {old:?} to {new:?}"));
        }
    }
    let removed: Vec<&str> = old
        .stored
        .iter()
        .filter(|&version| !new.versions.contains_key(version))
        .map(String::as_str)
        .collect();
    if !removed.is_empty() {
        assessment.problems.push(format!(
            "cannot remove stored versions [{}]; first migrate the custom resources to a remaining version, and remove \
             these from status.storedVersions",
            removed.join(" ")
        ));
    }
    let added: BTreeMap<&String, &Version> = new
        .versions
        .iter()
        .filter(|(name, _)| !new.webhook && !old.versions.contains_key(*name))
        .collect();
    for (name, version) in &old.versions {
        let unserved = || format!("the new CRD does not serve version {name}");
        let mut schemas = Vec::new();
        match new.versions.get(name) {
            Some(new) if version.served || old.stored.contains(name) => {
                let comparison = compare(&version.schema, &new.schema);
                if comparison.can_invalidate {
                    schemas.push(TargetSchema {
                        version: name.clone(),
                        schema: new.schema.clone(),
                        preserves_unknown: true,
                    });
                }
                assessment.add(name, comparison);
                if version.served && !new.served {
                    assessment.notes.push(unserved());
                }
            }
            None if version.served && !old.stored.contains(name) => {
                assessment.notes.push(unserved());
            }
            _ => {}
        }
        let is_shared = new.versions.contains_key(name);
        if version.served && is_shared {
            schemas.extend(
                added
                    .iter()
                    .filter(|(_, added)| compare(&version.schema, &added.schema).can_invalidate)
                    .map(|(name, added)| TargetSchema {
                        version: (*name).clone(),
                        schema: added.schema.clone(),
                        preserves_unknown: false,
                    }),
            );
        }
        if version.served && !schemas.is_empty() {
            assessment.targets.push(Target {
                version: name.clone(),
                old: version.schema.clone(),
                new: schemas,
            });
        }
    }
    assessment
}

impl CrdAssessment {
    fn add(&mut self, version: &str, comparison: Comparison) {
        let of_version = |message: String| format!("{version}: {message}");
        self.more += comparison
            .narrowed_count
            .saturating_sub(comparison.narrowed.len());
        self.problems
            .extend(comparison.narrowed.into_iter().map(of_version));
        self.unchecked
            .extend(comparison.unchecked.into_iter().map(of_version));
        self.notes
            .extend(comparison.notes.into_iter().map(of_version));
    }
}

#[cfg(test)]
mod tests;
