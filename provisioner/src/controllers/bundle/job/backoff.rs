//! Back-off between the Jobs of a Bundle: each Job waits longer than the one before, for any reason of failure.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::controllers::backoff;

/// Time after which an earlier Job, successful or failed, no longer counts.
const RESET_AFTER: Duration = Duration::from_secs(3600);

/// Back-off state of the unpack Jobs by the uid of their Bundle.
#[derive(Debug, Default)]
pub struct JobBackoff(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    attempts: HashMap<String, Attempts>,
    /// Bundles that have content and no remaining Job.
    finished: HashSet<String>,
}

/// Jobs of one Bundle: their number and the time of the last one.
#[derive(Debug)]
struct Attempts {
    count: u32,
    last: Instant,
}

impl JobBackoff {
    /// Returns how long to wait before another Job may be created.
    pub(super) fn wait(&self, uid: &str, now: Instant) -> Duration {
        self.0
            .lock()
            .attempts
            .get(uid)
            .map_or(Duration::ZERO, |attempts| {
                // No jitter: the result must not change between two reconciles of one Job.
                let delay = backoff::delay(attempts.count, true, 0.5);
                (attempts.last + delay).saturating_duration_since(now)
            })
    }

    /// Records that a Job is created.
    pub(super) fn made(&self, uid: &str, now: Instant) {
        let mut state = self.0.lock();
        state.finished.remove(uid);
        let attempts = state.attempts.entry(uid.to_owned()).or_insert(Attempts {
            count: 0,
            last: now,
        });
        if now.saturating_duration_since(attempts.last) > RESET_AFTER {
            attempts.count = 0;
        }
        attempts.count = attempts.count.saturating_add(1);
        attempts.last = now;
    }

    /// Reports whether no Job of a Bundle remains.
    pub(super) fn is_finished(&self, uid: &str) -> bool {
        self.0.lock().finished.contains(uid)
    }

    /// Records that no Job of a Bundle remains.
    pub(super) fn mark_finished(&self, uid: &str) {
        self.0.lock().finished.insert(uid.to_owned());
    }

    /// Removes a deleted Bundle.
    pub(in crate::controllers::bundle) fn forget(&self, uid: &str) {
        let mut state = self.0.lock();
        state.attempts.remove(uid);
        state.finished.remove(uid);
    }

    /// Removes Bundles that do not exist.
    pub(in crate::controllers::bundle) fn retain(&self, exists: impl Fn(&str) -> bool) {
        let mut state = self.0.lock();
        state.attempts.retain(|uid, _| exists(uid));
        state.finished.retain(|uid| exists(uid));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // parity: rukpak-14
    #[test]
    fn delay_between_jobs_grows() {
        let (backoff, mut now) = (JobBackoff::default(), Instant::now());
        let wait = |name, now| backoff.wait(name, now).as_secs();
        assert_eq!(wait("a", now), 0);
        for delay in [15, 30, 60, 120, 240, 300, 300] {
            backoff.made("a", now);
            assert_eq!((wait("a", now), wait("b", now)), (delay, 0));
            now += Duration::from_secs(delay);
            assert_eq!(backoff.wait("a", now), Duration::ZERO);
        }
        // Jobs before the reset do not count.
        assert_rows!({ now += RESET_AFTER * 2; backoff.made("a", now); backoff.wait("a", now) } => Duration::from_secs(15));
        assert_rows!({ backoff.forget("a"); backoff.wait("a", now) } => Duration::ZERO);
    }

    #[test]
    fn bundle_is_clean_until_its_next_job() {
        let backoff = JobBackoff::default();
        backoff.mark_finished("a");
        assert!(backoff.is_finished("a") && !backoff.is_finished("b"));
        backoff.made("a", Instant::now());
        assert!(!backoff.is_finished("a"));
    }
}
