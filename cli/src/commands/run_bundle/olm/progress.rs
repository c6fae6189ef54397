//! Progress of OLM with an operator, and the next step: InstallPlans to approve, one version after the other.
//!
//! OLM does not retry an InstallPlan in the phase `Failed`, which a plan reaches after a minute of attempts. OLM also
//! does not retry a bundle that a Job failed to unpack, unless the OperatorGroup requests retries. OLM retries
//! everything else: a plan that reports `InstallCheckFailed` or `retrying execution`, and a failed resolution, whose
//! cause may be that OLM has not read the new catalog yet.

use kube::ResourceExt as _;
use manifests::api::olm::{
    ClusterServiceVersion, InstallPlan, OlmCondition, OperatorGroup, Subscription,
};

use super::{
    api::{Olm, OlmObject},
    replacement::{ReplacedCsv, cleanup_command},
    unpack_failures::{UnpackFailures, unpack_condition},
};
use crate::commands::run_bundle::command;

/// State of an operator in OLM.
#[derive(Debug, Clone, Copy)]
pub(super) struct OlmState<'a> {
    /// Desired version: the name of a ClusterServiceVersion.
    pub(super) target: &'a str,
    pub(super) subscription: &'a Subscription,
    /// InstallPlan that the Subscription names.
    pub(super) plan: Option<&'a InstallPlan>,
    pub(super) before: &'a PriorFailures,
    /// Image of the bundle as its catalog records it.
    pub(super) image: &'a str,
    /// Bundles that OLM failed to unpack.
    pub(super) failed_unpack: &'a UnpackFailures,
    /// ClusterServiceVersion of the desired version.
    pub(super) csv: Option<&'a ClusterServiceVersion>,
    /// Version that is to be replaced, while it blocks the upgrade.
    pub(super) replaced_csv: Option<&'a ReplacedCsv>,
}

/// Failures from before the first change, which are unrelated to the change.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct PriorFailures {
    /// Name of an InstallPlan that had failed.
    pub(super) failed_plan: Option<String>,
    /// Condition of the Subscription about a bundle that could not be unpacked.
    pub(super) unpacking: Option<OlmCondition>,
}

