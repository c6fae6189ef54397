//! The side of who follows a catalog: what was read is offered, until somebody else serves it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use catalog::source::Files;
use kube::Resource as _;
use manifests::api::catalog_source::CatalogSource;
use tokio::time::sleep;
use tracing::info;
use unpacker::Digest;

use super::{Error, Key, Listening, Registered, Serving, Stand, State, beside, keep, objects};

/// How long a catalog is still served after nobody is led there any more: each node learns of that by itself.
const LINGER: Duration = Duration::from_secs(2);

/// What has become of a stand.
struct Changes {
    /// How often it was changed.
    number: u64,
    /// Whether it was now.
    is_new: bool,
}

/// A catalog that somebody follows. It is not served any more when this is dropped; the objects go with the
/// CatalogSource.
pub struct Offerer {
    pub(super) serving: Arc<Serving>,
    pub(super) key: Key,
    pub(super) id: u64,
    /// Whether nothing of it is in the cluster.
    pub(super) is_withdrawn: AtomicBool,
    /// Whether the EndpointSlice was seen to.
    pub(super) leads_nowhere: AtomicBool,
}

// === impl Offerer ===

impl Offerer {
    /// Serves what was read of the catalog, in place of what was served before. Its files are asked for only if nobody
    /// serves this content already. Costs nothing where nothing is new.
    ///
    /// What fails with Service and EndpointSlice is tried again by itself.
    ///
    /// # Errors
    /// When the catalog cannot be served, or nobody would find it.
    pub async fn offer<F>(
        &self,
        source: &CatalogSource,
        digest: Digest,
        files: F,
    ) -> Result<Registered, Error>
    where
        F: FnOnce() -> Result<Box<dyn Files + Send>, Error> + Send + 'static,
    {
        let stand = self.serving.stand(&self.key, self.id);
        self.is_withdrawn.store(false, Ordering::Relaxed);
        self.leads_nowhere.store(false, Ordering::Relaxed);
        match self.show(&stand, source, digest, files).await {
            Ok(changes) => {
                if changes.is_new {
                    stand.wake.notify_one();
                }
                let mut concluded = stand.concluded.subscribe();
                let waited = concluded.wait_for(|it| *it >= changes.number).await;
                waited.map_err(|_| Error::Ended)?;
                let State {
                    registered,
                    trouble,
                } = stand.state().clone();
                match (registered, trouble) {
                    (Some(registered), None) => Ok(registered),
                    (_, trouble) => Err(Error::Told(trouble.unwrap_or_default())),
                }
            }
            Err(error) => {
                self.refuse(&stand, source, &error).await;
                Err(error)
            }
        }
    }

    /// Reports whether the namespace's share has room for the catalog; asked before anything is fetched for it.
    ///
    /// # Errors
    /// When it has not, which is told of the catalog.
    pub async fn has_room(&self, source: &CatalogSource) -> Result<(), Error> {
        let Some(share) = self.serving.share(&self.key) else {
            return Ok(());
        };
        let room = self.serving.shares().has_room(&self.key, share);
        if let Err(error) = &room {
            let stand = self.serving.stand(&self.key, self.id);
            self.refuse(&stand, source, error).await;
        }
        room
    }

    /// Reports whether anything is served.
    pub fn serves(&self) -> bool {
        let stands = self.serving.shared.stands();
        let stand = stands.get(&self.key);
        stand.is_some_and(|it| it.port.load(Ordering::Relaxed) != 0)
    }

    /// There is nothing to serve: clients are not led to where an earlier process has served the catalog. Costs nothing
    /// when that was done before, or when something is served.
    ///
    /// # Errors
    /// When the EndpointSlice cannot be read or written.
    pub async fn has_nothing(&self) -> Result<(), Error> {
        if self.serves() || self.leads_nowhere.load(Ordering::Relaxed) {
            return Ok(());
        }
        keep::empty(&self.serving.shared.requests, &self.key, || self.serves()).await?;
        // It may be offered meanwhile.
        self.leads_nowhere.store(!self.serves(), Ordering::Relaxed);
        Ok(())
    }

    /// Waits until somebody else leads to the catalog as well, or nobody does; not for long.
    pub async fn until_others_lead(&self, leads: bool) {
        Box::pin(beside::wait(
            &self.serving.shared.requests.client,
            &self.key,
            leads,
        ))
        .await;
    }

