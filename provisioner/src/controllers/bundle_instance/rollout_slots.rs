//! Limits the number of concurrent rollouts. Pure; no I/O.
//!
//! A rollout takes one of [`MAX_ROLLOUTS`] slots while objects are applied. A rollout that the platform caused, by another
//! release of the provisioner or another version of Kubernetes, also needs one of [`MAX_PLATFORM_ROLLOUTS`] slots until its
//! revision is active or late. None of these starts while [`MAX_UNHEALTHY`] of their revisions are unhealthy ([`platform`]).
//! Instances without a slot are queued and woken one by one; no reconcile waits.

mod platform;
mod queue;

use std::{collections::HashSet, sync::Arc, time::Duration};

use jiff::Timestamp;
use kube::{ResourceExt as _, runtime::reflector::ObjectRef};
use manifests::api::bundle_instance::{
    BundleInstance, BundleInstanceSpec, BundleInstanceStatus, Cause, RevisionStatus, ready,
};
use parking_lot::Mutex;
use tokio::sync::mpsc;

use self::{
    platform::{Platform, Stage},
    queue::Line,
};
use super::{reconcile::left_alone, revisions};
pub(crate) use platform::Turn;

/// Maximum number of concurrent rollouts. The other workers of [`super::controller::CONCURRENCY`] repair and delete.
const MAX_ROLLOUTS: usize = 12;
/// Maximum number of concurrent rollouts that the platform caused.
const MAX_PLATFORM_ROLLOUTS: usize = 4;
/// Number of unhealthy revisions that stops further rollouts that the platform caused.
const MAX_UNHEALTHY: usize = 2;
/// Time after which a rollout without a progress deadline is late: the default deadline.
const SLOT_TIMEOUT: Duration = Duration::from_secs(600);

/// Rollouts of all instances.
pub(crate) struct Rollouts {
    state: Mutex<State>,
    wake: mpsc::UnboundedSender<ObjectRef<BundleInstance>>,
}

#[derive(Debug, Default)]
struct State {
    running: HashSet<String>,
    line: Line,
    platform: Platform,
}

/// A running rollout. Dropping it lets the next queued instance start.
pub(crate) struct Rollout {
    name: String,
    rollouts: Arc<Rollouts>,
}

/// A running reconcile. Dropping it passes on a slot that the reconcile did not take.
pub(crate) struct Reconcile {
    name: String,
    rollouts: Arc<Rollouts>,
}

/// Returns the time until a rollout is late. Rollouts of other instances do not wait for a late rollout.
pub(crate) fn time_left(
    spec: &BundleInstanceSpec,
    revision: &RevisionStatus,
    now: Timestamp,
) -> Duration {
    let deadline = ready::deadline(spec).unwrap_or(SLOT_TIMEOUT);
    revisions::left(revision, deadline, now)
}

/// Returns the time until the newest revision of an instance is late, at least a second; `None` if no reconcile is needed at
/// that time. A late rollout with the cause Platform releases its slot, even if it is paused or has no deadline.
pub(crate) fn time_until_late(
    instance: &BundleInstance,
    status: &BundleInstanceStatus,
    now: Timestamp,
) -> Option<Duration> {
    let (spec, revision) = (&instance.spec, status.rolling_out()?);
    let has_deadline = status.applied_digest.is_some() || spec.progress_deadline_seconds.is_some();
    let is_running = has_deadline && left_alone(instance).is_none();
    let is_awaited = is_running || revision.cause == Cause::Platform;
    let left = Some(time_left(spec, revision, now));
    let left = left.filter(|left| is_awaited && !left.is_zero())?;
    Some(left.max(Duration::from_secs(1)))
}

// === impl Rollouts ===

impl Rollouts {
    /// Creates the limits. The names of instances that get a slot are sent to `wake`.
    pub(crate) fn new(wake: mpsc::UnboundedSender<ObjectRef<BundleInstance>>) -> Self {
        Self {
            state: Mutex::default(),
            wake,
        }
    }

