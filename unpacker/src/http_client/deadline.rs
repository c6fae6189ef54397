//! Timeouts of a running request.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::time::{Instant, timeout};

use super::{Error, RedactedUrl, Result, Timeouts};

/// The deadline of a request, and the time of its last progress.
#[derive(Debug, Clone)]
pub(super) struct Deadline {
    started: Instant,
    idle: Duration,
    total: Duration,
    /// Time of the last progress, in milliseconds since the start. Clones share it.
    last: Arc<AtomicU64>,
}

impl Deadline {
    pub(super) fn new(timeouts: &Timeouts) -> Self {
        Self {
            started: Instant::now(),
            idle: timeouts.idle,
            total: timeouts.total,
            last: Arc::default(),
        }
    }

    /// Returns the same deadline with separate progress, for one attempt.
    pub(super) fn start(&self) -> Self {
        let attempt = Self {
            last: Arc::default(),
            ..self.clone()
        };
        attempt.touch();
        attempt
    }

    /// Records progress of the request.
    pub(super) fn touch(&self) {
        let since = self.started.elapsed().as_millis();
        self.last
            .store(since.try_into().unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Returns the time until the deadline.
    pub(super) fn remaining(&self) -> Duration {
        self.total.saturating_sub(self.started.elapsed())
    }

    /// Waits for a future while the request makes progress, until the deadline at the latest.
    pub(super) async fn bound<T>(
        &self,
        url: &RedactedUrl,
        future: impl Future<Output = T>,
    ) -> Result<T> {
        let mut future = std::pin::pin!(future);
        let last = || Duration::from_millis(self.last.load(Ordering::Relaxed));
        loop {
            let until = last().saturating_add(self.idle).min(self.total);
            let wait = until.saturating_sub(self.started.elapsed());
            if let Ok(output) = timeout(wait, &mut future).await {
                self.touch();
                return Ok(output);
            }
            if self.remaining().is_zero() {
                return Err(Error::TotalTimeout {
                    url: url.clone(),
                    total: self.total,
                });
            }
            if last().saturating_add(self.idle) <= self.started.elapsed() {
                return Err(Error::IdleTimeout {
                    url: url.clone(),
                    idle: self.idle,
                });
            }
        }
    }
}
