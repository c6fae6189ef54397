//! Progress of OLM with an operator, and the next step: InstallPlans to approve, one version after the other.
//!
//! OLM does not retry an InstallPlan in the phase `Failed`, after a minute of attempts, or a bundle that its Job failed to
//! unpack, unless the OperatorGroup requests retries. It retries everything else: a plan that reports `InstallCheckFailed`
//! or `retrying execution`, and a failed resolution, whose cause may be that OLM has not read the new catalog yet.

use std::collections::BTreeSet;

use manifests::object::{get_path, text};
use serde_json::Value;

use super::{
    approval::csvs,
    replacement::{FORWARD, ReplacedCsv},
    unpack_failures::UnpackFailures,
};
use crate::commands::run_bundle::command;

/// State of an operator in OLM.
#[derive(Debug, Clone, Copy)]
pub(super) struct OlmState<'a> {
    /// Desired version: the name of a ClusterServiceVersion.
    pub(super) target: &'a str,
    pub(super) subscription: &'a Value,
    /// InstallPlan that the Subscription names.
    pub(super) plan: Option<&'a Value>,
    pub(super) before: &'a PriorFailures,
    /// Image of the bundle as its catalog records it.
    pub(super) image: &'a str,
    /// Bundles that OLM failed to unpack.
    pub(super) failed_unpack: &'a UnpackFailures,
    /// ClusterServiceVersion of the desired version.
    pub(super) csv: Option<&'a Value>,
    /// Version that is to be replaced, while it blocks the upgrade.
    pub(super) replaced_csv: Option<&'a ReplacedCsv>,
}

/// Failures from before the first change, which are unrelated to the change.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct PriorFailures {
    /// Name of an InstallPlan that had failed.
    pub(super) failed_plan: Option<String>,
    /// Condition of the Subscription about a bundle that could not be unpacked.
    pub(super) unpacking: Option<Value>,
}

/// Next step of the command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NextStep {
    /// Wait for the described event.
    Wait(String),
    /// Approve the InstallPlan with this name.
    Approve(String),
    /// The version is installed.
    Done,
    /// The version will not be installed, for this reason.
    Failed(String),
}

/// Progress of an InstallPlan.
enum Progress {
    Complete,
    /// Failed with this reason; OLM never processes the plan again.
    Failed(String),
    Unapproved,
    /// OLM is executing the plan, possibly with retries; with its last message.
    Running(String),
}

/// Decides the next step.
pub(super) fn next(state: OlmState<'_>) -> NextStep {
    let next = by_plans(state);
    let (Some(replaced_csv), NextStep::Wait(_) | NextStep::Approve(_)) =
        (state.replaced_csv, &next)
    else {
        return next;
    };
    if let Some(reason) = replaced_csv.stall_reason(state.subscription) {
        return NextStep::Failed(reason);
    }
    match next {
        // If it were approved, one more version would wait, and no other one could take its place.
        NextStep::Approve(plan) if replaced_csv.is_first() => NextStep::Wait(format!(
            "the approval of InstallPlan {plan}: {}",
            replaced_csv.describe()
        )),
        NextStep::Wait(event) => NextStep::Wait(format!("{event}; {}", replaced_csv.describe())),
        next => next,
    }
}

