//! Whether an object works, by its status: the rules of kstatus, and Available for APIServices.
//!
//! Differences to kstatus: a Pod that no node takes is on its way, as a node may be added (kstatus gives up after 15
//! seconds); a failed Pod has failed, and so has a lost claim; of an APIService Available has to be True (kstatus has no
//! rule, rukpak took Unknown for healthy).

mod conditions;
mod kinds;
#[cfg(test)]
mod tests;

use kube::core::GroupVersionKind;
use manifests::object::{at, group_version, shortened};
use serde_json::Value;

use self::conditions::Conditions;

/// How an object is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Health {
    /// It works, or there is nothing to tell by.
    #[default]
    Current,
    /// It is on its way: what is missing.
    InProgress(String),
    /// It will not get there by itself: why.
    Failed(String),
}

/// Messages of conditions are cut here: they come from anybody.
const LONGEST: usize = 300;

/// The fields of a spec that rules ask for.
pub const SPEC: &[&str] = &[
    "clusterIP",
    "progressDeadlineSeconds",
    "replicas",
    "type",
    "updateStrategy",
];

/// Reports whether the kind has rules, so that its objects are watched in full.
pub fn has_rules(kind: &GroupVersionKind) -> bool {
    kinds::rule(&kind.group, &kind.kind).is_some()
}

/// Judges an object: by what all objects have in common, by the rule of its kind, or else by Ready.
pub fn of(object: &Value) -> Health {
    let (group, _) = group_version(text(object, &["apiVersion"]));
    let conditions = Conditions::of(object);
    if let Some(health) = conditions::in_common(object, &conditions) {
        return health;
    }
    match kinds::rule(group, text(object, &["kind"])) {
        Some(rule) => rule(object, &conditions),
        None => conditions::ready(&conditions),
    }
}

// === impl Health ===

impl Health {
    fn progress(words: impl AsRef<str>) -> Self {
        Self::InProgress(shortened(words.as_ref(), LONGEST))
    }

    fn failed(words: impl AsRef<str>) -> Self {
        Self::Failed(shortened(words.as_ref(), LONGEST))
    }
}

/// A number at a path, as the API server writes them.
fn number(object: &Value, path: &[&str]) -> Option<i64> {
    at(object, path)?.as_i64()
}

/// A text at a path, empty when there is none.
fn text<'a>(object: &'a Value, path: &[&str]) -> &'a str {
    at(object, path).and_then(Value::as_str).unwrap_or_default()
}
