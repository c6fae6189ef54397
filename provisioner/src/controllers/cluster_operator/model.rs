//! Computes the status of the ClusterOperator `platform-operators-aggregated`, or of the PlatformStatus, from all platform
//! operators. Pure; no I/O.
//!
//! | situation | Available | Progressing | Degraded |
//! | --- | --- | --- | --- |
//! | no platform operators, or all installed | True | False | False |
//! | some are not, while the cluster is being installed | **False** | True | False |
//! | some are not, for less than ten minutes, after that installation | True | True | False |
//! | some are not for longer, and never were | True | False | **True** |
//! | one that was installed is not, for longer | **False** | False | **True** |
//! | one cannot be upgraded to its next bundle, cannot be repaired, or is unhealthy, for longer | True | False | **True** |
//!
//! The installation of the cluster waits for every platform operator, until all were available once and the first
//! installation of the cluster is complete. After that, one operator does not make the cluster unavailable, so that a typo
//! in a new PlatformOperator cannot take the cluster down. `Upgradeable` comes from [`super::upgradeable`]. Statuses
//! are written only if they change, and transition times change only with the status of their condition.

mod conditions;
mod core;
mod operators;

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use manifests::{
    api::{
        config::{ClusterOperatorStatus, ObjectReference, OperandVersion},
        limits,
        platform_operator::PlatformOperator,
        platform_status::{OperatorDetails, PlatformStatusStatus},
    },
    object::truncate,
};
use serde::Deserialize as _;

use crate::runtime::metrics::Tally;

pub use self::core::core;
use self::{
    conditions::{Condition, PreviousConditions, Status},
    operators::{OperatorSummary, count},
};
use super::{instance::ObservedInstance, upgradeable::UpgradeAssessment};

/// Name of the ClusterOperator for all platform operators.
pub const AGGREGATED: &str = "platform-operators-aggregated";
/// Name of the ClusterOperator for the manager itself.
pub const CORE: &str = "platform-operators-core";
/// Version without a release payload.
pub const NO_RELEASE: &str = "0.0.1-snapshot";
/// Time that a platform operator may be missing or unhealthy before it makes the cluster Degraded.
pub const DEGRADED_AFTER: Duration = Duration::from_secs(10 * 60);

/// Reasons of the conditions.
pub mod reason {
    /// All platform operators are installed and healthy.
    pub const AS_EXPECTED: &str = "AsExpected";
    /// Some platform operators are not installed.
    pub const ERROR: &str = "PlatformOperatorError";
    /// Some platform operators are being installed.
    pub const INSTALLING: &str = "PlatformOperatorsInstalling";
    /// Some platform operators could not be upgraded, or are unhealthy.
    pub const DEGRADED: &str = "PlatformOperatorUnhealthy";
    /// The platform operators cannot be listed.
    pub const UNKNOWN: &str = "PlatformOperatorsUnknown";
    /// The platform operators could not be listed for longer than the threshold.
    pub const THRESHOLD_EXCEEDED: &str = "ExceededUnavailabilityThreshold";
}

/// Inputs of the statuses.
pub struct Input<'a> {
    /// All PlatformOperators, or the reason why they cannot be listed.
    pub operators: Result<Vec<&'a PlatformOperator>, &'a str>,
    /// BundleInstances of the operators; others are ignored.
    pub instances: Vec<&'a ObservedInstance>,
    /// Whether the first installation of the cluster is incomplete, by its ClusterVersion. False without a ClusterVersion.
    pub is_installing: bool,
    /// Whether the cluster is being updated. Nodes restart then, so that unhealthy operators do not make the cluster
    /// Degraded.
    pub is_updating: bool,
    /// Assessment of the next cluster upgrade.
    pub gate: &'a UpgradeAssessment,
    /// Max OpenShift versions that catalogs declared last, to be recorded.
    pub catalog_maxima: BTreeMap<String, String>,
    /// Present time, for transition times and limits.
    pub now: Timestamp,
}

/// Status to write, and the time of its next change.
#[derive(Debug, Clone, PartialEq)]
pub struct Output<S> {
    /// Status; written if it differs from the current one.
    pub status: S,
    /// Time at which the status changes without another event; `None` if it does not.
    pub recheck: Option<Timestamp>,
}