    /// Starts a rollout. Without a free slot, the instance is queued and woken when it gets one.
    pub(crate) fn begin(self: &Arc<Self>, name: &str) -> Option<Rollout> {
        let mut state = self.state.lock();
        let State { running, line, .. } = &mut *state;
        if running.len() + line.called_besides(name) >= MAX_ROLLOUTS {
            line.join(name);
            return None;
        }
        line.leave(name);
        running.insert(name.to_owned());
        Some(Rollout {
            name: name.to_owned(),
            rollouts: Arc::clone(self),
        })
    }

    /// Starts a rollout that the platform caused. The slot is released when a recorded status shows the end of the rollout,
    /// or with the reconcile if no status is recorded. Without a free slot, the instance is woken when it gets one.
    pub(crate) fn begin_platform(&self, name: &str) -> Turn {
        self.state.lock().platform.begin(name)
    }

    /// Records the status of an instance at a time. `version` is its resourceVersion; an older version than the recorded one
    /// is ignored.
    pub(crate) fn observe(
        &self,
        instance: &BundleInstance,
        version: u64,
        status: Option<&BundleInstanceStatus>,
        now: Timestamp,
    ) {
        let stage = status.and_then(|status| Stage::new(&instance.spec, status, now));
        let mut state = self.state.lock();
        let woken = state.platform.observe(&instance.name_any(), version, stage);
        drop(state);
        self.wake(woken);
    }

    /// Registers a reconcile, which may take the slot that its instance was woken for.
    pub(crate) fn reconcile(self: &Arc<Self>, name: &str) -> Reconcile {
        let mut state = self.state.lock();
        state.line.begin_reconcile(name);
        state.platform.begin_reconcile(name);
        Reconcile {
            name: name.to_owned(),
            rollouts: Arc::clone(self),
        }
    }

    /// Removes a deleted instance, and wakes the instances that get its slots.
    pub(crate) fn forget(&self, name: &str) {
        let mut state = self.state.lock();
        state.line.leave(name);
        let mut woken = state.platform.forget(name);
        woken.extend(state.next());
        drop(state);
        self.wake(woken);
    }

    /// Removes the instances that do not exist.
    pub(crate) fn retain(&self, exists: impl Fn(&str) -> bool) {
        let names = self.state.lock().platform.names();
        for name in names.iter().filter(|name| !exists(name)) {
            self.forget(name);
        }
    }

    fn wake(&self, names: Vec<String>) {
        for name in names {
            // The controller ends only with the process.
            let _ = self.wake.send(ObjectRef::new(&name));
        }
    }
}

// === impl State ===

impl State {
    /// Grants free slots to queued instances, and returns their names.
    fn next(&mut self) -> Vec<String> {
        let taken = self.running.len() + self.line.called();
        self.line.call(MAX_ROLLOUTS.saturating_sub(taken))
    }
}

impl Drop for Reconcile {
    fn drop(&mut self) {
        let mut state = self.rollouts.state.lock();
        state.line.end_reconcile(&self.name);
        let mut woken = state.platform.end_reconcile(&self.name);
        woken.extend(state.next());
        drop(state);
        self.rollouts.wake(woken);
    }
}

impl Drop for Rollout {
    fn drop(&mut self) {
        let mut state = self.rollouts.state.lock();
        state.running.remove(&self.name);
        let woken = state.next();
        drop(state);
        self.rollouts.wake(woken);
    }
}

#[cfg(test)]
mod tests {
    use manifests::api::bundle_instance::RevisionState;
    use serde_json::{Value, json};

    use super::*;
    use crate::controllers::bundle_instance::{revisions::tests::status, state::InstanceState};

    fn woken(calls: &mut mpsc::UnboundedReceiver<ObjectRef<BundleInstance>>) -> Vec<String> {
        std::iter::from_fn(|| calls.try_recv().ok())
            .map(|instance| instance.name)
            .collect()
    }

