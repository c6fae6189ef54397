//! Conditions of ClusterOperators, which may lack a reason, and of the PlatformStatus. Pure; no I/O.

use jiff::{Timestamp, Unit};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition as Common, Time};
use manifests::{
    api::{
        condition::with_time_of,
        config::{ClusterOperatorStatus, OperatorStatusCondition},
        platform_status::PlatformStatusStatus,
    },
    object::truncate,
};

/// Maximum length of a message in characters; conditions accept 32 KiB.
const MAX_MESSAGE_LEN: usize = 32_000;

/// Status of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    True,
    False,
    Unknown,
}

impl Status {
    fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

/// A condition without its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Condition {
    pub(super) type_: &'static str,
    pub(super) status: Status,
    pub(super) reason: String,
    pub(super) message: String,
}

impl Condition {
    pub(super) fn new(type_: &'static str, status: Status, reason: &str, message: &str) -> Self {
        Self {
            type_,
            status,
            reason: reason.to_owned(),
            message: truncate(message, MAX_MESSAGE_LEN),
        }
    }
}

/// Conditions of the previous status, including edits by other clients.
pub(super) struct PreviousConditions(Vec<(String, String, String, String)>);

impl PreviousConditions {
    pub(super) fn of_cluster_operator(status: &ClusterOperatorStatus) -> Self {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let conditions = status.conditions.iter().map(|condition| {
            let (reason, message) = (text(&condition.reason), text(&condition.message));
            (
                condition.type_.clone(),
                condition.status.clone(),
                reason,
                message,
            )
        });
        Self(conditions.collect())
    }

    pub(super) fn of_platform(status: &PlatformStatusStatus) -> Self {
        let conditions = status.conditions.iter().cloned();
        Self(
            conditions
                .map(|condition| {
                    (
                        condition.type_,
                        condition.status,
                        condition.reason,
                        condition.message,
                    )
                })
                .collect(),
        )
    }

    pub(super) fn is_true(&self, type_: &str) -> bool {
        self.0
            .iter()
            .any(|(own, status, ..)| own == type_ && status == "True")
    }

    /// Returns the previous condition, with a reason in any case.
    pub(super) fn find(&self, type_: &'static str) -> Option<Condition> {
        let (_, status, reason, message) = self.0.iter().find(|(own, ..)| own == type_)?;
        let reason = if reason.is_empty() {
            super::reason::UNKNOWN
        } else {
            reason
        };
        let status = match status.as_str() {
            "True" => Status::True,
            "False" => Status::False,
            _ => Status::Unknown,
        };
        Some(Condition::new(type_, status, reason, message))
    }
}

/// Returns the provisioner's conditions in their order, followed by those of other clients. A transition time changes only
/// with the status.
pub(super) fn for_cluster_operator(
    before: &ClusterOperatorStatus,
    conditions: &[Condition],
    now: Timestamp,
) -> Vec<OperatorStatusCondition> {
    let own = conditions.iter().map(|condition| {
        let status = condition.status.as_str();
        let old = before
            .conditions
            .iter()
            .find(|old| old.type_ == condition.type_ && old.status == status);
        let since = old.and_then(|old| old.last_transition_time.clone());
        OperatorStatusCondition {
            type_: condition.type_.to_owned(),
            status: status.to_owned(),
            last_transition_time: Some(since.unwrap_or_else(|| Time(whole_seconds(now)))),
            reason: Some(condition.reason.clone()),
            message: Some(condition.message.clone()),
        }
    });
    let others = before.conditions.iter().filter(|old| {
        conditions
            .iter()
            .all(|condition| condition.type_ != old.type_)
    });
    own.chain(others.cloned()).collect()
}

/// Returns the conditions of a PlatformStatus in the same way.
pub(super) fn for_platform(
    before: &PlatformStatusStatus,
    conditions: &[Condition],
    now: Timestamp,
) -> Vec<Common> {
    let own = conditions.iter().map(|condition| {
        let condition = Common {
            type_: condition.type_.to_owned(),
            status: condition.status.as_str().to_owned(),
            last_transition_time: Time(whole_seconds(now)),
            reason: condition.reason.clone(),
            message: condition.message.clone(),
            observed_generation: None,
        };
        with_time_of(&before.conditions, condition)
    });
    let others = before.conditions.iter().filter(|old| {
        conditions
            .iter()
            .all(|condition| condition.type_ != old.type_)
    });
    own.chain(others.cloned()).collect()
}

/// Truncates a time to seconds. Kubernetes stores no fractions, and a status has to be equal after it is read back.
pub(super) fn whole_seconds(time: Timestamp) -> Timestamp {
    time.round(
        jiff::TimestampRound::new()
            .smallest(Unit::Second)
            .mode(jiff::RoundMode::Trunc),
    )
    .unwrap_or(time)
}
