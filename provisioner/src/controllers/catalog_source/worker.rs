//! Worker of one catalog, from the first observation of its CatalogSource until that CatalogSource is deleted.

mod address;
mod config_map;
mod events;
mod image_source;
mod pod_source;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use apply::api_error;
use catalog::source::FileSource;
use kube::runtime::events::EventType;
use manifests::api::catalog_source::CatalogSource;
use tokio::{sync::watch, time::sleep};
use tokio_util::{sync::DropGuard, task::AbortOnDropHandle};
use tracing::warn;
use unpacker::Digest;

use self::pod_source::ReadPolicy;
use super::CatalogKey;
use super::catalog_cache::CatalogIdentity;
use super::image::{self, RejectedImage};
use super::locate::{CatalogLocation, CatalogPlan, is_unchanged, plan};
use super::reconcile::{CatalogContext, FollowedCatalog};
use super::registry_pod::TagPoll;
use super::registry_server::{self, CatalogPublisher};
use super::server_backoff::ServerBackoff;
use super::status::{CatalogObservation, Connection, Problem, Reason};

/// Runs the worker of a catalog.
pub(super) async fn run(catalog: Arc<FollowedCatalog>) {
    let (shared, key) = (Arc::clone(&catalog.shared), catalog.key.clone());
    let mut worker = CatalogWorker {
        publisher: catalog.publisher.clone(),
        is_selectable: shared.ctx.settings.is_selectable_namespace(&key.namespace),
        source: catalog.source.subscribe(),
        shared,
        key,
        catalog,
        backoff: ServerBackoff::default(),
        was_polled: false,
        last_location: None,
        rejected: None,
        observed: CatalogObservation::default(),
        identity: None,
        has_pod: None,
        pod_image: None,
        is_in_pod: false,
        polls: watch::Sender::default(),
        pod_watch: None,
        handover: ServerBackoff::default(),
        withdrawal: None,
    };
    loop {
        // The future is large because of the download, so it is boxed and freed after each pass.
        Box::pin(worker.execute_plan()).await;
    }
}

/// Worker of one catalog: loads its content, and reports the observed state.
struct CatalogWorker {
    catalog: Arc<FollowedCatalog>,
    shared: Arc<CatalogContext>,
    key: CatalogKey,
    source: watch::Receiver<Arc<CatalogSource>>,
    backoff: ServerBackoff,
    /// Publisher of the catalog, if the built-in server serves its namespace.
    publisher: Option<Arc<CatalogPublisher>>,
    /// True if platform operators choose from the catalog.
    is_selectable: bool,
    /// True if the registry was polled since this worker started.
    was_polled: bool,
    /// Location from which the catalog was read last; `None` if it was not read.
    last_location: Option<String>,
    /// Last image of the catalog, if it was rejected.
    rejected: Option<RejectedImage>,
    /// Observed state of the catalog, for its status.
    observed: CatalogObservation,
    /// Identity of the catalog that was followed last.
    identity: Option<CatalogIdentity>,
    /// Whether the catalog has a registry pod; `None` if unknown.
    has_pod: Option<bool>,
    /// Image of the registry pod of the former plan. The pod may be deleted while the plan changes.
    pod_image: Option<String>,
    /// True if the catalog has to be served from a registry pod.
    is_in_pod: bool,
    /// Polls of the image's tag, for the registry pod.
    polls: watch::Sender<TagPoll>,
    /// Keeps the objects of the registry pod watched until the pod is removed.
    pod_watch: Option<Arc<DropGuard>>,
    /// Back-off of the handover from a registry pod to the built-in server.
    handover: ServerBackoff,
    /// Task that retries a failed withdrawal.
    withdrawal: Option<AbortOnDropHandle<()>>,
}

// === impl CatalogWorker ===

