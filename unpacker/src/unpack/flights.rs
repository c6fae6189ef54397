//! One fetch for all who wait for the same.

use std::{
    collections::HashMap,
    fmt,
    future::Future,
    hash::{Hash, Hasher},
    sync::{Arc, Mutex, PoisonError},
};

use futures::{
    FutureExt,
    future::{BoxFuture, Shared, WeakShared},
};

use super::Pinned;
use crate::{
    Access, Error, ImageLimits, Limits, Options, Progress, Result, Source, registry::Credentials,
    store::Key,
};

/// The same source, selection and credentials, under the same limits, and reached on the same terms: another's refusal
/// is none of ours, and what another takes from a server that proves nothing is not for us.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Id {
    key: Key,
    limits: Limits,
    image: ImageLimits,
    /// Trust, patience, mirrors and known hosts.
    terms: Access,
}

impl Id {
    pub(super) fn new(key: Key, source: &Source, access: &Access, options: &Options) -> Self {
        let is_ssh = matches!(source, Source::Git(git) if git.repository.scheme() == "ssh");
        Self {
            key,
            limits: options.limits,
            image: options.image,
            terms: Access {
                // The key knows those that this source is fetched with; others do not matter.
                basic: None,
                registries: Credentials::default(),
                ssh: access.ssh.clone().filter(|_| is_ssh),
                ..access.clone()
            },
        }
    }
}

impl Hash for Id {
    /// What differs in the rest alone is rare, and told apart by comparing.
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key.hash(state);
    }
}

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
