//! Rollouts that the platform caused. A new release of the provisioner or a new version of Kubernetes renders other objects
//! for many instances at the same time. Few of them are rolled out concurrently, and none starts while too many are
//! unhealthy, so that a defect affects only a few instances.
//!
//! The running rollouts are derived from the statuses of the instances, so that a restart changes nothing. Pure; no I/O.

use std::collections::{BTreeSet, HashMap, HashSet};

use jiff::Timestamp;
use manifests::api::{
    bundle_instance::{BundleInstanceSpec, BundleInstanceStatus, Cause, RevisionState},
    condition::{self, reason},
};

use super::{MAX_PLATFORM_ROLLOUTS, MAX_UNHEALTHY, queue::Line, time_left};

/// Answer to the start of a rollout that the platform caused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Turn {
    /// The rollout may start.
    Granted,
    /// The maximum number of concurrent rollouts is reached.
    Queued,
    /// These BundleInstances became unhealthy by such rollouts.
    Stopped(Vec<String>),
}

/// All rollouts that the platform caused.
#[derive(Debug, Default)]
pub(super) struct Platform {
    /// Newest revisions that the platform caused and that are under way or unhealthy, by instance.
    revisions: HashMap<String, Observed>,
    /// Instances with a slot whose revision is not recorded yet.
    begun: HashSet<String>,
    line: Line,
    is_stopped: bool,
}

#[derive(Debug, Clone, Copy)]
struct Observed {
    /// resourceVersion of the instance.
    version: u64,
    stage: Stage,
}

/// Progress of a revision that the platform caused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stage {
    /// Whether the revision is rolling out and not late.
    is_under_way: bool,
    is_unhealthy: bool,
}

// === impl Stage ===

impl Stage {
    /// Returns the stage of the newest revision; `None` unless the platform caused the revision and it is under way or
    /// unhealthy. A late revision counts like an active one. An instance that was unhealthy before the revision was created
    /// does not count as unhealthy.
    pub(super) fn new(
        spec: &BundleInstanceSpec,
        status: &BundleInstanceStatus,
        now: Timestamp,
    ) -> Option<Self> {
        let newest = status.newest()?;
        if newest.cause != Cause::Platform {
            return None;
        }
        let find = |type_| status.conditions.iter().find(|c| c.type_ == type_);
        let has_reason = |type_, reasons: &[&str]| {
            find(type_).is_some_and(|c| reasons.contains(&c.reason.as_str()))
        };
        let is_rolling_out = newest.state == RevisionState::RollingOut;
        let is_under_way = is_rolling_out && !time_left(spec, newest, now).is_zero();
        let is_refused = is_rolling_out
            && newest.applied.is_none()
            && has_reason(
                condition::INSTALLED,
                &[reason::UPGRADE_FAILED, reason::RECONCILE_FAILED],
            );
        // An object that is not ready yet is not a failure until the deadline.
        let waits = is_under_way
            && has_reason(
                condition::PROGRESSING,
                &[
                    reason::WAITING_FOR_HEALTH,
                    reason::APPLYING,
                    reason::UNPACK_PENDING,
                ],
            );
        let became_unhealthy = find(condition::HEALTHY)
            .is_some_and(|c| c.status == "False" && c.last_transition_time.0 >= newest.created.0);
        let is_unhealthy = is_refused || became_unhealthy && !waits;
        (is_under_way || is_unhealthy).then_some(Self {
            is_under_way,
            is_unhealthy,
        })
    }
}

// === impl Platform ===

impl Platform {
    pub(super) fn begin(&mut self, name: &str) -> Turn {
        let turn = self.decide(name);
        if turn == Turn::Granted {
            self.line.leave(name);
            self.begun.insert(name.to_owned());
        } else {
            self.line.join(name);
        }
        turn
    }

    /// Decides whether a rollout of this instance may start.
    fn decide(&self, name: &str) -> Turn {
        let own = self.revisions.get(name);
        if self.begun.contains(name) || own.is_some_and(|own| own.stage.is_under_way) {
            return Turn::Granted;
        }
        let unhealthy = self.unhealthy(name);
        if unhealthy.len() >= MAX_UNHEALTHY {
            return Turn::Stopped(unhealthy.into_iter().cloned().collect());
        }
        if self.under_way() + self.line.called_besides(name) < MAX_PLATFORM_ROLLOUTS {
            Turn::Granted
        } else {
            Turn::Queued
        }
    }

    /// Returns the other instances that became unhealthy.
    fn unhealthy(&self, besides: &str) -> BTreeSet<&String> {
        let all = self.revisions.iter();
        let unhealthy =
            all.filter(|(name, observed)| observed.stage.is_unhealthy && *name != besides);
        unhealthy.map(|(name, _)| name).collect()
    }

    /// Returns the number of running rollouts.
    fn under_way(&self) -> usize {
        let all = self.revisions.iter();
        let recorded = all
            .filter(|(name, observed)| observed.stage.is_under_way && !self.begun.contains(*name));
        recorded.count() + self.begun.len()
    }

    /// Records the stage of an instance, and returns the instances to wake.
    pub(super) fn observe(
        &mut self,
        name: &str,
        version: u64,
        stage: Option<Stage>,
    ) -> Vec<String> {
        let recorded = self.revisions.get(name).copied();
        if recorded.is_some_and(|recorded| recorded.version > version) {
            return Vec::new();
        }
        match stage {
            Some(stage) => {
                let observed = Observed { version, stage };
                self.revisions.insert(name.to_owned(), observed);
            }
            None => {
                self.revisions.remove(name);
            }
        }
        if stage == recorded.map(|recorded| recorded.stage) {
            return Vec::new();
        }
        self.next()
    }

    pub(super) fn begin_reconcile(&mut self, name: &str) {
        self.line.begin_reconcile(name);
    }

    /// Returns the instances to wake.
    pub(super) fn end_reconcile(&mut self, name: &str) -> Vec<String> {
        let called = self.line.called();
        self.line.end_reconcile(name);
        if self.begun.remove(name) || called > self.line.called() {
            self.next()
        } else {
            Vec::new()
        }
    }

    /// Returns the instances to wake.
    pub(super) fn forget(&mut self, name: &str) -> Vec<String> {
        self.begun.remove(name);
        self.revisions.remove(name);
        self.line.leave(name);
        self.next()
    }

    /// Returns the instances with recorded revisions.
    pub(super) fn names(&self) -> Vec<String> {
        self.revisions.keys().cloned().collect()
    }

    /// Grants free slots, and returns the instances to wake. When rollouts are stopped, all queued instances are woken so
    /// that they report that.
    fn next(&mut self) -> Vec<String> {
        let was_stopped = self.is_stopped;
        self.is_stopped = self.unhealthy("").len() >= MAX_UNHEALTHY;
        match (was_stopped, self.is_stopped) {
            (false, true) => self.line.waiting().cloned().collect(),
            (true, true) => Vec::new(),
            (_, false) => {
                let taken = self.under_way() + self.line.called();
                self.line.call(MAX_PLATFORM_ROLLOUTS.saturating_sub(taken))
            }
        }
    }
}

#[cfg(test)]
mod tests;
