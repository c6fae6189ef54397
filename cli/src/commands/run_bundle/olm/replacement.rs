//! Versions that OLM does not replace yet. OLM replaces only a version that has succeeded, or one that has failed if the
//! OperatorGroup allows that. It does not report this: the next version stays Pending with the reason only in OLM's log, or
//! OLM makes no plan at all.
//!
//! A version that never becomes healthy repeats the same phases: Installing for five minutes, Failed for a
//! moment, Pending. Its phase alone is thus not conclusive. Its conditions are, of which OLM keeps the last twenty.

use manifests::object::get_path;
use serde_json::Value;

use super::{
    api::{Kind, Olm},
    progress::{describe, field},
};
use crate::commands::run_bundle::command;

/// Maximum length of a chain of versions that wait for one another.
const MAX_CHAIN: usize = 50;
/// Value of `upgradeStrategy` of an OperatorGroup that allows upgrades from failed versions.
pub(super) const FORWARD: &str = "TechPreviewUnsafeFailForward";
/// Reasons of a transient failure: OLM retries by itself when its cause is resolved.
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ReplacedCsv {
    name: String,
    phase: String,
    /// Reason and message that OLM reports for it.
    message: String,
    has_failed: bool,
    strategy: UpgradeStrategy,
}

/// Effect of its failure on the upgrade.
#[derive(Debug, Clone, PartialEq, Eq)]
enum UpgradeStrategy {
    /// OLM upgrades from the failed version.
    FailForward,
    /// OLM would upgrade from it if this OperatorGroup requested it.
    NeedsStrategy(String),
    /// OLM does not upgrade from it, regardless of the OperatorGroup.
    Blocked,
}

/// Returns the version that blocks the upgrade to a target, given the target's ClusterServiceVersion, if any, and its
/// Subscription.
pub(super) async fn replaced_csv(
    olm: Olm<'_>,
    namespace: &str,
    (target_name, target): (&str, Option<&Value>),
    subscription: &Value,
) -> anyhow::Result<Option<ReplacedCsv>> {
    let find = async |name: &str| match name {
        "" => Ok(None),
        name => olm.find(Kind::ClusterServiceVersion, namespace, name).await,
    };
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
        let is_last = has_failed(&csv);
        let csv = found.insert(csv);
        if is_last {
            break;
        }
        // A version that has not started waits for its predecessor.
        next = find(field(csv, &["spec", "replaces"])).await?;
    }
    let Some(csv) = found else {
        return Ok(None);
    };
    let groups = olm.list(Kind::OperatorGroup, namespace).await?;
    Ok(Some(ReplacedCsv::from_csv(&csv, &groups)))
}

/// Returns the names of the ClusterServiceVersion that is replaced next: the first existing one is used, and an empty name
/// means none. A target that has started has already replaced its predecessor: then both are empty.
///
/// OLM creates a ClusterServiceVersion first, and sets `installedCSV` of the Subscription at its next sync. Until then,
/// only `currentCSV` names the ClusterServiceVersion.
fn replaced<'a>(target: Option<&'a Value>, subscription: &'a Value) -> [&'a str; 2] {
    match target {
        None => ["currentCSV", "installedCSV"].map(|key| field(subscription, &["status", key])),
        Some(csv) if matches!(phase(csv), "" | "Pending") => {
            [field(csv, &["spec", "replaces"]), ""]
        }
        Some(_) => ["", ""],
    }
}

/// Reports whether OLM does not upgrade past a version.
fn is_blocking(csv: &Value) -> bool {
    !matches!(phase(csv), "Succeeded" | "Replacing" | "Deleting")
}