impl CatalogWorker {
    /// Executes the current plan until it is finished or outdated.
    async fn execute_plan(&mut self) {
        self.stop_withdrawal().await;
        let source = Arc::clone(&self.source.borrow_and_update());
        let (mut sources, mut facts) = (self.source.clone(), self.shared.facts.subscribe());
        let unserved_since = self.backoff.since(Instant::now());
        let cached = image::last_image(&self.shared.digest_cache, &source).await;
        let cached = cached.as_deref();
        let plan = plan(
            &source,
            &facts.borrow_and_update(),
            cached,
            unserved_since.elapsed(),
        );
        let planned = plan.clone();
        let outdated = async {
            loop {
                tokio::select! {
                    Ok(()) = sources.changed() => {}
                    Ok(()) = facts.changed() => {}
                    // This process is shutting down.
                    else => std::future::pending().await,
                }
                let latest = Arc::clone(&sources.borrow_and_update());
                let facts = facts.borrow_and_update();
                let (planned, waited) = (planned.as_ref(), unserved_since.elapsed());
                if !is_unchanged(planned, &source, &latest, &facts, cached, waited) {
                    return;
                }
            }
        };
        let working = async {
            // A reconcile of the registry pod may still follow an outdated plan.
            self.catalog.pod.assign(None).await;
            if let Some(plan) = plan {
                Box::pin(self.work(&source, plan)).await;
            } else {
                let message = "waiting for the cluster values that the image template requires";
                self.wait(&source, message, None).await;
            }
        };
        tokio::select! {
            () = working => {}
            // Work on an outdated plan is cancelled.
            () = outdated => self.backoff.abort_attempt(Instant::now()),
        }
    }

    /// Waits until the plan changes or the delay is over. The status of the CatalogSource is left unchanged, because it may
    /// still be valid.
    async fn wait(&self, source: &CatalogSource, message: &str, delay: Option<Duration>) {
        let (catalogs, identity) = (
            &self.shared.ctx.catalogs,
            CatalogIdentity::from_source(source),
        );
        catalogs.change(|cache| cache.set_problem(&self.key, &identity, message.to_owned()));
        sleep_or_forever(delay).await;
    }

    async fn work(&mut self, source: &Arc<CatalogSource>, plan: CatalogPlan) {
        let identity = CatalogIdentity::from_source(source);
        if self.identity.as_ref() != Some(&identity) {
            // The observations belong to another catalog.
            self.observed = CatalogObservation::default();
            self.identity = Some(identity);
        }
        let image = plan.image.as_ref();
        self.observed.conditions = image.map_or_else(Vec::new, |image| image.conditions.clone());
        if plan.olm_serves || image.is_some_and(|image| image.write.is_some()) {
            self.report(source, &plan);
        }
        if plan.olm_serves {
            // OLM creates a Service of the same name.
            self.withdraw().await;
        }
        self.is_in_pod = plan.may_have_pod() && self.should_have_pod(source);
        // OLM would adopt a registry pod because of the pod's labels, so no such pod may exist beside OLM. If the
        // built-in server takes over an image or a ConfigMap, the pod is removed after the catalog is served.
        let keeps_pod = !plan.olm_serves
            && !matches!(
                plan.catalog,
                CatalogLocation::Address(_) | CatalogLocation::Invalid(_)
            );
        if !keeps_pod {
            self.remove_pod(source).await;
        }
        if let Some(warning) = &plan.warning {
            self.publish_event(source, EventType::Warning, "ImageTemplate", warning)
                .await;
        }
        if plan.olm_serves && !self.is_selectable {
            // OLM serves the catalog, and no platform operator chooses from it.
            return sleep_or_forever(None).await;
        }
        match &plan.catalog {
            CatalogLocation::Invalid(message) => {
                self.observed = CatalogObservation {
                    problem: Some(Problem {
                        reason: Reason::SpecInvalid,
                        message: message.clone(),
                    }),
                    ..CatalogObservation::default()
                };
                self.withdraw().await;
                self.report(source, &plan);
                self.report_problem(source, message.clone()).await;
                sleep_or_forever(None).await;
            }
            CatalogLocation::Unresolved(unresolved) => {
                self.serve_unresolved(source, &plan, unresolved).await;
            }
            CatalogLocation::Pending { why: message, left } => {
                self.wait(source, message, Some(*left)).await;
            }
            CatalogLocation::Address(address) => {
                self.withdraw().await;
                sleep(self.backoff.remaining_delay(Instant::now())).await;
                self.backoff.start_attempt();
                match self.read_from_server(source, &plan, address).await {
                    // No immediate reconnect: the server may be closing every connection.
                    Ok(()) => {
                        self.report_connection(source, &plan, address, Connection::Connecting);
                        let delay = self.backoff.next_delay(Instant::now());
                        sleep_or_forever(Some(delay)).await;
                    }
                    Err(error) => {
                        let problem = api_error::chain(&error);
                        self.observed.problem = Some(Problem {
                            reason: Reason::RegistryServer,
                            message: format!("couldn't connect to registry - {problem}"),
                        });
                        self.report_connection(source, &plan, address, Connection::Failing);
                        let delay = self.backoff.next_delay(Instant::now());
                        self.report_failure(source, &error).await;
                        sleep(delay).await;
                    }
                }
            }
            CatalogLocation::ConfigMap(name) => self.follow_config_map(source, &plan, name).await,
            CatalogLocation::Image { reference, poll } if self.is_in_pod => {
                let reading = ReadPolicy::FollowTag(poll.as_ref());
                self.serve_from_pod(source, &plan, reference, reading).await;
            }
            CatalogLocation::Image { reference, poll } => {
                self.follow_image(source, &plan, reference, poll.as_ref())
                    .await;
            }
        }
    }

