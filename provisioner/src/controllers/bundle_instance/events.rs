//! Events for the changes of a status that a user should notice.

use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{Resource as _, runtime::events::EventType};
use manifests::api::{
    bundle_instance::{BundleInstance, BundleInstanceStatus},
    condition,
};

use super::state::InstanceContext;

/// Maximum time between the end of a rollout and the status update that reports it.
const MAX_STATUS_DELAY: SignedDuration = SignedDuration::from_secs(10);

/// Publishes an event for each condition with a notable change.
pub(crate) async fn publish_changes(
    instance: &BundleInstance,
    shared: &InstanceContext,
    before: &BundleInstanceStatus,
    after: &BundleInstanceStatus,
) {
    for type_ in [
        condition::HAS_VALID_BUNDLE,
        condition::INSTALLED,
        condition::HEALTHY,
    ] {
        let Some(new) = notable_change(type_, before, after) else {
            continue;
        };
        let bad = new.status == "False"
            || matches!(
                new.reason.as_str(),
                condition::reason::UPGRADE_FAILED
                    | condition::reason::INSTALLED_BUNDLE_REPLACED
                    | condition::reason::ROLLED_BACK
                    | condition::reason::RECONCILE_FAILED
            );
        let level = if bad {
            EventType::Warning
        } else {
            EventType::Normal
        };
        shared
            .ctx
            .events
            .publish(
                &instance.object_ref(&()),
                level,
                &new.reason,
                type_,
                &new.message,
            )
            .await;
    }
}

/// Returns the new condition of a type if its change is notable.
fn notable_change<'a>(
    type_: &str,
    before: &BundleInstanceStatus,
    after: &'a BundleInstanceStatus,
) -> Option<&'a Condition> {
    let new = condition::find(&after.conditions, type_)?;
    let old = condition::find(&before.conditions, type_);
    let is_waiting = |status: &BundleInstanceStatus, found: &Condition| {
        type_ == condition::HEALTHY && found.status != "True" && waits_for_health(status)
    };
    let is_progressing = is_waiting(after, new);
    let was_progressing = old.is_some_and(|old| is_waiting(before, old));
    let is_same = is_progressing == was_progressing
        && old.is_some_and(|old| old.status == new.status && old.reason == new.reason);
    let bundle_changed = type_ == condition::INSTALLED
        && before.installed_bundle_name != after.installed_bundle_name;
    // Expected during a rollout. The Bundle's own event reports unpacked content.
    let is_notable = new.status != "Unknown"
        && (type_, new.status.as_str()) != (condition::HAS_VALID_BUNDLE, "True")
        && (!is_progressing || old.is_some_and(|old| may_have_been_healthy(before, old)))
        && !matches!(
            new.reason.as_str(),
            condition::reason::UNPACK_PENDING
                | condition::reason::NOT_INSTALLED
                | condition::reason::INSTALLATION_STATUS_FALSE
        );
    (is_notable && (!is_same || bundle_changed)).then_some(new)
}

/// Reports whether the objects may have been healthy before, so that the rollout disrupts them. Unknown health is sufficient
/// only if it dates from before the end of an upgrade's rollout: no unhealthy object was reported since then.
fn may_have_been_healthy(before: &BundleInstanceStatus, healthy: &Condition) -> bool {
    match healthy.status.as_str() {
        "True" => true,
        "Unknown" => {
            let upgrade = before.active().and_then(|_| before.rolling_out());
            let applied = upgrade.and_then(|upgrade| upgrade.applied.as_ref());
            applied.is_some_and(|applied| {
                let later = healthy.last_transition_time.0.duration_since(applied.0);
                later <= MAX_STATUS_DELAY
            })
        }
        _ => false,
    }
}

/// Reports whether the rollout waits for healthy objects, none of which has failed.
fn waits_for_health(status: &BundleInstanceStatus) -> bool {
    let mut conditions = status.conditions.iter();
    conditions.any(|c| {
        c.type_ == condition::PROGRESSING && c.reason == condition::reason::WAITING_FOR_HEALTH
    })
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use manifests::api::bundle_instance::RevisionState;

    use super::*;
    use crate::controllers::bundle_instance::revisions::tests::status;

    /// Returns a status with Healthy, as status, reason and time of transition, and the reason of Progressing. All objects
    /// were applied at time 0.
    fn healthy(
        states: &[RevisionState],
        (value, reason, second): (&str, &str, i64),
        progress: &str,
    ) -> BundleInstanceStatus {
        let condition = |type_: &str, value: &str, reason: &str| Condition {
            type_: type_.to_owned(),
            status: value.to_owned(),
            reason: reason.to_owned(),
            message: String::new(),
            observed_generation: None,
            last_transition_time: Time(Timestamp::from_second(second).unwrap()),
        };
        let conditions = vec![
            condition(condition::HEALTHY, value, reason),
            condition(condition::PROGRESSING, "True", progress),
        ];
        with!(status(states) => conditions: conditions)
    }

    #[test]
    fn disrupted_operator_is_reported_once() {
        use RevisionState::{Active, RollingOut};
        const WAITING: &str = "WaitingForHealth";
        let during = &[Active, RollingOut][..];
        let unhealthy = ("False", "Unhealthy", 100);
        for ((name, states, before, was, progress), expected) in ::tests::rows![
            ("healthy before", during, ("True", "Healthy", -100), WAITING, WAITING) => true;
            ("not observed after the rollout", during, ("Unknown", "HealthUnknown", 1), WAITING, WAITING) => true;
            ("pruned objects are terminating", during, ("Unknown", "HealthUnknown", 1), "Retrying", WAITING) => true;
            ("not known before the rollout", during, ("Unknown", "HealthUnknown", -100), "UpToDate", WAITING) => true;
            ("reported already", during, unhealthy, WAITING, WAITING) => false;
            ("reported before the health became unknown", during, ("Unknown", "HealthUnknown", 60), "UpToDate", WAITING) => false;
            ("failed before the health became unknown", during, ("Unknown", "HealthUnknown", 60), "UpToDate", "UpToDate") => true;
            ("unhealthy before", during, ("False", "Unhealthy", -100), "Applying", WAITING) => false;
            ("first", &[RollingOut], ("Unknown", "HealthUnknown", 1), WAITING, WAITING) => false;
            ("no rollout", &[Active], ("Unknown", "HealthUnknown", 1), "UpToDate", WAITING) => false;
        ] {
            let before = healthy(states, before, was);
            let after = healthy(states, unhealthy, progress);
            assert_rows!(notable_change(condition::HEALTHY, &before, &after).is_some() => expected, "{name}");
        }
    }
}
