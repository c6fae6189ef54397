//! Catalogs that are served from a registry pod.

use std::{convert::Infallible, sync::Arc, time::Duration};

use kube::runtime::events::EventType;
use manifests::api::catalog_source::{CatalogSource, Origin, RegistryService};
use tokio::{sync::watch, time::sleep};
use tracing::warn;

use super::CatalogWorker;
use crate::controllers::catalog_source::{
    image,
    locate::CatalogPlan,
    poll::PollInterval,
    registry_pod::{
        self, PodReport, RegistryPodConfig, RegistryPodReconciler, RegistryPodState,
        plan::PodServingState,
    },
    registry_server::CatalogPublisher,
    status::{CatalogObservation, Connection, Problem, Served},
    template_resolution::UnresolvedImage,
};

/// Maximum delay between attempts to remove objects.
const MAX_DELAY: Duration = Duration::from_secs(60);

/// Source of the content that is read for platform operators while a registry pod serves the catalog.
#[derive(Debug, Clone, Copy)]
pub(super) enum ReadPolicy<'a> {
    /// The image with this tag, polled at this interval.
    FollowTag(Option<&'a PollInterval>),
    /// The last resolved image, because the template currently resolves to none.
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

    /// Reconciles the registry pod, and reads the image if platform operators choose from the catalog.
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
        // Content that this process serves is published until the pod is ready. Objects of an earlier process are
        // removed at once.
        let takes_over = self
            .publisher
            .as_ref()
            .is_some_and(|publisher| publisher.serves());
        if !takes_over {
            self.withdraw().await;
        }
        self.has_pod = Some(true);
        let pod = RegistryPodConfig {
            source: self.source.clone(),
            image: reference.to_owned(),
            poll: poll.map(|poll| poll.period),
        };
        let catalog = Arc::clone(&self.catalog);
        let pod = RegistryPodReconciler::new(self.shared.ctx.clone(), pod);
        catalog.pod.assign(Some(pod)).await;
        self.shared.pod_namespaces.add(&self.key.namespace);
        self.shared.triggers.add(&self.key);
        let taking_over = async {
            if let Some(publisher) = &catalog.publisher {
                if takes_over {
                    Box::pin(wait_until_reachable(publisher, catalog.pod.reports())).await;
                }
                Box::pin(withdraw(publisher)).await;
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
            self.seen.problem = Problem::of_read(retained, poll);
            if let Some(problem) = poll.and_then(|poll| poll.problem.as_deref()) {
                self.publish_event(source, EventType::Warning, "InvalidInterval", problem)
                    .await;
            }
            self.report(source, plan);
            std::future::pending().await
        };
        let never: Infallible = tokio::select! {
            never = taking_over => never,
            never = reading => never,
        };
        match never {}
    }

    /// Reports whether a registry pod may exist that has to be removed.
    pub(super) async fn may_have_pod(&mut self, source: &CatalogSource) -> bool {
        if self.has_pod.is_none() {
            match Box::pin(registry_pod::exist(&self.shared.ctx.client, source)).await {
                Ok(exists) => self.has_pod = Some(exists),
                Err(error) if error.is_forbidden() => self.has_pod = Some(false),
                Err(_) => {} // unknown
            }
        }
        self.has_pod != Some(false)
    }

    /// Removes the registry pod of a catalog that must not have one, and retries until that succeeds. Checks for a pod
    /// after a restart.
    pub(super) async fn remove_pod(&mut self, source: &CatalogSource) {
        // Each failure is logged.
        drop(self.try_remove_pod(source, None).await);
    }

    /// Removes the registry pod with at most this number of attempts.
    ///
    /// # Errors
    /// Returns an error if the pod could not be removed.
    pub(super) async fn try_remove_pod(
        &mut self,
        source: &CatalogSource,
        max_attempts: Option<u32>,
    ) -> Result<(), registry_pod::Error> {
        if self.has_pod == Some(false) || self.publisher.is_none() {
            return Ok(());
        }
        self.catalog.pod.forget_report();
        let mut attempts = max_attempts;
        let mut delay = Duration::from_secs(1);
        let client = &self.shared.ctx.client;
        let publisher = self
            .publisher
            .as_ref()
            .filter(|publisher| publisher.serves());
        while let Err(error) = match publisher {
            Some(publisher) => {
                let is_left = publisher.wait_for_handover(false);
                Box::pin(registry_pod::return_service(client, source, is_left)).await
            }
            None => Box::pin(registry_pod::tear_down(client, source)).await,
        } {
            if error.is_forbidden() {
                break; // without permission, none was created either
            }
            let problem = manifests::error::chain(&error);
            warn!(
                catalog = %self.key,
                error = problem,
                "failed to delete the registry pod of a catalog that is no longer served by a pod"
            );
            attempts = attempts.map(|attempts| attempts.saturating_sub(1));
            if attempts == Some(0) {
                return Err(error);
            }
            sleep(delay).await;
            delay = (delay * 2).min(MAX_DELAY);
        }
        if publisher.is_none() {
            self.shared.ctx.metrics.remove_served(&self.key);
        }
        self.has_pod = Some(false);
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

/// Stops serving the catalog from the built-in server, and retries until that succeeds.
async fn withdraw(publisher: &CatalogPublisher) {
    let mut delay = Duration::from_secs(1);
    while let Err(error) = publisher.withdraw().await {
        let problem = manifests::error::chain(&error);
        warn!(
            error = problem,
            "failed to withdraw the previous endpoint of a catalog that its registry pod serves"
        );
        sleep(delay).await;
        delay = (delay * 2).min(MAX_DELAY);
    }
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
            Ok(kept) => {
                let service = RegistryService {
                    protocol: Some("grpc".to_owned()),
                    service_name: Some(kept.service.clone()),
                    service_namespace: Some(namespace.to_owned()),
                    port: Some("50051".to_owned()),
                    created_at: None,
                };
                self.served = Some(Served {
                    address: format!("{}.{namespace}.svc:50051", kept.service),
                    service: Some(service),
                    connection: match kept.state {
                        PodServingState::Serving(_) => Connection::Ready,
                        PodServingState::Starting(_) => Connection::Connecting,
                    },
                });
                kept.trouble.clone()
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
    use crate::controllers::catalog_source::status::tests::{pod_report, pod_state};

    #[test]
    fn catalog_is_ready_while_pod_or_server_serves_it() {
        let problem_text = "pod mine-1 is not ready: ImagePullBackOff";
        let pod_state =
            |state: PodServingState| pod_report(Ok(pod_state(state, Some(problem_text))));
        let by_us = || {
            let served = Served {
                address: "mine.a.svc:50051".to_owned(),
                service: None,
                connection: Connection::Ready,
            };
            with!(CatalogObservation, served: Some(served))
        };
        let starting = || PodServingState::Starting("its pod is being created".to_owned());
        let serving = || PodServingState::Serving(None);
        for (mut observation, state, expected) in [
            (
                CatalogObservation::default(),
                starting(),
                Connection::Connecting,
            ),
            (CatalogObservation::default(), serving(), Connection::Ready),
            (by_us(), starting(), Connection::Ready),
            (by_us(), serving(), Connection::Ready),
        ] {
            observation.add_pod(&pod_state(state), "a");
            let served = observation.served.unwrap();
            assert_eq!(served.connection, expected);
            assert_eq!(served.address, "mine.a.svc:50051");
            let problem = observation.problem.unwrap();
            assert!(problem.message.contains("ImagePullBackOff"), "{problem:?}");
        }
        // The state of the pod is unknown, because it cannot be created.
        let observation = with!(by_us() => |observation| observation.add_pod(&pod_report(Err("no".to_owned())), "a"));
        assert_eq!(observation.served.unwrap().connection, Connection::Ready);
    }

    #[test]
    fn pod_without_problem_counts_as_served() {
        let ok = |state, problem_text| Ok(pod_state(state, problem_text));
        let starting = PodServingState::Starting("its pod is being created".to_owned());
        for (pod_state, is_for_good, expected) in [
            (ok(PodServingState::Serving(None), None), false, Some(true)),
            (
                ok(PodServingState::Serving(None), Some("bad")),
                false,
                Some(false),
            ),
            (ok(starting, None), false, Some(false)),
            (Err("the apiserver is away".to_owned()), false, None),
            (Err("it can have none".to_owned()), true, Some(false)),
        ] {
            let pod_report = with!(pod_report(pod_state) => is_terminal: is_for_good);
            assert_eq!(pod_report.is_served(), expected, "{pod_report:?}");
        }
    }
}
