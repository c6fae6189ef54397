//! Publisher of a catalog: offers loaded content to the catalog server until another server takes over.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use ::apply::api_error;
use catalog::source::FileSource;
use kube::Resource as _;
use manifests::api::catalog_source::CatalogSource;
use tokio::time::sleep;
use tracing::info;
use unpacker::Digest;

use super::{
    CatalogEndpoint, CatalogKey, CatalogListener, Error, RegistryServer, ServingState, apply,
    handover, objects,
};

/// Time for which a catalog is still served after its endpoint was removed. Each node learns of the removal independently.
const DRAIN_DELAY: Duration = Duration::from_secs(2);

/// Publisher of one followed catalog. Dropping it stops serving the catalog. The objects are garbage-collected with the
/// CatalogSource.
pub struct CatalogPublisher {
    pub(super) serving: Arc<RegistryServer>,
    pub(super) key: CatalogKey,
    pub(super) id: u64,
    /// True if no object of the catalog exists in the cluster.
    pub(super) is_withdrawn: AtomicBool,
    /// True if the EndpointSlice is known to have no endpoints.
    pub(super) is_detached: AtomicBool,
}

// === impl CatalogPublisher ===

impl CatalogPublisher {
    /// Serves the content that was read, in place of the content served before. `files` is called only if no other catalog
    /// serves the same content. Does nothing if nothing has changed.
    ///
    /// Returns after the first reconcile of the Service and the EndpointSlice. Failed writes are retried by reconciles, and
    /// [`is_reachable`](Self::is_reachable) reports their success.
    ///
    /// # Errors
    /// Returns an error if the content cannot be served.
    pub async fn publish<F>(
        &self,
        source: &CatalogSource,
        digest: Digest,
        files: F,
    ) -> Result<(), Error>
    where
        F: FnOnce() -> Result<Box<dyn FileSource + Send>, Error> + Send + 'static,
    {
        let endpoint = self.serving.endpoint(&self.key, self.id);
        self.is_withdrawn.store(false, Ordering::Relaxed);
        self.is_detached.store(false, Ordering::Relaxed);
        match self.serve(&endpoint, source, digest, files).await {
            Ok(change) => {
                let mut settled_change = endpoint.settled_change.subscribe();
                let waited = settled_change.wait_for(|number| *number >= change).await;
                waited.map(drop).map_err(|_| Error::ShuttingDown)
            }
            Err(error) => {
                self.reject(&endpoint, source, &error).await;
                Err(error)
            }
        }
    }

    /// Checks whether the quota of the namespace has room for the catalog. Called before any content is fetched for it.
    ///
    /// # Errors
    /// Returns an error if the quota is exhausted. The error is also reported as the state of the catalog.
    pub async fn has_room(&self, source: &CatalogSource) -> Result<(), Error> {
        let Some(quota) = self.serving.quota(&self.key) else {
            return Ok(());
        };
        let room = self.serving.quotas().has_room(&self.key, quota);
        if let Err(error) = &room {
            let endpoint = self.serving.endpoint(&self.key, self.id);
            self.reject(&endpoint, source, error).await;
        }
        room
    }

    /// Reports whether any content of the catalog is served.
    pub fn serves(&self) -> bool {
        let endpoints = self.serving.shared.endpoints();
        let endpoint = endpoints.get(&self.key);
        endpoint.is_some_and(|endpoint| endpoint.port.load(Ordering::Relaxed) != 0)
    }

    /// Reports whether the published content is served without a problem.
    pub fn is_reachable(&self) -> bool {
        let state = self.serving.state(&self.key);
        state.is_some_and(|state| state.registered.is_some() && state.trouble.is_none())
    }

    /// Empties the EndpointSlice of a catalog without content, so that it does not point to the address of an earlier
    /// process. Does nothing if that was done before, or if content is served.
    ///
    /// # Errors
    /// Returns an error if the EndpointSlice cannot be read or written.
    pub async fn unpublish(&self) -> Result<(), Error> {
        if self.serves() || self.is_detached.load(Ordering::Relaxed) {
            return Ok(());
        }
        apply::remove_endpoints(&self.serving.shared.requests, &self.key, || self.serves()).await?;
        // The catalog may have been offered in the meantime.
        self.is_detached.store(!self.serves(), Ordering::Relaxed);
        Ok(())
    }

    /// Waits until another controller's EndpointSlice has endpoints (`leads`), or until none has. Returns after a
    /// timeout.
    pub async fn wait_for_handover(&self, leads: bool) {
        Box::pin(handover::wait_for_endpoints(
            &self.serving.shared.requests.client,
            &self.key,
            leads,
        ))
        .await;
    }

