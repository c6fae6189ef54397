//! Built-in catalog server for clusters without OLM.
//!
//! ```text
//!  worker ─ publish ► stores: one file per content ► endpoint: one port per catalog
//!                                                     │
//!  controller ─ reconcile ────────────────────────────┴► apply: Service, EndpointSlice
//! ```
//!
//! Requests of the protocol do not name a catalog, so each catalog has its own port. A Service without selector and an
//! EndpointSlice route `<name>.<namespace>.svc:50051` to that port of the leader's pod. All catalogs with the same content
//! are served from one file. The content that was read last is served for as long as its CatalogSource is followed. If
//! nothing can be served because the registry has been unavailable since this process started, the EndpointSlice is
//! emptied. Otherwise it would point to the address of a terminated pod.
//!
//! Both objects are owned by the CatalogSource and are garbage-collected with it. They are identified by a label and their
//! field manager. An object of the same name that belongs to another owner is reported and left unchanged. The Service of a
//! catalog with a registry pod belongs to [`super::registry_pod`]. During a handover, both EndpointSlices may have
//! endpoints.

mod apply;
mod endpoint;
mod error;
mod handover;
mod listener;
mod objects;
mod ports;
mod publish;
mod quota;
mod stores;

use std::{
    collections::BTreeMap,
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use catalog::registry::ObserveCalls;
use manifests::api::catalog_source::RegistryService;
use parking_lot::{Mutex, MutexGuard};

pub(super) use self::apply::ServerObject;
use self::{
    apply::Requests, endpoint::CatalogEndpoint, ports::PortAllocator, quota::NamespaceQuotas,
};
pub use self::{
    error::Error,
    listener::CatalogListener,
    publish::CatalogPublisher,
    stores::{CatalogStores, ServedStore},
};
use super::{
    CatalogKey,
    owned_objects::{OwnedChange, WatchedNamespaces},
    triggers::ReconcileTriggers,
};
use crate::{
    controllers::context::Context,
    runtime::{
        events::EventRecorder,
        metrics::Metrics,
        settings::{self, NamespaceQuota},
    },
};

/// A served catalog and its endpoint.
#[derive(Debug, Clone, PartialEq)]
pub struct ServedCatalog {
    /// Value of `registryService` in the status of the CatalogSource.
    pub service: RegistryService,
    /// Address for clients: `host:port`.
    pub address: String,
}

/// Serving state of a catalog.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ServingState {
    /// Endpoint of the catalog. Clients can use it unless `trouble` is set.
    pub registered: Option<ServedCatalog>,
    /// Problem with serving the catalog; `None` if it is served without one.
    pub trouble: Option<String>,
}

/// Server of all catalogs that this process publishes.
pub struct RegistryServer {
    shared: Arc<Shared>,
    stores: CatalogStores,
    namespaces: settings::Namespaces,
    /// Quota of the catalogs of one namespace.
    quota: NamespaceQuota,
    /// Namespaces without a quota, because only admins create catalogs there.
    unlimited_namespaces: Vec<String>,
    quotas: Mutex<NamespaceQuotas>,
    /// Namespaces of the served catalogs.
    watched: Arc<WatchedNamespaces>,
    owner_ids: AtomicU64,
}

/// State shared by all served catalogs.
struct Shared {
    requests: Requests,
    events: Arc<EventRecorder>,
    metrics: Arc<Metrics>,
    address: IpAddr,
    ports: Mutex<PortAllocator>,
    endpoints: Mutex<BTreeMap<CatalogKey, Arc<CatalogEndpoint>>>,
    triggers: Arc<ReconcileTriggers>,
}

// === impl RegistryServer ===

