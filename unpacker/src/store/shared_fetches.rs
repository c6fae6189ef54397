//! Single-flight fetches: concurrent callers share one fetch of the same source.

use std::{
    collections::HashMap,
    fmt,
    future::Future,
    hash::{Hash, Hasher},
    sync::Arc,
};

use futures::{
    FutureExt,
    future::{BoxFuture, Shared, WeakShared},
};
use parking_lot::Mutex;

use super::{Hold, SourceKey, Stored};
use crate::{
    Access, Digest, Error, ImageLimits, Limits, Options, Progress, Result, SkippedEntries, Source,
    registry::Credentials,
};

/// The stored content of a source.
#[derive(Debug, Clone)]
pub struct Pinned {
    /// Source with a digest or commit, if it can be pinned.
    pub resolved: Source,
    /// Digest of the content in the store.
    pub digest: Digest,
    /// Size of the tar archive in bytes.
    pub size: u64,
    /// Entries of the source that are not regular files, and that a bundle does not need.
    pub skipped: SkippedEntries,
    /// Protects the content from eviction.
    pub hold: Hold,
}

impl Pinned {
    pub(crate) fn new(resolved: Source, stored: Stored, skipped: SkippedEntries) -> Self {
        let Stored { digest, size, hold } = stored;
        Self {
            resolved,
            digest,
            size,
            skipped,
            hold,
        }
    }
}

/// The key of a fetch: the source, selection, credentials, limits and access settings. Errors under other credentials
/// or limits do not apply to this caller, and content from an unverified server must not be shared.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FetchKey {
    key: SourceKey,
    limits: Limits,
    image: ImageLimits,
    /// Trust, timeouts, mirrors and known hosts.
    access_terms: Access,
}

impl FetchKey {
    pub(crate) fn new(key: SourceKey, source: &Source, access: &Access, options: &Options) -> Self {
        let is_ssh = matches!(source, Source::Git(git) if git.repository.scheme() == "ssh");
        Self {
            key,
            limits: options.limits,
            image: options.image,
            access_terms: Access {
                // The key already contains the credentials that this source uses. Other credentials are irrelevant.
                basic: None,
                registries: Credentials::default(),
                ssh: access.ssh.clone().filter(|_| is_ssh),
                ..access.clone()
            },
        }
    }
}

impl Hash for FetchKey {
    /// Hashes only the key of the source. Requests that differ only in the other fields are rare and are compared.
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key.hash(state);
    }
}

/// A fetch that is polled by its callers, and dropped with the last of them.
type Flight = BoxFuture<'static, Result<Pinned, Arc<Error>>>;

/// The running fetches.
#[derive(Default)]
pub(crate) struct Flights {
    running: Mutex<HashMap<FetchKey, Running>>,
}

struct Running {
    flight: WeakShared<Flight>,
    progress: Progress,
}

impl Flights {
    /// Waits for the running fetch with this key, or starts this one.
    pub(crate) async fn get_or_start(
        &self,
        id: FetchKey,
        progress: &Progress,
        fetch: impl Future<Output = Result<Pinned>> + Send + 'static,
    ) -> Result<Pinned> {
        let (flight, shared_progress) = self.join_or_insert(id, progress, fetch);
        let outcome = flight.await;
        if let Some(shared_progress) = shared_progress {
            progress.set_total(shared_progress.total());
            progress.add(shared_progress.done());
        }
        outcome.map_err(|error| Arc::try_unwrap(error).unwrap_or_else(Error::Shared))
    }

    /// Returns the number of waiting callers.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        let running = self.running.lock();
        let waiting = |running_fetch: &Running| running_fetch.flight.upgrade()?.strong_count();
        // Without the clone that was created for counting.
        running
            .values()
            .filter_map(waiting)
            .map(|count| count - 1)
            .sum()
    }

    fn join_or_insert(
        &self,
        id: FetchKey,
        progress: &Progress,
        fetch: impl Future<Output = Result<Pinned>> + Send + 'static,
    ) -> (Shared<Flight>, Option<Progress>) {
        let mut running = self.running.lock();
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
        let running = self.running.lock();
        f.debug_set().entries(running.keys()).finish()
    }
}