impl PriorFailures {
    /// Returns the failures of a Subscription and its InstallPlan.
    pub(super) fn new(subscription: &Subscription, plan: Option<&InstallPlan>) -> Self {
        let failed = plan.filter(|plan| plan.has_failed());
        Self {
            failed_plan: failed.map(|plan| plan.name().to_owned()),
            unpacking: unpack_condition(subscription).cloned(),
        }
    }
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

/// Decides the next step.
pub(super) fn next(state: OlmState<'_>) -> NextStep {
    let next = by_plans(state);
    let Some(replaced_csv) = state.replaced_csv else {
        return next;
    };
    match (next, replaced_csv.stall_reason(state.subscription)) {
        (NextStep::Wait(_) | NextStep::Approve(_), Some(reason)) => NextStep::Failed(reason),
        // An approved plan would add one more version that waits, and no other version could take its place.
        (NextStep::Approve(plan), None) if replaced_csv.is_first() => NextStep::Wait(format!(
            "the approval of InstallPlan {plan}: {}",
            replaced_csv.describe()
        )),
        (NextStep::Wait(event), None) => {
            NextStep::Wait(format!("{event}; {}", replaced_csv.describe()))
        }
        (next, _) => next,
    }
}

/// Decides the next step without regard to the version that is to be replaced.
fn by_plans(state: OlmState<'_>) -> NextStep {
    let OlmState {
        target,
        subscription,
        csv,
        ..
    } = state;
    let installed = subscription.status.installed_csv.as_str();
    let latest = csv.map(|csv| csv.status.latest.clone()).unwrap_or_default();
    let installs_target = state.plan.is_some_and(|plan| plan.csvs().contains(target));
    // The plan has created the desired version, and OLM makes no other plan for that version.
    let has_started = installs_target && csv.is_some() && latest.phase != "Succeeded";
    if let Some(plan) = state.plan
        && let Some(reason) = failure(plan)
        // An earlier failure does not concern this change.
        && (has_started || state.before.failed_plan.as_deref() != Some(plan.name()))
    {
        let remedy = if has_started {
            resume_remedy(plan)
        } else if csv.is_none() && subscription.is_upgrade_pending() {
            replan_remedy(subscription)
        } else {
            return NextStep::Failed(reason);
        };
        return NextStep::Failed(format!("{reason}; {remedy}"));
    }
    // The Subscription reports the result of a complete plan a moment later.
    let plan = state.plan.filter(|plan| !plan.has_ended());
    let running = plan.filter(|plan| plan.spec.approved).map(|plan| {
        let problem = problem(plan).unwrap_or_else(|| plan.status.phase.clone());
        format!("InstallPlan {}: {problem}", plan.name())
    });
    match latest.phase.as_str() {
        // Some objects of a version do not exist before its plan is complete.
        "Succeeded" if installed == target => {
            let running = running.filter(|_| installs_target);
            return running.map_or(NextStep::Done, NextStep::Wait);
        }
        "Failed" => {
            return NextStep::Failed(format!(
                "csv failed: reason: {:?}, message: {:?}",
                latest.reason, latest.message
            ));
        }
        "" | "Succeeded" => {}
        phase => {
            let colon = if latest.message.is_empty() { "" } else { ": " };
            let csv = format!(
                "ClusterServiceVersion {target}: {phase}{colon}{}",
                latest.message
            );
            return NextStep::Wait(match running {
                // The problem of the plan is the reason for missing objects.
                Some(event) if has_started => format!("{event}; {csv}"),
                _ => csv,
            });
        }
    }
    if let Some(event) = running {
        return NextStep::Wait(event);
    }
    if let Some(plan) = plan {
        return NextStep::Approve(plan.name().to_owned());
    }
    if let Some(reason) = unpack_failure(state) {
        return NextStep::Failed(reason);
    }
    NextStep::Wait(match (problems(subscription).as_str(), installed) {
        ("", "") => "OLM to create an InstallPlan".to_owned(),
        ("", _) => format!("OLM to continue from {installed}"),
        (problems, _) => format!("Subscription {}: {problems}", subscription.name()),
    })
}

/// Returns the problems of a Subscription. OLM keeps a condition in its place until the problem is resolved, and changes it
/// in place, so that the order of several does not show the latest one.
fn problems(subscription: &Subscription) -> String {
    let bad = subscription.status.conditions.iter().filter(|condition| {
        let type_ = &condition.type_;
        condition.status == "True" && (type_.ends_with("Failed") || type_.ends_with("Unhealthy"))
    });
    bad.map(OlmCondition::describe)
        .collect::<Vec<_>>()
        .join("; ")
}

/// Returns why the version will not be installed because OLM failed to unpack a bundle. An earlier condition may be
/// repeated with the same text for this bundle; then the bundle's own Job decides.
fn unpack_failure(state: OlmState<'_>) -> Option<String> {
    let condition = unpack_condition(state.subscription)?;
    let is_new = state.before.unpacking.as_ref() != Some(condition);
    let details = match state.failed_unpack {
        UnpackFailures::Images(images) if images.contains(state.image) => format!(
            "the bundle is {}; {}",
            state.image,
            unpack_remedy(state.subscription)
        ),
        UnpackFailures::Images(images) if is_new => {
            let images: Vec<&str> = images.iter().map(String::as_str).collect();
            let images = if images.is_empty() {
                "none".to_owned()
            } else {
                images.join(", ")
            };
            format!(
                "it is not the bundle of {} and may belong to another package; failed Jobs of: {images}; OLM installs \
                 nothing in the namespace until this is fixed; make sure that these images can be pulled, or remove the \
                 Subscriptions that need them, and run the same command again",
                state.target
            )
        }
        UnpackFailures::Unknown if is_new => format!(
            "a failing bundle of any package in the namespace blocks this one; {}",
            unpack_remedy(state.subscription)
        ),
        _ => return None,
    };
    let reason = condition.describe();
    Some(format!(
        "OLM failed to unpack a bundle: {reason}; {details}"
    ))
}

/// Returns why an InstallPlan has failed; `None` if it has not.
fn failure(plan: &InstallPlan) -> Option<String> {
    plan.has_failed().then(|| {
        let reason = problem(plan).unwrap_or_else(|| "no reason given".to_owned());
        format!("InstallPlan {} failed: {reason}", plan.name())
    })
}

/// Returns the last problem of an InstallPlan.
fn problem(plan: &InstallPlan) -> Option<String> {
    let mut conditions = plan.status.conditions.iter();
    // OLM sets the reason to "Unknown" when its message no longer applies.
    let failure =
        conditions.rfind(|condition| condition.status == "False" && condition.reason != "Unknown");
    let problem = failure.map_or_else(|| plan.status.message.clone(), OlmCondition::describe);
    Some(problem).filter(|problem| !problem.is_empty())
}

/// State that decides whether OLM continues after the InstallPlan that a Subscription names.
#[derive(Debug)]
pub(super) struct StallCheck<'a> {
    /// Desired version: the name of a ClusterServiceVersion.
    target: &'a str,
    subscription: &'a Subscription,
    /// InstallPlan; `None` if it does not exist.
    plan: Option<&'a InstallPlan>,
    /// Whether the version exists that OLM is installing, or has installed.
    has_current: bool,
    /// All Subscriptions of the namespace.
    all: Vec<Subscription>,
    groups: Vec<OperatorGroup>,
}

