//! Back-off of failed attempts: the delays grow, and an attempt with other inputs starts at once.

use std::time::Duration;

use apply::backoff::left;
use jiff::Timestamp;

use super::outcome::RetryClass;

/// Back-off of one kind of attempt.
#[derive(Debug, Default)]
pub(crate) struct RolloutBackoff {
    /// Delay after the last failure; `None` after a success. Boxed, because most attempts succeed.
    pending: Option<Box<PendingRetry>>,
    /// Number of attempts since the last success.
    attempts: u32,
}

/// Delay of an attempt that failed.
#[derive(Debug, Clone, PartialEq)]
struct PendingRetry {
    /// Inputs of the attempt. An attempt with other inputs is not delayed.
    attempt_key: String,
    /// Time of the next attempt.
    until: Timestamp,
    /// Length of the delay. If the clock is set back, the delay does not become longer.
    wait: Duration,
}

impl RolloutBackoff {
    /// Resets the back-off after a success.
    pub(crate) fn succeeded(&mut self) {
        *self = Self::default();
    }

    /// Records a failure, and returns the delay until the next attempt with the same inputs.
    pub(crate) fn record_failure(
        &mut self,
        attempt_key: String,
        retry: RetryClass,
        now: Timestamp,
    ) -> Duration {
        let same = self
            .pending
            .as_ref()
            .is_some_and(|pending| pending.attempt_key == attempt_key);
        self.attempts = if same {
            self.attempts.saturating_add(1)
        } else {
            1
        };
        let wait = back_off(self.attempts, retry, fastrand::f64());
        let until = now.checked_add(wait).unwrap_or(now);
        self.pending = Some(Box::new(PendingRetry {
            attempt_key,
            until,
            wait,
        }));
        wait
    }

    /// Shortens the delay to at most `most`, and returns the remaining delay.
    pub(crate) fn cap_delay(&mut self, most: Duration, now: Timestamp) -> Duration {
        let Some(pending) = self.pending.as_mut() else {
            return most;
        };
        let until = now.checked_add(most).unwrap_or(now);
        pending.until = pending.until.min(until);
        Duration::try_from(pending.until.duration_since(now)).unwrap_or_default()
    }

    /// Returns the remaining delay of an attempt with these inputs; `None` if it may start.
    pub(crate) fn remaining_delay(&self, attempt_key: &str, now: Timestamp) -> Option<Duration> {
        let pending = self
            .pending
            .as_ref()
            .filter(|pending| pending.attempt_key == attempt_key)?;
        left(pending.until, pending.wait, now)
    }
}

/// Returns the exponential delay with jitter: from 0.5 s to 5 min for transient failures, from 2 s to 1 min for missing
/// permissions, and from 15 s to 10 min for failures that need another change by a person.
fn back_off(attempt: u32, retry: RetryClass, jitter: f64) -> Duration {
    let (first, most) = match retry {
        RetryClass::Soon => (0.5, 300.0),
        RetryClass::AfterGrant => (2.0, 60.0),
        RetryClass::Backoff => (15.0, 600.0),
    };
    let exponent = i32::try_from(attempt.saturating_sub(1).min(20)).unwrap_or(20);
    let wait: f64 = f64::min(first * 2f64.powi(exponent), most);
    Duration::from_secs_f64(wait * (0.75 + jitter / 2.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_delay_grows_up_to_a_maximum() {
        let wait = |attempt, retry| back_off(attempt, retry, 0.5).as_secs_f64();
        assert_each!(|attempt, retry, expected| (wait(attempt, retry) - expected).abs() < 1e-6 => true;
            0, RetryClass::Soon => 0.5;
            1, RetryClass::Soon => 0.5;
            2, RetryClass::Soon => 1.0;
            5, RetryClass::Soon => 8.0;
            u32::MAX, RetryClass::Soon => 300.0;
            1, RetryClass::AfterGrant => 2.0;
            50, RetryClass::AfterGrant => 60.0;
            1, RetryClass::Backoff => 15.0;
            3, RetryClass::Backoff => 60.0;
            50, RetryClass::Backoff => 600.0;
        );
        assert!(back_off(1, RetryClass::Soon, 0.0) < back_off(1, RetryClass::Soon, 1.0));
    }

    #[test]
    fn clock_set_back_ends_the_delay() {
        let now = Timestamp::from_second(1_000_000).unwrap();
        let mut attempts = RolloutBackoff::default();
        let wait = attempts.record_failure("a".to_owned(), RetryClass::Backoff, now);
        let later = |time: Duration| now.checked_add(time).unwrap();
        let before = now.checked_sub(Duration::from_secs(1)).unwrap();
        assert_rows! {
            attempts.remaining_delay("a", now) => Some(wait);
            attempts.remaining_delay("b", now) => None;
            attempts.remaining_delay("a", later(wait / 2)) => wait.checked_sub(wait / 2);
            attempts.remaining_delay("a", later(wait)) => None;
            attempts.remaining_delay("a", before) => None;
        }
    }
}