/// Reports whether a version has failed, even if OLM is installing it again.
fn has_failed(csv: &Value) -> bool {
    let is_failure = |condition: &Value| {
        field(condition, &["phase"]) == "Failed"
            && !TRANSIENT.contains(&field(condition, &["reason"]))
    };
    if get_path(csv, &["status"]).is_some_and(is_failure) {
        return true;
    }
    let all = get_path(csv, &["status", "conditions"]).and_then(Value::as_array);
    let all = all.map_or(&[][..], Vec::as_slice);
    let has_succeeded = |condition: &Value| field(condition, &["phase"]) == "Succeeded";
    let since = all.iter().rposition(has_succeeded).unwrap_or(0);
    // A fixed version is installed again for another reason.
    all.iter()
        .skip(since)
        .zip(all.iter().skip(since + 1))
        .any(|(before, after)| is_failure(before) && field(after, &["reason"]) == "NeedsReinstall")
}

// === impl ReplacedCsv ===

impl ReplacedCsv {
    fn from_csv(csv: &Value, groups: &[Value]) -> Self {
        let status = get_path(csv, &["status"]).unwrap_or(&Value::Null);
        Self {
            name: field(csv, &["metadata", "name"]).to_owned(),
            phase: phase(csv).to_owned(),
            message: describe(status),
            has_failed: has_failed(csv),
            strategy: strategy(field(status, &["reason"]), groups),
        }
    }

    /// Describes the state of the version, and why OLM does not replace it.
    pub(super) fn describe(&self) -> String {
        let phase = if self.phase.is_empty() {
            "no phase"
        } else {
            self.phase.as_str()
        };
        format!(
            "{}, which is to be replaced, is in phase {phase}: {}; {}",
            self.name,
            self.message,
            self.rule()
        )
    }

    /// Reports whether the next version must not start before this one has succeeded.
    pub(super) fn is_first(&self) -> bool {
        self.strategy != UpgradeStrategy::FailForward
    }

    /// Returns why OLM will never continue, with a remedy; `None` if it may still continue.
    pub(super) fn stall_reason(&self, subscription: &Value) -> Option<String> {
        (self.has_failed && self.is_first()).then(|| {
            format!(
                "{}, which is to be replaced, has failed and is in phase {}: {}; {}; make sure that it becomes healthy, or \
                 {}",
                self.name,
                self.phase,
                self.message,
                self.rule(),
                self.remedy(subscription)
            )
        })
    }

    /// Returns the remedy if the version never becomes healthy.
    pub(super) fn remedy(&self, subscription: &Value) -> String {
        let namespace = field(subscription, &["metadata", "namespace"]);
        let cleanup = command(&format!(
            "cleanup {} --namespace {namespace}",
            field(subscription, &["spec", "name"])
        ));
        let reinstall = format!(
            "remove it with {cleanup} and run the bundle with {}",
            command("run bundle IMAGE")
        );
        let UpgradeStrategy::NeedsStrategy(group) = &self.strategy else {
            return reinstall;
        };
        format!(
            "make OLM continue from the failed version: kubectl patch operatorgroups.operators.coreos.com {group} \
             --namespace {namespace} --type merge --patch '{{\"spec\":{{\"upgradeStrategy\":\"{FORWARD}\"}}}}'; then run \
             the same command again; or {reinstall}"
        )
    }

    fn rule(&self) -> &'static str {
        if self.strategy == UpgradeStrategy::FailForward {
            "OLM replaces only versions that succeeded or failed"
        } else {
            "OLM replaces only versions that succeeded"
        }
    }
}

fn strategy(reason: &str, groups: &[Value]) -> UpgradeStrategy {
    let [group] = groups else {
        return UpgradeStrategy::Blocked;
    };
    if BLOCKING.contains(&reason) {
        UpgradeStrategy::Blocked
    } else if field(group, &["spec", "upgradeStrategy"]) == FORWARD {
        UpgradeStrategy::FailForward
    } else {
        UpgradeStrategy::NeedsStrategy(field(group, &["metadata", "name"]).to_owned())
    }
}

fn phase(csv: &Value) -> &str {
    field(csv, &["status", "phase"])
}

#[cfg(test)]
pub(super) mod tests;
