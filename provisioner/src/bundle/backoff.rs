//! How long to wait before a Bundle that failed is tried again.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

const FIRST: Duration = Duration::from_secs(1);
/// For what fails again unless somebody corrects it, perhaps where nobody tells us: a tag that is pushed later.
const FIRST_TERMINAL: Duration = Duration::from_secs(15);
const LONGEST: Duration = Duration::from_secs(300);

/// The failures of each object in a row.
#[derive(Debug, Default)]
pub(super) struct Backoff(Mutex<HashMap<String, u32>>);

impl Backoff {
    /// An object has failed once more: when to try again.
    pub(super) fn next(&self, uid: &str, is_terminal: bool) -> Duration {
        let mut failures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = failures.entry(uid.to_owned()).or_default();
        *count = count.saturating_add(1);
        pause(*count, is_terminal, fastrand::f64())
    }

    /// It has not failed, or is gone.
    pub(super) fn forget(&self, uid: &str) {
        let mut failures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        failures.remove(uid);
    }

    /// Forgets objects that do not exist.
    pub(super) fn retain(&self, exists: impl Fn(&str) -> bool) {
        let mut failures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        failures.retain(|uid, _| exists(uid));
    }
}

/// Twice as long each time, and up to a quarter more or less, so that what failed together is not tried together.
pub(super) fn pause(failures: u32, is_terminal: bool, chance: f64) -> Duration {
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
    fn failures_are_counted_for_each_object_until_it_works() {
        let backoff = Backoff::default();
        let second = Duration::from_millis(1500);
        assert!(backoff.next("a", false) < second);
        assert!(backoff.next("a", false) >= second && backoff.next("b", false) < second);
        backoff.forget("a");
        assert!(backoff.next("a", false) < second);
        backoff.retain(|uid| uid == "a");
        assert!(backoff.next("b", false) < second && backoff.next("a", false) >= second);
    }
}