    /// Serves the content that was read, unless OLM serves it.
    async fn publish<F>(
        &mut self,
        source: &CatalogSource,
        digest: Digest,
        files: F,
    ) -> Result<(), registry_server::Error>
    where
        F: FnOnce() -> Result<Box<dyn FileSource + Send>, registry_server::Error> + Send + 'static,
    {
        if self.is_in_pod {
            return Ok(()); // served by the registry pod
        }
        let has_olm = self.shared.facts.borrow().has_olm;
        let Some(publisher) = self.publisher.as_ref().filter(|_| !has_olm) else {
            self.withdraw().await;
            return Ok(());
        };
        publisher.publish(source, digest, files).await
    }

    /// Empties the EndpointSlice of a catalog that is not served, so that it does not point to a terminated pod.
    async fn unpublish(&self) {
        let has_olm = self.shared.facts.borrow().has_olm;
        let Some(publisher) = self.publisher.as_ref().filter(|_| !has_olm) else {
            return;
        };
        // Without write permission, no earlier process has written an EndpointSlice.
        if let Err(error) = publisher.unpublish().await
            && !matches!(error, registry_server::Error::Forbidden { .. })
        {
            let problem = api_error::chain(&error);
            warn!(
                catalog = %self.key,
                error = problem,
                "failed to withdraw the previous endpoint of a catalog; clients may still use it"
            );
        }
    }

    /// Stops serving the catalog, because another server serves it. A failure is retried beside the other work, since the
    /// EndpointSlice would send clients of the other server to this process.
    async fn withdraw(&mut self) {
        let Some(publisher) = &self.publisher else {
            return;
        };
        if !try_withdraw(publisher, &self.key).await {
            let retries = withdraw(Arc::clone(publisher), self.key.clone());
            self.withdrawal = Some(AbortOnDropHandle::new(tokio::spawn(retries)));
        }
    }

    /// Stops the retries of a withdrawal.
    async fn stop_withdrawal(&mut self) {
        if let Some(withdrawal) = self.withdrawal.take() {
            withdrawal.abort();
            // An error reports the cancellation.
            drop(withdrawal.await);
        }
    }

    async fn report_failure(
        &mut self,
        source: &CatalogSource,
        error: &(dyn std::error::Error + Sync + 'static),
    ) {
        let problem = api_error::chain(error);
        warn!(catalog = %self.key, error = problem, "failed to read catalog");
        self.report_problem(source, problem).await;
        self.unpublish().await;
    }
}

/// Stops serving a catalog from the built-in server, and retries until that succeeds.
async fn withdraw(publisher: Arc<CatalogPublisher>, key: CatalogKey) {
    let mut backoff = ServerBackoff::default();
    while !try_withdraw(&publisher, &key).await {
        sleep(backoff.next_delay(Instant::now())).await;
    }
}

/// Stops serving a catalog from the built-in server. Returns false, and logs the error, if that fails.
async fn try_withdraw(publisher: &CatalogPublisher, key: &CatalogKey) -> bool {
    let result = publisher.withdraw().await;
    if let Err(error) = &result {
        let problem = api_error::chain(error);
        warn!(
            catalog = %key,
            error = problem,
            "failed to withdraw the previous endpoint of a catalog that another server serves"
        );
    }
    result.is_ok()
}

/// Sleeps for the given time, or forever if it is `None`.
async fn sleep_or_forever(delay: Option<Duration>) {
    match delay {
        Some(delay) => sleep(delay).await,
        None => std::future::pending().await,
    }
}