/// Decides the next step without regard to the version that is to be replaced.
fn by_plans(state: OlmState<'_>) -> NextStep {
    let OlmState { target, csv, .. } = state;
    let installed = field(state.subscription, &["status", "installedCSV"]);
    let name = state
        .plan
        .map_or("", |plan| field(plan, &["metadata", "name"]));
    let plan = state.plan.filter(|_| !name.is_empty());
    // The plan has created the desired version, and OLM makes no other plan for that version.
    let is_begun = csv.is_some_and(|csv| field(csv, &["status", "phase"]) != "Succeeded")
        && plan.is_some_and(|plan| csvs(plan).contains(target));
    // An earlier failure does not concern this change.
    let progress = plan.map(progress_of).filter(|progress| {
        is_begun
            || !matches!(progress, Progress::Failed(_))
            || state.before.failed_plan.as_deref() != Some(name)
    });
    if let Some(Progress::Failed(reason)) = &progress {
        let mut reason = format!("InstallPlan {name} failed: {reason}");
        if let Some(plan) = plan.filter(|_| is_begun) {
            reason = format!("{reason}; {}", resume_remedy(plan));
        } else if csv.is_none() && is_pending(state.subscription) {
            reason = format!("{reason}; {}", replan_remedy(state.subscription));
        }
        return NextStep::Failed(reason);
    }
    let running = |message: &str| NextStep::Wait(format!("InstallPlan {name}: {message}"));
    if let Some(csv) = csv {
        let status = |key| field(csv, &["status", key]);
        match status("phase") {
            // Some objects of a version do not exist before its plan is complete.
            "Succeeded" if installed == target => {
                return match &progress {
                    Some(Progress::Running(message))
                        if plan.is_some_and(|plan| csvs(plan).contains(target)) =>
                    {
                        running(message)
                    }
                    _ => NextStep::Done,
                };
            }
            "Failed" => {
                return NextStep::Failed(format!(
                    "csv failed: reason: {:?}, message: {:?}",
                    status("reason"),
                    status("message")
                ));
            }
            "" | "Succeeded" => {}
            phase => {
                let description = describe_csv(target, phase, status("message"));
                return match &progress {
                    // The problem of the plan is the reason for missing objects.
                    Some(Progress::Running(message)) if is_begun => {
                        running(&format!("{message}; {description}"))
                    }
                    _ => NextStep::Wait(description),
                };
            }
        }
    }
    match progress {
        Some(Progress::Unapproved) => return NextStep::Approve(name.to_owned()),
        Some(Progress::Running(message)) => return running(&message),
        // The Subscription reports the result of a complete plan a moment later.
        Some(Progress::Complete | Progress::Failed(_)) | None => {}
    }
    if let Some(reason) = unpack_failure(state) {
        return NextStep::Failed(reason);
    }
    let problems = problems(state.subscription);
    NextStep::Wait(match problems.as_str() {
        problems if !problems.is_empty() => format!(
            "Subscription {}: {problems}",
            field(state.subscription, &["metadata", "name"])
        ),
        _ if installed.is_empty() => "OLM to create an InstallPlan".to_owned(),
        _ => format!("OLM to continue from {installed}"),
    })
}

/// Returns the problems of a Subscription. OLM keeps a condition in its place until the problem is resolved, and changes it
/// in place, so that the order of several does not show the latest one.
fn problems(subscription: &Value) -> String {
    let conditions = get_path(subscription, &["status", "conditions"]).and_then(Value::as_array);
    let bad = conditions.into_iter().flatten().filter(|condition| {
        let kind = field(condition, &["type"]);
        (kind.ends_with("Failed") || kind.ends_with("Unhealthy"))
            && field(condition, &["status"]) == "True"
    });
    bad.map(describe).collect::<Vec<_>>().join("; ")
}

/// Returns why the version will not be installed because OLM failed to unpack a bundle. An earlier condition may be
/// repeated with the same text for this bundle; then the bundle's own Job decides.
fn unpack_failure(state: OlmState<'_>) -> Option<String> {
    let condition = unpacking(state.subscription)?;
    let is_new = state.before.unpacking.as_ref() != Some(condition);
    let (message, remedy) = (describe(condition), unpack_remedy(state.subscription));
    match state.failed_unpack {
        UnpackFailures::Images(images) if images.contains(state.image) => Some(format!(
            "OLM failed to unpack a bundle: {message}; the bundle is {}; {remedy}",
            state.image
        )),
        UnpackFailures::Images(images) if is_new => {
            let images: Vec<&str> = images.iter().map(String::as_str).collect();
            Some(format!(
                "OLM failed to unpack a bundle: {message}; it is not the bundle of {} and may belong to another package; \
                 failed Jobs of: {}; OLM installs nothing in the namespace until this is fixed; make sure that these images \
                 can be pulled, or remove the Subscriptions that need them, and run the same command again",
                state.target,
                if images.is_empty() {
                    "none".to_owned()
                } else {
                    images.join(", ")
                }
            ))
        }
        UnpackFailures::Unknown if is_new => Some(format!(
            "OLM failed to unpack a bundle: {message}; a failing bundle of any package in the namespace blocks this one; \
             {remedy}"
        )),
        UnpackFailures::Images(_) | UnpackFailures::Unknown | UnpackFailures::None => None,
    }
}

fn progress_of(plan: &Value) -> Progress {
    let conditions = ["status", "conditions"];
    // OLM sets the reason to "Unknown" when its message no longer applies.
    let is_false = |condition: &Value| {
        field(condition, &["status"]) == "False" && field(condition, &["reason"]) != "Unknown"
    };
    let failure = last(plan, &conditions, is_false).map(describe);
    let message = Some(field(plan, &["status", "message"]))
        .filter(|message| !message.is_empty())
        .map(str::to_owned);
    let lookup = |kind: &str| {
        let is_selected = |condition: &Value| {
            field(condition, &["type"]) == kind
                && matches!(field(condition, &["status"]), "True" | "")
        };
        last(plan, &["status", "bundleLookups"], is_selected).map(describe)
    };
    let is_approved = get_path(plan, &["spec", "approved"]) == Some(&Value::Bool(true));
    match field(plan, &["status", "phase"]) {
        "Failed" => {
            let reason = failure.or(message).or_else(|| lookup("BundleLookupFailed"));
            Progress::Failed(reason.unwrap_or_else(|| "no reason given".to_owned()))
        }
        "Complete" => Progress::Complete,
        _ if !is_approved => Progress::Unapproved,
        phase => match lookup("BundleLookupFailed") {
            // An older OLM unpacks bundles at this point, and does not retry.
            Some(reason) => Progress::Failed(reason),
            None => Progress::Running(
                failure
                    .or(message)
                    .or_else(|| lookup("BundleLookupPending"))
                    .unwrap_or_else(|| phase.to_owned()),
            ),
        },
    }
}