impl RegistryServer {
    /// Creates the server, or returns `None` if serving is not configured.
    pub(super) fn from_context(ctx: &Context, triggers: Arc<ReconcileTriggers>) -> Option<Self> {
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
            ports: Mutex::new(PortAllocator::new(ports, address)),
            endpoints: Mutex::default(),
            triggers,
        };
        Some(Self {
            shared: Arc::new(shared),
            stores: CatalogStores::new(
                ctx.store.dir(),
                Arc::clone(&ctx.metrics) as Arc<dyn ObserveCalls>,
            ),
            namespaces,
            quota: share,
            unlimited_namespaces: ctx.settings.catalog_namespaces.clone(),
            quotas: Mutex::default(),
            watched: Arc::default(),
            owner_ids: AtomicU64::new(1),
        })
    }

    /// Reports whether catalogs of this namespace are served.
    pub fn serves(&self, namespace: &str) -> bool {
        self.namespaces.has(namespace)
    }

    /// Returns the publisher of a catalog for its worker. The most recent publisher owns the endpoint.
    pub fn publisher(self: &Arc<Self>, key: &CatalogKey) -> CatalogPublisher {
        CatalogPublisher {
            serving: Arc::clone(self),
            key: key.clone(),
            id: self.owner_ids.fetch_add(1, Ordering::Relaxed),
            is_withdrawn: AtomicBool::new(false),
            is_detached: AtomicBool::new(false),
        }
    }

    /// Returns the serving state of a catalog, or `None` if it is not served.
    pub fn state(&self, key: &CatalogKey) -> Option<ServingState> {
        let endpoints = self.shared.endpoints();
        endpoints.get(key).map(|endpoint| endpoint.state().clone())
    }

    /// Reconciles the Service and the EndpointSlice of a catalog if they are due. Returns the delay until the next
    /// reconcile, or `None` if none is scheduled.
    pub(super) async fn reconcile(&self, key: &CatalogKey) -> Option<Duration> {
        let endpoint = self.shared.endpoints().get(key).cloned()?;
        self.shared.reconcile(&endpoint).await
    }

    /// Returns the namespaces of the served catalogs.
    pub(super) fn namespaces(&self) -> &Arc<WatchedNamespaces> {
        &self.watched
    }

    /// Marks endpoints as due whose objects may have changed. Returns the catalogs to reconcile.
    pub(super) fn observe(
        &self,
        namespace: &str,
        object: ServerObject,
        change: &OwnedChange,
    ) -> Vec<CatalogKey> {
        let endpoints = self.shared.endpoints();
        let is_affected = |endpoint: &&Arc<CatalogEndpoint>| match change {
            OwnedChange::Changed(key, version) => {
                endpoint.key == *key && !endpoint.is_own_version(object, version.as_deref())
            }
            OwnedChange::Listed(listed) => {
                endpoint.key.namespace == namespace && !listed.contains(&endpoint.key)
            }
        };
        let affected = endpoints.values().filter(is_affected);
        affected
            .map(|endpoint| {
                endpoint.mark_due();
                endpoint.key.clone()
            })
            .collect()
    }

    /// Returns the quota that applies to a catalog, or `None` if it is unlimited.
    fn quota(&self, key: &CatalogKey) -> Option<&NamespaceQuota> {
        let is_unlimited = self.unlimited_namespaces.contains(&key.namespace);
        (!is_unlimited).then_some(&self.quota)
    }

    /// Returns the endpoint of a catalog and creates it if it does not exist.
    fn endpoint(&self, key: &CatalogKey, owner_id: u64) -> Arc<CatalogEndpoint> {
        let mut endpoints = self.shared.endpoints();
        let new = || {
            let watch = self.watched.watch(&key.namespace);
            Arc::new(CatalogEndpoint::new(key.clone(), watch))
        };
        let endpoint = endpoints.entry(key.clone()).or_insert_with(new);
        endpoint.owner_id.store(owner_id, Ordering::Relaxed);
        Arc::clone(endpoint)
    }

    /// Stops serving a catalog that the controller has stopped following.
    pub fn catalog_removed(&self, key: &CatalogKey) {
        self.take_down(key, None);
    }

    /// Removes the endpoint of a catalog. With an `owner_id`, only if that publisher owns it.
    fn take_down(&self, key: &CatalogKey, owner_id: Option<u64>) {
        let mut endpoints = self.shared.endpoints();
        let is_owner = |endpoint: &Arc<CatalogEndpoint>| {
            owner_id.is_none_or(|owner_id| endpoint.owner_id.load(Ordering::Relaxed) == owner_id)
        };
        if !endpoints.get(key).is_some_and(is_owner) {
            return;
        }
        let endpoint = endpoints.remove(key);
        drop(endpoints);
        let port = endpoint.map_or(0, |endpoint| endpoint.port.load(Ordering::Relaxed));
        if port != 0 {
            self.shared.ports().release(port, Instant::now());
        }
        self.quotas().release(key);
        self.shared.metrics.remove_served(key);
        self.shared.triggers.add(key);
    }

    fn quotas(&self) -> MutexGuard<'_, NamespaceQuotas> {
        self.quotas.lock()
    }
}

// === impl Shared ===

impl Shared {
    fn endpoints(&self) -> MutexGuard<'_, BTreeMap<CatalogKey, Arc<CatalogEndpoint>>> {
        self.endpoints.lock()
    }

    fn ports(&self) -> MutexGuard<'_, PortAllocator> {
        self.ports.lock()
    }
}
