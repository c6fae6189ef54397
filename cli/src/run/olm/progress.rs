//! How far OLM is with an operator, and what it waits for: InstallPlans to be approved, one version after the other.
//!
//! OLM gives up for good: an InstallPlan in the phase `Failed`, after a minute of tries; a bundle that its Job could not unpack,
//! unless the OperatorGroup asks for more tries. Everything else it tries again: a plan that says `InstallCheckFailed` or
//! `retrying execution`, and a resolution that has failed, for that may be so because it has not seen the new catalog yet.

use std::collections::BTreeSet;

use manifests::object::{at, text};
use serde_json::Value;

use super::{
    approving::csvs,
    replacing::{FORWARD, Former},
    unpacking::GivenUp,
};
use crate::run::command;

/// What OLM says of an operator.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen<'a> {
    /// The version that is wanted: a ClusterServiceVersion's name.
    pub(super) target: &'a str,
    pub(super) subscription: &'a Value,
    /// The one that the Subscription names.
    pub(super) plan: Option<&'a Value>,
    pub(super) before: &'a Earlier,
    /// The bundle's image, as its catalog has it.
    pub(super) image: &'a str,
    /// What could not be unpacked.
    pub(super) given_up: &'a GivenUp,
    /// The one that is wanted.
    pub(super) csv: Option<&'a Value>,
    /// What it replaces, as long as that keeps it.
    pub(super) former: Option<&'a Former>,
}

/// What was the matter before anything was changed, and so says nothing of the change.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Earlier {
    /// An InstallPlan that had failed.
    pub(super) failed_plan: Option<String>,
    /// The Subscription's condition of a bundle that could not be unpacked.
    pub(super) unpacking: Option<Value>,
}

/// What is next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Next {
    /// Nothing can be done; for what it waits.
    Wait(String),
    /// An InstallPlan is to be approved.
    Approve(String),
    /// It is installed.
    Done,
    /// It will not be; why.
    Failed(String),
}

/// How far an InstallPlan is.
enum Progress {
    Complete,
    /// For good: OLM never looks at it again.
    Failed(String),
    Unapproved,
    /// OLM is at it, however often it has to try; what it says.
    Goes(String),
}

/// Decides.
pub(super) fn next(seen: Seen<'_>) -> Next {
    let next = by_plans(seen);
    let (Some(former), Next::Wait(_) | Next::Approve(_)) = (seen.former, &next) else {
        return next;
    };
    if let Some(why) = former.stuck(seen.subscription) {
        return Next::Failed(why);
    }
    match next {
        // Were it approved, there would be one version more that waits, and none could be put in its place.
        Next::Approve(plan) if former.is_first() => Next::Wait(format!(
            "the approval of InstallPlan {plan}: {}",
            former.told()
        )),
        Next::Wait(what) => Next::Wait(format!("{what}; {}", former.told())),
        next => next,
    }
}

/// Decides, whatever is to be replaced.
fn by_plans(seen: Seen<'_>) -> Next {
    let Seen { target, csv, .. } = seen;
    let installed = field(seen.subscription, &["status", "installedCSV"]);
    let name = seen
        .plan
        .map_or("", |plan| field(plan, &["metadata", "name"]));
    let plan = seen.plan.filter(|_| !name.is_empty());
    // It has begun with the version that is wanted, and there will be no other plan for that.
    let is_begun = csv.is_some_and(|it| field(it, &["status", "phase"]) != "Succeeded")
        && plan.is_some_and(|it| csvs(it).contains(target));
    // What failed before is not what is waited for.
    let progress = plan.map(progress_of).filter(|it| {
        is_begun
            || !matches!(it, Progress::Failed(_))
            || seen.before.failed_plan.as_deref() != Some(name)
    });
    if let Some(Progress::Failed(why)) = &progress {
        let mut why = format!("InstallPlan {name} failed: {why}");
        if let Some(plan) = plan.filter(|_| is_begun) {
            why = format!("{why}; {}", further(plan));
        } else if csv.is_none() && is_pending(seen.subscription) {
            why = format!("{why}; {}", again(seen.subscription));
        }
        return Next::Failed(why);
    }
    let goes = |what: &str| Next::Wait(format!("InstallPlan {name}: {what}"));
    if let Some(csv) = csv {
        let said = |key| field(csv, &["status", key]);
        match said("phase") {
            // Not everything that belongs to it is there before its plan is done.
            "Succeeded" if installed == target => {
                return match &progress {
                    Some(Progress::Goes(what))
                        if plan.is_some_and(|it| csvs(it).contains(target)) =>
                    {
                        goes(what)
                    }
                    _ => Next::Done,
                };
            }
            "Failed" => {
                return Next::Failed(format!(
                    "csv failed: reason: {:?}, message: {:?}",
                    said("reason"),
                    said("message")
                ));
            }
            "" | "Succeeded" => {}
            phase => {
                let what = waits(target, phase, said("message"));
                return match &progress {
                    // What keeps the plan is why something is missing.
                    Some(Progress::Goes(why)) if is_begun => goes(&format!("{why}; {what}")),
                    _ => Next::Wait(what),
                };
            }
        }
    }
    match progress {
        Some(Progress::Unapproved) => return Next::Approve(name.to_owned()),
        Some(Progress::Goes(what)) => return goes(&what),
        // What came of a complete one is told by the Subscription, a moment later.
        Some(Progress::Complete | Progress::Failed(_)) | None => {}
    }
    if let Some(why) = given_up_now(seen) {
        return Next::Failed(why);
    }
    let troubles = troubles(seen.subscription);
    Next::Wait(match troubles.as_str() {
        troubles if !troubles.is_empty() => format!(
            "Subscription {}: {troubles}",
            field(seen.subscription, &["metadata", "name"])
        ),
        _ if installed.is_empty() => "OLM to make an InstallPlan".to_owned(),
        _ => format!("OLM to go on from {installed}"),
    })
}