impl<'a> StallCheck<'a> {
    /// Reads the objects that decide beside the Subscription and its InstallPlan.
    pub(super) async fn read(
        olm: Olm<'_>,
        namespace: &str,
        target: &'a str,
        subscription: &'a Subscription,
        plan: Option<&'a InstallPlan>,
    ) -> anyhow::Result<Self> {
        let current = subscription.status.current_csv.as_str();
        let current: Option<ClusterServiceVersion> = olm.find(namespace, current).await?;
        Ok(Self {
            target,
            subscription,
            plan,
            has_current: current.is_some(),
            all: olm.list(namespace).await?,
            groups: olm.list(namespace).await?,
        })
    }

    /// Returns why the plan will not create the version that OLM is upgrading to: it has failed or was deleted.
    pub(super) fn failure(&self) -> Option<String> {
        let name = self.subscription.install_plan();
        let name = name.filter(|_| !self.has_current)?;
        let deleted = || Some(format!("InstallPlan {name} was deleted"));
        self.plan.map_or_else(deleted, failure)
    }

    /// Returns why OLM will never continue, with a remedy. OLM looks for new versions in a namespace unless all
    /// Subscriptions there wait for a plan. It makes no plan for a version that a Subscription is already upgrading to. It
    /// does not wait for a failed plan if upgrades fail forward in the OperatorGroup.
    pub(super) fn stall_reason(&self) -> Option<String> {
        let reason = self.failure()?;
        let fails_forward =
            self.plan.is_some() && self.groups.iter().any(OperatorGroup::fails_forward);
        let is_waiting = |subscription: &Subscription| {
            subscription.is_upgrade_pending() && subscription.install_plan().is_some()
        };
        let resolves = fails_forward || !self.all.iter().all(is_waiting);
        let is_same_target = self.subscription.status.current_csv == self.target;
        (!resolves || is_same_target)
            .then(|| format!("{reason}; {}", replan_remedy(self.subscription)))
    }
}

/// Returns the remedy for a failed InstallPlan: a new plan.
fn replan_remedy(subscription: &Subscription) -> String {
    let installed = &subscription.status.installed_csv;
    if installed.is_empty() {
        return reinstall_remedy(subscription);
    }
    let status = format!(
        r#"{{"state":"AtLatestKnown","currentCSV":{installed:?},"installPlanRef":null,"installplan":null}}"#
    );
    patch_remedy("create a new plan", subscription, &status)
}

/// Returns the remedy for a failed InstallPlan: to resume it.
fn resume_remedy(plan: &InstallPlan) -> String {
    let status = r#"{"phase":"Installing","startTime":null}"#;
    patch_remedy("resume the plan", plan, status)
}

/// Returns the command that changes the status of an object, so that OLM reaches a goal.
fn patch_remedy<K: OlmObject>(goal: &str, object: &K, status: &str) -> String {
    format!(
        "OLM does not retry; fix the reported problem and make OLM {goal}: kubectl patch {}.operators.coreos.com {} \
         --namespace {} --subresource status --type merge --patch '{{\"status\":{status}}}'; then run the same command again",
        K::plural(&()),
        object.name_any(),
        object.namespace().unwrap_or_default()
    )
}

/// Returns the remedy for a bundle that OLM cannot unpack.
fn unpack_remedy(subscription: &Subscription) -> String {
    if subscription.status.installed_csv.is_empty() {
        return reinstall_remedy(subscription);
    }
    format!(
        "OLM does not retry; publish a bundle that OLM can pull, and upgrade to it with {}; the failed bundle is then \
         skipped, and the running operator is not changed",
        command("run bundle-upgrade IMAGE")
    )
}

/// Returns the remedy if nothing is installed yet.
fn reinstall_remedy(subscription: &Subscription) -> String {
    format!(
        "OLM does not retry; fix the reported problem, remove the existing objects with {}, and run the bundle again",
        cleanup_command(subscription)
    )
}

#[cfg(test)]
mod tests;
