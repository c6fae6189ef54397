//! What failed, and when it is tried again: ever more seldom, and something else at once.

use std::time::Duration;

use apply::backoff::left;
use jiff::Timestamp;

use super::outcome::Retry;

/// What failed, and how often.
#[derive(Debug, Default)]
pub(super) struct Tries {
    /// After something failed.
    pause: Option<Pause>,
    /// Tries since the last success.
    attempts: u32,
}

/// The reason why nothing is tried for now.
#[derive(Debug, Clone, PartialEq)]
struct Pause {
    /// What was tried: something else is tried at once.
    tried: String,
    /// When it is tried again.
    until: Timestamp,
    /// The length of the pause. If the clock is set back, the pause does not become longer.
    wait: Duration,
}

impl Tries {
    /// It worked.
    pub(super) fn succeeded(&mut self) {
        *self = Self::default();
    }

    /// Something failed: for how long nothing of the kind is tried.
    pub(super) fn again(&mut self, tried: String, retry: Retry, now: Timestamp) -> Duration {
        let same = self
            .pause
            .as_ref()
            .is_some_and(|pause| pause.tried == tried);
        self.attempts = if same {
            self.attempts.saturating_add(1)
        } else {
            1
        };
        let wait = back_off(self.attempts, retry, fastrand::f64());
        let until = now.checked_add(wait).unwrap_or(now);
        self.pause = Some(Pause { tried, until, wait });
        wait
    }

    /// Makes a pause that is longer as short as that, and tells what is left of it.
    pub(super) fn wait_at_most(&mut self, most: Duration, now: Timestamp) -> Duration {
        let Some(pause) = self.pause.as_mut() else {
            return most;
        };
        let until = now.checked_add(most).unwrap_or(now);
        pause.until = pause.until.min(until);
        Duration::try_from(pause.until.duration_since(now)).unwrap_or_default()
    }

    /// How long the same thing is not tried again.
    pub(super) fn must_wait(&self, tried: &str, now: Timestamp) -> Option<Duration> {
        let pause = self.pause.as_ref().filter(|pause| pause.tried == tried)?;
        left(pause.until, pause.wait, now)
    }
}

/// Exponential with jitter: from half a second to five minutes, from two seconds to one minute for rights that somebody
/// has to grant, or from 15 seconds to ten minutes for what else has to be put right.
fn back_off(attempt: u32, retry: Retry, jitter: f64) -> Duration {
    let (first, most) = match retry {
        Retry::Soon => (0.5, 300.0),
        Retry::Granted => (2.0, 60.0),
        Retry::Slowly => (15.0, 600.0),
    };
    let exponent = i32::try_from(attempt.saturating_sub(1).min(20)).unwrap_or(20);
    let wait: f64 = f64::min(first * 2f64.powi(exponent), most);
    Duration::from_secs_f64(wait * (0.75 + jitter / 2.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_grows_and_stays_bounded() {
        let wait = |attempt, retry| back_off(attempt, retry, 0.5).as_secs_f64();
        for (attempt, retry, expected) in [
            (0, Retry::Soon, 0.5),
            (1, Retry::Soon, 0.5),
            (2, Retry::Soon, 1.0),
            (5, Retry::Soon, 8.0),
            (u32::MAX, Retry::Soon, 300.0),
            (1, Retry::Granted, 2.0),
            (50, Retry::Granted, 60.0),
            (1, Retry::Slowly, 15.0),
            (3, Retry::Slowly, 60.0),
            (50, Retry::Slowly, 600.0),
        ] {
            assert_rows!((wait(attempt, retry) - expected).abs() < 1e-6 => true, "{attempt} {retry:?}");
        }
        assert!(back_off(1, Retry::Soon, 0.0) < back_off(1, Retry::Soon, 1.0));
    }

    #[test]
    fn clock_that_is_set_back_ends_a_pause() {
        let now = Timestamp::from_second(1_000_000).unwrap();
        let mut tries = Tries::default();
        let wait = tries.again("a".to_owned(), Retry::Slowly, now);
        assert_eq!(tries.must_wait("a", now), Some(wait));
        assert_eq!(tries.must_wait("b", now), None);
        let later = now.checked_add(wait / 2).unwrap();
        assert_eq!(tries.must_wait("a", later), wait.checked_sub(wait / 2));
        assert_eq!(tries.must_wait("a", now.checked_add(wait).unwrap()), None);
        assert_rows!(tries.must_wait("a", now.checked_sub(Duration::from_secs(1)).unwrap()) => None);
    }
}
