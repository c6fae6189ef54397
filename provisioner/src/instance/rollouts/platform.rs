//! Rollouts that the platform caused: a new release of the provisioner, or a new version of Kubernetes, renders other objects
//! for many instances at the same moment. Few of them are rolled out at once, and none begins while too many are unhealthy, so
//! that a mistake reaches a few instances only.
//!
//! What is under way is derived from the statuses of the instances, so that a restart changes nothing.

use std::collections::{BTreeSet, HashMap, HashSet};

use manifests::api::{
    condition::{self, reason},
    instance::{BundleInstanceStatus, Cause, RevisionState},
};

use super::{MAX_PLATFORM_ROLLOUTS, MAX_UNHEALTHY, line::Line};

/// Whether a rollout that the platform caused may begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::instance) enum Turn {
    /// It may.
    Granted,
    /// Others are under way.
    Queued,
    /// These BundleInstances became unhealthy by such rollouts.
    Stopped(Vec<String>),
}

/// All rollouts that the platform caused.
#[derive(Debug, Default)]
pub(super) struct Platform {
    /// The newest revisions that the platform caused, if they are rolled out or unhealthy.
    revisions: HashMap<String, Observed>,
    /// The instances that have a turn and whose revision is not recorded yet.
    begun: HashSet<String>,
    line: Line,
    is_stopped: bool,
}

#[derive(Debug, Clone, Copy)]
struct Observed {
    /// The resourceVersion of the instance.
    version: u64,
    stage: Stage,
}

/// How far a revision is that the platform caused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stage {
    is_rolling_out: bool,
    is_unhealthy: bool,
}

// === impl Stage ===

impl Stage {
    /// Reads the stage of the newest revision; `None` unless the platform caused the revision, and it is rolled out or
    /// unhealthy. What was unhealthy before the revision was created is not its fault.
    fn of(status: &BundleInstanceStatus) -> Option<Self> {
        let newest = status.newest()?;
        if newest.cause != Cause::Platform {
            return None;
        }
        let find = |type_| status.conditions.iter().find(|c| c.type_ == type_);
        let has_reason = |type_, reasons: &[&str]| {
            find(type_).is_some_and(|c| reasons.contains(&c.reason.as_str()))
        };
        let is_rolling_out = newest.state == RevisionState::RollingOut;
        let is_refused = is_rolling_out
            && newest.applied.is_none()
            && has_reason(
                condition::INSTALLED,
                &[reason::UPGRADE_FAILED, reason::RECONCILE_FAILED],
            );
        // An object that is not ready yet is no failure before the revision is active, which it is at the deadline at last.
        let waits = is_rolling_out
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
        (is_rolling_out || is_unhealthy).then_some(Self {
            is_rolling_out,
            is_unhealthy,
        })
    }
}

// === impl Platform ===

impl Platform {
    pub(super) fn begin(&mut self, name: &str) -> Turn {
        let turn = self.turn(name);
        if turn == Turn::Granted {
            self.line.leave(name);
            self.begun.insert(name.to_owned());
        } else {
            self.line.join(name);
        }
        turn
    }

    /// Decides whether another rollout of this instance may begin.
    fn turn(&self, name: &str) -> Turn {
        let is_rolling_out =
            |observed: Option<&Observed>| observed.is_some_and(|it| it.stage.is_rolling_out);
        if self.begun.contains(name) || is_rolling_out(self.revisions.get(name)) {
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
        let unhealthy = all.filter(|(name, it)| it.stage.is_unhealthy && *name != besides);
        unhealthy.map(|(name, _)| name).collect()
    }

    /// Returns how many rollouts are under way.
    fn under_way(&self) -> usize {
        let all = self.revisions.iter();
        let recorded =
            all.filter(|(name, it)| it.stage.is_rolling_out && !self.begun.contains(*name));
        recorded.count() + self.begun.len()
    }

    /// Takes in a status, and returns the instances to wake.
    pub(super) fn observe(
        &mut self,
        name: &str,
        version: u64,
        status: Option<&BundleInstanceStatus>,
    ) -> Vec<String> {
        let known = self.revisions.get(name).copied();
        if known.is_some_and(|known| known.version > version) {
            return Vec::new();
        }
        let stage = status.and_then(Stage::of);
        match stage {
            Some(stage) => {
                let observed = Observed { version, stage };
                self.revisions.insert(name.to_owned(), observed);
            }
            None => {
                self.revisions.remove(name);
            }
        }
        if stage == known.map(|known| known.stage) {
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

    /// Returns the instances whose statuses count.
    pub(super) fn names(&self) -> Vec<String> {
        self.revisions.keys().cloned().collect()
    }

    /// Calls the instances whose turn it is. When rollouts are stopped, all that wait are woken, to report that.
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
