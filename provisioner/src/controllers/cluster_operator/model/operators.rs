//! State of single platform operators: installed, missing since a time, or unhealthy. Pure; no I/O.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt as _;
use manifests::{
    api::{
        condition,
        config::ObjectReference,
        limits,
        platform_operator::{PlatformOperator, reason::INSTALL_PENDING},
        platform_status::OperatorDetails,
    },
    object::truncate,
};

use super::{DEGRADED_AFTER, Input, conditions::whole_seconds, time};
use crate::controllers::cluster_operator::instance::ObservedInstance;

/// Maximum number of operators that a message names.
const MAX_NAMED: usize = 50;
/// Maximum length of the message of one operator, in characters.
const MAX_PROBLEM_LEN: usize = 300;
/// Maximum number of namespaces in the related objects.
const MAX_NAMESPACES: usize = 500;

/// Summary of all platform operators.
pub(super) struct OperatorSummary<'a> {
    /// Number of platform operators that are not terminating.
    pub(super) all: usize,
    /// Operators that are not installed, sorted by name.
    pub(super) missing: Vec<MissingOperator<'a>>,
    /// Names and problems of operators that are installed and unhealthy for longer than the limit, sorted by name.
    pub(super) unhealthy: Vec<(String, String)>,
    /// Times since which operators are unhealthy if no condition has that time, to be recorded; by operator.
    pub(super) since: BTreeMap<String, String>,
    /// Related objects for the diagnosis of a problem.
    pub(super) related: Vec<ObjectReference>,
    /// Time at which the next operator exceeds the limit; `None` if none will.
    pub(super) recheck: Option<Timestamp>,
}

/// A platform operator that is not installed.
#[derive(Debug, Clone)]
pub(super) struct MissingOperator<'a> {
    pub(super) name: String,
    reason: &'a str,
    message: &'a str,
    /// Whether it is missing for longer than the limit.
    pub(super) is_late: bool,
    /// Whether it was installed once.
    pub(super) was_installed: bool,
}

/// Evaluates every platform operator, with the details of the previous status.
pub(super) fn count<'a>(
    operators: &[&'a PlatformOperator],
    input: &Input<'a>,
    before: &OperatorDetails,
) -> OperatorSummary<'a> {
    let instances: BTreeMap<&str, &ObservedInstance> = input
        .instances
        .iter()
        .map(|&instance| (&*instance.name, instance))
        .collect();
    let mut sorted: Vec<(String, &PlatformOperator)> = operators
        .iter()
        .filter(|operator| operator.metadata.deletion_timestamp.is_none())
        .map(|operator| (operator.name_any(), *operator))
        .collect();
    sorted.sort_by(|(a, _), (b, _)| a.cmp(b));
    let mut deadline = Deadline::new(input.now);
    let (mut missing, mut unhealthy) = (Vec::new(), Vec::new());
    let mut noted = BTreeMap::new();
    // Namespaces of operators that block cluster upgrades are collected too, regardless of the controller that installed
    // them.
    let concerns = input.gate.concerns.iter();
    let mut namespaces: BTreeSet<&str> = concerns
        .filter_map(|concern| Some(concern.operator.split_once('/')?.0))
        .collect();
    let all = sorted.len();
    for (name, operator) in sorted {
        let instance = instances
            .get(operator.active_instance().unwrap_or(&name))
            .copied();
        namespaces.extend(instance.and_then(|instance| instance.install_namespace.as_deref()));
        let installed = of_type(
            operator
                .status
                .as_ref()
                .map(|status| status.conditions.as_slice()),
            condition::INSTALLED,
        );
        if installed.is_some_and(|condition| condition.status == "True") {
            let problem = instance
                .filter(|_| !input.is_updating)
                .and_then(|instance| instance.problem.as_deref());
            if let Some(problem) = problem {
                let mut since = problem.since;
                if problem.has_no_time {
                    let before = before.troubled_since.get(&name);
                    let before = before.and_then(|since| since.parse().ok());
                    let own = whole_seconds(before.unwrap_or(input.now).min(input.now));
                    if noted.len() < limits::CONCERNS as usize {
                        noted.insert(name.clone(), own.to_string());
                    }
                    since = since.min(own);
                }
                if deadline.has_passed(since) {
                    unhealthy.push((name, problem.message.clone()));
                }
            }
            continue;
        }
        let since = installed.map(|condition| time(&condition.last_transition_time));
        let created = operator.metadata.creation_timestamp.as_ref().map(time);
        missing.push(MissingOperator {
            is_late: deadline.has_passed(since.or(created).unwrap_or(input.now)),
            was_installed: operator.active_instance().is_some(),
            // The controller has not reconciled the operator yet.
            reason: installed.map_or(INSTALL_PENDING, |condition| condition.reason.as_str()),
            message: installed.map_or("", |condition| condition.message.as_str()),
            name,
        });
    }
    OperatorSummary {
        all,
        missing,
        unhealthy,
        since: noted,
        related: related(all, &namespaces),
        recheck: deadline.next,
    }
}

