//! Whether there is anything to wait for: a plain function of a status.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use manifests::api::{
    condition::{self, reason},
    instance::BundleInstance,
    listing,
};

use crate::{message::count, status};

/// What a status means for somebody who waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is on its way: what is waited for.
    Wait(String),
    /// Everything is applied and well.
    Done,
    /// It looks as if it will not get there; a moment later it may look better.
    Lost(String),
    /// It will not get there before somebody does something: why, and what.
    Failed(String),
}

/// Judges an instance whose spec was applied as this generation.
pub(crate) fn of(instance: &BundleInstance, generation: Option<i64>) -> Verdict {
    evaluate(instance, generation, &[reason::INSTALLATION_SUCCEEDED])
}

/// Evaluates an instance whose spec was applied as this generation, where only these reasons of the condition Installed mean
/// success.
pub(crate) fn evaluate(
    instance: &BundleInstance,
    generation: Option<i64>,
    accepted: &[&str],
) -> Verdict {
    const NOBODY: &str = "waiting for the provisioner to look at it";
    let Some(status) = &instance.status else {
        return Verdict::Wait(NOBODY.to_owned());
    };
    if instance.metadata.deletion_timestamp.is_some() {
        return Verdict::Failed("it is being deleted".to_owned());
    }
    // A later generation is somebody else's wish, and what becomes of it is told as well.
    let is_current = |condition: &&Condition| condition.observed_generation >= generation;
    let find = |type_: &str| status.conditions.iter().find(|it| it.type_ == type_);
    let Some(progressing) = find(condition::PROGRESSING).filter(is_current) else {
        return Verdict::Wait(NOBODY.to_owned());
    };
    let installed = find(condition::INSTALLED);
    let healthy = find(condition::HEALTHY);
    match progressing.reason.as_str() {
        reason::UP_TO_DATE => match (installed, healthy) {
            (Some(installed), _) if !accepted.contains(&installed.reason.as_str()) => {
                Verdict::Failed(installed.message.clone())
            }
            (_, Some(healthy)) if healthy.status == "True" => Verdict::Done,
            (_, Some(healthy)) if healthy.status == "False" => {
                Verdict::Lost(healthy.message.clone())
            }
            _ => Verdict::Wait("waiting to see whether its objects work".to_owned()),
        },
        reason::BLOCKED | reason::UNPACK_FAILED | reason::UNKNOWN_CLASS | reason::PAUSED => {
            Verdict::Failed(story(instance))
        }
        reason::UNPACK_PENDING => {
            let valid = find(condition::HAS_VALID_BUNDLE);
            Verdict::Wait(valid.unwrap_or(progressing).message.clone())
        }
        reason::WAITING_FOR_HEALTH if healthy.is_some_and(|healthy| healthy.status == "False") => {
            Verdict::Wait(ready(instance, healthy))
        }
        _ => Verdict::Wait(progressing.message.clone()),
    }
}

/// `10 of 12 objects are ready: Deployment tide/tide: 0 of 1 ready`.
fn ready(instance: &BundleInstance, healthy: Option<&Condition>) -> String {
    let message = healthy.map_or("", |it| &it.message);
    let unwell = message.lines().filter_map(listing::read_unwell);
    let unwell: Vec<_> = unwell.collect();
    let status = instance.status.as_ref();
    let total = status.and_then(|it| it.inventory.as_ref());
    let total = usize::try_from(total.map_or(0, |it| it.count)).unwrap_or_default();
    let good = total.saturating_sub(unwell.len());
    let first = unwell
        .first()
        .map(|(identity, why)| format!(": {identity}: {why}"));
    format!(
        "{good} of {} are ready{}",
        count(total, "object"),
        first.unwrap_or_default()
    )
}

