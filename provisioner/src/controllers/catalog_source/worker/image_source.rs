//! Catalogs in images: pulls, reads and publishes the image, and polls its tag.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use apply::api_error;
use futures::future::{self, Either};
use kube::runtime::events::EventType;
use manifests::api::catalog_source::CatalogSource;
use tokio::time::sleep;
use tracing::{debug, info, warn};

use super::{CatalogWorker, sleep_or_forever};
use crate::controllers::catalog_source::catalog_cache::CatalogContent;
use crate::controllers::catalog_source::image::{self, PulledCatalog, RejectedImage};
use crate::controllers::catalog_source::locate::CatalogPlan;
use crate::controllers::catalog_source::poll::{self, PollInterval};
use crate::controllers::catalog_source::registry_server::CatalogPublisher;
use crate::controllers::catalog_source::status::{CatalogObservation, Problem};
use crate::controllers::catalog_source::template_resolution::UnresolvedImage;
use crate::runtime::metrics::PollOutcome;

/// Time after which the registry is overdue. The EndpointSlice is then emptied, because its address may be outdated.
const OVERDUE_AFTER: Duration = Duration::from_secs(5);

// === impl CatalogWorker ===

impl CatalogWorker {
    /// Waits until the template resolves to an image. The content that was read is kept; after a restart, that of the last
    /// resolved image is used.
    pub(super) async fn follow_unresolved(
        &mut self,
        source: &Arc<CatalogSource>,
        plan: &CatalogPlan,
        unresolved: &UnresolvedImage,
    ) {
        let mut delay = None;
        // Content that is served from a registry pod is read only if platform operators choose from it.
        let should_read = self.last_location.is_none() && (self.is_selectable || !self.is_in_pod);
        if let Some(last) = unresolved.last.as_ref().filter(|_| should_read) {
            Box::pin(self.load_cached(source, last)).await;
            match Box::pin(self.load_image(source, last)).await {
                Ok(_) => self.backoff.reset(),
                Err(error) => {
                    delay = Some(self.retry_delay(&error, None));
                    let error = api_error::chain(&error);
                    warn!(
                        catalog = %self.key,
                        error,
                        "failed to read the last image of a template"
                    );
                }
            }
        }
        self.observed.problem = Some(unresolved.into());
        self.report(source, plan);
        let message = format!("{}{}", unresolved.why, self.architectures());
        self.report_problem(source, message).await;
        self.unpublish().await;
        let retry = self.hand_over(source, plan).await;
        sleep_or_forever([delay, retry].into_iter().flatten().min()).await;
    }

    /// Reads an image and waits until the next poll.
    pub(super) async fn follow_image(
        &mut self,
        source: &Arc<CatalogSource>,
        plan: &CatalogPlan,
        reference: &str,
        poll: Option<&PollInterval>,
    ) {
        let problem = poll.and_then(|poll| poll.problem.as_deref());
        if let Some(problem) = problem {
            self.publish_event(source, EventType::Warning, "InvalidInterval", problem)
                .await;
        }
        if self.last_location.is_none() && self.rejected.is_none() {
            Box::pin(self.load_cached(source, reference)).await;
        }
        let (started, at) = (Instant::now(), (self.shared.ctx.now)());
        let outcome = {
            let publisher = self
                .publisher
                .clone()
                .filter(|_| !plan.olm_serves && !self.is_in_pod);
            // The future is large, so it is boxed only for the time of the pull.
            let loading = Box::pin(self.load_image(source, reference));
            let overdue = Box::pin(unpublish_when_overdue(publisher));
            match future::select(loading, overdue).await {
                Either::Left((outcome, _)) => outcome,
                Either::Right(((), loading)) => loading.await,
            }
        };
        self.shared.ctx.metrics.polled(match &outcome {
            Ok(outcome) => *outcome,
            Err(_) => PollOutcome::Failed,
        });
        if let Err(error) = outcome {
            self.observed.problem = Some(Problem::of_server(&api_error::chain(&error)));
            self.report(source, plan);
            let delay = self.retry_delay(&error, poll);
            self.report_failure(source, &error).await;
            // The content of an earlier poll may be served.
            return self
                .hand_over_for(source, plan, Some(delay), Instant::now())
                .await;
        }
        self.backoff.reset();
        let retained = plan
            .image
            .as_ref()
            .and_then(|image| image.retained_image.as_ref());
        self.observed = CatalogObservation {
            problem: Problem::of_read(retained, poll),
            served: None,
            may_be_served: false,
            last_poll: poll.map(|_| at),
            config_map: None,
            conditions: std::mem::take(&mut self.observed.conditions),
        };
        self.report(source, plan);
        self.wait_for_poll(source, plan, poll, started).await;
    }

    /// Waits until the next poll of the image. `polled_at` is the time of the last poll.
    pub(super) async fn wait_for_poll(
        &mut self,
        source: &Arc<CatalogSource>,
        plan: &CatalogPlan,
        poll: Option<&PollInterval>,
        polled_at: Instant,
    ) {
        // Jitter keeps catalogs that started together from being polled together.
        let is_first = !std::mem::replace(&mut self.was_polled, true);
        let period = poll.map(|poll| poll::poll_delay(poll.period, is_first, fastrand::f64()));
        self.hand_over_for(source, plan, period, polled_at).await;
    }

    /// Completes the handover from a registry pod, and waits for the rest of a period that started at `since`.
    async fn hand_over_for(
        &mut self,
        source: &Arc<CatalogSource>,
        plan: &CatalogPlan,
        period: Option<Duration>,
        since: Instant,
    ) {
        loop {
            let retry = self.hand_over(source, plan).await;
            let left = period.map(|period| poll::next_sleep(period, since.elapsed()));
            if left == Some(Duration::ZERO) {
                return;
            }
            sleep_or_forever([retry, left].into_iter().flatten().min()).await;
        }
    }

