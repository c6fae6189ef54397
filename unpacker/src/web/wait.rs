//! How long a server is still waited for.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::time::{Instant, timeout};

use super::{Error, Patience, Result, Shown};

/// The end of all waiting for one request, and when something last happened.
#[derive(Debug, Clone)]
pub(super) struct Wait {
    begin: Instant,
    idle: Duration,
    total: Duration,
    /// Milliseconds since the beginning. Clones share it.
    last: Arc<AtomicU64>,
}

impl Wait {
    pub(super) fn new(patience: &Patience) -> Self {
        Self {
            begin: Instant::now(),
            idle: patience.idle,
            total: patience.total,
            last: Arc::default(),
        }
    }

    /// The same end, for one try of its own.
    pub(super) fn begin(&self) -> Self {
        let wait = Self {
            last: Arc::default(),
            ..self.clone()
        };
        wait.touch();
        wait
    }

    /// Notes that something has happened.
    pub(super) fn touch(&self) {
        let since = self.begin.elapsed().as_millis();
        self.last
            .store(since.try_into().unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// What is left of all.
    pub(super) fn left(&self) -> Duration {
        self.total.saturating_sub(self.begin.elapsed())
    }

    /// Waits while something happens, and not longer than for all.
    pub(super) async fn bound<T>(&self, url: &Shown, future: impl Future<Output = T>) -> Result<T> {
        let mut future = std::pin::pin!(future);
        let last = || Duration::from_millis(self.last.load(Ordering::Relaxed));
        loop {
            let until = last().saturating_add(self.idle).min(self.total);
            let still = until.saturating_sub(self.begin.elapsed());
            if let Ok(done) = timeout(still, &mut future).await {
                self.touch();
                return Ok(done);
            }
            if self.left().is_zero() {
                return Err(Error::Slow {
                    url: url.clone(),
                    total: self.total,
                });
            }
            if last().saturating_add(self.idle) <= self.begin.elapsed() {
                return Err(Error::Idle {
                    url: url.clone(),
                    idle: self.idle,
                });
            }
        }
    }
}