fn of_type<'a>(conditions: Option<&'a [Condition]>, type_: &str) -> Option<&'a Condition> {
    conditions?
        .iter()
        .find(|condition| condition.type_ == type_)
}

/// Returns the objects that must-gather collects; empty unless operators exist.
fn related(operators: usize, namespaces: &BTreeSet<&str>) -> Vec<ObjectReference> {
    if operators == 0 && namespaces.is_empty() {
        return Vec::new();
    }
    let fixed = ["bundleinstances", "bundles"]
        .map(|resource| ObjectReference::new("core.rukpak.io", resource, ""));
    let namespaces = namespaces
        .iter()
        .filter(|name| !name.is_empty())
        .take(MAX_NAMESPACES)
        .map(|name| ObjectReference::new("", "namespaces", name));
    fixed.into_iter().chain(namespaces).collect()
}

/// Determines whether times exceed the limit.
struct Deadline {
    now: Timestamp,
    next: Option<Timestamp>,
}

impl Deadline {
    fn new(now: Timestamp) -> Self {
        Self { now, next: None }
    }

    /// Reports whether a time is past the limit already, and records the next time at which one will be.
    fn has_passed(&mut self, since: Timestamp) -> bool {
        // A time that cannot be represented will not come.
        let Ok(end) = since.checked_add(DEGRADED_AFTER) else {
            return false;
        };
        if end <= self.now {
            return true;
        }
        self.next = Some(self.next.map_or(end, |next| next.min(end)));
        false
    }
}

/// Returns the failing operators with their reasons, followed by a line with the message of each.
pub(super) fn describe_missing(missing: &[MissingOperator<'_>]) -> String {
    let each: Vec<String> = missing
        .iter()
        .take(MAX_NAMED)
        .map(|operator| {
            format!(
                "encountered the failing {} platform operator with reason \"{}\"",
                operator.name, operator.reason
            )
        })
        .collect();
    let more = missing.len() - each.len();
    let mut text = match each.as_slice() {
        [only] => only.clone(),
        several if more == 0 => format!("[{}]", several.join(", ")),
        several => format!("[{}, and {more} more]", several.join(", ")),
    };
    for operator in missing
        .iter()
        .take(MAX_NAMED)
        .filter(|operator| !operator.message.is_empty())
    {
        text.push_str(&line(&operator.name, operator.message));
    }
    text
}

/// Returns the names of unhealthy operators, followed by a line with the problem of each.
pub(super) fn describe_unhealthy(unhealthy: &[(String, String)]) -> String {
    let names: Vec<&str> = unhealthy
        .iter()
        .take(MAX_NAMED)
        .map(|(name, _)| name.as_str())
        .collect();
    let more = match unhealthy.len() - names.len() {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    let mut text = format!(
        "Installed platform operators with problems for more than {} minutes: {}{more}",
        DEGRADED_AFTER.as_secs() / 60,
        names.join(", ")
    );
    for (name, message) in unhealthy.iter().take(MAX_NAMED) {
        text.push_str(&line(name, message));
    }
    text
}

fn line(name: &str, message: &str) -> String {
    let parts: Vec<&str> = message.split_whitespace().take(MAX_PROBLEM_LEN).collect();
    format!(
        "\n- {name}: {}",
        truncate(&parts.join(" "), MAX_PROBLEM_LEN)
    )
}
