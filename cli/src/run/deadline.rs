//! When a command has to be done: `--timeout` is for all of it.

use std::{future::Future, time::Duration};

use anyhow::anyhow;
use tokio::time::{Instant, timeout_at};

/// When a command has to be done.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deadline {
    pub(super) timeout: Duration,
    end: Option<Instant>,
}

impl Deadline {
    /// So long from now; zero is never.
    pub(super) fn after(timeout: Duration) -> Self {
        let is_some = !timeout.is_zero();
        Self {
            timeout,
            end: is_some.then(|| Instant::now() + timeout),
        }
    }

    /// The same, or so long from now if that is sooner.
    pub(super) fn sooner(self, most: Duration) -> Self {
        let own = Instant::now() + most;
        Self {
            timeout: self.timeout,
            end: Some(self.end.map_or(own, |end| end.min(own))),
        }
    }

    /// The end, if there is one.
    pub(super) fn end(self) -> Option<Instant> {
        self.end
    }

    /// What is left of the time; a year where there is no end.
    pub(super) fn left(self) -> Duration {
        const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);
        self.end
            .map_or(YEAR, |end| end.saturating_duration_since(Instant::now()))
    }

    /// Does something, unless it is not done by then.
    pub(super) async fn within<T>(self, work: impl Future<Output = T>) -> Option<T> {
        match self.end {
            Some(end) => timeout_at(end, work).await.ok(),
            None => Some(work.await),
        }
    }

    /// Does something that has to be done by then.
    pub(super) async fn keep<T>(
        self,
        doing: &str,
        work: impl Future<Output = anyhow::Result<T>>,
    ) -> anyhow::Result<T> {
        let late = || {
            anyhow!(
                "{doing} was not done within {:?}; try again with a longer --timeout",
                self.timeout
            )
        };
        self.within(work).await.ok_or_else(late)?
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use tokio::time::{sleep, timeout};

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn nothing_is_waited_for_when_the_time_is_up() {
        let deadline = Deadline::after(Duration::from_millis(1));
        sleep(Duration::from_millis(10)).await;
        assert!(deadline.left().is_zero());
        let late = timeout(LONG, deadline.within(pending::<()>())).await;
        assert_eq!(late, Ok(None));
        let kept = deadline.keep("waiting", pending::<anyhow::Result<()>>());
        let told = timeout(LONG, kept).await.unwrap().unwrap_err();
        let expected = "waiting was not done within 1ms; try again with a longer --timeout";
        assert_eq!(told.to_string(), expected);
    }

    #[tokio::test]
    async fn a_part_ends_with_the_whole_though_nothing_of_it_is_left() {
        let over = Deadline::after(Duration::from_millis(1));
        sleep(Duration::from_millis(10)).await;
        assert!(over.left().is_zero());
        let never = Deadline::after(Duration::ZERO);
        let short = Duration::from_millis(1);
        for part in [
            over.sooner(LONG),
            never.sooner(short),
            Deadline::after(LONG).sooner(short),
            never.sooner(Duration::ZERO),
        ] {
            let late = timeout(LONG, part.within(pending::<()>())).await;
            assert_eq!(late, Ok(None), "{part:?}");
        }
    }

    #[tokio::test]
    async fn zero_is_never() {
        let deadline = Deadline::after(Duration::ZERO);
        assert_eq!(deadline.within(ready(1)).await, Some(1));
        let waits = timeout(Duration::from_millis(10), deadline.within(pending::<()>())).await;
        assert!(waits.is_err());
    }
}
