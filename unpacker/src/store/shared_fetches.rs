//! Single-flight fetches: concurrent callers share one fetch of the same source.

use std::{
    hash::{Hash, Hasher},
    sync::Arc,
};

use super::{Hold, SourceKey, Stored, single_flight::SingleFlight};
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

/// The running fetches. A result includes the progress of the fetch.
pub(crate) type Flights = SingleFlight<FetchKey, (Result<Pinned, Arc<Error>>, Progress)>;

impl Flights {
    /// Waits for the running fetch with this key, or starts this one.
    pub(crate) async fn get_or_start(
        &self,
        key: FetchKey,
        progress: &Progress,
        fetch: impl Future<Output = Result<Pinned>> + Send + 'static,
    ) -> Result<Pinned> {
        let (own_progress, mut is_joined) = (progress.clone(), false);
        let fetch = async move { (fetch.await.map_err(Arc::new), own_progress) };
        let (outcome, shared_progress) = self.run(key, || is_joined = true, fetch).await;
        if is_joined {
            progress.set_total(shared_progress.total());
            progress.add(shared_progress.done());
        }
        outcome.map_err(|error| Arc::try_unwrap(error).unwrap_or_else(Error::Shared))
    }
}
