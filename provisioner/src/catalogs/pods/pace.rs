//! How soon it is looked at a pod again when something has changed. No I/O.
//!
//! Where somebody undoes what was made, as a policy that deletes pods or a tool that reverts what it knows otherwise, the
//! first repair follows at once, and further ones less and less often.

use std::time::{Duration, Instant};

use crate::catalogs::patience::Patience;

/// A pod that starts changes several times in a row.
const SETTLE: Duration = Duration::from_millis(300);
/// After so long without a repair the next one is a first one.
const QUIET: Duration = Duration::from_secs(120);

/// Of one catalog.
#[derive(Debug, Default)]
pub(in crate::catalogs) struct Pace {
    patience: Patience,
    /// Whether anything was made.
    is_made: bool,
    /// When something was repaired last.
    last: Option<Instant>,
    not_before: Option<Instant>,
}

// === impl Pace ===

impl Pace {
    /// Something had to be made, or repaired.
    pub(in crate::catalogs) fn has_written(&mut self, now: Instant) {
        if !std::mem::replace(&mut self.is_made, true) {
            return;
        }
        let quiet = self.last.map(|it| now.saturating_duration_since(it));
        if quiet.is_some_and(|it| it > QUIET) {
            self.patience.is_read();
        }
        self.last = Some(now);
        self.not_before = Some(now + self.patience.pause(now));
    }

    /// Something has changed: how long to wait before it is looked at.
    pub(in crate::catalogs) fn rest(&self, now: Instant) -> Duration {
        let until = self.not_before;
        let left = until.map(|it| it.saturating_duration_since(now));
        left.unwrap_or_default().max(SETTLE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_undone_again_and_again_is_repaired_less_and_less_often() {
        let mut now = Instant::now();
        let mut pace = Pace::default();
        // It is made; and what somebody undoes is repaired at once.
        pace.has_written(now);
        assert_eq!(pace.rest(now), SETTLE);
        let mut pauses = Vec::new();
        for _ in 0..8 {
            now += pace.rest(now);
            pace.has_written(now);
            pauses.push(pace.rest(now).as_secs_f64());
        }
        for (pause, expected) in pauses
            .iter()
            .zip([1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0])
        {
            assert!((pause / expected - 1.0).abs() < 0.11, "{pauses:?}");
        }
        // What only changes is looked at soon, as soon as the pause is over.
        now += pace.rest(now);
        assert_eq!(pace.rest(now), SETTLE);
        now += QUIET + Duration::from_secs(1);
        pace.has_written(now);
        assert!(pace.rest(now) < Duration::from_secs(2));
    }
}
