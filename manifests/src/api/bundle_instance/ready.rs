//! The conditions Ready, Reconciling and Stalled of a BundleInstance, which kstatus, Flux, Argo CD and `kubectl wait` read.
//! Pure; no I/O.
//!
//! | Ready | also True | meaning | kstatus |
//! | --- | --- | --- | --- |
//! | True | | the generation is installed, and every object is healthy | Current |
//! | Unknown | Reconciling | the controller works on the generation, or retries | InProgress |
//! | False | Stalled | the object or its content has to change, or the progress deadline has passed | Failed |
//! | False | | paused, or an object failed after the generation was ready | InProgress |
//! | False | Reconciling | terminating | Terminating |
//!
//! The progress deadline runs from the first moment of a generation that is not ready, until the generation is ready for
//! the first time. `status.progressingSince` is set during that time, and at no other.

mod phase;
#[cfg(test)]
mod tests;

use std::time::Duration;

use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
    jiff::{SignedDuration, Timestamp},
};

pub use self::phase::{Phase, phase};
use super::{BundleInstance, BundleInstanceSpec, BundleInstanceStatus};
use crate::{
    api::condition::{self, find, reason},
    object::truncate,
};

/// Seconds until the progress deadline if the spec does not set the field.
const DEFAULT_DEADLINE: i64 = 600;
/// Maximum length of the messages of Ready, Reconciling and Stalled, in characters.
const MAX_MESSAGE_LEN: usize = 1000;

/// The change that a failure needs before an attempt can succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Remedy {
    /// A change elsewhere: a permission, an API, a namespace, a registry. Retries continue, and succeed after the change.
    #[default]
    World,
    /// A change of the BundleInstance or its bundle's content.
    Own,
}

/// The health of the installed objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Objects {
    /// All objects are healthy.
    Healthy,
    /// Some objects are not healthy yet.
    Progressing,
    /// Some objects failed, and do not recover on their own.
    Failed,
    /// An informer fails.
    Unknown,
    /// The informers have not observed all objects yet.
    NotObserved,
}

/// The facts of a reconcile that are not in the other conditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// Whether every object is applied that the generation declares.
    pub is_applied: bool,
    /// The remedy of the failure that the other conditions report; `None` without a failure.
    pub remedy: Option<Remedy>,
    /// The health of the installed objects.
    pub objects: Objects,
    /// Whether the template failed and an earlier revision was rolled back to.
    pub is_rolled_back: bool,
}

/// The declaration that the conditions describe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Declaration {
    /// The generation of the BundleInstance.
    pub generation: Option<i64>,
    /// Whether the BundleInstance has a deletionTimestamp.
    pub is_terminating: bool,
    /// Whether `spec.rollbackTo` pins a revision, so that the Bundle of the template decides nothing.
    pub is_pinned: bool,
    /// The time that the generation has to become ready; `None` without a limit.
    pub deadline: Option<Duration>,
    /// Whether a user has asked for another attempt, which starts the deadline again.
    pub is_retried: bool,
}

/// The condition Ready, and the one of Reconciling and Stalled that exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Readiness {
    /// The status of Ready.
    pub status: &'static str,
    /// The reason of Ready, taken from the condition that decides.
    pub reason: String,
    /// The message of all three conditions, taken from the condition that decides.
    pub message: String,
    /// The condition beside Ready.
    pub activity: Activity,
    /// The new value of `status.progressingSince`.
    pub progressing_since: Option<Timestamp>,
}

/// The condition beside Ready, with its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Activity {
    /// Neither Reconciling nor Stalled exists.
    None,
    /// Reconciling is True.
    Reconciling(String),
    /// Stalled is True.
    Stalled(String),
}

/// Progress deadline at one time.
struct Clock {
    /// Whether the conditions of the status describe this generation.
    is_same: bool,
    /// Whether the generation was ready before.
    was_ready: bool,
    since: Option<Timestamp>,
    is_late: bool,
}

