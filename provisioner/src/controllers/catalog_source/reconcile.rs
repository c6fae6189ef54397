//! Reconciles the objects of a catalog and its status: the Service and the EndpointSlice of the catalog server, the registry
//! pod, and the status of the CatalogSource.
//!
//! The worker of the catalog ([`super::worker`]) reads the content, which may take minutes or last as long as a
//! connection. The worker reports the observed state, and decides whether the catalog has a registry pod. Reconciles
//! read these reports and do not wait for the worker.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::runtime::controller::Action;
use manifests::api::catalog_source::{CatalogSource, ConnectionState, RegistryService};
use parking_lot::Mutex;
use tokio::sync::watch;

use super::CatalogKey;
use super::cluster_facts::ClusterFacts;
use super::image::{DigestCache, LoadedCatalogs, RegistrySlots};
use super::owned_objects::WatchedNamespaces;
use super::registry_pod::RegistryPodSlot;
use super::registry_server::{CatalogPublisher, RegistryServer};
use super::status_writer::{self, StatusSchedule, StatusUpdate, own_conditions};
use super::triggers::ReconcileTriggers;

use crate::controllers::context::Context;

/// State shared by all catalogs.
pub(super) struct CatalogContext {
    pub(super) ctx: Context,
    pub(super) loaded_catalogs: LoadedCatalogs,
    pub(super) registry_slots: RegistrySlots,
    pub(super) digest_cache: DigestCache,
    pub(super) facts: watch::Sender<ClusterFacts>,
    /// Built-in catalog server, if it is enabled.
    pub(super) serving: Option<Arc<RegistryServer>>,
    /// Triggers of reconciles.
    pub(super) triggers: Arc<ReconcileTriggers>,
    /// Namespaces with registry pods.
    pub(super) pod_namespaces: Arc<WatchedNamespaces>,
}

/// State of one followed catalog in memory. All of the state is a cache and is read again after a restart.
pub(super) struct FollowedCatalog {
    pub(super) shared: Arc<CatalogContext>,
    pub(super) key: CatalogKey,
    /// Latest version of the CatalogSource. Receivers are notified only of changes that can affect the catalog.
    pub(super) source: watch::Sender<Arc<CatalogSource>>,
    /// Publisher of the catalog, if the built-in server serves its namespace.
    pub(super) publisher: Option<Arc<CatalogPublisher>>,
    /// Registry pod, if the catalog has one.
    pub(super) pod: RegistryPodSlot,
    /// Last report of the worker.
    report: Mutex<Option<StatusUpdate>>,
    /// Rukpak's conditions in the status, which other clients may remove.
    conditions: Mutex<Vec<Condition>>,
    status: Mutex<StatusSchedule>,
}

// === impl FollowedCatalog ===

impl FollowedCatalog {
    /// Creates the state of a catalog that has not been read yet.
    pub(super) fn new(
        shared: &Arc<CatalogContext>,
        key: CatalogKey,
        source: CatalogSource,
    ) -> Self {
        let serving = shared.serving.as_ref();
        let serving = serving.filter(|serving| serving.serves(&key.namespace));
        Self {
            shared: Arc::clone(shared),
            publisher: serving.map(|serving| Arc::new(serving.publisher(&key))),
            key,
            conditions: Mutex::new(own_conditions(&source)),
            source: watch::Sender::new(Arc::new(source)),
            pod: RegistryPodSlot::default(),
            report: Mutex::default(),
            status: Mutex::default(),
        }
    }

    /// Records a report of the worker and triggers a reconcile.
    pub(super) fn report(&self, report: StatusUpdate) {
        *self.report.lock() = Some(report);
        self.status.lock().compare();
        self.shared.triggers.add(&self.key);
    }

    /// Records a later version of the CatalogSource.
    pub(super) fn update(&self, source: CatalogSource) {
        let conditions = own_conditions(&source);
        let is_changed = self.source.send_if_modified(|stored| {
            let differs = relevant_fields(stored) != relevant_fields(&source);
            if stored.metadata.annotations != source.metadata.annotations {
                // The registry pod gets the annotations even if the plan of the worker is unchanged.
                self.pod.mark_due();
            }
            *stored = Arc::new(source);
            differs
        });
        if is_changed {
            self.status.lock().compare();
        }
        let mut stored = self.conditions.lock();
        if *stored != conditions {
            *stored = conditions;
            self.status.lock().conditions_changed();
        }
    }

    /// Reconciles the objects of the catalog and its status, as far as they are due.
    pub(super) async fn reconcile(&self) -> Action {
        let after = |delay: Option<Duration>| delay.map(|delay| Instant::now() + delay);
        let serving = self.shared.serving.as_deref();
        let objects = match serving {
            Some(serving) => after(Box::pin(serving.reconcile(&self.key)).await),
            None => None,
        };
        // The reconcile of the pod may wait for the registry, so the status is written before and after it.
        let mut status = after(self.reconcile_status().await);
        let pod = Box::pin(self.pod.reconcile()).await;
        if pod.is_some_and(|pod| pod.is_new) {
            self.count_served();
            status = after(self.reconcile_status().await);
        }
        let pod = after(pod.map(|pod| pod.delay));
        let next = [objects, status, pod].into_iter().flatten().min();
        let delay = next.map(|at| at.saturating_duration_since(Instant::now()));
        delay.map_or_else(Action::await_change, Action::requeue)
    }

    async fn reconcile_status(&self) -> Option<Duration> {
        let mut report = self.report.lock().clone()?;
        let serving = self.shared.serving.as_ref();
        let serving = serving.filter(|_| self.publisher.is_some());
        if let Some(state) = serving.and_then(|serving| serving.state(&self.key)) {
            report.observed.add_server(&state);
        }
        if let Some(pod) = self.pod.last_report() {
            report.observed.add_pod(&pod, &self.key.namespace);
        }
        status_writer::reconcile(&self.shared.ctx, &self.status, report, &self.source).await
    }

    /// Sets the metric of a catalog with a registry pod, unless the built-in server still serves it. While the state is
    /// unknown, the last value is kept.
    pub(super) fn count_served(&self) {
        let report = self.pod.last_report();
        let publisher = self.publisher.as_deref();
        if let Some(is_served) = report.and_then(|report| report.is_served())
            && !publisher.is_some_and(CatalogPublisher::serves)
        {
            self.shared.ctx.metrics.served(&self.key, is_served);
        }
    }
}

impl Drop for FollowedCatalog {
    fn drop(&mut self) {
        // The built-in server removes the metric of its catalogs when their publisher is dropped.
        if self.pod.last_report().is_some() {
            self.shared.ctx.metrics.remove_served(&self.key);
        }
    }
}

/// Returns the fields that can affect the catalog. OLM frequently updates other fields.
fn relevant_fields(source: &CatalogSource) -> impl PartialEq + '_ {
    let status = source.status.as_ref();
    let connection: Option<&ConnectionState> =
        status.and_then(|status| status.connection_state.as_ref());
    let service: Option<&RegistryService> =
        status.and_then(|status| status.registry_service.as_ref());
    (
        &source.spec,
        &source.metadata.uid,
        connection,
        service,
        // Annotations may be templates, and are copied to the registry pod.
        &source.metadata.annotations,
    )
}
