//! What conditions say of problems, and what that means for the next try.

use crate::instance::outcome::Retry;
use apply::{
    plan::Absent,
    preflight::Problem,
    ssa::{Cause, Failure},
};

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

/// One failure that may pass by itself is reason enough to try soon.
pub(in crate::instance) fn retry(failures: &[Failure]) -> Retry {
    let passes = |cause| {
        matches!(
            cause,
            Cause::Transient
                | Cause::Deleting
                | Cause::NotServed
                | Cause::NotEstablished
                | Cause::Namespace
        )
    };
    let has = |cause| failures.iter().any(|failure| failure.cause == cause);
    if failures.iter().any(|failure| passes(failure.cause)) {
        Retry::Soon
    } else if has(Cause::Forbidden) {
        Retry::Granted
    } else {
        Retry::Slowly
    }
}

/// The time of the next attempt after several failures.
pub(in crate::instance) trait Retries {
    /// Returns the earliest.
    fn soonest(self) -> Retry;
}

impl<I: Iterator<Item = Retry>> Retries for I {
    fn soonest(self) -> Retry {
        self.min_by_key(|retry| match retry {
            Retry::Soon => 0,
            Retry::Granted => 1,
            Retry::Slowly => 2,
        })
        .unwrap_or(Retry::Slowly)
    }
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
