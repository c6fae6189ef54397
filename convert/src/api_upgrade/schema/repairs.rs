//! Counts of the repairs of a schema, so that each rule is reported once.

use std::collections::BTreeMap;

use manifests::path::{Path, Step};

use crate::{
    api_upgrade::notes::UpgradeNotes,
    finding::{Level, code::Code},
};

/// Rule that makes a schema structural.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Repair {
    /// An object preserves unknown fields.
    PreserveUnknown,
    /// A node without a type accepts any value.
    Any,
    /// A node gets the type that its other keywords imply.
    Typed,
    /// A node accepts integers and strings.
    IntOrString,
    /// A type includes null.
    Nullable,
    /// A list has no schema for its items.
    Items,
    /// A field is only mentioned in allOf, anyOf, oneOf or not.
    Declared,
    /// Keywords in allOf, anyOf, oneOf or not repeat those of the node.
    Flattened,
    /// The root describes metadata, which the API server validates itself.
    Metadata,
    /// A keyword that v1 forbids had no effect.
    NoEffect(&'static str),
    /// A keyword is forbidden in v1.
    Forbidden(&'static str),
    /// A type does not exist.
    BadType,
    /// A list has a schema per position.
    Tuple,
    /// A node has known and additional properties.
    Additional,
    /// A restriction cannot be expressed in v1.
    Relaxed,
    /// A default is rejected by v1.
    Default,
    /// A list or map type does not fit the node.
    Topology,
    /// The root has keywords that are not allowed there.
    Root,
}

impl Repair {
    fn level(self) -> Level {
        match self {
            Self::PreserveUnknown
            | Self::Any
            | Self::Typed
            | Self::IntOrString
            | Self::Nullable
            | Self::Items
            | Self::Declared
            | Self::Flattened
            | Self::Metadata
            | Self::NoEffect(_) => Level::Change,
            Self::Forbidden(_)
            | Self::BadType
            | Self::Tuple
            | Self::Additional
            | Self::Relaxed
            | Self::Default
            | Self::Topology
            | Self::Root => Level::Warning,
        }
    }

    fn message(self, count: usize) -> String {
        let n = count;
        match self {
            Self::PreserveUnknown => {
                format!("still preserves unknown fields, on {n} object node(s) of its schema")
            }
            Self::Any => {
                format!("still accepts any value where its schema has no type ({n} node(s))")
            }
            Self::Typed => {
                format!("has {n} node(s) in its schema whose type was implicit and is now explicit")
            }
            Self::IntOrString => {
                format!("has {n} integer-or-string node(s) in its schema that are now marked as such")
            }
            Self::Nullable => format!("has {n} node(s) in its schema that are marked nullable for v1"),
            Self::Items => format!(
                "has {n} list(s) in its schema that now explicitly accept any items"
            ),
            Self::Declared => format!(
                "now declares {n} field(s) that its schema had only in allOf, anyOf, oneOf or not"
            ),
            Self::Flattened => format!(
                "lost redundant declarations in {n} allOf, anyOf, oneOf or not of its schema: v1 forbids them there"
            ),
            Self::Metadata => {
                "no longer describes metadata in its schema, because the API server validates metadata"
                    .into()
            }
            Self::NoEffect(keyword) => format!(
                "lost {n} {keyword:?} in its schema: the keyword validated nothing, and v1 forbids it"
            ),
            Self::Forbidden(keyword) => {
                format!("lost {n} {keyword:?} in its schema: the API server rejects the keyword")
            }
            Self::BadType => format!(
                "had {n} unknown type(s) in its schema, which were replaced by valid types"
            ),
            Self::Tuple => format!(
                "has {n} list(s) with a schema per position in its schema: they now accept any items"
            ),
            Self::Additional => {
                format!(
                    "lost {n} additionalProperties in its schema: the API server rejects them together with properties"
                )
            }
            Self::Relaxed => {
                format!(
                    "validates less strictly in {n} place(s) of its schema, where v1 does not support allOf, anyOf, oneOf and not"
                )
            }
            Self::Default => format!("lost {n} default(s) that the API server rejects"),
            Self::Topology => {
                format!("lost {n} list or map type(s) in its schema that the API server rejects")
            }
            Self::Root => {
                "lost keywords at the root of its schema that the API server rejects there".into()
            }
        }
    }
}

/// Number of applications of each rule, and the first path.
#[derive(Debug, Default)]
pub(super) struct RepairCounts(BTreeMap<Repair, (Path, usize)>);

impl RepairCounts {
    /// Counts applications of a rule at a path.
    pub(super) fn count(&mut self, repair: Repair, at: &[Step], times: usize) {
        if times > 0 {
            let entry = self
                .0
                .entry(repair)
                .or_insert_with(|| (Path::from(at.to_vec()), 0));
            entry.1 += times;
        }
    }

    /// Reports all applied rules.
    pub(super) fn report(self, notes: &mut UpgradeNotes<'_>) {
        for (repair, (path, count)) in self.0 {
            notes.add(
                repair.level(),
                Code::Schema,
                path,
                repair.message(count),
                None,
            );
        }
    }
}
