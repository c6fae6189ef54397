//! Catalogs that are served from a registry pod.

use std::{
    convert::Infallible,
    sync::Arc,
    time::{Duration, Instant},
};

use apply::api_error;
use kube::runtime::events::EventType;
use manifests::api::catalog_source::{CatalogSource, Origin, RegistryService};
use tokio::{sync::watch, time::sleep};
use tracing::warn;

use super::{CatalogWorker, try_withdraw, withdraw};
use crate::controllers::catalog_source::{
    image,
    locate::CatalogPlan,
    poll::PollInterval,
    registry_pod::{
        self, PodReport, RegistryPodConfig, RegistryPodReconciler, RegistryPodState, TagPoll,
        plan::PodServingState,
    },
    registry_server::CatalogPublisher,
    server_backoff::ServerBackoff,
    status::{CatalogObservation, Connection, Problem, Served},
    template_resolution::UnresolvedImage,
};

/// Maximum number of consecutive failed removals of a registry pod that the status does not report.
const MAX_UNREPORTED_FAILURES: u32 = 3;

/// Source of the content that is read for platform operators while a registry pod serves the catalog.
#[derive(Debug, Clone, Copy)]
pub(super) enum ReadPolicy<'a> {
    /// The image with this tag, polled at this interval.
    FollowTag(Option<&'a PollInterval>),
    /// The last resolved image, or that of the existing pod, because the template currently resolves to none.
    LastImage(&'a UnresolvedImage),
}

// === impl CatalogWorker ===

impl CatalogWorker {
    /// Reports whether the catalog gets a registry pod: it sets pod options, or all catalogs get one.
    pub(super) fn should_have_pod(&self, source: &CatalogSource) -> bool {
        let serving = self.shared.ctx.settings.serving.as_ref();
        let Some(serving) = serving.filter(|_| self.publisher.is_some()) else {
            return false;
        };
        match source.origin() {
            Ok(Origin::Image { pod, .. }) => registry_pod::needs_pod(pod, serving.pods),
            _ => false,
        }
    }

    /// Reconciles the registry pod, and polls the tag of the image. Reads the image, too, if platform operators choose from
    /// the catalog.
    pub(super) async fn serve_from_pod(
        &mut self,
        source: &Arc<CatalogSource>,
        plan: &CatalogPlan,
        reference: &str,
        reading: ReadPolicy<'_>,
    ) {
        let poll = match reading {
            ReadPolicy::FollowTag(poll) => poll,
            ReadPolicy::LastImage(_) => None,
        };
        // Content that this process has published is served until the pod is ready. Objects of an earlier process are
        // removed at once, because that process no longer serves.
        let takes_over = self
            .publisher
            .as_ref()
            .is_some_and(|publisher| publisher.serves());
        if !takes_over && let Some(publisher) = &self.publisher {
            // `taking_over` retries after a failure.
            try_withdraw(publisher, &self.key).await;
        }
        self.has_pod = Some(true);
        self.pod_image = Some(reference.to_owned());
        self.pod_watch = Some(self.shared.pod_namespaces.watch(&self.key.namespace));
        // The pod is not compared with polls of another image.
        self.polls.send_replace(TagPoll::Handled);
        let pod = RegistryPodConfig {
            source: self.source.clone(),
            image: reference.to_owned(),
            poll: poll.map(|poll| poll.period),
            polls: self.polls.subscribe(),
        };
        let catalog = Arc::clone(&self.catalog);
        let pod = RegistryPodReconciler::new(self.shared.ctx.clone(), pod);
        catalog.pod.assign(Some(pod)).await;
        self.shared.triggers.add(&self.key);
        let taking_over = async {
            if let Some(publisher) = &catalog.publisher {
                if takes_over {
                    Box::pin(wait_until_reachable(publisher, catalog.pod.reports())).await;
                }
                let key = catalog.key.clone();
                Box::pin(withdraw(Arc::clone(publisher), key)).await;
                // Withdrawing removed the metric of the catalog, so it is set to the state of the pod.
                catalog.count_served();
            }
            std::future::pending().await
        };
        let reading = async {
            if let ReadPolicy::LastImage(unresolved) = reading {
                loop {
                    self.follow_unresolved(source, plan, unresolved).await;
                }
            }
            // The content is read only if platform operators choose from the catalog.
            while self.is_selectable {
                self.follow_image(source, plan, reference, poll).await;
            }
            image::record(&self.shared.digest_cache, source, reference, None).await;
            let retained = plan
                .image
                .as_ref()
                .and_then(|image| image.retained_image.as_ref());
            self.observed.problem = Problem::of_read(retained, poll);
            if let Some(problem) = poll.and_then(|poll| poll.problem.as_deref()) {
                self.publish_event(source, EventType::Warning, "InvalidInterval", problem)
                    .await;
            }
            self.report(source, plan);
            if poll.is_some() {
                loop {
                    let polled_at = Instant::now();
                    let digest = self.registry_digest(source, reference).await;
                    self.pass_poll_to_pod(digest);
                    self.wait_for_poll(source, plan, poll, polled_at).await;
                }
            }
            std::future::pending().await
        };
        let never: Infallible = tokio::select! {
            never = taking_over => never,
            never = reading => never,
        };
        match never {}
    }

    /// Serves the last image of a template that currently resolves to none, until the plan changes. If only an earlier
    /// template had an image, an existing pod serves that image.
    pub(super) async fn serve_unresolved(
        &mut self,
        source: &Arc<CatalogSource>,
        plan: &CatalogPlan,
        unresolved: &UnresolvedImage,
    ) {
        let last = match &unresolved.last {
            // A pod that this process has removed is not created again.
            None if self.is_in_pod && self.has_pod != Some(false) => {
                self.image_of_pod(source).await.or(self.pod_image.clone())
            }
            last => last.clone(),
        };
        match last {
            Some(last) if self.is_in_pod => {
                let reading = ReadPolicy::LastImage(unresolved);
                self.serve_from_pod(source, plan, &last, reading).await;
            }
            _ => {
                // No pod is known to serve the catalog.
                self.is_in_pod = false;
                self.catalog.pod.forget_report();
                self.follow_unresolved(source, plan, unresolved).await;
            }
        }
    }

    /// Passes the digest from a poll of the tag to the registry pod, or `None` if the registry did not report one.
    pub(super) fn pass_poll_to_pod(&self, digest: Option<String>) {
        if !self.is_in_pod {
            return;
        }
        let poll = digest.map_or(TagPoll::Failed, TagPoll::Digest);
        let is_new = self.polls.send_if_modified(|last| {
            // Failed polls are retried often, so only the first one triggers the pod.
            let is_new = poll != TagPoll::Failed || *last != poll;
            *last = poll;
            is_new
        });
        if is_new {
            self.catalog.pod.mark_due();
            self.shared.triggers.add(&self.key);
        }
    }

    /// Returns the image of the existing registry pod, or `None` if the catalog has no pod or reading pods is forbidden.
    /// Retries other failures.
    async fn image_of_pod(&self, source: &CatalogSource) -> Option<String> {
        let mut backoff = ServerBackoff::default();
        loop {
            let image = registry_pod::served_image(&self.shared.ctx.client, source);
            let error = match Box::pin(image).await {
                Ok(image) => return image,
                Err(error) if error.is_forbidden() => return None,
                Err(error) => api_error::chain(&error),
            };
            warn!(catalog = %self.key, error, "failed to read the registry pod of a catalog; retrying");
            sleep(backoff.next_delay(Instant::now())).await;
        }
    }

    /// Removes the registry pod of a catalog that must not have one, and retries until that succeeds. Checks for a pod
    /// after a restart.
    pub(super) async fn remove_pod(&mut self, source: &CatalogSource) {
        let mut backoff = ServerBackoff::default();
        while self.try_remove_pod(source).await.is_err() {
            sleep(backoff.next_delay(Instant::now())).await;
        }
    }

    /// Removes a former registry pod once clients reach the built-in server. Returns the delay until the next attempt, or
    /// `None` if no handover is pending. Errors of the API server do not affect the polls of the image.
    pub(super) async fn hand_over(
        &mut self,
        source: &Arc<CatalogSource>,
        plan: &CatalogPlan,
    ) -> Option<Duration> {
        let publisher = self.publisher.as_ref();
        let publisher = publisher.filter(|publisher| publisher.serves())?;
        if self.is_in_pod || self.has_pod == Some(false) {
            return None;
        }
        if publisher.is_reachable() {
            let error = self.try_remove_pod(source).await.err();
            if self.handover.failures() >= MAX_UNREPORTED_FAILURES {
                let problem_of_read = self.observed.problem.clone();
                if let Some(error) = &error {
                    let problem = api_error::chain(error);
                    self.observed.add_server_problem(&format!(
                        "failed to delete the registry pod of the catalog after the handover: {problem}"
                    ));
                }
                self.report(source, plan);
                self.observed.problem = problem_of_read;
            }
            if error.is_none() {
                self.handover.reset();
                return None;
            }
        }
        Some(self.handover.next_delay(Instant::now()))
    }

    /// Removes the registry pod.
    ///
    /// # Errors
    /// Returns an error if the pod could not be removed. The error is logged.
    async fn try_remove_pod(&mut self, source: &CatalogSource) -> Result<(), registry_pod::Error> {
        if self.has_pod == Some(false) || self.publisher.is_none() {
            return Ok(());
        }
        self.catalog.pod.forget_report();
        let client = &self.shared.ctx.client;
        let publisher = self
            .publisher
            .as_ref()
            .filter(|publisher| publisher.serves());
        let result = match publisher {
            Some(publisher) => {
                let is_left = publisher.wait_for_handover(false);
                Box::pin(registry_pod::return_service(client, source, is_left)).await
            }
            None => Box::pin(registry_pod::tear_down(client, source)).await,
        };
        // Without permission, none was created either.
        if let Err(error) = result
            && !error.is_forbidden()
        {
            let problem = api_error::chain(&error);
            warn!(
                catalog = %self.key,
                error = problem,
                "failed to delete the registry pod of a catalog that needs none"
            );
            return Err(error);
        }
        if publisher.is_none() {
            self.shared.ctx.metrics.remove_served(&self.key);
        }
        self.has_pod = Some(false);
        self.pod_image = None;
        drop(self.pod_watch.take());
        Ok(())
    }
}

/// Waits until the pod of a catalog is ready and its EndpointSlice has endpoints.
async fn wait_until_reachable(
    publisher: &CatalogPublisher,
    mut pod_reports: watch::Receiver<Option<PodReport>>,
) {
    let serves = |report: &Option<PodReport>| {
        let state = report
            .as_ref()
            .and_then(|report| report.pod_state.as_ref().ok());
        state.is_some_and(|state| matches!(state.state, PodServingState::Serving(_)))
    };
    if pod_reports.wait_for(serves).await.is_err() {
        return;
    }
    publisher.wait_for_handover(true).await;
}

// === impl CatalogObservation ===

impl CatalogObservation {
    fn is_ready(&self) -> bool {
        let served = self.served.as_ref();
        served.is_some_and(|served| served.connection == Connection::Ready)
    }

    /// Adds the state of the registry pod.
    pub(in crate::controllers::catalog_source) fn add_pod(
        &mut self,
        report: &PodReport,
        namespace: &str,
    ) {
        self.last_poll = self.last_poll.max(report.asked);
        let problem = match &report.pod_state {
            // The built-in server serves the catalog until the pod is ready.
            Ok(RegistryPodState {
                state: PodServingState::Starting(_),
                trouble: problem,
                ..
            }) if self.is_ready() => problem.clone(),
            Ok(state) => {
                let service = RegistryService {
                    protocol: Some("grpc".to_owned()),
                    service_name: Some(state.service.clone()),
                    service_namespace: Some(namespace.to_owned()),
                    port: Some("50051".to_owned()),
                    created_at: None,
                };
                self.served = Some(Served {
                    address: format!("{}.{namespace}.svc:50051", state.service),
                    service: Some(service),
                    connection: match state.state {
                        PodServingState::Serving(_) => Connection::Ready,
                        PodServingState::Starting(_) => Connection::Connecting,
                    },
                });
                state.trouble.clone()
            }
            Err(message) => {
                self.may_be_served &= !report.is_terminal;
                Some(message.clone())
            }
        };
        if let Some(message) = problem {
            self.add_server_problem(&message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controllers::catalog_source::status::{Reason, tests::pod_report};

    const STARTING: PodServingState = PodServingState::Starting(String::new());
    const SERVING: PodServingState = PodServingState::Serving(None);

    fn pod(state: PodServingState, problem: Option<&str>) -> PodReport {
        pod_report(Ok(RegistryPodState {
            service: "mine".to_owned(),
            state,
            trouble: problem.map(str::to_owned),
            judged: None,
            asked: false,
            again: None,
        }))
    }

    #[test]
    fn catalog_is_ready_while_pod_or_server_serves_it() {
        let problem = Some("pod mine-1 is not ready: ImagePullBackOff");
        let denied = "failed to create Pod a";
        let address = || "mine.a.svc:50051".to_owned();
        let [ready, connecting] = [Connection::Ready, Connection::Connecting].map(Some);
        let by_us = || {
            ready.map(|connection| Served {
                address: address(),
                service: None,
                connection,
            })
        };
        for (served, report, connection, message) in ::tests::rows![
            None, pod(STARTING, problem), connecting => problem;
            None, pod(SERVING, None), ready => None;
            None, pod(SERVING, problem), ready => problem;
            by_us(), pod(STARTING, problem), ready => problem;
            by_us(), pod(SERVING, problem), ready => problem;
            // The state of the pod is unknown, because it cannot be created.
            by_us(), pod_report(Err(denied.to_owned())), ready => Some(denied);
            // The prefix appears once.
            None, pod_report(Err(format!("couldn't ensure registry server - {denied}"))), None => Some(denied);
        ] {
            let mut observation = with!(CatalogObservation, served);
            observation.add_pod(&report, "a");
            let expected = message.map(|message| Problem {
                reason: Reason::RegistryServer,
                message: format!("couldn't ensure registry server - {message}"),
            });
            assert_rows! {
                observation.problem => expected, "{report:?}";
                observation.served.map(|served| (served.connection, served.address))
                    => connection.map(|connection| (connection, address())), "{report:?}";
            }
        }
    }

    #[test]
    fn last_poll_of_pod_or_image_is_reported() {
        let [early, late] = [1, 2].map(|second| jiff::Timestamp::from_second(second).ok());
        let last_poll = |last_poll, checked| {
            let mut observation = with!(CatalogObservation, last_poll);
            observation.add_pod(&with!(pod(SERVING, None) => asked: checked), "a");
            observation.last_poll
        };
        assert_rows! {
            last_poll(None, None) => None;
            last_poll(None, early) => early;
            last_poll(late, early) => late;
            last_poll(early, late) => late;
        }
    }

    #[test]
    fn pod_without_problem_counts_as_served() {
        let terminal = with!(pod_report(Err("invalid name".to_owned())) => is_terminal: true);
        assert_rows! {
            pod(SERVING, None).is_served() => Some(true);
            pod(SERVING, Some("bad")).is_served() => Some(false);
            pod(STARTING, None).is_served() => Some(false);
            pod_report(Err("the API server is unavailable".to_owned())).is_served() => None;
            terminal.is_served() => Some(false);
        }
    }
}