/// What keeps it from being as it should be.
pub(crate) fn story(instance: &BundleInstance) -> String {
    if let Some(problem) = status::problem(instance) {
        return problem.message;
    }
    let conditions = instance.status.iter().flat_map(|it| &it.conditions);
    let told: Vec<&Condition> = conditions
        .filter(|it| it.type_ == condition::HEALTHY || it.type_ == condition::PROGRESSING)
        .collect();
    if told.is_empty() {
        return "the provisioner has not looked at it: is it running?".to_owned();
    }
    let lines = told.iter().map(|it| it.message.as_str());
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::condition;

    fn instance(conditions: &[Told]) -> BundleInstance {
        let conditions: Value = conditions.iter().copied().map(condition).collect();
        let inventory = json!({"count": 3, "kinds": []});
        let status =
            json!({"conditions": conditions, "observedGeneration": 2, "inventory": inventory});
        crate::testing::instance(&json!({"status": status}))
    }

    type Told = (&'static str, &'static str, &'static str, &'static str);

    const INSTALLED: Told = ("Installed", "True", "InstallationSucceeded", "there");
    const CURRENT: Told = ("Progressing", "False", "UpToDate", "all applied");
    const HEALTHY: Told = ("Healthy", "True", "Healthy", "");

    fn wait(text: &str) -> Verdict {
        Verdict::Wait(text.to_owned())
    }

    fn failed(text: &str) -> Verdict {
        Verdict::Failed(text.to_owned())
    }

    #[test]
    fn what_is_applied_is_waited_for_until_it_is_well() {
        let nobody = "waiting for the provisioner to look at it";
        let unwell = ("Healthy", "False", "Unhealthy", "gone");
        let unknown = ("Healthy", "Unknown", "HealthUnknown", "");
        let back = ("Installed", "True", "RolledBack", "back");
        for (conditions, generation, expected) in ::tests::rows![
            vec![], 2 => wait(nobody);
            vec![INSTALLED, CURRENT, HEALTHY], 3 => wait(nobody);
            vec![INSTALLED, CURRENT, HEALTHY], 2 => Verdict::Done;
            vec![INSTALLED, CURRENT, HEALTHY], 1 => Verdict::Done;
            vec![INSTALLED, CURRENT, unwell], 2 => Verdict::Lost("gone".to_owned());
            vec![INSTALLED, CURRENT, unknown], 2 => wait("waiting to see whether its objects work");
            vec![back, CURRENT, HEALTHY], 2 => failed("back");
        ] {
            let verdict = of(&instance(&conditions), Some(generation));
            assert_eq!(verdict, expected, "{conditions:?}");
        }
    }

    #[test]
    fn what_is_under_way_is_told_and_what_is_not_ends_it() {
        let valid = |reason, message| ("HasValidBundle", "False", reason, message);
        let progressing = |status, reason, message| ("Progressing", status, reason, message);
        let unwell = "(apps/v1, Kind=Deployment)(a/b): 0 of 1";
        for (conditions, expected) in ::tests::rows![
            vec![valid("UnpackFailed", "no such image"), progressing("False", "UnpackFailed", "see HasValidBundle")]
                => failed("no such image");
            vec![("Installed", "False", "InstallFailed", "in the way"), progressing("False", "Blocked", "it will not work")]
                => failed("in the way");
            vec![progressing("False", "Paused", "paused")] => failed("paused");
            vec![valid("UnpackPending", "Waiting for it"), progressing("True", "UnpackPending", "see HasValidBundle")]
                => wait("Waiting for it");
            vec![progressing("True", "Applying", "applying 3 objects")] => wait("applying 3 objects");
            vec![progressing("True", "WaitingForHealth", ""), ("Healthy", "False", "Unhealthy", unwell)]
                => wait("2 of 3 objects are ready: Deployment a/b: 0 of 1");
            vec![progressing("True", "WaitingForHealth", "not observed yet"), ("Healthy", "Unknown", "HealthUnknown", "")]
                => wait("not observed yet");
            vec![progressing("True", "Retrying", "again")] => wait("again");
        ] {
            let verdict = of(&instance(&conditions), Some(2));
            assert_eq!(verdict, expected, "{conditions:?}");
        }
    }
}
