//! Evaluation of a status for commands that wait. Pure; no I/O.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use manifests::api::{
    bundle_instance::BundleInstance,
    condition::{self, reason},
    inventory_format,
};

use crate::{commands::status, output::message::count};

/// Assessment of a status for a waiting command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WaitState {
    /// The instance is progressing; the message names the pending step.
    Wait(String),
    /// All objects are applied and healthy.
    Done,
    /// The instance is unhealthy, which may be temporary; the message names the problem.
    Unhealthy(String),
    /// The instance needs a change by a person; the message names the reason and the remedy.
    Failed(String),
}

/// Evaluates an instance whose spec was applied as this generation.
pub(crate) fn evaluate(instance: &BundleInstance, generation: Option<i64>) -> WaitState {
    evaluate_with_reasons(instance, generation, &[reason::INSTALLATION_SUCCEEDED])
}

/// Evaluates an instance whose spec was applied as this generation. Only the reasons in `accepted` of the condition
/// Installed mean success.
pub(crate) fn evaluate_with_reasons(
    instance: &BundleInstance,
    generation: Option<i64>,
    accepted: &[&str],
) -> WaitState {
    const NOT_OBSERVED: &str = "waiting for the provisioner";
    let Some(status) = &instance.status else {
        return WaitState::Wait(NOT_OBSERVED.to_owned());
    };
    if instance.metadata.deletion_timestamp.is_some() {
        return WaitState::Failed("BundleInstance is terminating".to_owned());
    }
    // A later generation was applied by another client; its result is reported, too.
    let is_current = |condition: &&Condition| condition.observed_generation >= generation;
    let find = |type_: &str| {
        status
            .conditions
            .iter()
            .find(|condition| condition.type_ == type_)
    };
    let Some(progressing) = find(condition::PROGRESSING).filter(is_current) else {
        return WaitState::Wait(NOT_OBSERVED.to_owned());
    };
    let installed = find(condition::INSTALLED);
    let healthy = find(condition::HEALTHY);
    match progressing.reason.as_str() {
        reason::UP_TO_DATE => match (installed, healthy) {
            (Some(installed), _) if !accepted.contains(&installed.reason.as_str()) => {
                WaitState::Failed(installed.message.clone())
            }
            (_, Some(healthy)) if healthy.status == "True" => match find(condition::READY) {
                // Healthy may be about the generation before, until the new objects are observed.
                Some(ready) if is_current(&ready) && ready.reason == reason::HEALTH_UNKNOWN => {
                    WaitState::Wait("waiting for health checks".to_owned())
                }
                _ => WaitState::Done,
            },
            (_, Some(healthy)) if healthy.status == "False" => {
                WaitState::Unhealthy(healthy.message.clone())
            }
            _ => WaitState::Wait("waiting for health checks".to_owned()),
        },
        reason::BLOCKED | reason::UNPACK_FAILED | reason::UNKNOWN_CLASS | reason::PAUSED => {
            WaitState::Failed(explain_failure(instance))
        }
        reason::UNPACK_PENDING => {
            let valid = find(condition::HAS_VALID_BUNDLE);
            WaitState::Wait(valid.unwrap_or(progressing).message.clone())
        }
        reason::WAITING_FOR_HEALTH if healthy.is_some_and(|healthy| healthy.status == "False") => {
            WaitState::Wait(ready(instance, healthy))
        }
        _ => WaitState::Wait(progressing.message.clone()),
    }
}

/// Formats the health of the objects: `10 of 12 objects are ready: Deployment tide/tide: 0 of 1 ready`.
fn ready(instance: &BundleInstance, healthy: Option<&Condition>) -> String {
    let message = healthy.map_or("", |condition| &condition.message);
    let unhealthy = message
        .lines()
        .filter_map(inventory_format::parse_unhealthy);
    let unhealthy: Vec<_> = unhealthy.collect();
    let status = instance.status.as_ref();
    let total = status.and_then(|status| status.inventory.as_ref());
    let total = usize::try_from(total.map_or(0, |inventory| inventory.count)).unwrap_or_default();
    let good = total.saturating_sub(unhealthy.len());
    let first = unhealthy
        .first()
        .map(|(identity, reason)| format!(": {identity}: {reason}"));
    format!(
        "{good} of {} are ready{}",
        count(total, "object"),
        first.unwrap_or_default()
    )
}

