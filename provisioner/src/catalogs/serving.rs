//! The one catalog server of a cluster without OLM.
//!
//! ```text
//!  follow ── offer ──► Stores: a file for each content ──► Stand: a port of its own ──► keep: Service, EndpointSlice
//!                                                            ▲                                     │
//!                                                            └──── watch: somebody has changed them ◄
//! ```
//!
//! The protocol's requests do not name a catalog, so each has a port of its own; a Service without selector and an
//! EndpointSlice lead `<name>.<namespace>.svc:50051` to that port of the pod that leads. All catalogs with the same
//! content are served from one file. What was read last is served for as long as its CatalogSource is followed. Where there
//! is nothing to serve, for the registry is away since this process has begun, the EndpointSlice leads nowhere: not to the
//! address of a pod that has ended.
//!
//! Both objects belong to the CatalogSource, and go with it. They are known by a label and by who has written them;
//! what has the name of one of them and is somebody else's is told, and not touched. The Service of a catalog with a pod of
//! its own belongs to [`pods`](super::pods); both may lead to a catalog at once, while one takes over from the other.

mod beside;
mod error;
mod keep;
mod listening;
mod objects;
mod offer;
mod ports;
mod share;
mod stand;
mod stores;
mod watch;

use std::{
    collections::BTreeMap,
    net::IpAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Instant,
};

use catalog::registry::Calls;
use jiff::Timestamp;
use manifests::api::catalog_source::RegistryService;
use tokio::task::AbortHandle;
use unpacker::Digest;

pub use self::{
    error::Error,
    listening::Listening,
    offer::Offerer,
    stores::{Served, Stores},
};
use self::{
    keep::Requests,
    ports::Allotment,
    share::Shares,
    stand::{Stand, tend},
};
use super::{
    Key,
    waiting::{Changes, Waiting},
};
use crate::{
    context::Context,
    events::Events,
    metrics::Metrics,
    settings::{self, Share},
};

/// Where a catalog is served.
#[derive(Debug, Clone, PartialEq)]
pub struct Registered {
    /// What a CatalogSource's status says of it.
    pub service: RegistryService,
    /// Where clients find it: `host:port`.
    pub address: String,
    /// The content that is served.
    pub digest: Digest,
    /// Since when this process serves it.
    pub since: Timestamp,
}

/// How a catalog is served.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct State {
    /// Where; clients find it there unless something is wrong.
    pub registered: Option<Registered>,
    /// What is wrong.
    pub trouble: Option<String>,
}

/// The catalog server.
pub struct Serving {
    shared: Arc<Shared>,
    stores: Stores,
    namespaces: settings::Namespaces,
    /// How much the catalogs of one namespace may take.
    share: Share,
    /// Where they may take whatever they want: what is there is an admin's own.
    counting: Vec<String>,
    shares: Mutex<Shares>,
    /// What goes on for each stand, and for each namespace that has any.
    tasks: Mutex<Tasks>,
    holders: AtomicU64,
}

/// What all stands share.
struct Shared {
    requests: Requests,
    events: Arc<Events>,
    metrics: Arc<Metrics>,
    address: IpAddr,
    ports: Mutex<Allotment>,
    stands: Mutex<BTreeMap<Key, Arc<Stand>>>,
    waiting: Arc<Waiting>,
    now: fn() -> Timestamp,
}

#[derive(Default)]
struct Tasks {
    stands: BTreeMap<Key, Ended>,
    watches: BTreeMap<String, Ended>,
}

/// A task that ends with this.
struct Ended(AbortHandle);

// === impl Serving ===

impl Serving {
    /// The server, if there is to be one.
    pub fn of(ctx: &Context) -> Option<Self> {
        let settings::Serving {
            address,
            ports,
            namespaces,
            pods: _,
            share,
        } = ctx.settings.serving.clone()?;
        let shared = Shared {
            requests: Requests::new(ctx.client.clone()),
            events: Arc::clone(&ctx.events),
            metrics: Arc::clone(&ctx.metrics),
            address,
            ports: Mutex::new(Allotment::new(ports, address)),
            stands: Mutex::default(),
            waiting: Arc::default(),
            now: ctx.now,
        };
        Some(Self {
            shared: Arc::new(shared),
            stores: Stores::new(
                ctx.store.folder(),
                Arc::clone(&ctx.metrics) as Arc<dyn Calls>,
            ),
            namespaces,
            share,
            counting: ctx.settings.catalog_namespaces.clone(),
            shares: Mutex::default(),
            tasks: Mutex::default(),
            holders: AtomicU64::new(1),
        })
    }