/// What is the matter with a Subscription. OLM leaves a condition where it is until all is well again, and changes it in place: none
/// of several is known to be the newest.
fn troubles(subscription: &Value) -> String {
    let conditions = at(subscription, &["status", "conditions"]).and_then(Value::as_array);
    let bad = conditions.into_iter().flatten().filter(|it| {
        let kind = field(it, &["type"]);
        (kind.ends_with("Failed") || kind.ends_with("Unhealthy"))
            && field(it, &["status"]) == "True"
    });
    bad.map(told).collect::<Vec<_>>().join("; ")
}

/// Why nothing will come of it, for OLM could not unpack a bundle. What it has said before may be said again of this one, with the
/// same words; then the bundle's own Job tells.
fn given_up_now(seen: Seen<'_>) -> Option<String> {
    let why = unpacking(seen.subscription)?;
    let is_new = seen.before.unpacking.as_ref() != Some(why);
    let (why, remedy) = (told(why), instead(seen.subscription));
    match seen.given_up {
        GivenUp::Images(images) if images.contains(seen.image) => Some(format!(
            "OLM cannot unpack a bundle: {why}; it is {}; {remedy}",
            seen.image
        )),
        GivenUp::Images(images) if is_new => {
            let images: Vec<&str> = images.iter().map(String::as_str).collect();
            Some(format!(
                "OLM cannot unpack a bundle: {why}; it is not that of {}, and may be another package's; Jobs have failed of: {}; \
                 OLM installs nothing in the namespace before; see that they can be pulled, or remove what wants them, and run the \
                 same command again",
                seen.target,
                if images.is_empty() {
                    "none here".to_owned()
                } else {
                    images.join(", ")
                }
            ))
        }
        GivenUp::Something if is_new => Some(format!(
            "OLM cannot unpack a bundle: {why}; it may be another package's, which keeps this one waiting as well; {remedy}"
        )),
        GivenUp::Images(_) | GivenUp::Something | GivenUp::Nothing => None,
    }
}

fn progress_of(plan: &Value) -> Progress {
    let conditions = ["status", "conditions"];
    // OLM writes "Unknown" when what it had to say is over.
    let is_false =
        |it: &Value| field(it, &["status"]) == "False" && field(it, &["reason"]) != "Unknown";
    let refused = last(plan, &conditions, is_false).map(told);
    let message = Some(field(plan, &["status", "message"]))
        .filter(|it| !it.is_empty())
        .map(str::to_owned);
    let lookup = |kind: &str| {
        let is_meant = |it: &Value| {
            field(it, &["type"]) == kind && matches!(field(it, &["status"]), "True" | "")
        };
        last(plan, &["status", "bundleLookups"], is_meant).map(told)
    };
    let is_approved = at(plan, &["spec", "approved"]) == Some(&Value::Bool(true));
    match field(plan, &["status", "phase"]) {
        "Failed" => {
            let why = refused.or(message).or_else(|| lookup("BundleLookupFailed"));
            Progress::Failed(why.unwrap_or_else(|| "it does not say why".to_owned()))
        }
        "Complete" => Progress::Complete,
        _ if !is_approved => Progress::Unapproved,
        phase => match lookup("BundleLookupFailed") {
            // An older OLM unpacks bundles here, and does not try it again.
            Some(why) => Progress::Failed(why),
            None => Progress::Goes(
                refused
                    .or(message)
                    .or_else(|| lookup("BundleLookupPending"))
                    .unwrap_or_else(|| phase.to_owned()),
            ),
        },
    }
}

