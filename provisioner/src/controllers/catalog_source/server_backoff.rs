//! Back-off of requests and writes for one catalog: its server, its image, its status and its registry pod. Pure; no I/O.

use std::time::{Duration, Instant};

use apply::backoff::spread;

/// Maximum delay between attempts.
const MAX_DELAY: Duration = Duration::from_secs(60);
const INITIAL_DELAY: Duration = Duration::from_secs(1);
/// Time after which a connection counts as stable. Each new connection reads the whole list of packages, so a series of
/// short connections has to be avoided.
const STABLE_AFTER: Duration = MAX_DELAY;

/// Back-off of one catalog.
#[derive(Debug, Default)]
pub(super) struct ServerBackoff {
    /// Time since which the catalog is not served; `None` while it is.
    unserved_since: Option<Instant>,
    /// Time since which the connection works; `None` without a working connection.
    connected_since: Option<Instant>,
    /// Consecutive failures and short connections.
    failures: u32,
    /// True while a server is being queried.
    is_querying: bool,
    /// Earliest time of the next query.
    not_before: Option<Instant>,
}

// === impl ServerBackoff ===

impl ServerBackoff {
    /// Returns the time since which the catalog is not served. The first call after the last success sets it.
    pub(super) fn since(&mut self, now: Instant) -> Instant {
        *self.unserved_since.get_or_insert(now)
    }

    /// Returns the delay before the next query of a server.
    pub(super) fn remaining_delay(&self, now: Instant) -> Duration {
        let until = self.not_before;
        until.map_or(Duration::ZERO, |until| until.saturating_duration_since(now))
    }

    /// Records that a query has started.
    pub(super) fn start_attempt(&mut self) {
        self.is_querying = true;
    }

    /// Records that a query was cancelled because the catalog changed. The delay limits the queries of a catalog that
    /// changes constantly, for example because OLM alternates between states.
    pub(super) fn abort_attempt(&mut self, now: Instant) {
        if self.is_querying {
            self.not_before = Some(now + self.next_delay(now));
        }
    }

    /// Records that the catalog is served and was read.
    pub(super) fn record_success(&mut self, now: Instant) {
        self.unserved_since = None;
        self.connected_since.get_or_insert(now);
    }

    /// Records that the image was read, and resets the back-off.
    pub(super) fn reset(&mut self) {
        self.failures = 0;
    }

    /// Returns the number of failures since the last [`reset`](Self::reset).
    pub(super) fn failures(&self) -> u32 {
        self.failures
    }

    /// Returns the delay after a failure or the end of a connection.
    pub(super) fn next_delay(&mut self, now: Instant) -> Duration {
        self.is_querying = false;
        let connected_since = self.connected_since.take();
        if connected_since.is_some_and(|since| now.saturating_duration_since(since) >= STABLE_AFTER)
        {
            self.failures = 0;
        }
        let delay = INITIAL_DELAY * 2u32.saturating_pow(self.failures.min(10));
        self.failures = self.failures.saturating_add(1);
        spread(delay.min(MAX_DELAY))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about(delay: Duration) -> u64 {
        [1_u32, 2, 4, 8, 16, 32, 60]
            .into_iter()
            .find(|seconds| (delay.as_secs_f64() / f64::from(*seconds) - 1.0).abs() <= 0.11)
            .map(u64::from)
            .unwrap()
    }

    #[test]
    fn outage_begins_when_the_connection_is_lost() {
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let mut backoff = ServerBackoff::default();
        assert_eq!([0, 100].map(|now| backoff.since(at(now))), [at(0); 2]);
        backoff.record_success(at(120));
        // Read again, and lost after an hour.
        backoff.record_success(at(1020));
        assert_rows!([3600, 3700].map(|now| backoff.since(at(now))) => [at(3600); 2]);
    }

    #[test]
    fn closed_connections_are_retried_with_backoff() {
        let (mut now, mut backoff) = (Instant::now(), ServerBackoff::default());
        for expected in [1, 2, 4, 8, 16, 32, 60, 60] {
            backoff.record_success(now);
            let delay = backoff.next_delay(now);
            assert_eq!(about(delay), expected);
            now += delay;
        }
        assert_rows! {
            // A lasting connection resets the back-off.
            { backoff.record_success(now); backoff.record_success(now + STABLE_AFTER / 2); about(backoff.next_delay(now + STABLE_AFTER)) } => 1;
            // A failed connection does not reset it.
            about(backoff.next_delay(now + 2 * STABLE_AFTER)) => 2;
            backoff.failures() => 2;
            { backoff.reset(); backoff.failures() } => 0;
            about(backoff.next_delay(now + 2 * STABLE_AFTER)) => 1;
        }
    }

    #[test]
    fn aborted_attempts_are_retried_with_backoff() {
        let (mut now, mut backoff) = (Instant::now(), ServerBackoff::default());
        for expected in [1, 2, 4, 8, 16, 32, 60, 60] {
            backoff.start_attempt();
            backoff.record_success(now);
            now += Duration::from_millis(500);
            backoff.abort_attempt(now);
            assert_eq!(about(backoff.remaining_delay(now)), expected);
            // The catalog changes without a query in between.
            let soon = now + Duration::from_millis(100);
            backoff.abort_attempt(soon);
            assert!(backoff.remaining_delay(soon) < backoff.remaining_delay(now));
            now += backoff.remaining_delay(now);
            assert_eq!(backoff.remaining_delay(now), Duration::ZERO);
        }
        // After a lasting connection, the next query follows almost at once.
        backoff.start_attempt();
        backoff.record_success(now);
        backoff.abort_attempt(now + STABLE_AFTER);
        assert_eq!(about(backoff.remaining_delay(now + STABLE_AFTER)), 1);
        // No delay without a running query, as for a catalog in an image.
        assert_rows!(with!(ServerBackoff::default() => |backoff| backoff.abort_attempt(now)).remaining_delay(now) => Duration::ZERO);
    }
}
