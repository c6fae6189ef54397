//! One catalog, from the moment its CatalogSource is seen to the moment it is gone.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use catalog::registry::{Bounds, Client, Packages};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::{Resource as _, runtime::events::EventType};
use manifests::api::catalog_source::CatalogSource;
use tokio::{
    sync::watch,
    time::{sleep, sleep_until},
};
use tracing::{info, warn};

use super::{
    Key,
    image::{self, Loaded},
    known::Read,
    plan::{Plan, plan},
};
use crate::{context::Context, watches::spread};

/// How often what others serve is read again although nothing has told of a change, and how often a place that does
/// not work is tried again at least.
const REREAD: Duration = Duration::from_secs(15 * 60);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);

/// What following catalogs takes.
pub(super) struct Shared {
    pub(super) ctx: Context,
    pub(super) loaded: Loaded,
    /// Whether OLM is in the cluster.
    pub(super) has_olm: watch::Receiver<bool>,
}

/// Follows a catalog until its sender is gone.
pub(super) async fn follow(
    shared: Arc<Shared>,
    key: Key,
    source: watch::Receiver<Arc<CatalogSource>>,
) {
    let mut following = Following {
        shared,
        key,
        source,
        since: Instant::now(),
        failures: 0,
        from: None,
    };
    // A download is a large future, and most of the time there is none.
    while Box::pin(following.once()).await.is_some() {}
}

struct Following {
    shared: Arc<Shared>,
    key: Key,
    source: watch::Receiver<Arc<CatalogSource>>,
    /// Since when it is not served.
    since: Instant,
    /// In a row.
    failures: u32,
    /// From where it was read last.
    from: Option<String>,
}

// === impl Following ===

impl Following {
    /// Does what is to be done now, and waits until that may be something else. `None` is the end.
    async fn once(&mut self) -> Option<()> {
        let source = Arc::clone(&self.source.borrow_and_update());
        let mut newer = self.source.clone();
        tokio::select! {
            () = self.work(&source) => Some(()),
            // Whatever is under way is of the past.
            changed = newer.changed() => changed.ok(),
        }
    }

    async fn work(&mut self, source: &CatalogSource) {
        let priority = source.spec.priority.unwrap_or_default();
        let catalogs = Arc::clone(&self.shared.ctx.catalogs);
        catalogs.change(|known| known.add(&self.key, priority));
        let has_olm = *self.shared.has_olm.borrow();
        match plan(source, has_olm, self.since.elapsed()) {
            Plan::Never(why) => {
                self.trouble(source, why).await;
                self.pause(None).await;
            }
            Plan::Wait { why, left } => {
                catalogs.change(|known| known.trouble(&self.key, why));
                self.pause(Some(left)).await;
            }
            Plan::Served(address) => {
                let place = format!("grpc {address}");
                match self.served(source, &address, &place).await {
                    // Not at once: there may be servers that end each connection.
                    Ok(()) => self.pause(Some(spread(SHORTEST_PAUSE))).await,
                    Err(error) => self.failed(source, &error).await,
                }
            }
            Plan::Image {
                reference,
                poll,
                warning,
            } => {
                if let Some(warning) = warning {
                    self.tell(source, EventType::Warning, "InvalidInterval", &warning)
                        .await;
                }
                let place = format!("image {reference}");
                let shared = &self.shared;
                let of = (&self.key, source);
                let read = Box::pin(image::read(&shared.ctx, &shared.loaded, of, &reference)).await;
                match read {
                    Ok((digest, read)) => {
                        self.failures = 0;
                        let place = format!("{place} {digest}");
                        if self.from.as_ref() == Some(&place) {
                            self.well();
                        } else {
                            let (packages, broken) = (read.packages.len(), read.broken.len());
                            self.has_read(source, &place, Read::All(read)).await;
                            info!(catalog = %self.key, %place, packages, broken, "read a catalog");
                        }
                        self.pause(poll.map(spread)).await;
                    }
                    Err(error) => self.failed(source, &error).await,
                }
            }
        }
    }

