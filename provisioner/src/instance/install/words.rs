//! What conditions say of problems, and what that means for the next try.

use crate::instance::{
    outcome::{Remedy, Retry},
    waiting::Api,
};
use apply::{
    plan::Absent,
    preflight::{Check, Problem},
    ssa::{Cause, Failure},
};
use manifests::object::group_version;

/// Problems as one text: each on a line of its own when there are several.
pub(super) fn listed(problems: &[Problem]) -> String {
    let lines: Vec<&str> = problems
        .iter()
        .map(|problem| problem.message.as_str())
        .collect();
    lines.join("\n")
}

pub(in crate::instance) fn refusals(failures: &[Failure]) -> String {
    const MOST: usize = 30;
    let mut lines: Vec<String> = failures
        .iter()
        .take(MOST)
        .map(|failure| failure.message.clone())
        .collect();
    if failures.len() > MOST {
        lines.push(format!("and {} more objects", failures.len() - MOST));
    }
    lines.join("\n")
}

/// Reports whether a failure may pass by itself.
fn passes(failure: &Failure) -> bool {
    matches!(
        failure.cause,
        Cause::Transient
            | Cause::Deleting
            | Cause::NotServed
            | Cause::NotEstablished
            | Cause::Namespace
    )
}

/// Returns the remedy of an attempt that failed. As long as one of the failures may pass by itself, the next attempt shows
/// what remains.
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
    if failures.iter().any(is_own) && !failures.iter().any(passes) {
        Remedy::Own
    } else {
        Remedy::World
    }
}

/// Returns the remedy of what the preflight checks found.
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

/// One failure that may pass by itself is reason enough to try soon.
pub(in crate::instance) fn retry(failures: &[Failure]) -> Retry {
    let has = |cause| failures.iter().any(|failure| failure.cause == cause);
    if failures.iter().any(passes) {
        Retry::Soon
    } else if has(Cause::Forbidden) {
        Retry::Granted
    } else {
        Retry::Slowly
    }
}

/// Returns the API that objects lack.
pub(in crate::instance) fn api(absent: &Absent) -> Api {
    let (group, version) = group_version(&absent.api_version);
    Api::Kind(group.to_owned(), version.to_owned(), absent.kind.clone())
}

/// `ServiceMonitor monitoring.coreos.com/v1 operators/etcd`, for each object that waits.
pub(in crate::instance) fn waiting(absent: &Absent) -> impl Iterator<Item = String> {
    absent.needed_by.iter().map(|identity| {
        let name = if identity.namespace.is_empty() {
            identity.name.clone()
        } else {
            format!("{}/{}", identity.namespace, identity.name)
        };
        format!("{} {} {name}", absent.kind, absent.api_version)
    })
}
