//! Counts what was done to a schema, so that each rule is reported once.

use std::collections::BTreeMap;

use manifests::path::{Path, Step};

use crate::{code::Code, report::Level, upgrade::notes::Notes};

/// One rule that makes a schema structural.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Repair {
    /// An object keeps the fields it does not know.
    Preserved,
    /// A node without a type accepts any value.
    Any,
    /// A node has the type that its other keywords imply.
    Typed,
    /// A node accepts integers and strings.
    IntOrString,
    /// A type that included null.
    Nullable,
    /// A list without items.
    Items,
    /// A field that was only mentioned in allOf, anyOf, oneOf or not.
    Declared,
    /// Keywords in allOf, anyOf, oneOf or not that the node itself has already.
    Tidied,
    /// The root's metadata, which the API server checks itself.
    Metadata,
    /// A keyword v1 forbids that validated nothing.
    Inert(&'static str),
    /// A keyword v1 forbids.
    Forbidden(&'static str),
    /// A type that does not exist.
    BadType,
    /// A list with a schema per position.
    Tuple,
    /// Known and additional properties side by side.
    Additional,
    /// Validation that v1 cannot express.
    Loosened,
    /// A default that v1 refuses.
    Default,
    /// A list or map type that does not fit its node.
    Topology,
    /// Keywords that the root must not have.
    Root,
}

impl Repair {
    fn level(self) -> Level {
        match self {
            Self::Preserved
            | Self::Any
            | Self::Typed
            | Self::IntOrString
            | Self::Nullable
            | Self::Items
            | Self::Declared
            | Self::Tidied
            | Self::Metadata
            | Self::Inert(_) => Level::Change,
            Self::Forbidden(_)
            | Self::BadType
            | Self::Tuple
            | Self::Additional
            | Self::Loosened
            | Self::Default
            | Self::Topology
            | Self::Root => Level::Warning,
        }
    }

    fn message(self, count: usize) -> String {
        let n = count;
        match self {
            Self::Preserved => {
                format!("still preserves unknown fields, on {n} object node(s) of its schema")
            }
            Self::Any => {
                format!("still accepts any value where its schema has no type ({n} node(s))")
            }
            Self::Typed => {
                format!("has {n} node(s) in its schema whose type was implied and is now stated")
            }
            Self::IntOrString => {
                format!("has {n} integer-or-string node(s) in its schema marked as such")
            }
            Self::Nullable => format!("has {n} node(s) in its schema that v1 calls nullable"),
            Self::Items => format!(
                "has {n} list(s) in its schema that now say that their items can be anything"
            ),
            Self::Declared => format!(
                "has {n} field(s) declared that its schema only mentioned in allOf, anyOf, oneOf or not"
            ),
            Self::Tidied => format!(
                "repeated itself in {n} allOf, anyOf, oneOf or not of its schema, which v1 forbids"
            ),
            Self::Metadata => {
                "no longer describes metadata in its schema: the apiserver checks it by itself"
                    .into()
            }
            Self::Inert(keyword) => format!(
                "has {n} {keyword:?} less in its schema: it validated nothing and v1 forbids it"
            ),
            Self::Forbidden(keyword) => {
                format!("has {n} {keyword:?} less in its schema: the apiserver refuses it")
            }
            Self::BadType => format!(
                "has {n} type(s) in its schema that do not exist: replaced by what they stand for"
            ),
            Self::Tuple => format!(
                "has {n} list(s) with a schema per position in its schema: their items can be anything"
            ),
            Self::Additional => {
                format!(
                    "has {n} node(s) in its schema whose additionalProperties the apiserver refuses beside properties"
                )
            }
            Self::Loosened => {
                format!(
                    "validates less in {n} place(s) of its schema: v1 cannot express their allOf, anyOf, oneOf or not"
                )
            }
            Self::Default => format!("lost {n} default(s) that the apiserver refuses"),
            Self::Topology => {
                format!("lost {n} list or map type(s) in its schema that the apiserver refuses")
            }
            Self::Root => {
                "lost keywords at the root of its schema that the apiserver refuses there".into()
            }
        }
    }
}

/// How often each rule applied, and where first.
#[derive(Debug, Default)]
pub(super) struct Tally(BTreeMap<Repair, (Path, usize)>);

impl Tally {
    /// Counts a rule at a place.
    pub(super) fn count(&mut self, repair: Repair, at: &[Step], times: usize) {
        if times > 0 {
            let entry = self
                .0
                .entry(repair)
                .or_insert_with(|| (Path::from(at.to_vec()), 0));
            entry.1 += times;
        }
    }

    /// Tells it all.
    pub(super) fn report(self, notes: &mut Notes<'_>) {
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