/// What was the matter, before anything is changed.
pub(super) fn before(subscription: &Value, plan: Option<&Value>) -> Earlier {
    let failed = plan.filter(|it| has_failed(it));
    let name = failed.and_then(|it| text(it, &["metadata", "name"]));
    Earlier {
        failed_plan: name.map(str::to_owned),
        unpacking: unpacking(subscription).cloned(),
    }
}

fn has_failed(plan: &Value) -> bool {
    field(plan, &["status", "phase"]) == "Failed"
}

/// The condition that says that OLM has given a bundle up. It is on every Subscription of the namespace, whosever bundle it is.
fn unpacking(subscription: &Value) -> Option<&Value> {
    last(subscription, &["status", "conditions"], |it| {
        let reason = field(it, &["reason"]);
        field(it, &["type"]) == "BundleUnpackFailed"
            && field(it, &["status"]) == "True"
            // A plan that could not be written is tried again.
            && matches!(reason, "BundleUnpackFailed" | "ErrorPreventedUnpacking")
    })
}

/// Whether OLM says that it could not unpack something.
pub(super) fn has_not_unpacked(subscription: &Value) -> bool {
    unpacking(subscription).is_some()
}

/// What OLM could not unpack, given the images whose Jobs have failed, as far as one may know them.
pub(super) fn given_up(
    subscription: &Value,
    groups: &[Value],
    failed: Option<BTreeSet<String>>,
) -> GivenUp {
    match unpacking(subscription) {
        None => GivenUp::Nothing,
        Some(_) if unpacks_again(groups) => GivenUp::Nothing,
        // Its Job has not failed then.
        Some(why) if field(why, &["reason"]) == "ErrorPreventedUnpacking" => GivenUp::Something,
        Some(_) => failed.map_or(GivenUp::Something, GivenUp::Images),
    }
}

/// Whether OLM tries again what it could not unpack: the OperatorGroup has to ask for it.
fn unpacks_again(groups: &[Value]) -> bool {
    const INTERVAL: &str = "operatorframework.io/bundle-unpack-min-retry-interval";
    groups
        .iter()
        .any(|it| at(it, &["metadata", "annotations", INTERVAL]).is_some())
}

/// What decides whether OLM goes on from the InstallPlan that a Subscription names.
#[derive(Debug, Clone, Copy)]
pub(super) struct Halt<'a> {
    /// The version that is wanted: a ClusterServiceVersion's name.
    pub(super) target: &'a str,
    pub(super) subscription: &'a Value,
    /// The plan, unless it is gone.
    pub(super) plan: Option<&'a Value>,
    /// Whether the version is there that OLM is at, or on its way to.
    pub(super) has_current: bool,
    /// All Subscriptions of the namespace.
    pub(super) all: &'a [Value],
    pub(super) groups: &'a [Value],
}

impl Halt<'_> {
    /// Why the plan will install nothing more: it has failed, or somebody has deleted it before its version was there.
    fn given_up(&self) -> Option<String> {
        let name = plan_of(self.subscription).filter(|_| !self.has_current)?;
        let Some(plan) = self.plan else {
            return Some(format!("InstallPlan {name} is gone"));
        };
        match progress_of(plan) {
            Progress::Failed(why) if has_failed(plan) => {
                Some(format!("InstallPlan {name} failed: {why}"))
            }
            _ => None,
        }
    }

    /// Whether the version that OLM was on its way to will not come by that plan.
    pub(super) fn has_given_up(&self) -> bool {
        self.given_up().is_some()
    }

    /// Whether OLM will never go on, why not, and what its owner can do: it looks for what is new in a namespace as long as not
    /// all Subscriptions there wait for a plan, and makes none for the version that one of them is on its way to already. A plan
    /// that has failed is none to wait for where the OperatorGroup says that upgrades fail forward.
    pub(super) fn stuck(&self) -> Option<String> {
        let why = self.given_up()?;
        let is_forward = |it: &Value| field(it, &["spec", "upgradeStrategy"]) == FORWARD;
        let is_forward = self.plan.is_some() && self.groups.iter().any(is_forward);
        let waits = |it: &Value| is_pending(it) && plan_of(it).is_some();
        let looks = is_forward || !waits(self.subscription) || !self.all.iter().all(waits);
        let is_again = field(self.subscription, &["status", "currentCSV"]) == self.target;
        (!looks || is_again).then(|| format!("{why}; {}", again(self.subscription)))
    }
}

