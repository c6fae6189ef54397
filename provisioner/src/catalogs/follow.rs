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
    known::{Identity, Read},
    patience::Patience,
    plan::{Plan, is_still, plan},
};
use crate::{context::Context, watches::spread};

/// How often what others serve is read again although nothing has told of a change.
const REREAD: Duration = Duration::from_secs(15 * 60);

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
        patience: Patience::default(),
        from: None,
    };
    // A download is a large future, and most of the time there is none.
    while Box::pin(following.once()).await.is_some() {}
}

struct Following {
    shared: Arc<Shared>,
    key: Key,
    source: watch::Receiver<Arc<CatalogSource>>,
    patience: Patience,
    /// From where it was read last.
    from: Option<String>,
}

// === impl Following ===

impl Following {
    /// Does what is to be done now, and waits until that may be something else. `None` is the end.
    async fn once(&mut self) -> Option<()> {
        let source = Arc::clone(&self.source.borrow_and_update());
        let (mut newer, has_olm) = (self.source.clone(), self.shared.has_olm.clone());
        let since = self.patience.since(Instant::now());
        let plan = plan(&source, *has_olm.borrow(), since.elapsed());
        let planned = plan.clone();
        let other = async {
            loop {
                newer.changed().await.ok()?;
                let now = Arc::clone(&newer.borrow_and_update());
                let has_olm = *has_olm.borrow();
                if !is_still(&planned, &source, &now, has_olm, since.elapsed()) {
                    return Some(());
                }
            }
        };
        tokio::select! {
            () = self.work(&source, plan) => Some(()),
            // Whatever is under way is of the past.
            there = other => there,
        }
    }

    async fn work(&mut self, source: &CatalogSource, plan: Plan) {
        match plan {
            Plan::Never(why) => {
                self.trouble(source, why).await;
                self.pause(None).await;
            }
            Plan::Wait { why, left } => {
                let (catalogs, of) = (&self.shared.ctx.catalogs, Identity::of(source));
                catalogs.change(|known| known.trouble(&self.key, &of, why));
                self.pause(Some(left)).await;
            }
            Plan::Served(address) => {
                let place = format!("grpc {address}");
                match self.served(source, &address, &place).await {
                    // Not at once: there may be servers that end each connection.
                    Ok(()) => {
                        let pause = self.patience.pause(Instant::now());
                        self.pause(Some(pause)).await;
                    }
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
                        self.patience.is_read();
                        let place = format!("{place} {digest}");
                        let is_same = self.from.as_ref() == Some(&place) && self.well(source);
                        if !is_same {
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
            self.patience.is_served(Instant::now());
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
        let pause = self.patience.pause(Instant::now());
        self.pause(Some(pause)).await;
    }

    async fn has_read(&mut self, source: &CatalogSource, place: &str, read: Read) {
        let (ctx, of) = (&self.shared.ctx, Identity::of(source));
        let mut was_away = false;
        ctx.catalogs.change(|known| {
            if !known.is(&self.key, &of) {
                return false;
            }
            was_away = known.is_away(&self.key);
            ctx.metrics.catalog(&self.key, true);
            known.read(&self.key, &of, read)
        });
        self.from = Some(place.to_owned());
        if was_away {
            let note = format!("read from {place}");
            self.tell(source, EventType::Normal, "CatalogRead", &note)
                .await;
        }
    }

    /// It is there, and still what was read; says whether that is known.
    fn well(&self, source: &CatalogSource) -> bool {
        let (ctx, of) = (&self.shared.ctx, Identity::of(source));
        let mut is_read = false;
        ctx.catalogs.change(|known| {
            is_read = known.is_read(&self.key, &of);
            if is_read {
                ctx.metrics.catalog(&self.key, true);
            }
            is_read && known.is_well(&self.key, &of)
        });
        is_read
    }

    async fn trouble(&mut self, source: &CatalogSource, why: String) {
        let (ctx, of) = (&self.shared.ctx, Identity::of(source));
        let mut is_new = false;
        ctx.catalogs.change(|known| {
            // Who is gone has no metric any more.
            if known.is(&self.key, &of) {
                ctx.metrics.catalog(&self.key, false);
            }
            is_new = known.trouble(&self.key, &of, why.clone());
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
