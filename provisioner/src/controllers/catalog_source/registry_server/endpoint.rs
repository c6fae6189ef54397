//! Endpoint of a served catalog. Its task creates, repairs and recreates the Service and the EndpointSlice for as long as
//! the endpoint exists.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU16, AtomicU64},
    },
    time::{Duration, Instant},
};

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::ObjectReference,
    apimachinery::pkg::apis::meta::v1::{OwnerReference, Time},
};
use kube::runtime::events::EventType;
use manifests::api::catalog_source::RegistryService;
use parking_lot::{Mutex, MutexGuard};
use tokio::{
    sync::{Notify, watch::Sender},
    time::sleep,
};
use tracing::{info, warn};
use unpacker::Digest;

use super::{
    CatalogListener, Error, ServedCatalog, ServingState, Shared,
    apply::{self, AppliedObjects},
    objects::{self, EndpointSpec},
};
use crate::controllers::catalog_source::{CatalogKey, server_backoff::ServerBackoff};

/// Time without failures or repairs after which the back-off is reset.
const RESET_AFTER: Duration = Duration::from_secs(120);

/// Endpoint of a catalog: its port, its Service and its EndpointSlice.
pub(super) struct CatalogEndpoint {
    pub(super) key: CatalogKey,
    /// Id of the publisher that owns the endpoint.
    pub(super) owner_id: AtomicU64,
    /// Port of the catalog; 0 while it is not served.
    pub(super) port: AtomicU16,
    pub(super) published: tokio::sync::Mutex<PublishedCatalog>,
    state: Mutex<ServingState>,
    /// Objects as of the last reconcile; `None` before the first one.
    kept: Mutex<Option<AppliedObjects>>,
    /// Notifies the task that a reconcile may be needed.
    pub(super) wake: Notify,
    /// Number of the last change of `published` that was reconciled, successfully or not.
    pub(super) settled_change: Sender<u64>,
}

/// Content published at an endpoint.
#[derive(Default)]
pub(super) struct PublishedCatalog {
    pub(super) listener: Option<CatalogListener>,
    pub(super) owner: Option<(OwnerReference, ObjectReference)>,
    pub(super) digest: Option<Digest>,
    pub(super) since: Option<Timestamp>,
    /// Problem with the content that was offered last, until newer content is offered. A successful reconcile of the
    /// objects does not clear the problem.
    pub(super) rejection: Option<String>,
    /// True while the objects of the endpoint are being removed.
    pub(super) is_terminating: bool,
    /// Number of changes so far.
    pub(super) changes: u64,
}

// === impl Shared ===

impl Shared {
    /// Reconciles the objects of an endpoint and reports the result.
    async fn settle(&self, endpoint: &CatalogEndpoint) -> Outcome {
        let published = endpoint.published.lock().await;
        let (false, Some(listening), Some((owner, about))) = (
            published.is_terminating,
            &published.listener,
            &published.owner,
        ) else {
            return Outcome::Unchanged;
        };
        let declared = EndpointSpec {
            key: endpoint.key.clone(),
            owner: owner.clone(),
            at: SocketAddr::new(self.address, listening.port()),
        };
        let outcome = match apply::reconcile(&self.requests, &declared).await {
            Ok(applied) => {
                let is_new = *endpoint.settled_change.borrow() != published.changes;
                let repaired = applied.repaired(endpoint.lock_applied().as_ref(), is_new);
                if repaired > 0 {
                    info!(catalog = %endpoint.key, "repaired catalog Service or EndpointSlice");
                    self.metrics.repaired(repaired);
                }
                let registered = published
                    .digest
                    .zip(published.since)
                    .map(|(digest, since)| {
                        endpoint.registered(&declared, applied.created.clone(), digest, since)
                    });
                *endpoint.lock_applied() = Some(applied);
                let state = ServingState {
                    registered,
                    trouble: published.rejection.clone(),
                };
                self.publish_serving(endpoint, about, state).await;
                if repaired > 0 {
                    Outcome::Repaired
                } else {
                    Outcome::Unchanged
                }
            }
            Err(error) => {
                if matches!(error, Error::Foreign(_)) {
                    endpoint.state().registered = None;
                }
                self.fails(endpoint, about, manifests::error::chain(&error))
                    .await;
                Outcome::Failed
            }
        };
        endpoint.settled_change.send_replace(published.changes);
        outcome
    }

