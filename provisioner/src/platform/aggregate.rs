//! From all platform operators to the ClusterOperator `platform-operators-aggregated`, or to the PlatformStatus.
//!
//! | situation | Available | Progressing | Degraded |
//! | --- | --- | --- | --- |
//! | no platform operators, or all installed | True | False | False |
//! | some are not, while the cluster is being installed | **False** | True | False |
//! | some are not, for less than ten minutes, later on | True | True | False |
//! | some are not for longer, and never were | True | False | **True** |
//! | one is not any more, for longer | **False** | False | **True** |
//! | one cannot be upgraded to its next bundle, cannot be repaired, or is unhealthy, for longer | True | False | **True** |
//!
//! Until everything was available once and the cluster's first installation is complete, a platform operator that is not
//! installed is what the installation of the cluster waits for. After that it is a matter of one operator, not of the
//! cluster: whoever adds one with a typo does not take the cluster down. `Upgradeable` is what the [gate](super::gate)
//! says. Nothing is written unless something changed, and times move only with the status of their condition.

mod conditions;
mod core;
mod operators;

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use manifests::{
    api::{
        bounds,
        config::{ClusterOperatorStatus, ObjectReference, OperandVersion},
        instance::BundleInstance,
        platform::PlatformOperator,
        platform_status::{Details, Platform},
    },
    object::shortened,
};
use serde::Deserialize as _;

pub use self::core::core;
use self::{
    conditions::{Condition, Kept, Status},
    operators::{Counted, count},
};
use super::gate::Verdict;

/// The ClusterOperator for all platform operators.
pub const AGGREGATED: &str = "platform-operators-aggregated";
/// The ClusterOperator for the manager itself.
pub const CORE: &str = "platform-operators-core";
/// What runs, where no release payload says it.
pub const NO_RELEASE: &str = "0.0.1-snapshot";
/// How long a platform operator may take, or be in trouble, before that is worth an alert.
pub const PATIENCE: Duration = Duration::from_secs(10 * 60);

/// The reasons of the conditions.
pub mod reason {
    /// All is well.
    pub const AS_EXPECTED: &str = "AsExpected";
    /// Some platform operators are not installed.
    pub const ERROR: &str = "PlatformOperatorError";
    /// Some are being installed.
    pub const INSTALLING: &str = "PlatformOperatorsInstalling";
    /// Some could not be upgraded, or are unhealthy.
    pub const TROUBLE: &str = "PlatformOperatorUnhealthy";
    /// They could not be listed.
    pub const UNKNOWN: &str = "PlatformOperatorsUnknown";
    /// They could not be listed for long.
    pub const EXCEEDED: &str = "ExceededUnavailabilityThreshold";
}

/// What is known.
pub struct Input<'a> {
    /// All PlatformOperators; or why they cannot be listed.
    pub operators: Result<Vec<&'a PlatformOperator>, &'a str>,
    /// The BundleInstances that they own; others do no harm.
    pub instances: Vec<&'a BundleInstance>,
    /// Whether the cluster's first installation is not yet complete, as its ClusterVersion tells. Always false where there
    /// is none.
    pub is_installing: bool,
    /// Whether the cluster is on its way to another version: nodes restart, and nobody is alarmed for it.
    pub is_updating: bool,
    /// Whether the cluster may be upgraded.
    pub gate: &'a Verdict,
    /// What catalogs have said last, to be remembered.
    pub catalog_maxima: BTreeMap<String, String>,
    /// Now.
    pub now: Timestamp,
}

/// What follows.
#[derive(Debug, Clone, PartialEq)]
pub struct Output<S> {
    /// To be written where it differs.
    pub status: S,
    /// When time alone changes it next.
    pub recheck: Option<Timestamp>,
}

/// How many platform operators there are, by how they are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Installed, and well or not for long.
    pub installed: usize,
    /// Installed, and in trouble for longer than the patience.
    pub unhealthy: usize,
    /// Not installed, and for less than the patience.
    pub missing: usize,
    /// Not installed for longer.
    pub late: usize,
}

/// Counts platform operators, given what was written before. Nothing if they cannot be listed.
pub fn tally(before: &Details, input: &Input<'_>) -> Option<Tally> {
    let operators = input.operators.as_ref().ok()?;
    let counted = count(operators, input, before);
    let late = counted.missing.iter().filter(|it| it.is_late).count();
    Some(Tally {
        installed: counted.all - counted.missing.len() - counted.troubled.len(),
        unhealthy: counted.troubled.len(),
        missing: counted.missing.len() - late,
        late,
    })
}

/// What a ClusterOperator holds besides conditions; nothing where somebody has written something else.
pub fn details(status: &ClusterOperatorStatus) -> Details {
    let extension = status.extension.as_ref();
    extension
        .and_then(|extension| Details::deserialize(extension).ok())
        .unwrap_or_default()
}

