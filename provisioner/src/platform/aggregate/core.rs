//! The ClusterOperator `platform-operators-core`: how the manager itself is, which is whether it can list platform
//! operators.

use std::time::Duration;

use jiff::Timestamp;
use manifests::{
    api::config::{ClusterOperatorStatus, ObjectReference},
    object::shortened,
};

use super::{
    Output,
    conditions::{Condition, Kept, Status, for_cluster_operator},
    reason, time, versions,
};

/// How long nothing can be listed before the manager counts as away.
const THRESHOLD: Duration = Duration::from_secs(5 * 60);
/// What is said then.
const EXCEEDED: &str = "Exceeded platform operator availability timeout";

/// The status of the ClusterOperator, given the one before, and whether platform operators can be listed.
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
        .map(|it| it.version.clone())
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

/// At first degraded and still available; away after a while.
fn failing(
    before: &ClusterOperatorStatus,
    error: &str,
    now: Timestamp,
) -> ([Condition; 3], Option<Timestamp>) {
    let kept = Kept::of_cluster_operator(before);
    let message = format!(
        "The platform operators cannot be listed: {}",
        shortened(error, 1000)
    );
    let degraded = Condition::new("Degraded", Status::True, reason::UNKNOWN, &message);
    let since = before
        .conditions
        .iter()
        .find(|it| it.type_ == "Degraded" && it.status == "True")
        .and_then(|it| it.last_transition_time.as_ref())
        .map_or(now, time);
    let end = since.checked_add(THRESHOLD).ok();
    if end.is_some_and(|end| end < now) {
        let exceeded = |type_| Condition::new(type_, Status::False, reason::EXCEEDED, EXCEEDED);
        return (
            [exceeded("Available"), exceeded("Progressing"), degraded],
            None,
        );
    }
    let keep = |type_, otherwise| {
        let known = kept.of(type_);
        known.unwrap_or_else(|| Condition::new(type_, otherwise, reason::UNKNOWN, &message))
    };
    let conditions = [
        keep("Available", Status::False),
        keep("Progressing", Status::False),
        degraded,
    ];
    // The threshold has to be passed, not reached.
    let recheck = end.and_then(|end| end.checked_add(Duration::from_secs(1)).ok());
    (conditions, recheck)
}
