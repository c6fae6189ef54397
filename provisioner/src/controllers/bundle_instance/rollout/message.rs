//! Messages about problems and failures, and the class of the delay until the next attempt. Pure; no I/O.

use crate::controllers::bundle_instance::{
    outcome::{Remedy, RetryClass},
    waiting::Api,
};
use apply::{
    plan::MissingKind,
    preflight::{Check, Finding},
    ssa::{ApplyFailure, FailureKind},
};
use manifests::object::group_version;

/// Returns the messages of problems, one line each.
pub(super) fn listed(problems: &[Finding]) -> String {
    let lines: Vec<&str> = problems
        .iter()
        .map(|problem| problem.message.as_str())
        .collect();
    lines.join("\n")
}

pub(crate) fn describe_rejections(failures: &[ApplyFailure]) -> String {
    const MAX_NAMED: usize = 30;
    let mut lines: Vec<String> = failures
        .iter()
        .take(MAX_NAMED)
        .map(|failure| failure.message.clone())
        .collect();
    if failures.len() > MAX_NAMED {
        lines.push(format!("and {} more objects", failures.len() - MAX_NAMED));
    }
    lines.join("\n")
}

/// Reports whether a failure is transient.
fn is_transient(failure: &ApplyFailure) -> bool {
    matches!(
        failure.cause,
        FailureKind::Transient
            | FailureKind::Deleting
            | FailureKind::NotServed
            | FailureKind::NotEstablished
            | FailureKind::Namespace
    )
}

/// Returns the remedy of a failed attempt. If one of the failures is transient, the next attempt shows the remaining ones.
pub(super) fn remedy(failures: &[ApplyFailure]) -> Remedy {
    let is_own = |failure: &ApplyFailure| match failure.cause {
        FailureKind::Invalid => true,
        FailureKind::Forbidden
        | FailureKind::Denied
        | FailureKind::NotServed
        | FailureKind::Namespace
        | FailureKind::NotEstablished
        | FailureKind::Deleting
        | FailureKind::Transient => false,
    };
    if failures.iter().any(is_own) && !failures.iter().any(is_transient) {
        Remedy::Own
    } else {
        Remedy::World
    }
}

/// Returns the remedy of the problems that the preflight checks found.
pub(super) fn remedy_of_problems(problems: &[Finding]) -> Remedy {
    let is_own = |problem: &Finding| match problem.check {
        Check::DefinitionUpgrade | Check::ClusterVersion | Check::Invalid => true,
        Check::Ownership | Check::Terminating | Check::Apis | Check::Namespace | Check::Rights => {
            false
        }
    };
    if problems.iter().any(is_own) {
        Remedy::Own
    } else {
        Remedy::World
    }
}

/// Returns the class of the delay until the next attempt; one transient failure is enough for a short delay.
pub(crate) fn retry_class(failures: &[ApplyFailure]) -> RetryClass {
    let has = |cause| failures.iter().any(|failure| failure.cause == cause);
    if failures.iter().any(is_transient) {
        RetryClass::Soon
    } else if has(FailureKind::Forbidden) {
        RetryClass::AfterGrant
    } else {
        RetryClass::Backoff
    }
}

/// Returns the API that objects lack.
pub(crate) fn api(absent: &MissingKind) -> Api {
    let (group, version) = group_version(&absent.api_version);
    Api::Kind(group.to_owned(), version.to_owned(), absent.kind.clone())
}

/// Returns a line for each deferred object.
pub(crate) fn waiting(absent: &MissingKind) -> impl Iterator<Item = String> {
    let objects = absent.needed_by.iter();
    objects.map(|identity| identity.deferred_line(&absent.api_version))
}