    /// Reports whether catalogs of this namespace are served.
    pub fn serves(&self, namespace: &str) -> bool {
        self.namespaces.has(namespace)
    }

    /// For who follows a catalog; whoever asks last is the one who does.
    pub fn offerer(self: &Arc<Self>, key: &Key) -> Offerer {
        Offerer {
            serving: Arc::clone(self),
            key: key.clone(),
            id: self.holders.fetch_add(1, Ordering::Relaxed),
            is_withdrawn: AtomicBool::new(false),
            leads_nowhere: AtomicBool::new(false),
        }
    }

    /// How a catalog is served, if it is.
    pub fn state(&self, key: &Key) -> Option<State> {
        let stands = self.shared.stands();
        stands.get(key).map(|stand| stand.state().clone())
    }

    /// Tells when that changes.
    pub fn changes(&self, key: &Key) -> Changes {
        self.shared.waiting.wait(key)
    }

    /// How much a catalog may take; nothing is as much as it wants.
    fn share(&self, key: &Key) -> Option<&Share> {
        let is_an_admins = self.counting.contains(&key.namespace);
        (!is_an_admins).then_some(&self.share)
    }

    /// The stand of a catalog, put up if there is none.
    fn stand(&self, key: &Key, holder: u64) -> Arc<Stand> {
        let mut tasks = self.tasks();
        let mut stands = self.shared.stands();
        if let Some(stand) = stands.get(key) {
            stand.holder.store(holder, Ordering::Relaxed);
            return Arc::clone(stand);
        }
        let stand = Arc::new(Stand::new(key.clone(), holder));
        stands.insert(key.clone(), Arc::clone(&stand));
        let tend = tokio::spawn(tend(Arc::clone(&self.shared), Arc::clone(&stand)));
        tasks.stands.insert(key.clone(), Ended(tend.abort_handle()));
        tasks
            .watches
            .entry(key.namespace.clone())
            .or_insert_with(|| {
                let watch = watch::run(Arc::clone(&self.shared), key.namespace.clone());
                Ended(tokio::spawn(watch).abort_handle())
            });
        stand
    }

    /// A CatalogSource is gone, and another one has its name: nothing that was served of it is for that.
    pub fn is_gone(&self, key: &Key) {
        self.take_down(key, None);
    }

    /// Ends a catalog's stand, whoever holds it or if this is who does.
    fn take_down(&self, key: &Key, holder: Option<u64>) {
        let mut tasks = self.tasks();
        let mut stands = self.shared.stands();
        let is_meant = |it: &Arc<Stand>| {
            holder.is_none_or(|holder| it.holder.load(Ordering::Relaxed) == holder)
        };
        if !stands.get(key).is_some_and(is_meant) {
            return;
        }
        tasks.stands.remove(key);
        let stand = stands.remove(key);
        if !stands.keys().any(|it| it.namespace == key.namespace) {
            tasks.watches.remove(&key.namespace);
        }
        drop((stands, tasks));
        let port = stand.map_or(0, |it| it.port.load(Ordering::Relaxed));
        if port != 0 {
            self.shared.ports().give_up(port, Instant::now());
        }
        self.shares().give_up(key);
        self.shared.metrics.served_gone(key);
        self.shared.waiting.wake(key);
    }

    fn shares(&self) -> MutexGuard<'_, Shares> {
        self.shares.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tasks(&self) -> MutexGuard<'_, Tasks> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.abort();
    }
}

// === impl Shared ===

impl Shared {
    fn stands(&self) -> MutexGuard<'_, BTreeMap<Key, Arc<Stand>>> {
        self.stands.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ports(&self) -> MutexGuard<'_, Allotment> {
        self.ports.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
