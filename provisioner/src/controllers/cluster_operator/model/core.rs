//! Status of the ClusterOperator `platform-operators-core`: reports whether the manager can list platform operators. Pure;
//! no I/O.

use std::time::Duration;

use jiff::Timestamp;
use manifests::{
    api::config::{ClusterOperatorStatus, ObjectReference},
    object::truncate,
};

use super::{
    Output,
    conditions::{Condition, PreviousConditions, Status, for_cluster_operator},
    reason, time, versions,
};

/// Time without a list of platform operators after which the manager is reported as unavailable.
const THRESHOLD: Duration = Duration::from_secs(5 * 60);
/// Message after that time.
const THRESHOLD_MESSAGE: &str = "Exceeded platform operator availability timeout";

/// Returns the status of the ClusterOperator from the previous one. `listed` is the error if platform operators cannot be
/// listed.
pub fn core(
    before: Option<&ClusterOperatorStatus>,
    listed: Result<(), &str>,
    system_namespace: &str,
    release: Option<&str>,
    now: Timestamp,
) -> Output<ClusterOperatorStatus> {
    let empty = ClusterOperatorStatus::default();
    let before = before.unwrap_or(&empty);
    let versions = versions(release);
    let runs = versions
        .first()
        .map(|version| version.version.clone())
        .unwrap_or_default();
    let (conditions, recheck) = match listed {
        Ok(()) => (well(&runs), None),
        Err(error) => failing(before, error, now),
    };
    let upgradeable = Condition::new(
        "Upgradeable",
        Status::True,
        reason::AS_EXPECTED,
        "The platform operator manager can be upgraded at any time",
    );
    let [available, progressing, degraded] = conditions;
    Output {
        status: ClusterOperatorStatus {
            conditions: for_cluster_operator(
                before,
                &[available, progressing, degraded, upgradeable],
                now,
            ),
            versions,
            related_objects: vec![
                ObjectReference::new("", "namespaces", system_namespace),
                ObjectReference::new("platform.openshift.io", "platformoperators", ""),
            ],
            extension: before.extension.clone(),
        },
        recheck,
    }
}

fn well(release: &str) -> [Condition; 3] {
    let message = format!("The platform operator manager is available at {release}");
    [
        ("Available", Status::True),
        ("Progressing", Status::False),
        ("Degraded", Status::False),
    ]
    .map(|(type_, status)| Condition::new(type_, status, reason::AS_EXPECTED, &message))
}

/// Returns the conditions without a list: first degraded and still available, then unavailable after the threshold.
fn failing(
    before: &ClusterOperatorStatus,
    error: &str,
    now: Timestamp,
) -> ([Condition; 3], Option<Timestamp>) {
    let previous = PreviousConditions::of_cluster_operator(before);
    let message = format!(
        "Failed to list the platform operators: {}",
        truncate(error, 1000)
    );
    let degraded = Condition::new("Degraded", Status::True, reason::UNKNOWN, &message);
    let since = before
        .conditions
        .iter()
        .find(|condition| condition.type_ == "Degraded" && condition.status == "True")
        .and_then(|condition| condition.last_transition_time.as_ref())
        .map_or(now, time);
    let end = since.checked_add(THRESHOLD).ok();
    if end.is_some_and(|end| end < now) {
        let exceeded = |type_| {
            Condition::new(
                type_,
                Status::False,
                reason::THRESHOLD_EXCEEDED,
                THRESHOLD_MESSAGE,
            )
        };
        return (
            [exceeded("Available"), exceeded("Progressing"), degraded],
            None,
        );
    }
    let keep = |type_, otherwise| {
        let condition = previous.find(type_);
        condition.unwrap_or_else(|| Condition::new(type_, otherwise, reason::UNKNOWN, &message))
    };
    let conditions = [
        keep("Available", Status::False),
        keep("Progressing", Status::False),
        degraded,
    ];
    // The threshold has to be exceeded.
    let recheck = end.and_then(|end| end.checked_add(Duration::from_secs(1)).ok());
    (conditions, recheck)
}