/// Returns the time that a generation has to become ready; `None` without a limit.
pub fn deadline(spec: &BundleInstanceSpec) -> Option<Duration> {
    let seconds = spec.progress_deadline_seconds.unwrap_or(DEFAULT_DEADLINE);
    let seconds = u64::try_from(seconds).ok().filter(|seconds| *seconds > 0);
    seconds.map(Duration::from_secs)
}

/// Returns the time until the progress deadline, zero after it; `None` if no deadline runs.
pub fn time_left(
    status: &BundleInstanceStatus,
    deadline: Option<Duration>,
    now: Timestamp,
) -> Option<Duration> {
    let since = status.progressing_since.as_ref()?;
    Some(left(since.0, deadline?, now))
}

/// Returns the remaining time of a deadline that started at `since`. If the clock was set back, this is at most the whole
/// deadline.
pub fn left(since: Timestamp, deadline: Duration, now: Timestamp) -> Duration {
    let taken = Duration::try_from(now.duration_since(since)).unwrap_or_default();
    deadline.saturating_sub(taken)
}

/// Sets Ready, Reconciling, Stalled and `progressingSince` in a status that has the other conditions already.
pub fn update(
    status: &mut BundleInstanceStatus,
    declaration: &Declaration,
    facts: Facts,
    now: Timestamp,
) {
    let readiness = evaluate(status, declaration, facts, now);
    let condition = |type_: &str, value: &str, reason: &str| Condition {
        type_: type_.to_owned(),
        status: value.to_owned(),
        reason: reason.to_owned(),
        message: truncate(&readiness.message, MAX_MESSAGE_LEN),
        observed_generation: declaration.generation,
        last_transition_time: Time(now),
    };
    let (reconciling, stalled) = match &readiness.activity {
        Activity::None => (None, None),
        Activity::Reconciling(reason) => (Some(reason), None),
        Activity::Stalled(reason) => (None, Some(reason)),
    };
    let all = &mut status.conditions;
    condition::set(
        all,
        condition(condition::READY, readiness.status, &readiness.reason),
    );
    for (type_, reason) in [
        (condition::RECONCILING, reconciling),
        (condition::STALLED, stalled),
    ] {
        match reason {
            Some(reason) => condition::set(all, condition(type_, "True", reason)),
            None => all.retain(|condition| condition.type_ != type_),
        }
    }
    status.progressing_since = readiness.progressing_since.map(Time);
}

/// Evaluates a status that has the other conditions of this generation, and Ready, Reconciling and Stalled as they were
/// before.
pub fn evaluate(
    status: &BundleInstanceStatus,
    declaration: &Declaration,
    facts: Facts,
    now: Timestamp,
) -> Readiness {
    let clock = Clock::new(status, declaration, now);
    let facts = Facts {
        is_rolled_back: facts.is_rolled_back && !declaration.is_pinned,
        ..facts
    };
    let readiness = decide(status, declaration, facts, &clock);
    let progressing = find(&status.conditions, condition::PROGRESSING);
    let is_stopped = declaration.is_terminating || reason_of(progressing) == reason::PAUSED;
    let runs = readiness.status != "True" && !is_stopped;
    Readiness {
        progressing_since: clock.since.filter(|_| runs),
        ..readiness
    }
}

