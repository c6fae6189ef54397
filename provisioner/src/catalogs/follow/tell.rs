//! What is said of a catalog: to those who choose from it, in its status, in Events and metrics.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::{Resource as _, runtime::events::EventType};
use manifests::api::catalog_source::CatalogSource;

use super::Following;
use crate::catalogs::{
    known::{Identity, Read},
    plan::Plan,
    report::Report,
    status::{Connection, Seen, Served},
};

impl Following {
    /// Has the status say all that is seen.
    pub(super) fn report(&self, source: &Arc<CatalogSource>, plan: &Plan) {
        let image = plan.image.as_ref();
        // Its pod, if it has one, may serve on while nobody has been told of it, as after a restart.
        let seen = Seen {
            may_be_served: self.is_in_pod && self.has_pod != Some(false),
            ..self.seen.clone()
        };
        self.reports.send_replace(Some(Report {
            of: Arc::clone(source),
            seen,
            image: image.and_then(|image| image.write.clone()),
            has_olm: plan.has_olm,
        }));
    }

    /// Has the status say how the server of somebody else is.
    pub(super) fn is_served(
        &mut self,
        source: &Arc<CatalogSource>,
        plan: &Plan,
        address: &str,
        connection: Connection,
    ) {
        self.seen.served = Some(Served {
            address: address.to_owned(),
            service: None,
            connection,
        });
        self.seen.polled = None;
        self.report(source, plan);
    }

    /// What to say beside an architecture that no template has.
    pub(super) fn architectures(&self) -> String {
        let around = self.shared.around.borrow();
        let all: Vec<&str> = around.architectures.iter().map(String::as_str).collect();
        if all.len() > 1 {
            format!("; the nodes are {}", all.join(", "))
        } else {
            String::new()
        }
    }

    pub(super) async fn has_read(&mut self, source: &CatalogSource, place: &str, read: Read) {
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
    pub(super) fn well(&self, source: &CatalogSource) -> bool {
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

    pub(super) async fn trouble(&mut self, source: &CatalogSource, why: String) {
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
        // Of one that does not count nothing is known; equal events are one.
        if is_new || !self.counts {
            self.tell(source, EventType::Warning, "CatalogUnavailable", &why)
                .await;
        }
    }

    pub(super) async fn tell(
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