    /// Stops serving the catalog, and removes how it was found: somebody else serves it from now on. Costs nothing when
    /// that was done before. Who gives it up half-way may begin it anew.
    ///
    /// # Errors
    /// When an object cannot be removed.
    pub async fn withdraw(&self) -> Result<(), Error> {
        let stand = self.serving.shared.stands().get(&self.key).cloned();
        // Nobody is writing what is removed now; nor is it made again, also when this is given up half-way.
        let mut quiet = match &stand {
            Some(stand) => Some(stand.shown.lock().await),
            None => None,
        };
        if let Some(shown) = &mut quiet {
            shown.is_leaving = true;
        }
        let removed = self.remove().await;
        // Nothing is waited for from here on: what counts as removed has no stand any more.
        let listening = quiet.as_mut().and_then(|it| it.listening.take());
        self.serving.take_down(&self.key, None);
        if let Some(listening) = listening {
            tokio::spawn(async move {
                sleep(LINGER).await;
                drop(listening);
            });
        }
        removed
    }

    /// Removes how the catalog is found, unless that was done before.
    async fn remove(&self) -> Result<(), Error> {
        if self.is_withdrawn.load(Ordering::Relaxed) {
            return Ok(());
        }
        match keep::remove(&self.serving.shared.requests, &self.key).await {
            // Who may not look there has not written there.
            Ok(()) | Err(Error::Forbidden { .. }) => {
                self.is_withdrawn.store(true, Ordering::Relaxed);
                Ok(())
            }
            error => error,
        }
    }

    /// What was offered is not served; what was before still is.
    async fn refuse(&self, stand: &Stand, source: &CatalogSource, error: &Error) {
        let why = unpacker::job::chain(error);
        let mut shown = stand.shown.lock().await;
        shown.refused = Some(why.clone());
        if shown.listening.as_ref().is_none_or(|it| !it.is_used()) {
            self.serving.shares().is_not_served(&self.key);
        }
        let about = source.object_ref(&());
        self.serving.shared.fails(stand, &about, why).await;
    }

    async fn show<F>(
        &self,
        stand: &Stand,
        source: &CatalogSource,
        digest: Digest,
        files: F,
    ) -> Result<Changes, Error>
    where
        F: FnOnce() -> Result<Box<dyn Files + Send>, Error> + Send + 'static,
    {
        let (key, shared) = (&self.key, &self.serving.shared);
        objects::service_name(&key.name).map_err(|length| Error::Name {
            catalog: key.to_string(),
            length,
        })?;
        let owner = source.owner_ref(&());
        let owner = owner.ok_or_else(|| Error::NoUid(key.to_string()))?;
        let share = self.serving.share(key);
        let begin = |share| self.serving.shares().begin(key, digest, share);
        let room = share.map(begin).transpose()?;
        let served = self.serving.stores.get(digest, room, files).await;
        if let (Err(error), Some(share)) = (&served, share)
            && let Some(most) = error.most()
        {
            let size = most.saturating_add(1);
            let mut shares = self.serving.shares();
            shares.is_too_large(key, digest, size, share)?;
        }
        let served = served?;
        let mut shown = stand.shown.lock().await;
        if let Some(share) = share {
            let size = served.size();
            self.serving.shares().take(key, digest, size, share)?;
        }
        let listening = match &mut shown.listening {
            Some(listening) => listening,
            none => {
                let socket = shared.ports().bind(key, Instant::now())?;
                let listen = |source| Error::Listen { port: 0, source };
                none.insert(Listening::new(socket).map_err(listen)?)
            }
        };
        let mut is_new = !listening.shows(&served);
        if is_new {
            let port = listening.port();
            let listen = |source| Error::Listen { port, source };
            listening.show(served).map_err(listen)?;
            stand.port.store(port, Ordering::Relaxed);
            info!(catalog = %key, port, %digest, "serving a catalog");
        }
        is_new |= shown.of.as_ref().is_none_or(|(of, _)| *of != owner);
        is_new |= std::mem::take(&mut shown.is_leaving);
        is_new |= *stand.state() == State::default() || stand.state().trouble.is_some();
        if is_new {
            shown.of = Some((owner, source.object_ref(&())));
            shown.digest = Some(digest);
            shown.since = Some((shared.now)());
            shown.changes += 1;
        }
        // Before anybody else looks at what is shown now.
        shown.refused = None;
        Ok(Changes {
            number: shown.changes,
            is_new,
        })
    }
}

impl Drop for Offerer {
    fn drop(&mut self) {
        self.serving.take_down(&self.key, Some(self.id));
    }
}