/// Counts platform operators, with the details of the previous status. `None` if they cannot be listed.
pub fn tally(before: &OperatorDetails, input: &Input<'_>) -> Option<Tally> {
    let operators = input.operators.as_ref().ok()?;
    let counted = count(operators, input, before);
    let late = counted
        .missing
        .iter()
        .filter(|operator| operator.is_late)
        .count();
    Some(Tally {
        installed: counted.all - counted.missing.len() - counted.unhealthy.len(),
        unhealthy: counted.unhealthy.len(),
        missing: counted.missing.len() - late,
        late,
    })
}

/// Returns the details of a ClusterOperator, or the default if another client has written another extension.
pub fn details(status: &ClusterOperatorStatus) -> OperatorDetails {
    let extension = status.extension.as_ref();
    extension
        .and_then(|extension| OperatorDetails::deserialize(extension).ok())
        .unwrap_or_default()
}

/// Returns the status of the ClusterOperator from the previous one. `release` is the running release.
pub fn cluster_operator(
    before: Option<&ClusterOperatorStatus>,
    input: &Input<'_>,
    system_namespace: &str,
    release: Option<&str>,
) -> Output<ClusterOperatorStatus> {
    let empty = ClusterOperatorStatus::default();
    let before = before.unwrap_or(&empty);
    let found = decide(
        &PreviousConditions::of_cluster_operator(before),
        &details(before),
        input,
    );
    let status = ClusterOperatorStatus {
        conditions: conditions::for_cluster_operator(before, &found.conditions, input.now),
        versions: versions(release),
        related_objects: found.related.map_or_else(
            || before.related_objects.clone(),
            |related| {
                [
                    ObjectReference::new("", "namespaces", system_namespace),
                    ObjectReference::new("platform.openshift.io", "platformoperators", ""),
                ]
                .into_iter()
                .chain(related)
                .collect()
            },
        ),
        // Only plain fields, so that the conversion to JSON does not fail.
        extension: serde_json::to_value(&found.details).ok(),
    };
    Output {
        status,
        recheck: found.recheck,
    }
}

/// Returns the PlatformStatus for clusters without ClusterOperators. `minor` is the minor version of the cluster.
pub fn platform_status(
    before: Option<&PlatformStatusStatus>,
    input: &Input<'_>,
    minor: Option<&str>,
) -> Output<PlatformStatusStatus> {
    let empty = PlatformStatusStatus::default();
    let before = before.unwrap_or(&empty);
    let found = decide(
        &PreviousConditions::of_platform(before),
        &before.details,
        input,
    );
    Output {
        status: PlatformStatusStatus {
            conditions: conditions::for_platform(before, &found.conditions, input.now),
            cluster_minor: minor.map(str::to_owned),
            details: found.details,
        },
        recheck: found.recheck,
    }
}

fn versions(release: Option<&str>) -> Vec<OperandVersion> {
    vec![OperandVersion {
        name: "operator".to_owned(),
        version: release
            .filter(|release| !release.is_empty())
            .unwrap_or(NO_RELEASE)
            .to_owned(),
    }]
}

/// Parts of both kinds of status.
struct StatusParts {
    conditions: [Condition; 4],
    details: OperatorDetails,
    related: Option<Vec<ObjectReference>>,
    recheck: Option<Timestamp>,
}