    /// Reads what is wanted from whoever serves the catalog, until he ends.
    async fn served(
        &mut self,
        source: &CatalogSource,
        address: &str,
        place: &str,
    ) -> Result<(), catalog::registry::client::Error> {
        let client = Client::connect(address, Bounds::default()).await?;
        let catalogs = Arc::clone(&self.shared.ctx.catalogs);
        let mut wanted = catalogs.wanted.subscribe();
        let mut lost = std::pin::pin!(client.lost());
        let (mut read, mut anew) = (Arc::new(Packages::default()), Instant::now());
        loop {
            let asked = wanted.borrow_and_update().clone();
            if Instant::now() >= anew {
                read = Arc::default();
                anew = Instant::now() + spread(REREAD);
            }
            // The server is the same as long as the connection is.
            read = Arc::new(read.and(&client, &asked).await?);
            self.failures = 0;
            self.since = Instant::now();
            self.has_read(source, place, Read::Some(Arc::clone(&read)))
                .await;
            let (packages, broken) = (read.packages.len(), read.broken.len());
            info!(catalog = %self.key, %place, packages, broken, "read what is wanted of a catalog");
            // Those who want less need not be told anything new.
            let more = async {
                while wanted.changed().await.is_ok() {
                    if !wanted.borrow().is_subset(&read.asked) {
                        return;
                    }
                }
                std::future::pending::<()>().await;
            };
            tokio::select! {
                () = &mut lost => return Ok(()),
                () = more => {}
                () = sleep_until(anew.into()) => {}
            }
        }
    }

    /// Waits until OLM comes or goes, or the time is over.
    async fn pause(&self, left: Option<Duration>) {
        let mut has_olm = self.shared.has_olm.clone();
        has_olm.mark_unchanged();
        let over = async {
            match left {
                Some(left) => sleep(left).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            Ok(()) = has_olm.changed() => {}
            () = over => {}
        }
    }

    async fn failed(&mut self, source: &CatalogSource, error: &(dyn std::error::Error + Sync)) {
        let why = unpacker::job::chain(error);
        warn!(catalog = %self.key, error = why, "a catalog cannot be read");
        self.trouble(source, why).await;
        self.failures = self.failures.saturating_add(1);
        let pause = SHORTEST_PAUSE * 2u32.saturating_pow(self.failures.min(10) - 1);
        self.pause(Some(spread(pause.min(LONGEST_PAUSE)))).await;
    }

    async fn has_read(&mut self, source: &CatalogSource, place: &str, read: Read) {
        let ctx = &self.shared.ctx;
        let mut was_away = true;
        ctx.catalogs.change(|known| {
            was_away = known.is_away(&self.key);
            known.read(&self.key, read)
        });
        ctx.metrics.catalog(&self.key, true);
        self.from = Some(place.to_owned());
        if was_away {
            let note = format!("read from {place}");
            self.tell(source, EventType::Normal, "CatalogRead", &note)
                .await;
        }
    }

    fn well(&self) {
        let ctx = &self.shared.ctx;
        ctx.catalogs.change(|known| known.is_well(&self.key));
        ctx.metrics.catalog(&self.key, true);
    }

    async fn trouble(&mut self, source: &CatalogSource, why: String) {
        let ctx = &self.shared.ctx;
        ctx.metrics.catalog(&self.key, false);
        let mut is_new = false;
        ctx.catalogs.change(|known| {
            is_new = known.trouble(&self.key, why.clone());
            is_new
        });
        if is_new {
            self.tell(source, EventType::Warning, "CatalogUnavailable", &why)
                .await;
        }
    }

    async fn tell(&self, source: &CatalogSource, type_: EventType, reason: &str, note: &str) {
        let about: ObjectReference = source.object_ref(&());
        let events = &self.shared.ctx.events;
        events.publish(&about, type_, reason, "Read", note).await;
    }
}
