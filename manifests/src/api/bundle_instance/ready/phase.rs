//! Phase of a BundleInstance: its conditions, spec and deletion in one word. Pure; no I/O.

use std::fmt;

use k8s_openapi::jiff::Timestamp;

use super::{Activity, Declaration, Facts, evaluate};
use crate::api::{
    bundle_instance::BundleInstance,
    condition::{self, find},
};

/// State of a BundleInstance in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Ready is True.
    Ready,
    /// Reconciling is True, or the controller has not observed the generation yet.
    Reconciling,
    /// Stalled is True.
    Stalled,
    /// `spec.paused` is true.
    Paused,
    /// The BundleInstance has a deletionTimestamp.
    Terminating,
    /// An object failed after the generation was ready.
    NotReady,
}

/// Returns the phase of a BundleInstance.
pub fn phase(instance: &BundleInstance, now: Timestamp) -> Phase {
    if instance.metadata.deletion_timestamp.is_some() {
        return Phase::Terminating;
    }
    let status = instance.status.as_ref();
    let Some(status) = status.filter(|status| status.observed() == instance.metadata.generation)
    else {
        return Phase::Reconciling;
    };
    if instance.spec.paused {
        return Phase::Paused;
    }
    let is_true =
        |type_| find(&status.conditions, type_).is_some_and(|condition| condition.status == "True");
    let ready = find(&status.conditions, condition::READY);
    let (ready, activity) = if let Some(ready) = ready {
        let activity = match (is_true(condition::RECONCILING), is_true(condition::STALLED)) {
            (true, _) => Activity::Reconciling(String::new()),
            (false, true) => Activity::Stalled(String::new()),
            (false, false) => Activity::None,
        };
        (ready.status.clone(), activity)
    } else {
        // A provisioner without these conditions wrote the status.
        let facts = Facts::from_conditions(status);
        let readiness = evaluate(status, &Declaration::new(instance), facts, now);
        (readiness.status.to_owned(), readiness.activity)
    };
    match activity {
        Activity::Reconciling(_) => Phase::Reconciling,
        Activity::Stalled(_) => Phase::Stalled,
        Activity::None if ready == "True" => Phase::Ready,
        Activity::None => Phase::NotReady,
    }
}

// === impl Phase ===

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ready => "Ready",
            Self::Reconciling => "Reconciling",
            Self::Stalled => "Stalled",
            Self::Paused => "Paused",
            Self::Terminating => "Terminating",
            Self::NotReady => "NotReady",
        })
    }
}
