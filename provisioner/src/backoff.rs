//! How long to wait before what failed is tried again. No I/O.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

const FIRST: Duration = Duration::from_secs(1);
/// For what fails again unless somebody corrects it, perhaps where nobody tells us: a tag that is pushed later.
const FIRST_TERMINAL: Duration = Duration::from_secs(15);
const LONGEST: Duration = Duration::from_secs(300);

/// The failures of each object in a row.
#[derive(Debug, Default)]
pub(crate) struct Backoff(Mutex<HashMap<String, Failures>>);

#[derive(Debug, Default)]
struct Failures {
    /// Of which generation of the object: somebody may have corrected it since.
    generation: Option<i64>,
    count: u32,
    /// When it is tried again.
    until: Option<Instant>,
}

impl Backoff {
    /// An object has failed once more: when to try again. Who was woken before that, by something else that changed, and
    /// has failed again, has the rest of the pause; else a burst of changes would be taken for a long failure.
    pub(crate) fn next(
        &self,
        uid: &str,
        generation: Option<i64>,
        is_terminal: bool,
        now: Instant,
    ) -> Duration {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let failures = all.entry(uid.to_owned()).or_default();
        if failures.generation != generation {
            *failures = Failures {
                generation,
                ..Failures::default()
            };
        }
        if let Some(until) = failures.until.filter(|it| now < *it) {
            return until.duration_since(now);
        }
        failures.count = failures.count.saturating_add(1);
        let pause = pause(failures.count, is_terminal, fastrand::f64());
        failures.until = Some(now + pause);
        pause
    }

    /// It has not failed, or is gone.
    pub(crate) fn forget(&self, uid: &str) {
        let mut failures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        failures.remove(uid);
    }

    /// Forgets objects that do not exist.
    pub(crate) fn retain(&self, exists: impl Fn(&str) -> bool) {
        let mut failures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        failures.retain(|uid, _| exists(uid));
    }
}

/// Twice as long each time, and up to a quarter more or less, so that what failed together is not tried together.
pub(crate) fn pause(failures: u32, is_terminal: bool, chance: f64) -> Duration {
    let first = if is_terminal { FIRST_TERMINAL } else { FIRST };
    let doubled = first.saturating_mul(1 << failures.saturating_sub(1).min(16));
    let pause = doubled.min(LONGEST);
    pause.mul_f64(0.75 + chance.clamp(0.0, 1.0) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_five_minutes() {
        for (failures, is_terminal, seconds) in [
            (0, false, 1),
            (1, false, 1),
            (2, false, 2),
            (5, false, 16),
            (9, false, 256),
            (10, false, 300),
            (u32::MAX, false, 300),
            (1, true, 15),
            (3, true, 60),
            (6, true, 300),
        ] {
            let expected = Duration::from_secs(seconds);
            assert_eq!(pause(failures, is_terminal, 0.5), expected);
            assert_eq!(pause(failures, is_terminal, 0.0), expected.mul_f64(0.75));
            assert_eq!(pause(failures, is_terminal, 1.0), expected.mul_f64(1.25));
        }
    }

    #[test]
    fn failures_are_counted_for_each_object_until_it_works_or_changes() {
        let backoff = Backoff::default();
        let begun = Instant::now();
        let later = |seconds| begun + Duration::from_secs(seconds);
        let second = Duration::from_millis(1500);
        let next = |uid: &str, at| backoff.next(uid, Some(1), false, later(at));
        assert!(next("a", 0) < second);
        assert!(next("a", 10) >= second && next("b", 10) < second);
        backoff.forget("a");
        assert!(next("a", 10) < second);
        backoff.retain(|uid| uid == "a");
        assert!(next("b", 20) < second && next("a", 20) >= second);
        assert!(backoff.next("a", Some(2), false, later(20)) < second);
        assert!(backoff.next("a", Some(2), false, later(30)) >= second);
    }

    #[test]
    fn who_is_woken_before_its_time_has_the_rest_of_the_pause() {
        let backoff = Backoff::default();
        let begun = Instant::now();
        let first = backoff.next("a", None, true, begun);
        let tenth = Duration::from_millis(100);
        for woken in 1..=20 {
            let rest = backoff.next("a", None, true, begun + tenth * woken);
            assert_eq!(rest + tenth * woken, first);
        }
        // Only what fails when its time has come has failed once more.
        let second = backoff.next("a", None, true, begun + first);
        assert!(second >= FIRST_TERMINAL.mul_f64(1.5) && second <= FIRST_TERMINAL.mul_f64(2.5));
    }
}
