//! Health of an object by its status: the rules of kstatus, and the condition Available of APIServices.
//!
//! Differences to kstatus: a Pod that cannot be scheduled is in progress, because a node may be added (kstatus reports a
//! failure after 15 seconds). A failed Pod and a lost PersistentVolumeClaim are failures. An APIService must have Available
//! True (kstatus has no rule, and rukpak treated Unknown as healthy).

mod conditions;
mod rules;
#[cfg(test)]
mod tests;

use std::time::Duration;

use jiff::Timestamp;
use kube::core::GroupVersionKind;
use manifests::object::{get_path, group_version, truncate};
use serde_json::Value;

use self::conditions::Conditions;

/// Health of an object.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Health {
    /// The object is healthy, or its status does not show its health.
    #[default]
    Current,
    /// The object is progressing; the message names the missing step.
    InProgress(String),
    /// The object does not become healthy without a change; the message names the reason.
    Failed(String),
    /// The object missed its own progress deadline. Until a new rollout of the object progresses, the status may still
    /// report the timeout of the rollout before.
    TimedOut {
        /// The message of the status.
        message: String,
        /// The progress deadline of the object.
        deadline: Duration,
        /// The time of the last apply that changed the object; `None` if the metadata does not show it.
        written: Option<Timestamp>,
    },
}

/// Maximum length of a message, in characters: conditions may come from any client.
const MAX_MESSAGE_LEN: usize = 300;

/// Fields of a spec that the rules read.
pub const SPEC: &[&str] = &[
    "clusterIP",
    "progressDeadlineSeconds",
    "replicas",
    "type",
    "updateStrategy",
];

/// Reports whether the kind has rules, so that its objects are watched in full.
pub fn has_rules(kind: &GroupVersionKind) -> bool {
    rules::rule(&kind.group, &kind.kind).is_some()
}

/// Evaluates an object: by the rules for all kinds, by the rule of its kind, or else by the condition Ready.
pub fn evaluate(object: &Value) -> Health {
    let (group, _) = group_version(text(object, &["apiVersion"]));
    let conditions = Conditions::new(object);
    if let Some(health) = conditions::common_rules(object, &conditions) {
        return health;
    }
    match rules::rule(group, text(object, &["kind"])) {
        Some(rule) => rule(object, &conditions),
        None => conditions::ready(&conditions),
    }
}

// === impl Health ===

impl Health {
    fn progress(message: impl AsRef<str>) -> Self {
        Self::InProgress(truncate(message.as_ref(), MAX_MESSAGE_LEN))
    }

    fn failed(message: impl AsRef<str>) -> Self {
        Self::Failed(truncate(message.as_ref(), MAX_MESSAGE_LEN))
    }

    fn timed_out(message: impl AsRef<str>, deadline: Duration) -> Self {
        Self::TimedOut {
            message: truncate(message.as_ref(), MAX_MESSAGE_LEN),
            deadline,
            written: None,
        }
    }
}

/// Returns the integer at a path.
fn number(object: &Value, path: &[&str]) -> Option<i64> {
    get_path(object, path)?.as_i64()
}

/// Returns the string at a path; empty if the path does not exist.
fn text<'a>(object: &'a Value, path: &[&str]) -> &'a str {
    get_path(object, path)
        .and_then(Value::as_str)
        .unwrap_or_default()
}