    /// Returns the delay before the next attempt to load an image. An image that can never be a catalog is polled like
    /// a valid one, because its tag may be moved to another image.
    fn retry_delay(&mut self, error: &image::Error, poll: Option<&PollInterval>) -> Duration {
        if self.rejected.is_none() || !error.is_terminal() {
            return self.backoff.next_delay(Instant::now());
        }
        let period = poll.map_or(poll::DEFAULT_INTERVAL, |poll| poll.period);
        poll::poll_delay(period, false, fastrand::f64())
    }

    /// Pulls, reads and publishes the image, if it has changed. If the last image was rejected, only its digest is
    /// requested from the registry.
    async fn load_image(
        &mut self,
        source: &CatalogSource,
        reference: &str,
    ) -> Result<PollOutcome, image::Error> {
        let has_olm = self.shared.facts.borrow().has_olm;
        let publisher = self.publisher.as_ref();
        let publisher = publisher.filter(|_| !has_olm && !self.is_in_pod);
        let is_served = publisher.is_some();
        if let Some(publisher) = publisher {
            // Otherwise, a catalog that exceeds the quota would be pulled at each attempt, and evict content that other
            // catalogs need.
            publisher.has_room(source).await?;
        }
        let mut registry_digest = None;
        if self.rejected.is_some() || self.backoff.failures() > 0 {
            registry_digest = self.registry_digest(source, reference).await;
        }
        let rejected = self.rejected.as_ref().zip(registry_digest.as_deref());
        let same_error = rejected.and_then(|(rejected, registry_digest)| {
            rejected.same_error(registry_digest, is_served)
        });
        let result = match same_error {
            Some(error) => Err(error),
            None => self.pull(source, reference, &mut registry_digest).await,
        };
        self.pass_poll_to_pod(registry_digest.clone());
        match &result {
            Ok(_) => self.rejected = None,
            Err(error) => {
                let rejected = RejectedImage::from_error(error, registry_digest, is_served);
                self.rejected = rejected.or(self.rejected.take());
            }
        }
        result
    }

    /// Returns the digest that the registry has for an image, or `None` if it does not report one.
    pub(super) async fn registry_digest(
        &self,
        source: &CatalogSource,
        reference: &str,
    ) -> Option<String> {
        let (ctx, slots) = (&self.shared.ctx, &self.shared.registry_slots);
        let digest = image::registry_digest(ctx, slots, (&self.key, source), reference);
        Box::pin(digest).await
    }

    /// Pulls, reads and publishes the image regardless of earlier results. Sets `registry_digest` to the digest in the
    /// registry.
    async fn pull(
        &mut self,
        source: &CatalogSource,
        reference: &str,
        registry_digest: &mut Option<String>,
    ) -> Result<PollOutcome, image::Error> {
        let ctx = &self.shared.ctx;
        let slots = &self.shared.registry_slots;
        let pulled = Box::pin(image::pull(ctx, slots, (&self.key, source), reference)).await?;
        registry_digest.clone_from(&pulled.registry_digest);
        let outcome = self.read(source, reference, &pulled).await?;
        let digest_cache = &self.shared.digest_cache;
        image::record(digest_cache, source, reference, Some(pulled.digest)).await;
        Ok(outcome)
    }

    /// Reads and publishes the content that the image had before a restart. A later poll checks whether that is still
    /// current.
    async fn load_cached(&mut self, source: &CatalogSource, reference: &str) {
        let (ctx, digest_cache) = (&self.shared.ctx, &self.shared.digest_cache);
        let Some((pulled, reference)) =
            image::load_cached(ctx, digest_cache, source, reference).await
        else {
            return;
        };
        match self.read(source, &reference, &pulled).await {
            Ok(_) => {
                info!(
                    catalog = %self.key,
                    reference,
                    digest = %pulled.digest,
                    "restored the previous content of a catalog"
                );
            }
            Err(error) => {
                self.last_location = None;
                let error = api_error::chain(&error);
                warn!(
                    catalog = %self.key,
                    error,
                    "failed to read the previous content of a catalog"
                );
            }
        }
    }

    /// Reads and publishes the pulled content, if it has changed.
    async fn read(
        &mut self,
        source: &CatalogSource,
        reference: &str,
        pulled: &PulledCatalog,
    ) -> Result<PollOutcome, image::Error> {
        let ctx = &self.shared.ctx;
        let location = format!("image {reference} {}", pulled.digest);
        let mut is_same = self.last_location.as_ref() == Some(&location);
        if self.is_selectable {
            let catalog = image::read(ctx, &self.shared.loaded_catalogs, &self.key, pulled).await?;
            is_same &= self.report_ready(source);
            if !is_same {
                let (packages, broken) = (catalog.packages.len(), catalog.broken.len());
                self.record_loaded(source, &location, CatalogContent::Full(catalog))
                    .await;
                info!(catalog = %self.key, place = %location, packages, broken, "read a catalog");
            }
        }
        self.last_location = Some(location);
        let files = pulled.files(&self.shared.ctx);
        self.publish(source, pulled.digest, files).await?;
        Ok(if is_same {
            PollOutcome::Same
        } else {
            PollOutcome::New
        })
    }
}

/// Empties the EndpointSlice of an earlier process if the registry is slow to respond.
async fn unpublish_when_overdue(publisher: Option<Arc<CatalogPublisher>>) {
    sleep(OVERDUE_AFTER).await;
    if let Some(publisher) = publisher
        && let Err(error) = publisher.unpublish().await
    {
        let problem = api_error::chain(&error);
        debug!(
            error = problem,
            "failed to withdraw the previous endpoint of a catalog; clients may still use it"
        );
    }
}
