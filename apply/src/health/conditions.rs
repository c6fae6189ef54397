//! What all objects have in common: generations, and conditions of the standard types.

use serde_json::Value;

use super::{Health, at, number, text};

/// The conditions of an object. More than these nobody looks at.
pub(super) struct Conditions<'a>(Vec<&'a Value>);

const MOST: usize = 100;

/// A condition.
#[derive(Clone, Copy)]
pub(super) struct Condition<'a> {
    pub(super) status: &'a str,
    pub(super) reason: &'a str,
    pub(super) message: &'a str,
}

/// What can be told without knowing the kind: on its way out, not looked at since it changed, or said to be on its way or
/// stuck.
pub(super) fn in_common(object: &Value, conditions: &Conditions<'_>) -> Option<Health> {
    if at(object, &["metadata", "deletionTimestamp"]).is_some() {
        return Some(Health::progress("is being deleted"));
    }
    let generation = number(object, &["metadata", "generation"]);
    let observed = number(object, &["status", "observedGeneration"]);
    if let (Some(generation), Some(observed)) = (generation, observed)
        && generation != observed
    {
        return Some(Health::progress(format!(
            "is at generation {generation}, of which its controller has looked at {observed}"
        )));
    }
    let is_true = |type_| conditions.find(type_).filter(|it| it.status == "True");
    if let Some(reconciling) = is_true("Reconciling") {
        return Some(Health::progress(reconciling.words("Reconciling")));
    }
    is_true("Stalled").map(|stalled| Health::failed(stalled.words("Stalled")))
}

/// For kinds without a rule of their own.
pub(super) fn ready(conditions: &Conditions<'_>) -> Health {
    match conditions.find("Ready") {
        Some(ready) if ready.status != "True" => Health::progress(ready.words("Ready")),
        _ => Health::Current,
    }
}

// === impl Conditions ===

impl<'a> Conditions<'a> {
    pub(super) fn of(object: &'a Value) -> Self {
        let conditions = at(object, &["status", "conditions"]).and_then(Value::as_array);
        Self(conditions.into_iter().flatten().take(MOST).collect())
    }

    pub(super) fn find(&self, type_: &str) -> Option<Condition<'a>> {
        let found = self.0.iter().find(|it| text(it, &["type"]) == type_)?;
        Some(Condition {
            status: text(found, &["status"]),
            reason: text(found, &["reason"]),
            message: text(found, &["message"]),
        })
    }

    pub(super) fn is_true(&self, type_: &str) -> bool {
        self.find(type_).is_some_and(|it| it.status == "True")
    }
}

// === impl Condition ===

impl Condition<'_> {
    /// `Ready is False (NoQuorum): one of three members answers`, as much of it as there is.
    pub(super) fn words(&self, type_: &str) -> String {
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
