//! Conditions of both kinds: those of ClusterOperators, which may lack a reason, and those of everything else.

use jiff::{Timestamp, Unit};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition as Common, Time};
use manifests::{
    api::{
        condition::with_time_of,
        config::{ClusterOperatorStatus, OperatorStatusCondition},
        platform_status::Platform,
    },
    object::shortened,
};

/// The longest message, in characters; conditions take 32 Ki of them.
const LONGEST: usize = 32_000;

/// Whether something is so.
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
            message: shortened(message, LONGEST),
        }
    }
}

/// What was written before, whoever has edited it since.
pub(super) struct Kept(Vec<(String, String, String, String)>);

impl Kept {
    pub(super) fn of_cluster_operator(status: &ClusterOperatorStatus) -> Self {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let conditions = status.conditions.iter().map(|it| {
            let (reason, message) = (text(&it.reason), text(&it.message));
            (it.type_.clone(), it.status.clone(), reason, message)
        });
        Self(conditions.collect())
    }

    pub(super) fn of_platform(status: &Platform) -> Self {
        let conditions = status.conditions.iter().cloned();
        Self(
            conditions
                .map(|it| (it.type_, it.status, it.reason, it.message))
                .collect(),
        )
    }

    pub(super) fn is_true(&self, type_: &str) -> bool {
        self.0
            .iter()
            .any(|(own, status, ..)| own == type_ && status == "True")
    }

    /// The condition as it was, with a reason in any case.
    pub(super) fn of(&self, type_: &'static str) -> Option<Condition> {
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

/// Ours in our order, then those of others. A time stays where the status does.
pub(super) fn for_cluster_operator(
    before: &ClusterOperatorStatus,
    conditions: &[Condition],
    now: Timestamp,
) -> Vec<OperatorStatusCondition> {
    let ours = conditions.iter().map(|condition| {
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
    let others = before
        .conditions
        .iter()
        .filter(|old| conditions.iter().all(|it| it.type_ != old.type_));
    ours.chain(others.cloned()).collect()
}

/// The same for a PlatformStatus.
pub(super) fn for_platform(
    before: &Platform,
    conditions: &[Condition],
    now: Timestamp,
) -> Vec<Common> {
    let ours = conditions.iter().map(|condition| {
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
    let others = before
        .conditions
        .iter()
        .filter(|old| conditions.iter().all(|it| it.type_ != old.type_));
    ours.chain(others.cloned()).collect()
}

/// Kubernetes writes no parts of seconds, and what is read back is to equal what was written.
pub(super) fn whole_seconds(time: Timestamp) -> Timestamp {
    time.round(
        jiff::TimestampRound::new()
            .smallest(Unit::Second)
            .mode(jiff::RoundMode::Trunc),
    )
    .unwrap_or(time)
}
