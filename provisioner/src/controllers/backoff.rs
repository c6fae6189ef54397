//! Back-off between attempts of failing objects. Pure; no I/O.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

const INITIAL_DELAY: Duration = Duration::from_secs(1);
/// Initial delay for failures that last until a person acts, perhaps without an event: a tag that is pushed later.
const INITIAL_DELAY_TERMINAL: Duration = Duration::from_secs(15);
const MAX_DELAY: Duration = Duration::from_secs(300);

/// Consecutive failures of each object.
#[derive(Debug, Default)]
pub(crate) struct Backoff(Mutex<HashMap<String, Failures>>);

#[derive(Debug, Default)]
struct Failures {
    /// Generation of the object. A new generation may have fixed the failure.
    generation: Option<i64>,
    count: u32,
    /// Time of the next attempt.
    until: Option<Instant>,
}

impl Backoff {
    /// Records a failure of an object, and returns the delay before the next attempt. If another change triggered the
    /// failed attempt before its time, returns the remaining delay. Otherwise a burst of changes would count as a long
    /// failure.
    pub(crate) fn next(
        &self,
        uid: &str,
        generation: Option<i64>,
        is_terminal: bool,
        now: Instant,
    ) -> Duration {
        let mut objects = self.0.lock();
        let failures = objects.entry(uid.to_owned()).or_default();
        if failures.generation != generation {
            *failures = Failures {
                generation,
                ..Failures::default()
            };
        }
        if let Some(until) = failures.until.filter(|until| now < *until) {
            return until.duration_since(now);
        }
        failures.count = failures.count.saturating_add(1);
        let delay = delay(failures.count, is_terminal, fastrand::f64());
        failures.until = Some(now + delay);
        delay
    }

    /// Removes an object that has succeeded or was deleted.
    pub(crate) fn reset(&self, uid: &str) {
        let mut failures = self.0.lock();
        failures.remove(uid);
    }

    /// Removes objects that do not exist.
    pub(crate) fn retain(&self, exists: impl Fn(&str) -> bool) {
        let mut failures = self.0.lock();
        failures.retain(|uid, _| exists(uid));
    }
}

/// Returns the delay after a number of failures. It doubles with each failure, with a jitter of up to a quarter, so that
/// objects that failed together do not retry together.
pub(crate) fn delay(failures: u32, is_terminal: bool, jitter: f64) -> Duration {
    let initial = if is_terminal {
        INITIAL_DELAY_TERMINAL
    } else {
        INITIAL_DELAY
    };
    let doubled = initial.saturating_mul(1 << failures.saturating_sub(1).min(16));
    let delay = doubled.min(MAX_DELAY);
    delay.mul_f64(0.75 + jitter.clamp(0.0, 1.0) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_five_minutes() {
        let around = |seconds| [0.75, 1.0, 1.25].map(|by| Duration::from_secs(seconds).mul_f64(by));
        assert_each!(|failures, is_terminal, seconds|
            [0.0, 0.5, 1.0].map(|jitter| delay(failures, is_terminal, jitter)) => around(seconds);
            0, false => 1;
            1, false => 1;
            2, false => 2;
            5, false => 16;
            9, false => 256;
            10, false => 300;
            u32::MAX, false => 300;
            1, true => 15;
            3, true => 60;
            6, true => 300;
        );
    }

    #[test]
    fn failures_are_counted_per_object_until_success_or_change() {
        let backoff = Backoff::default();
        let begun = Instant::now();
        let later = |seconds| begun + Duration::from_secs(seconds);
        let second = Duration::from_millis(1500);
        let next = |uid: &str, at| backoff.next(uid, Some(1), false, later(at));
        assert!(next("a", 0) < second && next("a", 10) >= second && next("b", 10) < second);
        backoff.reset("a");
        assert!(next("a", 10) < second);
        backoff.retain(|uid| uid == "a");
        assert!(next("b", 20) < second && next("a", 20) >= second);
        assert!(backoff.next("a", Some(2), false, later(20)) < second);
        assert!(backoff.next("a", Some(2), false, later(30)) >= second);
    }

    #[test]
    fn early_wake_keeps_remaining_backoff() {
        let backoff = Backoff::default();
        let begun = Instant::now();
        let first = backoff.next("a", None, true, begun);
        let tenth = Duration::from_millis(100);
        for woken in 1..=20 {
            assert_rows!(backoff.next("a", None, true, begun + tenth * woken) + tenth * woken => first);
        }
        // Only a failure at or after the time of the next attempt counts.
        let second = backoff.next("a", None, true, begun + first);
        let [least, most] = [1.5, 2.5].map(|factor| INITIAL_DELAY_TERMINAL.mul_f64(factor));
        assert!((least..=most).contains(&second), "{second:?}");
    }
}
