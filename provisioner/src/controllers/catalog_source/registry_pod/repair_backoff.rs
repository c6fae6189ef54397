//! Back-off of repairs: of the objects of one registry pod, or of the conditions of one CatalogSource. Pure; no I/O.
//!
//! Another client may undo repairs, for example a policy that deletes pods or a tool that reverts objects. The first
//! repair waits only for the burst of changes to end. Further ones follow with growing delays.

use std::time::{Duration, Instant};

use crate::controllers::catalog_source::server_backoff::ServerBackoff;

/// Time to wait for a burst of changes to end. A starting pod changes several times in a row.
const SETTLE_DELAY: Duration = Duration::from_millis(300);
/// Time without repairs after which the back-off is reset.
const RESET_AFTER: Duration = Duration::from_secs(120);

/// Back-off of the repairs of one registry pod or one status.
#[derive(Debug, Default)]
pub(in crate::controllers::catalog_source) struct RepairBackoff {
    backoff: ServerBackoff,
    /// True after the first write, which creates the objects and does not count as a repair.
    has_written: bool,
    /// Time of the last repair.
    last_repair: Option<Instant>,
    /// Earliest time of the next repair.
    not_before: Option<Instant>,
}

// === impl RepairBackoff ===

impl RepairBackoff {
    /// Records that objects were created or repaired.
    pub(in crate::controllers::catalog_source) fn record_write(&mut self, now: Instant) {
        if !std::mem::replace(&mut self.has_written, true) {
            return;
        }
        let quiet = self
            .last_repair
            .map(|last| now.saturating_duration_since(last));
        if quiet.is_some_and(|quiet| quiet > RESET_AFTER) {
            self.backoff.reset();
        }
        self.last_repair = Some(now);
        self.not_before = Some(now + self.backoff.next_delay(now));
    }

    /// Returns how long to wait before a change is reconciled.
    pub(in crate::controllers::catalog_source) fn remaining_delay(&self, now: Instant) -> Duration {
        let until = self.not_before;
        let remaining = until.map(|until| until.saturating_duration_since(now));
        remaining.unwrap_or_default().max(SETTLE_DELAY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_drift_is_repaired_with_backoff() {
        let mut now = Instant::now();
        let mut backoff = RepairBackoff::default();
        // The objects are created, and the first repair follows at once.
        backoff.record_write(now);
        assert_eq!(backoff.remaining_delay(now), SETTLE_DELAY);
        for expected in [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0] {
            now += backoff.remaining_delay(now);
            backoff.record_write(now);
            let delay = backoff.remaining_delay(now).as_secs_f64();
            assert!((delay / expected - 1.0).abs() < 0.11, "{delay}");
        }
        // After the delay, a change without a repair is reconciled soon.
        now += backoff.remaining_delay(now);
        assert_eq!(backoff.remaining_delay(now), SETTLE_DELAY);
        now += RESET_AFTER + Duration::from_secs(1);
        backoff.record_write(now);
        assert!(backoff.remaining_delay(now) < Duration::from_secs(2));
    }
}