fn decide(
    status: &BundleInstanceStatus,
    declaration: &Declaration,
    facts: Facts,
    clock: &Clock,
) -> Readiness {
    let condition_of = |type_| find(&status.conditions, type_);
    let valid = condition_of(condition::HAS_VALID_BUNDLE);
    let healthy = condition_of(condition::HEALTHY);
    let progressing = condition_of(condition::PROGRESSING);
    let activity = reason_of(progressing);
    if declaration.is_terminating {
        let reason = if activity == reason::RETRYING {
            reason::PROGRESSING_WITH_RETRY
        } else {
            reason::PROGRESSING
        };
        return Readiness::reconciling("False", progressing, reason);
    }
    if activity == reason::PAUSED {
        return match clock.unchanged(status).filter(|_| facts.is_unobserved()) {
            Some(unchanged) => unchanged,
            None if facts.is_ready() => Readiness::idle("True", progressing),
            None => Readiness::idle("False", progressing),
        };
    }
    if activity == reason::UNKNOWN_CLASS {
        return Readiness::stalled(valid);
    }
    if !declaration.is_pinned {
        match reason_of(valid) {
            reason::UNPACK_PENDING => return clock.under_way(valid, reason::PROGRESSING),
            reason::UNPACK_FAILED | reason::RECONCILE_FAILED => {
                return clock.failed(valid, facts.remedy.unwrap_or_default());
            }
            _ => {}
        }
    }
    if let Some(remedy) = facts.remedy {
        return clock.failed(progressing, remedy);
    }
    if !facts.is_applied {
        return clock.under_way(progressing, reason::PROGRESSING);
    }
    match facts.objects {
        Objects::NotObserved => clock.unchanged(status).unwrap_or_else(|| {
            let unknown = Readiness {
                reason: reason::HEALTH_UNKNOWN.to_owned(),
                message: "the objects have not been observed yet".to_owned(),
                ..Readiness::reconciling("Unknown", None, reason::PROGRESSING)
            };
            clock.or_late(unknown)
        }),
        Objects::Unknown => clock.under_way(healthy, reason::PROGRESSING),
        Objects::Progressing if clock.is_late => clock.under_way(healthy, reason::PROGRESSING),
        Objects::Progressing => Readiness {
            reason: reason::WAITING_FOR_HEALTH.to_owned(),
            ..clock.under_way(healthy, reason::PROGRESSING)
        },
        Objects::Failed if clock.was_ready => Readiness::idle("False", healthy),
        Objects::Failed => Readiness::stalled(healthy),
        Objects::Healthy if facts.is_rolled_back => {
            Readiness::stalled(condition_of(condition::INSTALLED))
        }
        Objects::Healthy if matches!(activity, reason::UP_TO_DATE | reason::FIELD_CONFLICT) => {
            Readiness::idle("True", progressing)
        }
        Objects::Healthy => Readiness::idle("True", healthy),
    }
}

fn reason_of(condition: Option<&Condition>) -> &str {
    condition.map_or("", |condition| &condition.reason)
}

// === impl Declaration ===

impl Declaration {
    /// Reads the declaration of a BundleInstance.
    pub fn new(instance: &BundleInstance) -> Self {
        Self {
            generation: instance.metadata.generation,
            is_terminating: instance.metadata.deletion_timestamp.is_some(),
            is_pinned: instance.spec.rollback_to.is_some(),
            deadline: deadline(&instance.spec),
            is_retried: false,
        }
    }
}

// === impl Facts ===

impl Facts {
    /// Derives the facts from the other conditions of a status.
    fn from_conditions(status: &BundleInstanceStatus) -> Self {
        let condition_of = |type_| find(&status.conditions, type_);
        let activity = reason_of(condition_of(condition::PROGRESSING));
        let healthy = condition_of(condition::HEALTHY).map_or("", |healthy| &healthy.status);
        Self {
            is_applied: matches!(
                activity,
                reason::UP_TO_DATE | reason::WAITING_FOR_HEALTH | reason::FIELD_CONFLICT
            ),
            remedy: matches!(activity, reason::BLOCKED | reason::RETRYING).then_some(Remedy::World),
            objects: match healthy {
                "True" => Objects::Healthy,
                "False" if activity == reason::WAITING_FOR_HEALTH => Objects::Progressing,
                "False" => Objects::Failed,
                _ => Objects::Unknown,
            },
            is_rolled_back: status.failed_template_hash.is_some(),
        }
    }

