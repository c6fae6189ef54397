//! What keeps OLM from replacing a version: it replaces only what has succeeded, or has failed where the OperatorGroup asks for
//! that. It does not say so: the next version stays Pending, and why is only in its log; or it makes no plan at all.
//!
//! A version that never becomes healthy goes round: Installing for five minutes, Failed for a moment, Pending, and again. So its
//! phase alone does not tell; its conditions do, of which OLM keeps the last twenty.

use manifests::object::at;
use serde_json::Value;

use super::{
    api::{Kind, Olm},
    progress::{field, told},
};
use crate::run::command;

/// How far versions are followed that wait for one another.
const MOST: usize = 50;
/// The OperatorGroup's word for going on from what has failed.
pub(super) const FORWARD: &str = "TechPreviewUnsafeFailForward";
/// Reasons of a failure that is over as soon as something else is: OLM tries again by itself.
const PASSING: [&str; 2] = ["ComponentUnhealthy", "RequirementsNotMet"];
/// Reasons for which OLM does not even look whether upgrades fail forward.
const STAYING: [&str; 7] = [
    "CannotModifyStaticOperatorGroupProvidedAPIs",
    "InstallComponentFailedNoRetry",
    "InterOperatorGroupOwnerConflict",
    "NoOperatorGroup",
    "NoTargetNamespaces",
    "TooManyOperatorGroups",
    "UnsupportedOperatorGroup",
];

/// A ClusterServiceVersion that is to be replaced, and cannot be yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Former {
    name: String,
    phase: String,
    /// What OLM says of it.
    why: String,
    has_failed: bool,
    forward: Forward,
}

/// What becomes of it once it has failed.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Forward {
    /// OLM goes on from it.
    Goes,
    /// It would, if this OperatorGroup asked for it.
    Asks(String),
    /// It does not, whatever anybody asks for.
    Stays,
}

/// What keeps OLM from going on to a version, given its ClusterServiceVersion if there is one, and its Subscription.
pub(super) async fn former(
    olm: Olm<'_>,
    namespace: &str,
    (target_name, target): (&str, Option<&Value>),
    subscription: &Value,
) -> anyhow::Result<Option<Former>> {
    let find = async |name: &str| match name {
        "" => Ok(None),
        name => olm.find(Kind::ClusterServiceVersion, namespace, name).await,
    };
    let [first, fallback] = replaced(target, subscription);
    // OLM may have created the target in the meantime.
    let mut next = if first == target_name {
        None
    } else {
        find(first).await?
    };
    if next.is_none() && fallback != first {
        next = find(fallback).await?;
    }
    let mut found = None;
    for _ in 0..MOST {
        let Some(csv) = next.filter(keeps) else {
            break;
        };
        let is_last = has_failed(&csv);
        let csv = found.insert(csv);
        if is_last {
            break;
        }
        // One that has not begun waits for the one before it.
        next = find(field(csv, &["spec", "replaces"])).await?;
    }
    let Some(csv) = found else {
        return Ok(None);
    };
    let groups = olm.list(Kind::OperatorGroup, namespace).await?;
    Ok(Some(Former::of(&csv, &groups)))
}

/// The names of the ClusterServiceVersion that is replaced next: the first that exists counts, and an empty name stands for none.
/// A target that has begun has already replaced its predecessor: then both are empty.
///
/// OLM creates a ClusterServiceVersion first, and sets `installedCSV` of the Subscription at its next sync. Until then, only
/// `currentCSV` names the ClusterServiceVersion.
fn replaced<'a>(target: Option<&'a Value>, subscription: &'a Value) -> [&'a str; 2] {
    match target {
        None => ["currentCSV", "installedCSV"].map(|key| field(subscription, &["status", key])),
        Some(csv) if matches!(phase(csv), "" | "Pending") => {
            [field(csv, &["spec", "replaces"]), ""]
        }
        Some(_) => ["", ""],
    }
}