/// Explains why an instance is not ready.
pub(crate) fn explain_failure(instance: &BundleInstance) -> String {
    if let Some(problem) = status::problem(instance) {
        return problem.message;
    }
    let conditions = instance.status.iter().flat_map(|status| &status.conditions);
    let relevant: Vec<&Condition> = conditions
        .filter(|condition| {
            condition.type_ == condition::HEALTHY || condition.type_ == condition::PROGRESSING
        })
        .collect();
    if relevant.is_empty() {
        return "not reconciled by the provisioner yet; check that it is running".to_owned();
    }
    let lines = relevant.iter().map(|condition| condition.message.as_str());
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::condition;

    fn instance(conditions: &[ConditionFacts]) -> BundleInstance {
        let conditions: Value = conditions.iter().copied().map(condition).collect();
        let status = json!({"conditions": conditions, "observedGeneration": 2, "inventory": {"count": 3, "kinds": []}});
        crate::testing::instance(&json!({"status": status}))
    }

    type ConditionFacts = (&'static str, &'static str, &'static str, &'static str);

    const INSTALLED: ConditionFacts = ("Installed", "True", "InstallationSucceeded", "there");
    const CURRENT: ConditionFacts = ("Progressing", "False", "UpToDate", "all applied");
    const HEALTHY: ConditionFacts = ("Healthy", "True", "Healthy", "");

    fn wait(text: &str) -> WaitState {
        WaitState::Wait(text.to_owned())
    }

    fn failed(text: &str) -> WaitState {
        WaitState::Failed(text.to_owned())
    }

    #[test]
    fn wait_ends_when_applied_objects_are_healthy() {
        let unobserved = "waiting for the provisioner";
        let unhealthy = ("Healthy", "False", "Unhealthy", "lost");
        let unknown = ("Healthy", "Unknown", "HealthUnknown", "");
        ::tests::assert_each!(|conditions, generation, expected| evaluate(&instance(&conditions), Some(generation)) => expected;
            vec![], 2 => wait(unobserved);
            vec![INSTALLED, CURRENT, HEALTHY], 3 => wait(unobserved);
            vec![INSTALLED, CURRENT, HEALTHY], 2 => WaitState::Done;
            vec![INSTALLED, CURRENT, HEALTHY], 1 => WaitState::Done;
            vec![INSTALLED, CURRENT, HEALTHY, ("Ready", "True", "UpToDate", "")], 2 => WaitState::Done;
            // The new objects have not been observed yet.
            vec![INSTALLED, CURRENT, HEALTHY, ("Ready", "Unknown", "HealthUnknown", "")], 2 => wait("waiting for health checks");
            // The progress deadline is exceeded.
            vec![INSTALLED, CURRENT, HEALTHY, ("Ready", "False", "HealthUnknown", "")], 2 => wait("waiting for health checks");
            vec![INSTALLED, CURRENT, unhealthy], 2 => WaitState::Unhealthy("lost".to_owned());
            vec![INSTALLED, CURRENT, unknown], 2 => wait("waiting for health checks");
            vec![("Installed", "True", "RolledBack", "back"), CURRENT, HEALTHY], 2 => failed("back");
        );
    }

    #[test]
    fn progress_is_reported_and_failures_end_the_wait() {
        let valid = |reason, message| ("HasValidBundle", "False", reason, message);
        let progressing = |status, reason, message| ("Progressing", status, reason, message);
        let unhealthy = "(apps/v1, Kind=Deployment)(a/b): 0 of 1";
        ::tests::assert_each!(|conditions, expected| evaluate(&instance(&conditions), Some(2)) => expected;
            vec![valid("UnpackFailed", "no such image"), progressing("False", "UnpackFailed", "see HasValidBundle")]
                => failed("no such image");
            vec![("Installed", "False", "InstallFailed", "the object exists"), progressing("False", "Blocked", "it will not work")]
                => failed("the object exists");
            vec![progressing("False", "Paused", "paused")] => failed("paused");
            vec![valid("UnpackPending", "Waiting for it"), progressing("True", "UnpackPending", "see HasValidBundle")]
                => wait("Waiting for it");
            vec![progressing("True", "Applying", "applying 3 objects")] => wait("applying 3 objects");
            vec![progressing("True", "WaitingForHealth", ""), ("Healthy", "False", "Unhealthy", unhealthy)]
                => wait("2 of 3 objects are ready: Deployment a/b: 0 of 1");
            vec![progressing("True", "WaitingForHealth", "not observed yet"), ("Healthy", "Unknown", "HealthUnknown", "")]
                => wait("not observed yet");
            vec![progressing("True", "Retrying", "again")] => wait("again");
        );
    }
}
