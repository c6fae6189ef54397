//! Two versions of a definition, and what follows from them without a look at custom resources.

use std::collections::{BTreeMap, BTreeSet};

use manifests::object::{at, text};
use serde_json::Value;

use super::{
    compare::{Comparison, compare},
    schema::Schema,
};

/// A CustomResourceDefinition, as far as it counts here.
#[derive(Debug)]
pub(super) struct Definition {
    pub(super) group: String,
    pub(super) plural: String,
    kind: String,
    scope: String,
    /// Versions that custom resources have been stored in.
    stored: BTreeSet<String>,
    /// Whether a webhook converts between versions.
    webhook: bool,
    versions: BTreeMap<String, Version>,
}

#[derive(Debug)]
struct Version {
    served: bool,
    schema: Schema,
}

impl Definition {
    /// Reads a definition. What is missing is empty: the API server refuses such a one.
    pub(super) fn read(value: &Value) -> Self {
        let word = |keys: &[&str]| text(value, keys).unwrap_or_default().to_owned();
        let list = |keys: &[&str]| {
            at(value, keys)
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
        };
        let keeps_unknown =
            at(value, &["spec", "preserveUnknownFields"]) == Some(&Value::Bool(true));
        let versions = list(&["spec", "versions"])
            .filter_map(|version| {
                let schema = at(version, &["schema", "openAPIV3Schema"]).unwrap_or(&Value::Null);
                let mut schema = Schema::read(schema);
                if keeps_unknown {
                    schema.keep_unknown();
                }
                let served = version.get("served") == Some(&Value::Bool(true));
                let name = text(version, &["name"])?.to_owned();
                Some((name, Version { served, schema }))
            })
            .collect();
        Self {
            group: word(&["spec", "group"]),
            plural: word(&["spec", "names", "plural"]),
            kind: word(&["spec", "names", "kind"]),
            scope: word(&["spec", "scope"]),
            stored: list(&["status", "storedVersions"])
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect(),
            webhook: text(value, &["spec", "conversion", "strategy"]) == Some("Webhook"),
            versions,
        }
    }
}

/// What is to be said of a new version of a definition, and which custom resources have to be looked at.
#[derive(Debug, Default)]
pub(super) struct Judgement {
    /// In the way.
    pub(super) problems: Vec<String>,
    /// How many more there are.
    pub(super) more: usize,
    /// Rules that only the API server can evaluate.
    pub(super) unchecked: Vec<String>,
    /// What is no longer served, and defaults that are new.
    pub(super) notes: Vec<String>,
    /// What to look at.
    pub(super) targets: Vec<Target>,
}

/// Custom resources to look at.
#[derive(Debug)]
pub(super) struct Target {
    /// The version to list them in.
    pub(super) version: String,
    /// The schema they should fulfil already.
    pub(super) old: Schema,
    /// The schemas that they have to fulfil.
    pub(super) new: Vec<Wanted>,
}

/// A schema that custom resources have to fulfil.
#[derive(Debug)]
pub(super) struct Wanted {
    /// Of this version.
    pub(super) version: String,
    /// The schema.
    pub(super) schema: Schema,
    /// Whether it must not lose fields either: it replaces the one that custom resources were written for.
    pub(super) keeps: bool,
}

/// Compares the definition in the cluster with the one that is to replace it.
pub(super) fn judge(old: &Definition, new: &Definition) -> Judgement {
    let mut judgement = Judgement::default();
    for (what, old, new) in [
        ("scope", &old.scope, &new.scope),
        ("kind", &old.kind, &new.kind),
    ] {
        if old != new {
            judgement
                .problems
                .push(format!("{what} changed from {old:?} to {new:?}"));
        }
    }
    let removed: Vec<&str> = old
        .stored
        .iter()
        .filter(|&version| !new.versions.contains_key(version))
        .map(String::as_str)
        .collect();
    if !removed.is_empty() {
        judgement.problems.push(format!(
            "cannot remove stored versions [{}]; move the custom resources to a version that remains and take these \
             out of status.storedVersions first",
            removed.join(" ")
        ));
    }
    let added: BTreeMap<&String, &Version> = new
        .versions
        .iter()
        .filter(|(name, _)| !new.webhook && !old.versions.contains_key(*name))
        .collect();
    for (name, version) in &old.versions {
        let mut wanted = Vec::new();
        match new.versions.get(name) {
            Some(new) if version.served || old.stored.contains(name) => {
                let comparison = compare(&version.schema, &new.schema);
                if comparison.can_invalidate {
                    wanted.push(Wanted {
                        version: name.clone(),
                        schema: new.schema.clone(),
                        keeps: true,
                    });
                }
                judgement.add(name, comparison);
                if version.served && !new.served {
                    judgement
                        .notes
                        .push(format!("version {name} is no longer served"));
                }
            }
            None if version.served && !old.stored.contains(name) => judgement
                .notes
                .push(format!("version {name} is no longer served")),
            _ => {}
        }
        let is_shared = new.versions.contains_key(name);
        if version.served && is_shared {
            wanted.extend(
                added
                    .iter()
                    .filter(|(_, added)| compare(&version.schema, &added.schema).can_invalidate)
                    .map(|(name, added)| Wanted {
                        version: (*name).clone(),
                        schema: added.schema.clone(),
                        keeps: false,
                    }),
            );
        }
        if version.served && !wanted.is_empty() {
            judgement.targets.push(Target {
                version: name.clone(),
                old: version.schema.clone(),
                new: wanted,
            });
        }
    }
    judgement
}

impl Judgement {
    fn add(&mut self, version: &str, comparison: Comparison) {
        let of_version = |message: String| format!("{version}: {message}");
        self.more += comparison
            .narrowed_in_all
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
