//! Versions that OLM does not replace yet. OLM replaces only a version that has succeeded, or one that has failed if
//! the OperatorGroup allows that. OLM does not report such a version: the next version remains Pending with the reason
//! only in OLM's log, or OLM makes no plan at all.
//!
//! A version that never becomes healthy repeats the same phases: Installing for five minutes, Failed for a moment,
//! Pending. The phase alone is therefore not conclusive. The conditions are, of which OLM keeps the last twenty.

use kube::ResourceExt as _;
use manifests::api::olm::{ClusterServiceVersion, OlmCondition, OperatorGroup, Subscription};

use super::api::Olm;
use crate::commands::run_bundle::command;

/// Maximum length of a chain of versions that wait for one another.
const MAX_CHAIN: usize = 50;
/// Reasons of a transient failure: OLM retries when the cause is resolved.
const TRANSIENT: [&str; 2] = ["ComponentUnhealthy", "RequirementsNotMet"];
/// Reasons for which OLM does not check whether upgrades fail forward.
const BLOCKING: [&str; 7] = [
    "CannotModifyStaticOperatorGroupProvidedAPIs",
    "InstallComponentFailedNoRetry",
    "InterOperatorGroupOwnerConflict",
    "NoOperatorGroup",
    "NoTargetNamespaces",
    "TooManyOperatorGroups",
    "UnsupportedOperatorGroup",
];

/// ClusterServiceVersion that is to be replaced, but cannot be replaced yet.
#[derive(Debug)]
pub(super) struct ReplacedCsv {
    csv: ClusterServiceVersion,
    /// Whether OLM upgrades from a failed version.
    fails_forward: bool,
    /// OperatorGroup that could allow such upgrades; `None` if it already allows them, or if OLM does not check that.
    group: Option<String>,
}

/// Returns the version that blocks the upgrade to a target, given the target's ClusterServiceVersion, if any, and its
/// Subscription.
pub(super) async fn replaced_csv(
    olm: Olm<'_>,
    namespace: &str,
    (target_name, target): (&str, Option<&ClusterServiceVersion>),
    subscription: &Subscription,
) -> anyhow::Result<Option<ReplacedCsv>> {
    let find = async |name: &str| olm.find::<ClusterServiceVersion>(namespace, name).await;
    let [first, fallback] = replaced(target, subscription);
    // OLM may have created the target since the Subscription was read.
    let mut next = if first == target_name {
        None
    } else {
        find(first).await?
    };
    if next.is_none() && fallback != first {
        next = find(fallback).await?;
    }
    let mut found = None;
    for _ in 0..MAX_CHAIN {
        let Some(csv) = next.filter(is_blocking) else {
            break;
        };
        // A version that has not started waits for its predecessor.
        next = if has_failed(&csv) {
            None
        } else {
            find(csv.spec.replaces.as_str()).await?
        };
        found = Some(csv);
    }
    let Some(csv) = found else {
        return Ok(None);
    };
    let groups: Vec<OperatorGroup> = olm.list(namespace).await?;
    Ok(Some(ReplacedCsv::new(csv, &groups)))
}

/// Returns the names of the ClusterServiceVersion that is replaced next: the first existing one is used, and an empty name
/// means none. A target that has started has already replaced its predecessor: then both are empty.
///
/// OLM creates a ClusterServiceVersion first, and sets `installedCSV` of the Subscription at its next sync. Until then,
/// only `currentCSV` names the ClusterServiceVersion.
fn replaced<'a>(
    target: Option<&'a ClusterServiceVersion>,
    subscription: &'a Subscription,
) -> [&'a str; 2] {
    let status = &subscription.status;
    match target {
        None => [status.current_csv.as_str(), status.installed_csv.as_str()],
        Some(csv) if matches!(csv.status.latest.phase.as_str(), "" | "Pending") => {
            [csv.spec.replaces.as_str(), ""]
        }
        Some(_) => ["", ""],
    }
}

