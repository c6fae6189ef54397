//! When the Jobs of a Bundle may follow each other. Whatever makes them go, they do not go round in circles.

use std::{
    collections::{HashMap, HashSet},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use crate::backoff;

/// After what time a Job that went well, or badly, is history.
const FORGOTTEN: Duration = Duration::from_secs(3600);

/// The Jobs of each Bundle, by its uid.
#[derive(Debug, Default)]
pub struct Tries(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    made: HashMap<String, Made>,
    /// Bundles that have content and no Job.
    tidy: HashSet<String>,
}

/// The Jobs of one Bundle.
#[derive(Debug)]
struct Made {
    count: u32,
    last: Instant,
}

impl Tries {
    /// How long to wait before another Job may be made.
    pub(super) fn wait(&self, uid: &str, now: Instant) -> Duration {
        self.lock().made.get(uid).map_or(Duration::ZERO, |made| {
            // Without chance: between two looks at one Job it must not change.
            let pause = backoff::pause(made.count, true, 0.5);
            (made.last + pause).saturating_duration_since(now)
        })
    }

    /// A Job is being made.
    pub(super) fn made(&self, uid: &str, now: Instant) {
        let mut known = self.lock();
        known.tidy.remove(uid);
        let made = known.made.entry(uid.to_owned()).or_insert(Made {
            count: 0,
            last: now,
        });
        if now.saturating_duration_since(made.last) > FORGOTTEN {
            made.count = 0;
        }
        made.count = made.count.saturating_add(1);
        made.last = now;
    }

    /// Reports whether there is nothing left of a Bundle's Job.
    pub(super) fn is_tidy(&self, uid: &str) -> bool {
        self.lock().tidy.contains(uid)
    }

    /// There is nothing left of it.
    pub(super) fn tidied(&self, uid: &str) {
        self.lock().tidy.insert(uid.to_owned());
    }

    /// The Bundle is gone.
    pub(in crate::bundle) fn forget(&self, uid: &str) {
        let mut known = self.lock();
        known.made.remove(uid);
        known.tidy.remove(uid);
    }

    /// Forgets Bundles that do not exist.
    pub(in crate::bundle) fn retain(&self, exists: impl Fn(&str) -> bool) {
        let mut known = self.lock();
        known.made.retain(|uid, _| exists(uid));
        known.tidy.retain(|uid| exists(uid));
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // parity: rukpak-14
    #[test]
    fn jobs_follow_each_other_ever_more_slowly() {
        let tries = Tries::default();
        let start = Instant::now();
        let mut now = start;
        assert_eq!(tries.wait("a", now), Duration::ZERO);
        for seconds in [15, 30, 60, 120, 240, 300, 300] {
            tries.made("a", now);
            let pause = Duration::from_secs(seconds);
            assert_eq!(tries.wait("a", now), pause);
            assert_eq!(tries.wait("b", now), Duration::ZERO);
            now += pause;
            assert_eq!(tries.wait("a", now), Duration::ZERO);
        }
        // What was long ago does not count.
        assert_rows!({ now += FORGOTTEN * 2; tries.made("a", now); tries.wait("a", now) } => Duration::from_secs(15));
        assert_rows!({ tries.forget("a"); tries.wait("a", now) } => Duration::ZERO);
    }

    #[test]
    fn a_bundle_is_tidy_until_it_has_another_job() {
        let tries = Tries::default();
        tries.tidied("a");
        assert!(tries.is_tidy("a") && !tries.is_tidy("b"));
        tries.made("a", Instant::now());
        assert!(!tries.is_tidy("a"));
    }
}
