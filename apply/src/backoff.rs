//! Back-off with jitter for watches and controllers.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use futures::{Stream, StreamExt as _, TryStreamExt as _, stream};
use jiff::Timestamp;
use kube::runtime::{
    WatchStreamExt as _,
    utils::Backoff,
    watcher::{self, Event},
};
use tokio::time::sleep;

use crate::api_error;

/// Time after a back-off delay within which another failure continues the series of failures. The value is below the
/// timeout of an idle connection: a watch without events that ends with an error has worked.
const FAILURE_WINDOW: Duration = Duration::from_secs(60);
/// Maximum delay between two attempts of a failing watch. The end of an outage of the API server is noticed within this
/// time. Another delay of this length may pass until the missed changes are listed.
const MAX_DELAY: Duration = Duration::from_secs(10);

/// Back-off with jitter for the watches of this crate and of the controllers.
#[derive(Debug, Default)]
pub struct WatchBackoff {
    /// Number of failures in the current series.
    pub(crate) count: u32,
    /// End of the delay after the last failure; `None` before the first failure.
    until: Option<Instant>,
    /// Number of events since the last failure.
    events: u32,
    /// Whether the API server rejected the request of the last failure.
    is_refused: Arc<AtomicBool>,
}

/// Back-off without a delay, for the controllers. Each of their watches already backs off by itself; a delay in the
/// controller would stop its other watches, too, for half a minute after a few failures.
#[derive(Debug)]
pub struct NoWatchBackoff;

/// State of a watch that lists again after a failure.
struct RelistingWatch<F, P, S> {
    start: F,
    needs_list: P,
    /// Events of the current watch; `None` before a new list.
    events: Option<Pin<Box<S>>>,
    backoff: WatchBackoff,
    /// Delay before the next event.
    delay: Option<Duration>,
}

/// Returns the duration with 10 % jitter, so that clients with the same interval do not send their requests together.
pub fn spread(time: Duration) -> Duration {
    time.mul_f64(0.9 + fastrand::f64() / 5.0)
}

/// Returns the remaining time of a delay that ends at `until`; `None` if the delay is over. `wait` is the full length of
/// the delay and its upper bound: if the clock is set back, the delay ends.
pub fn left(until: Timestamp, wait: Duration, now: Timestamp) -> Option<Duration> {
    let remaining = Duration::try_from(until.duration_since(now)).ok()?;
    (!remaining.is_zero() && remaining <= wait).then_some(remaining)
}

/// Returns the delay after a number of failures: 0.2 to 10 seconds, or 2 to 60 seconds after a rejected request.
fn delay(count: u32, refused: bool) -> Duration {
    let (initial, max) = if refused {
        (Duration::from_secs(2), Duration::from_secs(60))
    } else {
        (Duration::from_millis(200), MAX_DELAY)
    };
    let doubled = 2_u32.saturating_pow(count.saturating_sub(1).min(16));
    initial.saturating_mul(doubled).min(max)
}

/// Returns the delay with 25 % jitter, so that watches do not reconnect together.
fn jittered(delay: Duration) -> Duration {
    delay.mul_f64(0.75 + 0.5 * fastrand::f64())
}

// === impl WatchBackoff ===

impl WatchBackoff {
    /// Returns the delay after a failure. The delay is longer if the API server rejected the request.
    pub fn after(&mut self, is_refused: bool) -> Duration {
        self.at(is_refused, Instant::now())
    }

    /// Makes the next failure part of the current series, independent of the time since the last one.
    pub(crate) fn continue_row(&mut self, now: Instant) {
        self.until = self.until.map(|until| until.max(now));
    }

    pub(crate) fn at(&mut self, is_refused: bool, now: Instant) -> Duration {
        let quiet = self.until.map(|until| now.saturating_duration_since(until));
        if quiet.is_some_and(|quiet| quiet > FAILURE_WINDOW) {
            self.count = 0;
        }
        self.count = self.count.saturating_add(1);
        self.events = 0;
        let delay = jittered(delay(self.count, is_refused));
        self.until = Some(now + delay);
        delay
    }
}

impl Iterator for WatchBackoff {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let is_refused = self.is_refused.load(Ordering::Relaxed);
        Some(self.after(is_refused))
    }
}

impl Backoff for WatchBackoff {
    /// Records an event. Only the second event since a failure ends the series of failures: a watch that relists sends one
    /// event before its request is rejected.
    fn reset(&mut self) {
        self.events = self.events.saturating_add(1);
        if self.events > 1 {
            self.count = 0;
        }
    }
}

/// Adds a back-off to the stream of a watch. The delays are longer if the API server rejects its requests.
pub fn patient<K>(
    events: impl Stream<Item = watcher::Result<Event<K>>>,
) -> impl Stream<Item = watcher::Result<Event<K>>> {
    let delays = WatchBackoff::default();
    let is_refused = Arc::clone(&delays.is_refused);
    let observed = events.inspect_err(move |error| {
        let refuses = api_error::code(error).is_some_and(api_error::is_refusal);
        is_refused.store(refuses, Ordering::Relaxed);
    });
    observed.backoff(delays)
}

