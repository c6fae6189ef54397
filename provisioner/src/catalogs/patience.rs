//! How long a catalog is waited for, and how soon it is tried again. No I/O.

use std::time::{Duration, Instant};

use apply::backoff::spread;

/// A place that does not work is tried again at least so often.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
/// A connection that lasts so long is a good one. Each new one costs a list of the whole catalog, so there may not be
/// many of them in a row.
const LASTING: Duration = LONGEST_PAUSE;

/// Of one catalog.
#[derive(Debug, Default)]
pub(super) struct Patience {
    /// Since when it is not served; nothing while it is.
    lost: Option<Instant>,
    /// Since when the connection is good, if there was a good one at last.
    good: Option<Instant>,
    /// Failures and short connections in a row.
    failures: u32,
    /// Whether a server is being asked.
    is_asking: bool,
    /// Before that no server is asked again.
    not_before: Option<Instant>,
}

// === impl Patience ===

impl Patience {
    /// Since when the catalog is not served. Whoever asks is about to look for another place.
    pub(super) fn since(&mut self, now: Instant) -> Instant {
        *self.lost.get_or_insert(now)
    }

    /// A server is to be asked: how long to wait before that.
    pub(super) fn rest(&self, now: Instant) -> Duration {
        let until = self.not_before;
        until.map_or(Duration::ZERO, |it| it.saturating_duration_since(now))
    }

    /// A server is asked from now on.
    pub(super) fn asks(&mut self) {
        self.is_asking = true;
    }

    /// The catalog has changed, and what was under way is given up. Whoever makes it change again and again, as an OLM
    /// that says now one thing and now another, does not have it read each time.
    pub(super) fn gives_up(&mut self, now: Instant) {
        if self.is_asking {
            self.not_before = Some(now + self.pause(now));
        }
    }

    /// It is served, and was read.
    pub(super) fn is_served(&mut self, now: Instant) {
        self.lost = None;
        self.good.get_or_insert(now);
    }

    /// Its image was read.
    pub(super) fn is_read(&mut self) {
        self.failures = 0;
    }

    /// Reports whether the last attempts have failed.
    pub(super) fn has_failed(&self) -> bool {
        self.failures > 0
    }

    /// How long to wait after a failure, or after the end of a connection.
    pub(super) fn pause(&mut self, now: Instant) -> Duration {
        self.is_asking = false;
        let good = self.good.take();
        if good.is_some_and(|since| now.saturating_duration_since(since) >= LASTING) {
            self.failures = 0;
        }
        let pause = SHORTEST_PAUSE * 2u32.saturating_pow(self.failures.min(10));
        self.failures = self.failures.saturating_add(1);
        spread(pause.min(LONGEST_PAUSE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about(pause: Duration) -> u64 {
        [1_u32, 2, 4, 8, 16, 32, 60]
            .into_iter()
            .find(|it| (pause.as_secs_f64() / f64::from(*it) - 1.0).abs() <= 0.11)
            .map(u64::from)
            .unwrap()
    }

    #[test]
    fn the_time_without_a_server_begins_when_it_is_lost() {
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let mut patience = Patience::default();
        assert_eq!(patience.since(at(0)), at(0));
        assert_eq!(patience.since(at(100)), at(0));
        patience.is_served(at(120));
        // Read again meanwhile, and lost after an hour.
        patience.is_served(at(1020));
        assert_eq!(patience.since(at(3600)), at(3600));
        assert_eq!(patience.since(at(3700)), at(3600));
    }

    #[test]
    fn who_ends_each_connection_is_not_asked_each_second() {
        let begin = Instant::now();
        let mut now = begin;
        let mut patience = Patience::default();
        let mut pauses = Vec::new();
        for _ in 0..8 {
            patience.is_served(now);
            let pause = patience.pause(now);
            pauses.push(about(pause));
            now += pause;
        }
        assert_rows! {
            pauses => [1, 2, 4, 8, 16, 32, 60, 60];
            // One that lasts is another one.
            { patience.is_served(now); patience.is_served(now + LASTING / 2); about(patience.pause(now + LASTING)) } => 1;
            // And what does not even begin is no connection.
            about(patience.pause(now + 2 * LASTING)) => 2;
            patience.has_failed() => true;
            { patience.is_read(); patience.has_failed() } => false;
            about(patience.pause(now + 2 * LASTING)) => 1;
        }
    }

    #[test]
    fn a_server_that_is_given_up_again_and_again_is_not_asked_each_time() {
        let mut now = Instant::now();
        let mut patience = Patience::default();
        let mut rests = Vec::new();
        for _ in 0..8 {
            patience.asks();
            patience.is_served(now);
            now += Duration::from_millis(500);
            patience.gives_up(now);
            rests.push(about(patience.rest(now)));
            // It changes back and forth meanwhile, and nobody has asked anything.
            let soon = now + Duration::from_millis(100);
            patience.gives_up(soon);
            assert!(patience.rest(soon) < patience.rest(now));
            now += patience.rest(now);
            assert_eq!(patience.rest(now), Duration::ZERO);
        }
        assert_eq!(rests, [1, 2, 4, 8, 16, 32, 60, 60]);
        // After one that has lasted, what is new is asked almost at once.
        patience.asks();
        patience.is_served(now);
        patience.gives_up(now + LASTING);
        assert_eq!(about(patience.rest(now + LASTING)), 1);
        // Nobody waits who was not asking: where an image is to be read now.
        assert_rows!(with!(Patience::default() => |patience| patience.gives_up(now)).rest(now) => Duration::ZERO);
    }
}