/// Returns the failures from before the first change.
pub(super) fn prior_failures(subscription: &Value, plan: Option<&Value>) -> PriorFailures {
    let failed = plan.filter(|plan| has_failed(plan));
    let name = failed.and_then(|plan| text(plan, &["metadata", "name"]));
    PriorFailures {
        failed_plan: name.map(str::to_owned),
        unpacking: unpacking(subscription).cloned(),
    }
}

fn has_failed(plan: &Value) -> bool {
    field(plan, &["status", "phase"]) == "Failed"
}

/// Returns the condition about a bundle that OLM no longer tries to unpack. It is set on every Subscription of the
/// namespace, regardless of the package.
fn unpacking(subscription: &Value) -> Option<&Value> {
    last(subscription, &["status", "conditions"], |condition| {
        let reason = field(condition, &["reason"]);
        field(condition, &["type"]) == "BundleUnpackFailed"
            && field(condition, &["status"]) == "True"
            // A plan that could not be written is retried.
            && matches!(reason, "BundleUnpackFailed" | "ErrorPreventedUnpacking")
    })
}

/// Reports whether OLM failed to unpack a bundle.
pub(super) fn has_not_unpacked(subscription: &Value) -> bool {
    unpacking(subscription).is_some()
}

/// Returns the bundles that OLM failed to unpack, given the images whose Jobs have failed, if the user may list them.
pub(super) fn failed_unpack(
    subscription: &Value,
    groups: &[Value],
    failed: Option<BTreeSet<String>>,
) -> UnpackFailures {
    match unpacking(subscription) {
        None => UnpackFailures::None,
        Some(_) if unpacks_again(groups) => UnpackFailures::None,
        // In this case, the Job has not failed.
        Some(condition) if field(condition, &["reason"]) == "ErrorPreventedUnpacking" => {
            UnpackFailures::Unknown
        }
        Some(_) => failed.map_or(UnpackFailures::Unknown, UnpackFailures::Images),
    }
}

/// Reports whether OLM retries to unpack bundles, which the OperatorGroup has to request.
fn unpacks_again(groups: &[Value]) -> bool {
    const INTERVAL: &str = "operatorframework.io/bundle-unpack-min-retry-interval";
    groups
        .iter()
        .any(|group| get_path(group, &["metadata", "annotations", INTERVAL]).is_some())
}

/// State that decides whether OLM continues after the InstallPlan that a Subscription names.
#[derive(Debug, Clone, Copy)]
pub(super) struct StallCheck<'a> {
    /// Desired version: the name of a ClusterServiceVersion.
    pub(super) target: &'a str,
    pub(super) subscription: &'a Value,
    /// InstallPlan; `None` if it does not exist.
    pub(super) plan: Option<&'a Value>,
    /// Whether the version exists that OLM is installing, or has installed.
    pub(super) has_current: bool,
    /// All Subscriptions of the namespace.
    pub(super) all: &'a [Value],
    pub(super) groups: &'a [Value],
}

impl StallCheck<'_> {
    /// Returns why the plan will install nothing more: it has failed, or it was deleted before its version existed.
    fn failure(&self) -> Option<String> {
        let name = plan_of(self.subscription).filter(|_| !self.has_current)?;
        let Some(plan) = self.plan else {
            return Some(format!("InstallPlan {name} was deleted"));
        };
        match progress_of(plan) {
            Progress::Failed(reason) if has_failed(plan) => {
                Some(format!("InstallPlan {name} failed: {reason}"))
            }
            _ => None,
        }
    }

    /// Reports whether the plan will not create the version that OLM is upgrading to.
    pub(super) fn has_failed_for_good(&self) -> bool {
        self.failure().is_some()
    }

    /// Returns why OLM will never continue, with a remedy. OLM looks for new versions in a namespace unless all
    /// Subscriptions there wait for a plan. It makes no plan for a version that a Subscription is already upgrading to. It
    /// does not wait for a failed plan if upgrades fail forward in the OperatorGroup.
    pub(super) fn stall_reason(&self) -> Option<String> {
        let reason = self.failure()?;
        let is_forward = |group: &Value| field(group, &["spec", "upgradeStrategy"]) == FORWARD;
        let is_forward = self.plan.is_some() && self.groups.iter().any(is_forward);
        let is_waiting =
            |subscription: &Value| is_pending(subscription) && plan_of(subscription).is_some();
        let resolves =
            is_forward || !is_waiting(self.subscription) || !self.all.iter().all(is_waiting);
        let is_same_target = field(self.subscription, &["status", "currentCSV"]) == self.target;
        (!resolves || is_same_target)
            .then(|| format!("{reason}; {}", replan_remedy(self.subscription)))
    }
}