/// The InstallPlan that a Subscription names.
pub(super) fn plan_of(subscription: &Value) -> Option<&str> {
    text(subscription, &["status", "installPlanRef", "name"]).filter(|it| !it.is_empty())
}

/// Whether the version that the Subscription is on its way to is not there yet.
fn is_pending(subscription: &Value) -> bool {
    field(subscription, &["status", "state"]) == "UpgradePending"
}

/// What gets OLM past an InstallPlan that has failed.
fn again(subscription: &Value) -> String {
    let installed = field(subscription, &["status", "installedCSV"]);
    if installed.is_empty() {
        return anew(subscription);
    }
    format!(
        "OLM does not try it again: correct what it says, have OLM plan anew with: kubectl patch \
         subscriptions.operators.coreos.com {} --namespace {} --subresource status --type merge --patch \
         '{{\"status\":{{\"state\":\"AtLatestKnown\",\"currentCSV\":{installed:?},\"installPlanRef\":null,\"installplan\":null}}}}'; \
         and run the same command again",
        field(subscription, &["metadata", "name"]),
        field(subscription, &["metadata", "namespace"])
    )
}

/// What gets OLM to go on with an InstallPlan that has failed, from where it was.
fn further(plan: &Value) -> String {
    format!(
        "OLM does not try it again: correct what it says, have OLM go on with: kubectl patch \
         installplans.operators.coreos.com {} --namespace {} --subresource status --type merge --patch \
         '{{\"status\":{{\"phase\":\"Installing\",\"startTime\":null}}}}'; and run the same command again",
        field(plan, &["metadata", "name"]),
        field(plan, &["metadata", "namespace"])
    )
}

/// What gets OLM past a bundle that it cannot unpack.
fn instead(subscription: &Value) -> String {
    if field(subscription, &["status", "installedCSV"]).is_empty() {
        return anew(subscription);
    }
    format!(
        "OLM does not try it again: publish a bundle that it can pull, and upgrade to that one with {}; the other one is left out \
         then, and the operator that runs is left alone",
        command("run bundle-upgrade IMAGE")
    )
}

/// What helps where nothing is installed yet.
fn anew(subscription: &Value) -> String {
    let cleanup = command(&format!(
        "cleanup {} --namespace {}",
        field(subscription, &["spec", "name"]),
        field(subscription, &["metadata", "namespace"])
    ));
    format!(
        "OLM does not try it again: correct what it says, remove what is there with {cleanup}, and run the bundle again"
    )
}

fn waits(target: &str, phase: &str, message: &str) -> String {
    let colon = if message.is_empty() { "" } else { ": " };
    format!("ClusterServiceVersion {target}: {phase}{colon}{message}")
}

/// A text of an object, empty where there is none.
pub(super) fn field<'a>(object: &'a Value, path: &[&str]) -> &'a str {
    text(object, path).unwrap_or_default()
}

/// The last condition of that kind; of bundles that are looked up, among their own.
fn last<'a>(
    object: &'a Value,
    path: &[&str],
    is_meant: impl Fn(&Value) -> bool,
) -> Option<&'a Value> {
    let list = at(object, path).and_then(Value::as_array)?;
    let nested = list.iter().flat_map(|it| {
        let own = it.get("conditions").and_then(Value::as_array);
        own.map_or(std::slice::from_ref(it), Vec::as_slice)
    });
    nested.filter(|it| is_meant(it)).last()
}

/// `Reason: message` of a condition, or of what has both.
pub(super) fn told(condition: &Value) -> String {
    let parts = [
        field(condition, &["reason"]),
        field(condition, &["message"]),
    ];
    let parts: Vec<&str> = parts.into_iter().filter(|it| !it.is_empty()).collect();
    if parts.is_empty() {
        return "it does not say why".to_owned();
    }
    parts.join(": ")
}

#[cfg(test)]
mod tests;