    async fn publish_serving(
        &self,
        endpoint: &CatalogEndpoint,
        about: &ObjectReference,
        now: ServingState,
    ) {
        let is_well = now.trouble.is_none();
        let (was_found, differs) = {
            let mut state = endpoint.state();
            let was_found = state.registered.is_some() && state.trouble.is_none();
            let differs = *state != now;
            *state = now;
            (was_found, differs)
        };
        self.metrics.served(&endpoint.key, is_well);
        if differs {
            self.notifier.notify(&endpoint.key);
        }
        if is_well && !was_found {
            let note = format!("served at {}", objects::address(&endpoint.key));
            let events = &self.events;
            events
                .publish(about, EventType::Normal, "CatalogServed", "Serve", &note)
                .await;
        }
    }

    pub(super) async fn fails(
        &self,
        endpoint: &CatalogEndpoint,
        about: &ObjectReference,
        problem: String,
    ) {
        let is_new = {
            let mut state = endpoint.state();
            let is_new = state.trouble.as_ref() != Some(&problem);
            state.trouble = Some(problem.clone());
            is_new
        };
        self.metrics.served(&endpoint.key, false);
        if is_new {
            self.notifier.notify(&endpoint.key);
            warn!(catalog = %endpoint.key, error = problem, "failed to serve catalog");
            let events = &self.events;
            events
                .publish(
                    about,
                    EventType::Warning,
                    "CatalogNotServed",
                    "Serve",
                    &problem,
                )
                .await;
        }
    }
}

/// Result of one reconcile of the objects of an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Unchanged,
    /// Another client had changed or deleted objects.
    Repaired,
    Failed,
}

/// Reconciles an endpoint whenever it is notified, and retries after failures. Repairs back off if another client keeps
/// changing the objects.
pub(super) async fn maintain(shared: Arc<Shared>, endpoint: Arc<CatalogEndpoint>) {
    let mut backoff = ServerBackoff::default();
    let mut last = Instant::now();
    loop {
        endpoint.wake.notified().await;
        if last.elapsed() > RESET_AFTER {
            backoff.reset();
        }
        loop {
            match shared.settle(&endpoint).await {
                Outcome::Unchanged => break,
                Outcome::Repaired => {
                    last = Instant::now();
                    sleep(backoff.next_delay(last)).await;
                    break;
                }
                Outcome::Failed => {
                    last = Instant::now();
                    let delay = backoff.next_delay(last);
                    tokio::select! {
                        () = sleep(delay) => {}
                        // The cause of the failure may be resolved.
                        () = endpoint.wake.notified() => {}
                    }
                }
            }
        }
    }
}

// === impl CatalogEndpoint ===

impl CatalogEndpoint {
    pub(super) fn new(key: CatalogKey, owner_id: u64) -> Self {
        Self {
            key,
            owner_id: AtomicU64::new(owner_id),
            port: AtomicU16::default(),
            published: tokio::sync::Mutex::default(),
            state: Mutex::default(),
            kept: Mutex::default(),
            wake: Notify::new(),
            settled_change: Sender::default(),
        }
    }

    fn registered(
        &self,
        declared: &EndpointSpec,
        created_at: Option<Time>,
        digest: Digest,
        since: Timestamp,
    ) -> ServedCatalog {
        ServedCatalog {
            service: RegistryService {
                protocol: Some("grpc".to_owned()),
                service_name: Some(declared.service_name()),
                service_namespace: Some(self.key.namespace.clone()),
                port: Some(objects::PORT.to_string()),
                created_at,
            },
            address: objects::address(&self.key),
            digest,
            since,
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, ServingState> {
        self.state.lock()
    }

    pub(super) fn lock_applied(&self) -> MutexGuard<'_, Option<AppliedObjects>> {
        self.kept.lock()
    }
}
