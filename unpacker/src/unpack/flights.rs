//! One fetch for all who wait for the same.

use std::{
    collections::HashMap,
    fmt,
    future::Future,
    sync::{Arc, Mutex, PoisonError},
};

use futures::{
    FutureExt,
    future::{BoxFuture, Shared, WeakShared},
};

use super::Pinned;
use crate::{Error, Limits, Progress, Result, store::Key};

/// The same source, selection and credentials, under the same limits: another's refusal is none of ours.
type Id = (Key, Limits);

/// A fetch that whoever waits for it drives; it is dropped with the last of them.
type Flight = BoxFuture<'static, Result<Pinned, Arc<Error>>>;

/// The fetches that go on.
#[derive(Default)]
pub(crate) struct Flights {
    running: Mutex<HashMap<Id, Running>>,
}

struct Running {
    flight: WeakShared<Flight>,
    progress: Progress,
}

impl Flights {
    /// Waits for the fetch that goes on, or for this one.
    pub(super) async fn join(
        &self,
        id: Id,
        progress: &Progress,
        fetch: impl Future<Output = Result<Pinned>> + Send + 'static,
    ) -> Result<Pinned> {
        let (flight, of) = self.board(id, progress, fetch);
        let outcome = flight.await;
        if let Some(of) = of {
            progress.set_total(of.total());
            progress.add(of.done());
        }
        outcome.map_err(|error| Arc::try_unwrap(error).unwrap_or_else(Error::Shared))
    }

    /// How many callers wait.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = |other: &Running| other.flight.upgrade()?.strong_count();
        // Less the one that was made for counting.
        running
            .values()
            .filter_map(waiting)
            .map(|count| count - 1)
            .sum()
    }

    fn board(
        &self,
        id: Id,
        progress: &Progress,
        fetch: impl Future<Output = Result<Pinned>> + Send + 'static,
    ) -> (Shared<Flight>, Option<Progress>) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(other) = running.get(&id)
            && let Some(flight) = other.flight.upgrade()
        {
            return (flight, Some(other.progress.clone()));
        }
        running.retain(|_, other| other.flight.upgrade().is_some());
        let flight = fetch
            .map(|outcome| outcome.map_err(Arc::new))
            .boxed()
            .shared();
        if let Some(weak) = flight.downgrade() {
            let progress = progress.clone();
            running.insert(
                id,
                Running {
                    flight: weak,
                    progress,
                },
            );
        }
        (flight, None)
    }
}

impl fmt::Debug for Flights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        f.debug_set().entries(running.keys()).finish()
    }
}
