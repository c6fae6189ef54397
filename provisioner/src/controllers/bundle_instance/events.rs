//! Events for the changes of a status that a user should notice.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{Resource as _, runtime::events::EventType};
use manifests::api::{
    bundle_instance::{BundleInstance, BundleInstanceStatus},
    condition,
};

use super::state::InstanceContext;

/// Publishes an event for each condition with a notable change.
pub(crate) async fn publish_changes(
    instance: &BundleInstance,
    shared: &InstanceContext,
    before: &BundleInstanceStatus,
    after: &BundleInstanceStatus,
) {
    let find = |status: &BundleInstanceStatus, type_: &str| {
        status.conditions.iter().find(|c| c.type_ == type_).cloned()
    };
    for type_ in [
        condition::HAS_VALID_BUNDLE,
        condition::INSTALLED,
        condition::HEALTHY,
    ] {
        let Some(new) = find(after, type_) else {
            continue;
        };
        let old = find(before, type_);
        let was = |status| old.as_ref().is_some_and(|old| old.status == status);
        let is_waiting = |status: &BundleInstanceStatus, found: &Condition| {
            type_ == condition::HEALTHY && found.status != "True" && waits_for_health(status)
        };
        let is_progressing = is_waiting(after, &new);
        let was_progressing = old.as_ref().is_some_and(|old| is_waiting(before, old));
        let same = is_progressing == was_progressing
            && old
                .as_ref()
                .is_some_and(|old| old.status == new.status && old.reason == new.reason);
        let bundle_changed = type_ == condition::INSTALLED
            && before.installed_bundle_name != after.installed_bundle_name;
        // Expected during a rollout. The Bundle's own event reports unpacked content.
        let is_news = new.status != "Unknown"
            && (type_, new.status.as_str()) != (condition::HAS_VALID_BUNDLE, "True")
            && (!is_progressing || was("True"))
            && !matches!(
                new.reason.as_str(),
                condition::reason::UNPACK_PENDING
                    | condition::reason::NOT_INSTALLED
                    | condition::reason::INSTALLATION_STATUS_FALSE
            );
        if (same && !bundle_changed) || !is_news {
            continue;
        }
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

/// Reports whether the rollout waits for healthy objects, none of which has failed.
fn waits_for_health(status: &BundleInstanceStatus) -> bool {
    let mut conditions = status.conditions.iter();
    conditions.any(|c| {
        c.type_ == condition::PROGRESSING && c.reason == condition::reason::WAITING_FOR_HEALTH
    })
}