/// Returns the events of a watch with a back-off. After an error for which `needs_list` returns true, restarts the watch with a
/// list: unlike a resumed watch without events, a complete list shows that requests succeed. Lists do not shorten the delays,
/// because listing may be allowed while watching is forbidden.
pub fn relisting<K, S>(
    start: impl Fn() -> S,
    needs_list: impl Fn(&watcher::Error) -> bool,
) -> impl Stream<Item = watcher::Result<Event<K>>>
where
    S: Stream<Item = watcher::Result<Event<K>>>,
{
    let watch = RelistingWatch {
        start,
        needs_list,
        events: None,
        backoff: WatchBackoff::default(),
        delay: None,
    };
    stream::unfold(watch, |mut watch| async move {
        if let Some(delay) = watch.delay.take() {
            sleep(delay).await;
        }
        let events = watch
            .events
            .get_or_insert_with(|| Box::pin((watch.start)()));
        let event = events.next().await?;
        match &event {
            Ok(Event::Apply(_) | Event::Delete(_)) => watch.backoff = WatchBackoff::default(),
            Ok(_) => {}
            Err(error) => {
                let is_refused = api_error::code(error).is_some_and(api_error::is_refusal);
                watch.delay = Some(watch.backoff.after(is_refused));
                if (watch.needs_list)(error) {
                    watch.events = None;
                }
            }
        }
        Some((event, watch))
    })
}

impl Iterator for NoWatchBackoff {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        Some(Duration::ZERO)
    }
}

impl Backoff for NoWatchBackoff {
    fn reset(&mut self) {}
}

#[cfg(test)]
mod tests {
    use kube::core::Status;
    use tokio::time::timeout;

    use super::*;

    /// Reports whether a delay is within the jitter of a quarter.
    fn is_about(delay: Duration, milliseconds: u64) -> bool {
        (0.74..1.26).contains(&delay.div_duration_f64(Duration::from_millis(milliseconds)))
    }

    #[test]
    fn watch_backoff_grows_faster_while_forbidden() {
        let plain = [200, 400, 800, 1600, 3200, 6400, 10_000, 10_000];
        let refused = [2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000, 60_000];
        for (is_refused, expected) in [(false, plain), (true, refused)] {
            let (mut backoff, mut now) = (WatchBackoff::default(), Instant::now());
            for expected in expected {
                let delay = backoff.at(is_refused, now);
                assert!(is_about(delay, expected), "{delay:?} {expected}");
                now += delay;
                // The relist is refused too.
                backoff.reset();
            }
            // A long success or an event resets the delay.
            let (first, late) = (expected[0], now + 2 * FAILURE_WINDOW);
            assert!(is_about(backoff.at(is_refused, late), first));
            assert!(is_about(backoff.at(is_refused, late), 2 * first));
            backoff.reset();
            backoff.reset();
            assert!(is_about(backoff.at(is_refused, late), first));
        }
    }

    fn status_error(code: u16) -> kube::Error {
        kube::Error::Api(Box::new(Status::failure("no", "Any").with_code(code)))
    }

    #[tokio::test]
    async fn forbidden_watch_waits_longer() {
        for (code, ends_soon) in [(403, false), (503, true)] {
            let failure = watcher::Error::InitialListFailed(status_error(code));
            let events = [Ok(Event::<()>::Init), Err(failure), Ok(Event::Init)];
            let all = patient(stream::iter(events)).count();
            assert_rows!(timeout(Duration::from_secs(1), all).await.ok() => ends_soon.then_some(3), "{code}");
        }
    }

    /// Returns a watch that lists nothing, fails, and then has no events.
    fn failing_watch() -> impl Stream<Item = watcher::Result<Event<()>>> {
        let failure = watcher::Error::WatchStartFailed(status_error(503));
        stream::iter([Ok(Event::Init), Ok(Event::InitDone), Err(failure)]).chain(stream::pending())
    }

    #[tokio::test]
    async fn failed_watch_lists_again_if_required() {
        for (needs_list, expected) in [(true, Some(2)), (false, None)] {
            let events = relisting(failing_watch, |_| needs_list);
            let lists = events.filter(|event| {
                let is_list = matches!(event, Ok(Event::InitDone));
                std::future::ready(is_list)
            });
            assert_rows!(timeout(Duration::from_secs(1), lists.take(2).count()).await.ok() => expected, "{needs_list}");
        }
    }

    #[tokio::test]
    async fn successful_lists_do_not_shorten_the_delay() {
        let started = Instant::now();
        // The delays are 0.2, 0.4 and 0.8 s, with a jitter of a quarter.
        let events = relisting(failing_watch, |_| true).take(10);
        assert_eq!(events.count().await, 10);
        assert!(started.elapsed() > Duration::from_secs(1));
    }
}
