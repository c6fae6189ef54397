//! Rules for all kinds: generations, and conditions of the standard types.

use serde_json::Value;

use super::{Health, get_path, number, text};

/// Conditions of an object, at most [`MAX_CONDITIONS`].
pub(super) struct Conditions<'a>(Vec<&'a Value>);

const MAX_CONDITIONS: usize = 100;

/// Members of a condition that the rules read.
#[derive(Clone, Copy)]
pub(super) struct Condition<'a> {
    pub(super) status: &'a str,
    pub(super) reason: &'a str,
    pub(super) message: &'a str,
}

/// Evaluates the rules for all kinds: a terminating object, a generation that was not observed yet, and the conditions
/// Reconciling and Stalled. `None` if no rule applies.
pub(super) fn common_rules(object: &Value, conditions: &Conditions<'_>) -> Option<Health> {
    if get_path(object, &["metadata", "deletionTimestamp"]).is_some() {
        return Some(Health::progress("is being deleted"));
    }
    let generation = number(object, &["metadata", "generation"]);
    let observed = number(object, &["status", "observedGeneration"]);
    if let (Some(generation), Some(observed)) = (generation, observed)
        && generation != observed
    {
        return Some(Health::progress(format!(
            "generation {generation} not observed yet (observed {observed})"
        )));
    }
    let is_true = |type_| {
        conditions
            .find(type_)
            .filter(|condition| condition.status == "True")
    };
    if let Some(reconciling) = is_true("Reconciling") {
        return Some(Health::progress(reconciling.describe("Reconciling")));
    }
    is_true("Stalled").map(|stalled| Health::failed(stalled.describe("Stalled")))
}

/// Evaluates the condition Ready, for kinds that have no rule.
pub(super) fn ready(conditions: &Conditions<'_>) -> Health {
    match conditions.find("Ready") {
        Some(ready) if ready.status != "True" => Health::progress(ready.describe("Ready")),
        _ => Health::Current,
    }
}

// === impl Conditions ===

impl<'a> Conditions<'a> {
    pub(super) fn new(object: &'a Value) -> Self {
        let conditions = get_path(object, &["status", "conditions"]).and_then(Value::as_array);
        Self(
            conditions
                .into_iter()
                .flatten()
                .take(MAX_CONDITIONS)
                .collect(),
        )
    }

    pub(super) fn find(&self, type_: &str) -> Option<Condition<'a>> {
        let condition = self
            .0
            .iter()
            .find(|condition| text(condition, &["type"]) == type_)?;
        Some(Condition {
            status: text(condition, &["status"]),
            reason: text(condition, &["reason"]),
            message: text(condition, &["message"]),
        })
    }

    pub(super) fn is_true(&self, type_: &str) -> bool {
        self.find(type_)
            .is_some_and(|condition| condition.status == "True")
    }
}

// === impl Condition ===

impl Condition<'_> {
    /// Formats the condition, without absent members: `Ready is False (NoQuorum): one of three members answers`.
    pub(super) fn describe(&self, type_: &str) -> String {
        let Self {
            status,
            reason,
            message,
        } = self;
        match (*reason, *message) {
            ("", "") => format!("{type_} is {status}"),
            (reason, "") => format!("{type_} is {status} ({reason})"),
            ("", message) => format!("{type_} is {status}: {message}"),
            (reason, message) => format!("{type_} is {status} ({reason}): {message}"),
        }
    }
}
