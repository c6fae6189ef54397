//! Endpoint of a served catalog. Reconciles create, repair and recreate the Service and the EndpointSlice for as long as the
//! endpoint exists.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU16, AtomicU64},
    },
    time::{Duration, Instant},
};

use ::apply::api_error;
use k8s_openapi::{
    api::core::v1::ObjectReference,
    apimachinery::pkg::apis::meta::v1::{OwnerReference, Time},
};
use kube::runtime::events::EventType;
use manifests::api::catalog_source::RegistryService;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch::Sender;
use tokio_util::sync::DropGuard;
use tracing::{info, warn};

use super::{
    CatalogListener, Error, ServedCatalog, ServingState, Shared,
    apply::{self, AppliedObjects, ServerObject},
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
    applied: Mutex<Option<AppliedObjects>>,
    schedule: Mutex<EndpointSchedule>,
    /// Number of the last change of `published` that was reconciled, even if that failed.
    pub(super) settled_change: Sender<u64>,
    /// Keeps the objects of the namespace watched.
    _watch: Arc<DropGuard>,
}

/// Content published at an endpoint.
#[derive(Default)]
pub(super) struct PublishedCatalog {
    pub(super) listener: Option<CatalogListener>,
    pub(super) owner: Option<(OwnerReference, ObjectReference)>,
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
    /// Reconciles the objects of an endpoint if they are due. Returns the delay until the next reconcile, or `None` if none
    /// is scheduled.
    pub(super) async fn reconcile(&self, endpoint: &CatalogEndpoint) -> Option<Duration> {
        let now = Instant::now();
        let delay = endpoint.schedule.lock().remaining_delay(now)?;
        if !delay.is_zero() {
            return Some(delay);
        }
        endpoint.schedule.lock().start(now);
        let outcome = self.reconcile_and_report(endpoint).await;
        let now = Instant::now();
        let mut schedule = endpoint.schedule.lock();
        schedule.finish(outcome, now);
        schedule.remaining_delay(now)
    }

