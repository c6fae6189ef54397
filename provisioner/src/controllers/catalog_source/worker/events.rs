//! Reports of a catalog's state: to the catalog cache, in the status, and as Events and metrics.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::{Resource as _, runtime::events::EventType};
use manifests::api::catalog_source::CatalogSource;

use super::CatalogWorker;
use crate::controllers::catalog_source::{
    catalog_cache::{CatalogContent, CatalogIdentity},
    locate::CatalogPlan,
    status::{CatalogObservation, Connection, Served},
    status_writer::StatusUpdate,
};

impl CatalogWorker {
    /// Reports the observed state for the status.
    pub(super) fn report(&self, source: &Arc<CatalogSource>, plan: &CatalogPlan) {
        let image = plan.image.as_ref();
        // After a restart, an existing registry pod may be serving before its state is known.
        let observed = CatalogObservation {
            may_be_served: self.is_in_pod && self.has_pod != Some(false),
            ..self.observed.clone()
        };
        self.catalog.report(StatusUpdate {
            source: Arc::clone(source),
            observed,
            image: image.and_then(|image| image.write.clone()),
            has_olm: plan.olm_serves,
        });
    }

    /// Publishes the state of the connection to another server.
    pub(super) fn report_connection(
        &mut self,
        source: &Arc<CatalogSource>,
        plan: &CatalogPlan,
        address: &str,
        connection: Connection,
    ) {
        self.observed.served = Some(Served {
            address: address.to_owned(),
            service: None,
            connection,
        });
        self.observed.last_poll = None;
        self.report(source, plan);
    }

    /// Returns a note with the architectures of the nodes if there are several, for templates that match none of them.
    pub(super) fn architectures(&self) -> String {
        let facts = self.shared.facts.borrow();
        let all: Vec<&str> = facts.architectures.iter().map(String::as_str).collect();
        if all.len() > 1 {
            format!("; the nodes are {}", all.join(", "))
        } else {
            String::new()
        }
    }

    pub(super) async fn record_loaded(
        &mut self,
        source: &CatalogSource,
        location: &str,
        read: CatalogContent,
    ) {
        let (ctx, identity) = (&self.shared.ctx, CatalogIdentity::from_source(source));
        let mut was_unavailable = false;
        ctx.catalogs.change(|cache| {
            if !cache.is(&self.key, &identity) {
                return false;
            }
            was_unavailable = cache.is_unavailable(&self.key);
            ctx.metrics.catalog(&self.key, true);
            cache.read(&self.key, &identity, read)
        });
        self.last_location = Some(location.to_owned());
        if was_unavailable {
            let note = format!("read from {location}");
            self.publish_event(source, EventType::Normal, "CatalogRead", &note)
                .await;
        }
    }

    /// Marks the catalog as available with unchanged content. Returns false if its content is not cached.
    pub(super) fn report_ready(&self, source: &CatalogSource) -> bool {
        let (ctx, identity) = (&self.shared.ctx, CatalogIdentity::from_source(source));
        let mut is_read = false;
        ctx.catalogs.change(|cache| {
            is_read = cache.is_read(&self.key, &identity);
            if is_read {
                ctx.metrics.catalog(&self.key, true);
            }
            is_read && cache.mark_ready(&self.key, &identity)
        });
        is_read
    }

    pub(super) async fn report_problem(&mut self, source: &CatalogSource, message: String) {
        let (ctx, identity) = (&self.shared.ctx, CatalogIdentity::from_source(source));
        let mut is_new = false;
        ctx.catalogs.change(|cache| {
            // A deleted catalog has no metric.
            if cache.is(&self.key, &identity) {
                ctx.metrics.catalog(&self.key, false);
            }
            is_new = cache.set_problem(&self.key, &identity, message.clone());
            is_new
        });
        // A catalog that platform operators do not choose from is not in the cache. Equal Events are deduplicated.
        if is_new || !self.is_selectable {
            self.publish_event(source, EventType::Warning, "CatalogUnavailable", &message)
                .await;
        }
    }

    pub(super) async fn publish_event(
        &self,
        source: &CatalogSource,
        type_: EventType,
        reason: &str,
        note: &str,
    ) {
        let about: ObjectReference = source.object_ref(&());
        let events = &self.shared.ctx.events;
        events.publish(&about, type_, reason, "Read", note).await;
    }
}