fn decide(
    previous: &PreviousConditions,
    before: &OperatorDetails,
    input: &Input<'_>,
) -> StatusParts {
    let upgradeable = Condition::new(
        "Upgradeable",
        if input.gate.is_upgradeable {
            Status::True
        } else {
            Status::False
        },
        input.gate.reason,
        &input.gate.message,
    );
    // All values count, but only as many are written as the schema permits.
    let maxima = input.catalog_maxima.clone().into_iter();
    let maxima = maxima.take(limits::CONCERNS as usize);
    let mut details = OperatorDetails {
        first_available: before.first_available.clone(),
        concerns: input.gate.concerns.clone(),
        more_concerns: i64::try_from(input.gate.more).unwrap_or(i64::MAX),
        catalog_maxima: maxima.collect(),
        operators: before.operators,
        installed: before.installed,
        troubled_since: before.troubled_since.clone(),
    };
    // An admin who removes the field does not turn the cluster into a new one.
    let was_available = details.first_available.is_some() || previous.is_true("Available");
    let is_day_0 = input.is_installing || !was_available;
    let operators = match &input.operators {
        Ok(operators) => operators,
        Err(error) => {
            let [available, progressing, degraded] = unlisted(previous, error, is_day_0);
            return StatusParts {
                conditions: [available, progressing, degraded, upgradeable],
                details,
                related: None,
                recheck: None,
            };
        }
    };
    let counted = count(operators, input, before);
    details.troubled_since = counted.since.clone();
    details.operators = length(counted.all);
    details.installed = length(counted.all - counted.missing.len());
    let [available, progressing, degraded] = decide_conditions(&counted, is_day_0);
    if available.status == Status::True && !input.is_installing && details.first_available.is_none()
    {
        details.first_available = Some(conditions::whole_seconds(input.now).to_string());
    }
    StatusParts {
        conditions: [available, progressing, degraded, upgradeable],
        details,
        recheck: counted.recheck,
        related: Some(counted.related),
    }
}

/// Returns the conditions for operators that cannot be listed: the previous ones. During the installation of the cluster,
/// and without previous ones, these are the defaults with the reason [`reason::UNKNOWN`].
fn unlisted(previous: &PreviousConditions, error: &str, is_day_0: bool) -> [Condition; 3] {
    let message = format!(
        "Failed to list the platform operators: {}",
        truncate(error, 1000)
    );
    [
        ("Available", Status::False),
        ("Progressing", Status::True),
        ("Degraded", Status::False),
    ]
    .map(|(type_, status)| {
        let previous = (!is_day_0).then(|| previous.find(type_)).flatten();
        previous.unwrap_or_else(|| Condition::new(type_, status, reason::UNKNOWN, &message))
    })
}

fn decide_conditions(counted: &OperatorSummary<'_>, is_day_0: bool) -> [Condition; 3] {
    let fine =
        |type_, status, message: &str| Condition::new(type_, status, reason::AS_EXPECTED, message);
    let all_well = if counted.all == 0 {
        "No platform operators are present in the cluster"
    } else {
        "All platform operators are in a successful state"
    };
    let missing = &counted.missing;
    let is_down = if is_day_0 {
        !missing.is_empty()
    } else {
        missing
            .iter()
            .any(|operator| operator.is_late && operator.was_installed)
    };
    let available = if is_down {
        Condition::new(
            "Available",
            Status::False,
            reason::ERROR,
            &operators::describe_missing(missing),
        )
    } else if missing.is_empty() {
        fine("Available", Status::True, all_well)
    } else {
        let message = format!(
            "{} of {} platform operators are installed",
            counted.all - missing.len(),
            counted.all
        );
        fine("Available", Status::True, &message)
    };
    let waiting = missing
        .iter()
        .filter(|operator| is_day_0 || !operator.is_late)
        .count();
    let progressing = if waiting > 0 {
        let message = format!("Installing {waiting} of {} platform operators", counted.all);
        Condition::new("Progressing", Status::True, reason::INSTALLING, &message)
    } else if missing.is_empty() {
        fine("Progressing", Status::False, all_well)
    } else {
        let message = "No platform operator is being installed; see Degraded";
        Condition::new("Progressing", Status::False, reason::ERROR, message)
    };
    let late: Vec<_> = missing
        .iter()
        .filter(|operator| operator.is_late)
        .cloned()
        .collect();
    let degraded = if !is_day_0 && !late.is_empty() {
        Condition::new(
            "Degraded",
            Status::True,
            reason::ERROR,
            &operators::describe_missing(&late),
        )
    } else if !is_day_0 && !counted.unhealthy.is_empty() {
        Condition::new(
            "Degraded",
            Status::True,
            reason::DEGRADED,
            &operators::describe_unhealthy(&counted.unhealthy),
        )
    } else if missing.is_empty() {
        fine("Degraded", Status::False, all_well)
    } else {
        fine(
            "Degraded",
            Status::False,
            "No platform operator has been failing for long",
        )
    };
    [available, progressing, degraded]
}

fn length(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn time(time: &Time) -> Timestamp {
    time.0
}

#[cfg(test)]
mod tests;
