//! Deadline of a command: `--timeout` limits the whole command, not its single steps.

use std::{future::Future, time::Duration};

use anyhow::anyhow;
use tokio::time::{Instant, timeout_at};

/// Deadline of a command, with the timeout from which it was computed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deadline {
    pub(super) timeout: Duration,
    end: Option<Instant>,
}

impl Deadline {
    /// Returns the deadline that is `timeout` from now. Zero means no deadline.
    pub(super) fn after(timeout: Duration) -> Self {
        let is_limited = !timeout.is_zero();
        Self {
            timeout,
            end: is_limited.then(|| Instant::now() + timeout),
        }
    }

    /// Returns the earlier of this deadline and `max` from now.
    pub(super) fn sooner(self, max: Duration) -> Self {
        let end = Instant::now() + max;
        Self {
            timeout: self.timeout,
            end: Some(self.end.map_or(end, |own| own.min(end))),
        }
    }

    /// Returns the end, or `None` if the command has no deadline.
    pub(super) fn end(self) -> Option<Instant> {
        self.end
    }

    /// Returns the remaining time; a year if the command has no deadline.
    pub(super) fn remaining(self) -> Duration {
        const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);
        self.end
            .map_or(YEAR, |end| end.saturating_duration_since(Instant::now()))
    }

    /// Awaits `work`; returns `None` if the deadline passes first.
    pub(super) async fn within<T>(self, work: impl Future<Output = T>) -> Option<T> {
        match self.end {
            Some(end) => timeout_at(end, work).await.ok(),
            None => Some(work.await),
        }
    }

    /// Awaits `work`; returns an error that names `doing` if the deadline passes first.
    pub(super) async fn run_to_end<T>(
        self,
        doing: &str,
        work: impl Future<Output = anyhow::Result<T>>,
    ) -> anyhow::Result<T> {
        let timed_out = || {
            anyhow!(
                "timed out after {:?} while {doing}; increase --timeout",
                self.timeout
            )
        };
        self.within(work).await.ok_or_else(timed_out)?
    }

    /// Awaits `work`, which reads objects of the cluster; returns an error that names this step if the deadline passes
    /// first.
    pub(super) async fn read_cluster<T>(
        self,
        work: impl Future<Output = anyhow::Result<T>>,
    ) -> anyhow::Result<T> {
        self.run_to_end("reading the cluster state", work).await
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use tokio::time::{sleep, timeout};

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn expired_deadline_ends_every_wait() {
        let short = Duration::from_millis(1);
        let expired = Deadline::after(short);
        sleep(Duration::from_millis(10)).await;
        assert!(expired.remaining().is_zero());
        let run = expired.run_to_end("waiting", pending::<anyhow::Result<()>>());
        let error = timeout(LONG, run).await.unwrap().unwrap_err();
        ::tests::assert_rows!(error.to_string() => "timed out after 1ms while waiting; increase --timeout");
        let never = Deadline::after(Duration::ZERO);
        for deadline in [
            expired,
            // A partial deadline ends with the whole one.
            expired.sooner(LONG),
            never.sooner(short),
            Deadline::after(LONG).sooner(short),
            never.sooner(Duration::ZERO),
        ] {
            ::tests::assert_rows!(timeout(LONG, deadline.within(pending::<()>())).await => Ok(None), "{deadline:?}");
        }
    }

    #[tokio::test]
    async fn zero_means_no_deadline() {
        let deadline = Deadline::after(Duration::ZERO);
        assert_eq!(deadline.within(ready(1)).await, Some(1));
        let waits = timeout(Duration::from_millis(10), deadline.within(pending::<()>())).await;
        assert!(waits.is_err());
    }
}
