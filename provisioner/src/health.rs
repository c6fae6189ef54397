//! Whether an object works, by its status: the rules of kstatus, and Available for APIServices.

use kube::core::GroupVersionKind;
use serde_json::Value;

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

/// Whether the kind has rules, so that its objects are watched in full.
pub fn has_rules(kind: &GroupVersionKind) -> bool {
    todo!()
}

/// Judges an object.
pub fn of(object: &Value) -> Health {
    todo!()
}
