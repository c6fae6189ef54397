//! Back-off with jitter for watches and controllers.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use futures::{Stream, TryStreamExt as _};
use jiff::Timestamp;
use kube::runtime::{
    WatchStreamExt as _,
    utils::Backoff,
    watcher::{self, Event},
};

use crate::api_error;

/// A failure this long after the pause of the one before is not in a row with it. Shorter than the timeout of a quiet
/// connection: a watch without events that ends with an error works.
const ROW: Duration = Duration::from_secs(60);
/// The longest time between two tries of a watch that fails. When an API server comes back, this is how long it may take
/// until that is noticed, and as long again until what was missed is listed.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// How the watches that the controllers have for themselves wait after failures: as those here do.
#[derive(Debug, Default)]
pub struct Pauses {
    /// Failures in a row.
    pub(crate) count: u32,
    /// When the pause after the last one ends.
    until: Option<Instant>,
    /// Events since then.
    events: u32,
    /// Whether the last one was a refusal.
    is_refused: Arc<AtomicBool>,
}

/// How controllers wait after a failure of one of their watches: not at all, for that one waits by itself, and the others
/// would wait with it, for half a minute after a few failures.
#[derive(Debug)]
pub struct NoPause;

/// A time a little longer or shorter, so that not all come at once.
pub fn spread(time: Duration) -> Duration {
    time.mul_f64(0.9 + fastrand::f64() / 5.0)
}

/// Returns how long a pause still takes that ends at `until`; `None` if the pause is over. A pause never takes longer than
/// `wait`, its length from the start: a clock that is set back ends the pause.
pub fn left(until: Timestamp, wait: Duration, now: Timestamp) -> Option<Duration> {
    let left = Duration::try_from(until.duration_since(now)).ok()?;
    (!left.is_zero() && left <= wait).then_some(left)
}

/// From a fifth of a second to ten seconds; where we are refused, from two seconds to a minute.
fn wait(count: u32, refused: bool) -> Duration {
    let (first, longest) = if refused {
        (Duration::from_secs(2), Duration::from_secs(60))
    } else {
        (Duration::from_millis(200), LONGEST_PAUSE)
    };
    let doubled = 2_u32.saturating_pow(count.saturating_sub(1).min(16));
    first.saturating_mul(doubled).min(longest)
}

/// A quarter more or less, so that all watches do not come back at once.
fn jittered(wait: Duration) -> Duration {
    wait.mul_f64(0.75 + 0.5 * fastrand::f64())
}

// === impl Pauses ===

impl Pauses {
    /// Returns the pause after a failure. The pause is longer if the API server refuses the request.
    pub fn after(&mut self, is_refused: bool) -> Duration {
        self.at(is_refused, Instant::now())
    }

    /// Counts the next failure as in a row with the last one, however much time has passed between them.
    pub(crate) fn continue_row(&mut self, now: Instant) {
        self.until = self.until.map(|until| until.max(now));
    }

    pub(crate) fn at(&mut self, is_refused: bool, now: Instant) -> Duration {
        let quiet = self.until.map(|it| now.saturating_duration_since(it));
        if quiet.is_some_and(|it| it > ROW) {
            self.count = 0;
        }
        self.count = self.count.saturating_add(1);
        self.events = 0;
        let pause = jittered(wait(self.count, is_refused));
        self.until = Some(now + pause);
        pause
    }
}

impl Iterator for Pauses {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let is_refused = self.is_refused.load(Ordering::Relaxed);
        Some(self.after(is_refused))
    }
}

impl Backoff for Pauses {
    /// There was an event. The first one does not say that a watch works: one that lists anew says so before it is refused.
    fn reset(&mut self) {
        self.events = self.events.saturating_add(1);
        if self.events > 1 {
            self.count = 0;
        }
    }
}

/// A watch that pauses after failures: longer where it is refused.
pub fn patient<K>(
    events: impl Stream<Item = watcher::Result<Event<K>>>,
) -> impl Stream<Item = watcher::Result<Event<K>>> {
    let pauses = Pauses::default();
    let is_refused = Arc::clone(&pauses.is_refused);
    let noted = events.inspect_err(move |error| {
        let refuses = api_error::code(error).is_some_and(api_error::is_refusal);
        is_refused.store(refuses, Ordering::Relaxed);
    });
    noted.backoff(pauses)
}

impl Iterator for NoPause {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        Some(Duration::ZERO)
    }
}

impl Backoff for NoPause {
    fn reset(&mut self) {}
}

#[cfg(test)]
mod tests {
    use futures::{StreamExt as _, stream};
    use kube::core::Status;
    use tokio::time::timeout;

    use super::*;

    /// Within the quarter that pauses are spread by.
    fn is_about(pause: Duration, milliseconds: u64) -> bool {
        let ratio = pause.div_duration_f64(Duration::from_millis(milliseconds));
        (0.74..1.26).contains(&ratio)
    }

    #[test]
    fn pauses_grow_while_a_watch_fails_and_more_so_while_it_is_refused() {
        let plain = [200, 400, 800, 1600, 3200, 6400, 10_000, 10_000];
        let refused = [2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000, 60_000];
        for (is_refused, expected) in [(false, plain), (true, refused)] {
            let (mut pauses, mut now) = (Pauses::default(), Instant::now());
            for expected in expected {
                let pause = pauses.at(is_refused, now);
                assert!(is_about(pause, expected), "{pause:?} {expected}");
                now += pause;
                // It lists anew, and is refused again.
                pauses.reset();
            }
            // What has worked for long, or has told of something, begins again.
            let first = expected[0];
            assert!(is_about(pauses.at(is_refused, now + 2 * ROW), first));
            assert!(is_about(pauses.at(is_refused, now + 2 * ROW), 2 * first));
            pauses.reset();
            pauses.reset();
            assert!(is_about(pauses.at(is_refused, now + 2 * ROW), first));
        }
    }

    #[tokio::test]
    async fn a_watch_that_is_refused_waits_longer() {
        for (code, goes_on) in [(403, false), (503, true)] {
            let status = Status::failure("no", "Any").with_code(code);
            let failure = watcher::Error::InitialListFailed(kube::Error::Api(Box::new(status)));
            let events = [Ok(Event::<()>::Init), Err(failure), Ok(Event::Init)];
            let all = patient(stream::iter(events)).count();
            assert_rows!(timeout(Duration::from_secs(1), all).await.ok() => goes_on.then_some(3), "{code}");
        }
    }
}
