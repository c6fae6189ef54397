//! Which changes of a status are news, and are published as events.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{Resource as _, runtime::events::EventType};
use manifests::api::{
    condition,
    instance::{BundleInstance, BundleInstanceStatus},
};

use super::memory::Shared;

/// Tells people what has changed.
pub(super) async fn changes(
    instance: &BundleInstance,
    shared: &Shared,
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
        let waits = |status: &BundleInstanceStatus, found: &Condition| {
            type_ == condition::HEALTHY && found.status != "True" && waits_for_health(status)
        };
        let is_on_its_way = waits(after, &new);
        let was_on_its_way = old.as_ref().is_some_and(|old| waits(before, old));
        let same = is_on_its_way == was_on_its_way
            && old
                .as_ref()
                .is_some_and(|old| old.status == new.status && old.reason == new.reason);
        let bundle_changed = type_ == condition::INSTALLED
            && before.installed_bundle_name != after.installed_bundle_name;
        // Expected on the way, and no news; of what is unpacked the Bundle's own event tells.
        let is_news = new.status != "Unknown"
            && (type_, new.status.as_str()) != (condition::HAS_VALID_BUNDLE, "True")
            && (!is_on_its_way || was("True"))
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

/// Reports whether the objects are not well yet, and nothing says that they will not be.
fn waits_for_health(status: &BundleInstanceStatus) -> bool {
    let mut conditions = status.conditions.iter();
    conditions.any(|c| {
        c.type_ == condition::PROGRESSING && c.reason == condition::reason::WAITING_FOR_HEALTH
    })
}
