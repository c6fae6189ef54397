//! Messages about problems and failures, and the class of the delay until the next attempt. Pure; no I/O.

use crate::controllers::bundle_instance::{
    outcome::{Remedy, RetryClass},
    waiting::Api,
};
use apply::{
    plan::Absent,
    preflight::{Check, Problem},
    ssa::{Cause, Failure},
};
use manifests::object::group_version;

/// Returns the messages of problems, one line each.
pub(super) fn listed(problems: &[Problem]) -> String {
    let lines: Vec<&str> = problems
        .iter()
        .map(|problem| problem.message.as_str())
        .collect();
    lines.join("\n")
}

pub(crate) fn describe_rejections(failures: &[Failure]) -> String {
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
fn is_transient(failure: &Failure) -> bool {
    matches!(
        failure.cause,
        Cause::Transient
            | Cause::Deleting
            | Cause::NotServed
            | Cause::NotEstablished
            | Cause::Namespace
    )
}

/// Returns the remedy of a failed attempt. If one of the failures is transient, the next attempt shows the remaining ones.
pub(super) fn remedy(failures: &[Failure]) -> Remedy {
    let is_own = |failure: &Failure| match failure.cause {
        Cause::Invalid => true,
        Cause::Forbidden
        | Cause::Denied
        | Cause::NotServed
        | Cause::Namespace
        | Cause::NotEstablished
        | Cause::Deleting
        | Cause::Transient => false,
    };
    if failures.iter().any(is_own) && !failures.iter().any(is_transient) {
        Remedy::Own
    } else {
        Remedy::World
    }
}

/// Returns the remedy of the problems that the preflight checks found.
pub(super) fn remedy_of_problems(problems: &[Problem]) -> Remedy {
    let is_own = |problem: &Problem| match problem.check {
        Check::DefinitionUpgrade | Check::ClusterVersion | Check::Invalid => true,
        Check::Ownership | Check::Going | Check::Apis | Check::Namespace | Check::Rights => false,
    };
    if problems.iter().any(is_own) {
        Remedy::Own
    } else {
        Remedy::World
    }
}

/// Returns the class of the delay until the next attempt; one transient failure is enough for a short delay.
pub(crate) fn retry_class(failures: &[Failure]) -> RetryClass {
    let has = |cause| failures.iter().any(|failure| failure.cause == cause);
    if failures.iter().any(is_transient) {
        RetryClass::Soon
    } else if has(Cause::Forbidden) {
        RetryClass::AfterGrant
    } else {
        RetryClass::Backoff
    }
}

/// Returns the API that objects lack.
pub(crate) fn api(absent: &Absent) -> Api {
    let (group, version) = group_version(&absent.api_version);
    Api::Kind(group.to_owned(), version.to_owned(), absent.kind.clone())
}

/// Returns a line for each deferred object, such as `ServiceMonitor monitoring.coreos.com/v1 operators/etcd`.
pub(crate) fn waiting(absent: &Absent) -> impl Iterator<Item = String> {
    absent.needed_by.iter().map(|identity| {
        let name = if identity.namespace.is_empty() {
            identity.name.clone()
        } else {
            format!("{}/{}", identity.namespace, identity.name)
        };
        format!("{} {} {name}", absent.kind, absent.api_version)
    })
}