    /// Reconciles the objects of an endpoint and reports the result.
    async fn reconcile_and_report(&self, endpoint: &CatalogEndpoint) -> Outcome {
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
                let registered = Some(endpoint.served_catalog(&declared, applied.created.clone()));
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
                self.report_failure(endpoint, about, api_error::chain(&error))
                    .await;
                Outcome::Failed
            }
        };
        endpoint.settled_change.send_replace(published.changes);
        outcome
    }

    /// Sets the metric of a catalog, unless its endpoint was removed in the meantime.
    fn count_served(&self, endpoint: &CatalogEndpoint, is_served: bool) {
        let endpoints = self.endpoints();
        let current = endpoints.get(&endpoint.key);
        if current.is_some_and(|current| std::ptr::eq(&raw const **current, endpoint)) {
            self.metrics.served(&endpoint.key, is_served);
        }
    }

    /// Records the state of a catalog after a successful reconcile. Publishes an Event if the catalog was not served
    /// before.
    async fn publish_serving(
        &self,
        endpoint: &CatalogEndpoint,
        about: &ObjectReference,
        new_state: ServingState,
    ) {
        let is_served = new_state.trouble.is_none();
        let (was_served, differs) = {
            let mut state = endpoint.state();
            let was_served = state.registered.is_some() && state.trouble.is_none();
            let differs = *state != new_state;
            *state = new_state;
            (was_served, differs)
        };
        self.count_served(endpoint, is_served);
        if differs {
            self.triggers.add(&endpoint.key);
        }
        if is_served && !was_served {
            let note = format!("served at {}", objects::address(&endpoint.key));
            let events = &self.events;
            events
                .publish(about, EventType::Normal, "CatalogServed", "Serve", &note)
                .await;
        }
    }

    /// Records a problem with serving a catalog. Publishes a new problem as an Event.
    pub(super) async fn report_failure(
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
        self.count_served(endpoint, false);
        if is_new {
            self.triggers.add(&endpoint.key);
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

/// Schedule of the reconciles of one endpoint. Repairs back off if another client keeps changing the objects. Pure; no I/O.
#[derive(Debug, Default)]
struct EndpointSchedule {
    /// True if the published content or an object has changed.
    is_due: bool,
    /// Time of the retry after a failure.
    retry_at: Option<Instant>,
    /// Earliest time of the next repair.
    not_before: Option<Instant>,
    backoff: ServerBackoff,
    /// Time of the last failure or repair.
    last_incident: Option<Instant>,
}

// === impl EndpointSchedule ===

impl EndpointSchedule {
    /// Returns the delay until the next reconcile, or `None` if none is due.
    fn remaining_delay(&self, now: Instant) -> Option<Duration> {
        let at = if self.is_due {
            Some(now)
        } else {
            self.retry_at
        };
        let at = at?.max(self.not_before.unwrap_or(now));
        Some(at.saturating_duration_since(now))
    }

    /// Records that a reconcile starts. Changes from here on make another one due.
    fn start(&mut self, now: Instant) {
        let is_quiet = |last: Instant| now.saturating_duration_since(last) > RESET_AFTER;
        if self.last_incident.is_some_and(is_quiet) {
            self.backoff.reset();
        }
        (self.is_due, self.retry_at, self.not_before) = (false, None, None);
    }

    fn finish(&mut self, outcome: Outcome, now: Instant) {
        let next = match outcome {
            Outcome::Unchanged => return,
            Outcome::Repaired => &mut self.not_before,
            // A change may resolve the cause of the failure, so a change does not wait for the retry.
            Outcome::Failed => &mut self.retry_at,
        };
        *next = Some(now + self.backoff.next_delay(now));
        self.last_incident = Some(now);
    }
}

// === impl CatalogEndpoint ===

impl CatalogEndpoint {
    pub(super) fn new(key: CatalogKey, watch: Arc<DropGuard>) -> Self {
        Self {
            key,
            owner_id: AtomicU64::default(),
            port: AtomicU16::default(),
            published: tokio::sync::Mutex::default(),
            state: Mutex::default(),
            applied: Mutex::default(),
            schedule: Mutex::default(),
            settled_change: Sender::default(),
            _watch: watch,
        }
    }

    fn served_catalog(&self, declared: &EndpointSpec, created_at: Option<Time>) -> ServedCatalog {
        ServedCatalog {
            service: RegistryService {
                protocol: Some("grpc".to_owned()),
                service_name: Some(declared.service_name()),
                service_namespace: Some(self.key.namespace.clone()),
                port: Some(objects::PORT.to_string()),
                created_at,
            },
            address: objects::address(&self.key),
        }
    }

    /// Makes a reconcile due, because the published content or an object has changed.
    pub(super) fn mark_due(&self) {
        self.schedule.lock().is_due = true;
    }

    /// Reports whether this resource version is the one that the last reconcile read or wrote.
    pub(super) fn is_own_version(&self, object: ServerObject, version: Option<&str>) -> bool {
        let applied = self.lock_applied();
        let applied = applied.as_ref().and_then(|applied| applied.version(object));
        version.is_some() && version == applied
    }

    pub(super) fn state(&self) -> MutexGuard<'_, ServingState> {
        self.state.lock()
    }

    pub(super) fn lock_applied(&self) -> MutexGuard<'_, Option<AppliedObjects>> {
        self.applied.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repairs_and_retries_back_off() {
        let begin = Instant::now();
        let mut schedule = EndpointSchedule::default();
        assert_eq!(schedule.remaining_delay(begin), None);
        let mut now = begin;
        let mut delays = |outcome: Outcome, is_changed: bool| -> Option<String> {
            schedule.is_due = true;
            now += schedule.remaining_delay(now).unwrap();
            schedule.start(now);
            schedule.finish(outcome, now);
            schedule.is_due |= is_changed;
            let delay = schedule.remaining_delay(now);
            delay.map(|delay| format!("{:.0}", delay.as_secs_f64()))
        };
        assert_rows! {
            delays(Outcome::Unchanged, false).as_deref() => None;
            delays(Outcome::Unchanged, true).as_deref() => Some("0");
            // A change does not shorten the delay after a repair.
            delays(Outcome::Repaired, false).as_deref() => None;
            delays(Outcome::Repaired, true).as_deref() => Some("2");
            delays(Outcome::Failed, false).as_deref() => Some("4");
            // A change may resolve the cause of a failure.
            delays(Outcome::Failed, true).as_deref() => Some("0");
        }
        now += RESET_AFTER + Duration::from_secs(1);
        assert_eq!(schedule.remaining_delay(now), Some(Duration::ZERO));
        schedule.start(now);
        schedule.finish(Outcome::Failed, now);
        assert!(schedule.remaining_delay(now).unwrap() < Duration::from_secs(2));
    }
}