/// Returns the name of the InstallPlan that a Subscription names.
pub(super) fn plan_of(subscription: &Value) -> Option<&str> {
    text(subscription, &["status", "installPlanRef", "name"]).filter(|name| !name.is_empty())
}

/// Reports whether the version that a Subscription is upgrading to does not exist yet.
fn is_pending(subscription: &Value) -> bool {
    field(subscription, &["status", "state"]) == "UpgradePending"
}

/// Returns the remedy for a failed InstallPlan: a new plan.
fn replan_remedy(subscription: &Value) -> String {
    let installed = field(subscription, &["status", "installedCSV"]);
    if installed.is_empty() {
        return reinstall_command(subscription);
    }
    format!(
        "OLM does not retry; fix the reported problem and make OLM create a new plan: kubectl patch \
         subscriptions.operators.coreos.com {} --namespace {} --subresource status --type merge --patch \
         '{{\"status\":{{\"state\":\"AtLatestKnown\",\"currentCSV\":{installed:?},\"installPlanRef\":null,\"installplan\":null}}}}'; \
         then run the same command again",
        field(subscription, &["metadata", "name"]),
        field(subscription, &["metadata", "namespace"])
    )
}

/// Returns the remedy for a failed InstallPlan: to resume it.
fn resume_remedy(plan: &Value) -> String {
    format!(
        "OLM does not retry; fix the reported problem and make OLM resume the plan: kubectl patch \
         installplans.operators.coreos.com {} --namespace {} --subresource status --type merge --patch \
         '{{\"status\":{{\"phase\":\"Installing\",\"startTime\":null}}}}'; then run the same command again",
        field(plan, &["metadata", "name"]),
        field(plan, &["metadata", "namespace"])
    )
}

/// Returns the remedy for a bundle that OLM cannot unpack.
fn unpack_remedy(subscription: &Value) -> String {
    if field(subscription, &["status", "installedCSV"]).is_empty() {
        return reinstall_command(subscription);
    }
    format!(
        "OLM does not retry; publish a bundle that OLM can pull, and upgrade to it with {}; the failed bundle is then \
         skipped, and the running operator is not changed",
        command("run bundle-upgrade IMAGE")
    )
}

/// Returns the remedy if nothing is installed yet.
fn reinstall_command(subscription: &Value) -> String {
    let cleanup = command(&format!(
        "cleanup {} --namespace {}",
        field(subscription, &["spec", "name"]),
        field(subscription, &["metadata", "namespace"])
    ));
    format!(
        "OLM does not retry; fix the reported problem, remove the existing objects with {cleanup}, and run the bundle again"
    )
}

fn describe_csv(target: &str, phase: &str, message: &str) -> String {
    let colon = if message.is_empty() { "" } else { ": " };
    format!("ClusterServiceVersion {target}: {phase}{colon}{message}")
}

/// Returns a text field of an object; empty if the field is missing.
pub(super) fn field<'a>(object: &'a Value, path: &[&str]) -> &'a str {
    text(object, path).unwrap_or_default()
}

/// Returns the last selected element of a list. A bundle lookup is replaced by the conditions that it contains.
fn last<'a>(
    object: &'a Value,
    path: &[&str],
    is_selected: impl Fn(&Value) -> bool,
) -> Option<&'a Value> {
    let list = get_path(object, path).and_then(Value::as_array)?;
    let nested = list.iter().flat_map(|element| {
        let own = element.get("conditions").and_then(Value::as_array);
        own.map_or(std::slice::from_ref(element), Vec::as_slice)
    });
    nested.filter(|condition| is_selected(condition)).last()
}

/// Returns `Reason: message` of a condition, or of another object with these fields.
pub(super) fn describe(condition: &Value) -> String {
    let parts = [
        field(condition, &["reason"]),
        field(condition, &["message"]),
    ];
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    if parts.is_empty() {
        return "no reason given".to_owned();
    }
    parts.join(": ")
}

#[cfg(test)]
mod tests;