    #[test]
    fn platform_rollouts_release_their_slots_during_a_pause() {
        use RevisionState::{Active, RollingOut};
        let left = |state, cause, is_applied: bool, fields: Value, second| {
            let instance = object!({"metadata": {"name": "a"}, "spec": fields});
            let status = with!(status(&[state]) => |status|
                status.applied_digest = status.applied_digest.filter(|_| is_applied);
                status.revisions[0].cause = cause);
            let now = Timestamp::from_second(second).unwrap();
            time_until_late(&instance, &status, now).map(|left| left.as_secs())
        };
        let (platform, upgrade) = (Cause::Platform, Cause::Upgrade);
        let paused = || json!({"paused": true});
        let short = || json!({"progressDeadlineSeconds": 30});
        let (none, limit) = (|| json!({}), || json!({"progressDeadlineSeconds": 0}));
        assert_each!(|state, cause, is_applied, spec, second, expected| left(state, cause, is_applied, spec, second) => expected;
            RollingOut, upgrade, true, none(), 100 => Some(500);
            RollingOut, upgrade, false, none(), 100 => None;
            RollingOut, upgrade, false, short(), 10 => Some(20);
            RollingOut, upgrade, true, paused(), 100 => None;
            RollingOut, platform, true, none(), 100 => Some(500);
            RollingOut, platform, false, none(), 100 => Some(500);
            RollingOut, platform, false, limit(), 100 => Some(500);
            RollingOut, platform, false, paused(), 100 => Some(500);
            RollingOut, platform, false, paused(), 600 => None;
            Active, platform, true, none(), 100 => None;
        );
    }

    #[test]
    fn status_before_the_last_write_takes_no_slot() {
        let status =
            |state| with!(status(&[state]) => |status| status.revisions[0].cause = Cause::Platform);
        let instance: BundleInstance = object!({"metadata": {"name": "a", "resourceVersion": "9"}});
        // The watch has not delivered the last write yet.
        let instance = with!(instance => status: Some(status(RevisionState::RollingOut)));
        let written = (11, status(RevisionState::Active));
        let mut state = with!(InstanceState::default() => status: Some(Box::new(written)));
        let (wake, _calls) = mpsc::unbounded_channel();
        let rollouts = Rollouts::new(wake);
        let observed = |state: &InstanceState| {
            let (version, status) = state.newest_status(&instance);
            rollouts.observe(&instance, version, status, Timestamp::UNIX_EPOCH);
            rollouts.state.lock().platform.names()
        };
        assert!(observed(&state).is_empty());
        state.status = None;
        assert_eq!(observed(&state), ["a"]);
    }

    #[test]
    fn instances_in_line_begin_in_order_as_rollouts_end() {
        let (wake, mut calls) = mpsc::unbounded_channel();
        let rollouts = Arc::new(Rollouts::new(wake));
        let begun = (0..MAX_ROLLOUTS).map(|number| rollouts.begin(&number.to_string()).unwrap());
        let mut begun: Vec<Rollout> = begun.collect();
        for name in ["a", "b", "c", "a"] {
            assert!(rollouts.begin(name).is_none());
        }
        assert!(woken(&mut calls).is_empty());
        drop(begun.pop());
        assert_eq!(woken(&mut calls), ["a"]);
        // The turn is kept for the instance that was woken.
        assert!(rollouts.begin("d").is_none());
        let reconcile = rollouts.reconcile("a");
        let a = rollouts.begin("a").unwrap();
        drop(reconcile);
        assert!(woken(&mut calls).is_empty());
        // A deleted instance, or one that needs no turn, passes it on.
        drop(begun.pop());
        assert_eq!(woken(&mut calls), ["b"]);
        drop(rollouts.reconcile("b"));
        assert_eq!(woken(&mut calls), ["c"]);
        let earlier = rollouts.reconcile("d");
        rollouts.forget("c");
        assert_eq!(woken(&mut calls), ["d"]);
        // A reconcile that began before the call passes nothing on.
        drop(earlier);
        assert!(woken(&mut calls).is_empty());
        let reconcile = rollouts.reconcile("d");
        drop((a, rollouts.begin("d").unwrap(), begun, reconcile));
        assert!(woken(&mut calls).is_empty());
        let state = rollouts.state.lock();
        assert!(state.running.is_empty() && state.line.is_empty());
    }
}