    /// Stops serving the catalog and removes its Service and EndpointSlice, because another server takes over. Does nothing
    /// if that was done before. A cancelled call can be repeated.
    ///
    /// # Errors
    /// Returns an error if an object cannot be removed.
    pub async fn withdraw(&self) -> Result<(), Error> {
        let endpoint = self.serving.shared.endpoints().get(&self.key).cloned();
        // The lock keeps reconciles from writing. `is_terminating` keeps them from recreating objects after a
        // cancellation.
        let mut published = match &endpoint {
            Some(endpoint) => Some(endpoint.published.lock().await),
            None => None,
        };
        if let Some(published) = &mut published {
            published.is_terminating = true;
        }
        let removed = self.remove().await;
        // No await from here on: an endpoint whose objects are marked as removed must also be taken down.
        let listening = published
            .as_mut()
            .and_then(|published| published.listener.take());
        self.serving.take_down(&self.key, None);
        if let Some(listening) = listening {
            tokio::spawn(async move {
                sleep(DRAIN_DELAY).await;
                drop(listening);
            });
        }
        removed
    }

    /// Removes the objects of the catalog unless that was done before.
    async fn remove(&self) -> Result<(), Error> {
        if self.is_withdrawn.load(Ordering::Relaxed) {
            return Ok(());
        }
        match apply::remove(&self.serving.shared.requests, &self.key).await {
            // Without read permission, this process has not written the objects either.
            Ok(()) | Err(Error::Forbidden { .. }) => {
                self.is_withdrawn.store(true, Ordering::Relaxed);
                Ok(())
            }
            error => error,
        }
    }

    /// Reports that the offered content was rejected. The content published before is kept.
    async fn reject(&self, endpoint: &CatalogEndpoint, source: &CatalogSource, error: &Error) {
        let problem = api_error::chain(error);
        let mut published = endpoint.published.lock().await;
        published.rejection = Some(problem.clone());
        if published
            .listener
            .as_ref()
            .is_none_or(|listening| !listening.is_used())
        {
            self.serving.quotas().release_served(&self.key);
        }
        let about = source.object_ref(&());
        self.serving
            .shared
            .report_failure(endpoint, &about, problem)
            .await;
    }

    /// Serves the content at the endpoint. Returns the number of the last change of the endpoint.
    async fn serve<F>(
        &self,
        endpoint: &CatalogEndpoint,
        source: &CatalogSource,
        digest: Digest,
        files: F,
    ) -> Result<u64, Error>
    where
        F: FnOnce() -> Result<Box<dyn FileSource + Send>, Error> + Send + 'static,
    {
        let (key, shared) = (&self.key, &self.serving.shared);
        objects::service_name(&key.name).map_err(|length| Error::Name {
            catalog: key.to_string(),
            length,
        })?;
        let owner = source.owner_ref(&());
        let owner = owner.ok_or_else(|| Error::NoUid(key.to_string()))?;
        let quota = self.serving.quota(key);
        let max_size = |quota| self.serving.quotas().max_store_size(key, digest, quota);
        let room = quota.map(max_size).transpose()?;
        let served = self.serving.stores.get(digest, room, files).await;
        if let (Err(error), Some(quota)) = (&served, quota)
            && let Some(limit) = error.store_limit()
        {
            let size = limit.saturating_add(1);
            let mut quotas = self.serving.quotas();
            quotas.record_too_large(key, digest, size, quota)?;
        }
        let served = served?;
        let mut published = endpoint.published.lock().await;
        if let Some(quota) = quota {
            let size = served.size();
            self.serving.quotas().reserve(key, digest, size, quota)?;
        }
        let listening = match &mut published.listener {
            Some(listening) => listening,
            none => {
                let socket = shared.ports().bind(key, Instant::now())?;
                let listen = |source| Error::Listen { port: 0, source };
                none.insert(CatalogListener::new(socket).map_err(listen)?)
            }
        };
        let mut is_new = !listening.is_serving(&served);
        if is_new {
            let port = listening.port();
            let listen = |source| Error::Listen { port, source };
            listening.serve(served).map_err(listen)?;
            endpoint.port.store(port, Ordering::Relaxed);
            info!(catalog = %key, port, %digest, "serving a catalog");
        }
        is_new |= published.owner.as_ref().is_none_or(|(of, _)| *of != owner);
        is_new |= std::mem::take(&mut published.is_terminating);
        is_new |=
            *endpoint.state() == ServingState::default() || endpoint.state().trouble.is_some();
        if is_new {
            published.owner = Some((owner, source.object_ref(&())));
            published.changes += 1;
            endpoint.mark_due();
            shared.triggers.add(key);
        }
        // The lock is still held: no other task has seen the new content with the old rejection.
        published.rejection = None;
        Ok(published.changes)
    }
}

impl Drop for CatalogPublisher {
    fn drop(&mut self) {
        self.serving.take_down(&self.key, Some(self.id));
    }
}