/// Reports whether OLM does not upgrade past a version.
fn is_blocking(csv: &ClusterServiceVersion) -> bool {
    let phase = csv.status.latest.phase.as_str();
    !matches!(phase, "Succeeded" | "Replacing" | "Deleting")
}

/// Reports whether a version has failed, even if OLM is installing it again.
fn has_failed(csv: &ClusterServiceVersion) -> bool {
    let is_failure = |condition: &OlmCondition| {
        condition.phase == "Failed" && !TRANSIENT.contains(&condition.reason.as_str())
    };
    let all = &csv.status.conditions;
    let has_succeeded = |condition: &OlmCondition| condition.phase == "Succeeded";
    let last_success = all.iter().rposition(has_succeeded).unwrap_or(0);
    let recent = all.iter().skip(last_success);
    let mut pairs = recent.clone().zip(recent.skip(1));
    // A fixed version is installed again for another reason.
    is_failure(&csv.status.latest)
        || pairs.any(|(before, after)| is_failure(before) && after.reason == "NeedsReinstall")
}

impl ReplacedCsv {
    pub(super) fn new(csv: ClusterServiceVersion, groups: &[OperatorGroup]) -> Self {
        let group = match groups {
            [group] if !BLOCKING.contains(&csv.status.latest.reason.as_str()) => Some(group),
            _ => None,
        };
        let fails_forward = group.is_some_and(OperatorGroup::fails_forward);
        let group = group.filter(|_| !fails_forward);
        Self {
            csv,
            fails_forward,
            group: group.map(|group| group.name().to_owned()),
        }
    }

    /// Describes the state of the version, and why OLM does not replace it.
    pub(super) fn describe(&self) -> String {
        self.describe_as("is in phase")
    }

    fn describe_as(&self, state: &str) -> String {
        let (name, latest) = (self.csv.name(), &self.csv.status.latest);
        let phase = match latest.phase.as_str() {
            "" => "no phase",
            phase => phase,
        };
        let rule = if self.fails_forward {
            "OLM replaces only versions that succeeded or failed"
        } else {
            "OLM replaces only versions that succeeded"
        };
        let reason = latest.describe();
        format!("{name}, which is to be replaced, {state} {phase}: {reason}; {rule}")
    }

    /// Reports whether the next version must not start before this one has succeeded.
    pub(super) fn is_first(&self) -> bool {
        !self.fails_forward
    }

    /// Returns why OLM will never continue, with a remedy; `None` if it may still continue.
    pub(super) fn stall_reason(&self, subscription: &Subscription) -> Option<String> {
        (has_failed(&self.csv) && self.is_first()).then(|| {
            format!(
                "{}; make sure that it becomes healthy, or {}",
                self.describe_as("has failed and is in phase"),
                self.remedy(subscription)
            )
        })
    }

    /// Returns the remedy if the version never becomes healthy.
    pub(super) fn remedy(&self, subscription: &Subscription) -> String {
        let reinstall = format!(
            "remove it with {} and run the bundle with {}",
            cleanup_command(subscription),
            command("run bundle IMAGE")
        );
        let Some(group) = &self.group else {
            return reinstall;
        };
        let namespace = subscription.namespace().unwrap_or_default();
        format!(
            "make OLM continue from the failed version: kubectl patch operatorgroups.operators.coreos.com {group} \
             --namespace {namespace} --type merge --patch '{{\"spec\":{{\"upgradeStrategy\":\"{}\"}}}}'; then run the same \
             command again; or {reinstall}",
            OperatorGroup::FAIL_FORWARD
        )
    }
}

/// Returns the command that removes the package of a Subscription.
pub(super) fn cleanup_command(subscription: &Subscription) -> String {
    let namespace = subscription.namespace().unwrap_or_default();
    command(&format!(
        "cleanup {} --namespace {namespace}",
        subscription.spec.name
    ))
}

#[cfg(test)]
pub(super) mod tests;