/// The status of the ClusterOperator, given the one before. `release` is what runs.
pub fn cluster_operator(
    before: Option<&ClusterOperatorStatus>,
    input: &Input<'_>,
    system_namespace: &str,
    release: Option<&str>,
) -> Output<ClusterOperatorStatus> {
    let empty = ClusterOperatorStatus::default();
    let before = before.unwrap_or(&empty);
    let found = decide(&Kept::of_cluster_operator(before), &details(before), input);
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
        // Of plain fields, which JSON can say.
        extension: serde_json::to_value(&found.details).ok(),
    };
    Output {
        status,
        recheck: found.recheck,
    }
}

/// The same for clusters without ClusterOperators. `minor` is the version that the cluster runs.
pub fn platform_status(
    before: Option<&Platform>,
    input: &Input<'_>,
    minor: Option<&str>,
) -> Output<Platform> {
    let empty = Platform::default();
    let before = before.unwrap_or(&empty);
    let found = decide(&Kept::of_platform(before), &before.details, input);
    Output {
        status: Platform {
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

/// What both kinds of status are made of.
struct Found {
    conditions: [Condition; 4],
    details: Details,
    related: Option<Vec<ObjectReference>>,
    recheck: Option<Timestamp>,
}

fn decide(kept: &Kept, before: &Details, input: &Input<'_>) -> Found {
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
    // As many as may be written; all of them count.
    let maxima = input.catalog_maxima.clone().into_iter();
    let maxima = maxima.take(bounds::CONCERNS as usize);
    let mut details = Details {
        first_available: before.first_available.clone(),
        concerns: input.gate.concerns.clone(),
        more_concerns: i64::try_from(input.gate.more).unwrap_or(i64::MAX),
        catalog_maxima: maxima.collect(),
        operators: before.operators,
        installed: before.installed,
        troubled_since: before.troubled_since.clone(),
    };
    // Whoever has edited the list away has not made the cluster new.
    let was_available = details.first_available.is_some() || kept.is_true("Available");
    let is_day_0 = input.is_installing || !was_available;
    let operators = match &input.operators {
        Ok(operators) => operators,
        Err(error) => {
            let [available, progressing, degraded] = unlisted(kept, error, is_day_0);
            return Found {
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
    let [available, progressing, degraded] = conclude(&counted, is_day_0);
    if available.status == Status::True && !input.is_installing && details.first_available.is_none()
    {
        details.first_available = Some(conditions::whole_seconds(input.now).to_string());
    }
    Found {
        conditions: [available, progressing, degraded, upgradeable],
        details,
        recheck: counted.recheck,
        related: Some(counted.related),
    }
}

/// What is known when nobody can be counted: nothing new, and at first nothing at all.
fn unlisted(kept: &Kept, error: &str, is_day_0: bool) -> [Condition; 3] {
    let message = format!(
        "The platform operators cannot be listed: {}",
        shortened(error, 1000)
    );
    [
        ("Available", Status::False),
        ("Progressing", Status::True),
        ("Degraded", Status::False),
    ]
    .map(|(type_, status)| {
        let known = (!is_day_0).then(|| kept.of(type_)).flatten();
        known.unwrap_or_else(|| Condition::new(type_, status, reason::UNKNOWN, &message))
    })
}

fn conclude(counted: &Counted<'_>, is_day_0: bool) -> [Condition; 3] {
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
        missing.iter().any(|it| it.is_late && it.was_installed)
    };
    let available = if is_down {
        Condition::new(
            "Available",
            Status::False,
            reason::ERROR,
            &operators::failing(missing),
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
    let waiting = missing.iter().filter(|it| is_day_0 || !it.is_late).count();
    let progressing = if waiting > 0 {
        let message = format!("Installing {waiting} of {} platform operators", counted.all);
        Condition::new("Progressing", Status::True, reason::INSTALLING, &message)
    } else if missing.is_empty() {
        fine("Progressing", Status::False, all_well)
    } else {
        let message = "No platform operator is being installed; see Degraded";
        Condition::new("Progressing", Status::False, reason::ERROR, message)
    };
    let late: Vec<_> = missing.iter().filter(|it| it.is_late).cloned().collect();
    let degraded = if !is_day_0 && !late.is_empty() {
        Condition::new(
            "Degraded",
            Status::True,
            reason::ERROR,
            &operators::failing(&late),
        )
    } else if !is_day_0 && !counted.troubled.is_empty() {
        Condition::new(
            "Degraded",
            Status::True,
            reason::TROUBLE,
            &operators::troubled(&counted.troubled),
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

/// A time as it is written down.
fn time(time: &Time) -> Timestamp {
    time.0
}

#[cfg(test)]
mod tests;