/// Whether OLM does not go past a version.
fn keeps(csv: &Value) -> bool {
    !matches!(phase(csv), "Succeeded" | "Replacing" | "Deleting")
}

/// Whether a version has failed, also when OLM is at it again since.
fn has_failed(csv: &Value) -> bool {
    let is_failure = |it: &Value| {
        field(it, &["phase"]) == "Failed" && !PASSING.contains(&field(it, &["reason"]))
    };
    if at(csv, &["status"]).is_some_and(is_failure) {
        return true;
    }
    let all = at(csv, &["status", "conditions"]).and_then(Value::as_array);
    let all = all.map_or(&[][..], Vec::as_slice);
    let has_succeeded = |it: &Value| field(it, &["phase"]) == "Succeeded";
    let since = all.iter().rposition(has_succeeded).unwrap_or(0);
    // What somebody has corrected is begun anew for another reason.
    all.iter()
        .skip(since)
        .zip(all.iter().skip(since + 1))
        .any(|(before, after)| is_failure(before) && field(after, &["reason"]) == "NeedsReinstall")
}

// === impl Former ===

impl Former {
    fn of(csv: &Value, groups: &[Value]) -> Self {
        let status = at(csv, &["status"]).unwrap_or(&Value::Null);
        Self {
            name: field(csv, &["metadata", "name"]).to_owned(),
            phase: phase(csv).to_owned(),
            why: told(status),
            has_failed: has_failed(csv),
            forward: forward(field(status, &["reason"]), groups),
        }
    }

    /// What is the matter with it.
    pub(super) fn told(&self) -> String {
        let phase = if self.phase.is_empty() {
            "no phase"
        } else {
            self.phase.as_str()
        };
        format!(
            "{}, which is to be replaced, is in phase {phase}: {}; {}",
            self.name,
            self.why,
            self.rule()
        )
    }

    /// Whether nothing is to be begun before it has succeeded.
    pub(super) fn is_first(&self) -> bool {
        self.forward != Forward::Goes
    }

    /// Why OLM will not go on, and what its owner can do.
    pub(super) fn stuck(&self, subscription: &Value) -> Option<String> {
        (self.has_failed && self.is_first()).then(|| {
            format!(
                "{}, which is to be replaced, has failed, and is in phase {}: {}; {}: see that it becomes healthy, or {}",
                self.name,
                self.phase,
                self.why,
                self.rule(),
                self.remedy(subscription)
            )
        })
    }

    /// What helps if it never becomes healthy.
    pub(super) fn remedy(&self, subscription: &Value) -> String {
        let namespace = field(subscription, &["metadata", "namespace"]);
        let cleanup = command(&format!(
            "cleanup {} --namespace {namespace}",
            field(subscription, &["spec", "name"])
        ));
        let anew = format!(
            "remove it with {cleanup} and run the bundle with {}",
            command("run bundle IMAGE")
        );
        let Forward::Asks(group) = &self.forward else {
            return anew;
        };
        format!(
            "have OLM go on from what has failed with: kubectl patch operatorgroups.operators.coreos.com {group} --namespace \
             {namespace} --type merge --patch '{{\"spec\":{{\"upgradeStrategy\":\"{FORWARD}\"}}}}'; and run the same command \
             again; or {anew}"
        )
    }

    fn rule(&self) -> &'static str {
        if self.forward == Forward::Goes {
            "OLM replaces only what has succeeded or failed"
        } else {
            "OLM replaces only what has succeeded"
        }
    }
}

fn forward(reason: &str, groups: &[Value]) -> Forward {
    let [group] = groups else {
        return Forward::Stays;
    };
    if STAYING.contains(&reason) {
        Forward::Stays
    } else if field(group, &["spec", "upgradeStrategy"]) == FORWARD {
        Forward::Goes
    } else {
        Forward::Asks(field(group, &["metadata", "name"]).to_owned())
    }
}

fn phase(csv: &Value) -> &str {
    field(csv, &["status", "phase"])
}

#[cfg(test)]
pub(super) mod tests;