    fn is_ready(self) -> bool {
        self.is_applied && self.objects == Objects::Healthy && !self.is_rolled_back
    }

    fn is_unobserved(self) -> bool {
        self.is_applied && self.objects == Objects::NotObserved
    }
}

// === impl Readiness ===

impl Readiness {
    fn idle(status: &'static str, by: Option<&Condition>) -> Self {
        Self {
            status,
            reason: by.map_or_else(|| reason::PROGRESSING.to_owned(), |by| by.reason.clone()),
            message: by.map(|by| by.message.clone()).unwrap_or_default(),
            activity: Activity::None,
            progressing_since: None,
        }
    }

    fn reconciling(status: &'static str, by: Option<&Condition>, reason: &str) -> Self {
        Self {
            activity: Activity::Reconciling(reason.to_owned()),
            ..Self::idle(status, by)
        }
    }

    fn stalled(by: Option<&Condition>) -> Self {
        let readiness = Self::idle("False", by);
        Self {
            activity: Activity::Stalled(readiness.reason.clone()),
            ..readiness
        }
    }
}

// === impl Clock ===

impl Clock {
    fn new(status: &BundleInstanceStatus, declaration: &Declaration, now: Timestamp) -> Self {
        let ready = find(&status.conditions, condition::READY);
        let is_same =
            ready.is_some_and(|ready| ready.observed_generation == declaration.generation);
        let since = match &status.progressing_since {
            _ if !is_same => Some(now),
            Some(_) if declaration.is_retried => Some(now),
            // The clock may have been set back.
            since => since.as_ref().map(|since| since.0.min(now)),
        };
        let limit = declaration.deadline;
        let limit = limit.and_then(|limit| SignedDuration::try_from(limit).ok());
        let late = since.zip(limit);
        Self {
            is_same,
            was_ready: is_same && since.is_none(),
            since,
            is_late: late.is_some_and(|(since, limit)| now.duration_since(since) >= limit),
        }
    }

    /// Returns the conditions while the controller works on the generation: reconciling until the deadline, stalled after
    /// it.
    fn under_way(&self, by: Option<&Condition>, reason: &str) -> Readiness {
        self.or_late(Readiness::reconciling("Unknown", by, reason))
    }

    fn failed(&self, by: Option<&Condition>, remedy: Remedy) -> Readiness {
        match remedy {
            Remedy::Own => Readiness::stalled(by),
            Remedy::World => self.under_way(by, reason::PROGRESSING_WITH_RETRY),
        }
    }

    fn or_late(&self, readiness: Readiness) -> Readiness {
        if !self.is_late {
            return readiness;
        }
        Readiness {
            status: "False",
            activity: Activity::Stalled(reason::PROGRESS_DEADLINE_EXCEEDED.to_owned()),
            ..readiness
        }
    }

    /// Returns the present conditions, which a restart of the informers does not change, or `None` if they describe another
    /// generation.
    fn unchanged(&self, status: &BundleInstanceStatus) -> Option<Readiness> {
        let condition_of = |type_| find(&status.conditions, type_);
        let ready = condition_of(condition::READY).filter(|_| self.is_same)?;
        let (reconciling, stalled) = (
            condition_of(condition::RECONCILING),
            condition_of(condition::STALLED),
        );
        Some(match (reconciling, stalled) {
            (None, None) if ready.status == "True" => Readiness::idle("True", Some(ready)),
            (None, None) => Readiness::idle("False", Some(ready)),
            (None, Some(condition)) if condition.reason != reason::PROGRESS_DEADLINE_EXCEEDED => {
                Readiness {
                    activity: Activity::Stalled(condition.reason.clone()),
                    ..Readiness::idle("False", Some(ready))
                }
            }
            (None, Some(_)) => self.under_way(Some(ready), reason::PROGRESSING_WITH_RETRY),
            (Some(condition), _) => self.under_way(Some(ready), &condition.reason),
        })
    }
}
