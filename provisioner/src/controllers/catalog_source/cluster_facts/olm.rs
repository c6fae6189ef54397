//! Watches whether OLM serves catalogs, and the objects that declare the version of OLM. The objects are watched only
//! once a template needs the version.

use std::{collections::BTreeMap, pin::pin, time::Instant};

use futures::{Stream, StreamExt as _};
use k8s_openapi::api::apps::v1::Deployment;
use kube::{
    Api, ResourceExt as _,
    core::{DynamicObject, GroupVersionKind, PartialObjectMeta},
    runtime::watcher::{self, Event},
};
use manifests::api::{catalog_source::GROUP, config::ClusterOperator};
use tokio::sync::watch;
use tracing::{info, warn};

use super::{ClusterFacts, FactSource, change, watch_one};
use crate::{
    controllers::{
        catalog_source::{
            olm_detection::{CatalogOperatorState, NAMESPACES, OPERATOR, OlmDetector},
            olm_version::{
                CLUSTER_OPERATOR, DeploymentFacts, PACKAGESERVER, VERSION_LABEL, reported_version,
            },
        },
        context::Context,
    },
    runtime::settings::CatalogServer,
};
use apply::{api_error, backoff::patient};

/// Relevant part of a Deployment of OLM's catalog-operator.
#[derive(Debug)]
struct ObservedDeployment {
    operator: CatalogOperatorState,
    facts: DeploymentFacts,
}

/// Reports forever whether OLM serves catalogs, and the facts that its Deployment declares.
pub(super) async fn watch_server(ctx: &Context, sender: &watch::Sender<ClusterFacts>) {
    let report = |has_olm: bool, deployment: Option<&DeploymentFacts>| {
        let was_known = !sender.borrow().pending.contains(&FactSource::Olm);
        if !was_known || sender.borrow().has_olm != has_olm {
            info!(has_olm, "determined whether OLM serves CatalogSources");
        }
        ctx.metrics.olm_serves(has_olm);
        change(sender, FactSource::Olm, |facts| {
            facts.has_olm = has_olm;
            facts.olm.deployment = deployment.cloned().unwrap_or_default();
        });
    };
    // A Deployment of that name belongs to OLM only where OLM's kinds are served.
    let kind = GroupVersionKind::gvk(GROUP, "v1alpha1", "ClusterServiceVersion");
    let report = &report;
    match ctx.settings.catalog_server {
        CatalogServer::Own => report(false, None),
        CatalogServer::Olm => {
            report(true, None);
            watch_deployments(ctx, None, report).await;
        }
        CatalogServer::Auto => {
            ctx.discovery
                .while_served(&kind, |kind| async move {
                    let was_serving = {
                        let facts = sender.borrow();
                        let is_known = !facts.pending.contains(&FactSource::Olm);
                        is_known.then_some(facts.has_olm)
                    };
                    match kind {
                        None => report(false, None),
                        Some(_) => {
                            watch_deployments(
                                ctx,
                                Some(OlmDetector::starting_from(was_serving)),
                                report,
                            )
                            .await;
                        }
                    }
                })
                .await;
        }
    }
}

/// Watches the Deployments of OLM's catalog-operator. Without a detector, OLM serves because of the configuration.
async fn watch_deployments(
    ctx: &Context,
    detector: Option<OlmDetector>,
    report: &(impl Fn(bool, Option<&DeploymentFacts>) + Sync),
) {
    let api: Api<Deployment> = Api::all(ctx.client.clone());
    // This selector needs only the permission to watch objects of that name.
    let config = watcher::Config::default().fields(&format!("metadata.name={OPERATOR}"));
    let events = patient(watcher::watcher(api, config));
    follow_deployments(events, detector, report).await;
}

async fn follow_deployments(
    events: impl Stream<Item = watcher::Result<Event<Deployment>>> + Send,
    mut detector: Option<OlmDetector>,
    report: &(impl Fn(bool, Option<&DeploymentFacts>) + Sync),
) {
    let mut events = pin!(events);
    let (mut deployments, mut listing) = (None, BTreeMap::<String, ObservedDeployment>::new());
    let mut next_check: Option<Instant> = None;
    loop {
        let timer = async {
            match next_check {
                Some(next_check) => tokio::time::sleep_until(next_check.into()).await,
                None => std::future::pending().await,
            }
        };
        let event = tokio::select! {
            event = events.next() => Some(event),
            () = timer => None,
        };
        match event {
            None => {}
            Some(None) => return,
            Some(Some(Ok(Event::Init))) => listing.clear(),
            Some(Some(Ok(Event::InitApply(deployment)))) => insert(&mut listing, &deployment),
            Some(Some(Ok(Event::InitDone))) => deployments = Some(std::mem::take(&mut listing)),
            Some(Some(Ok(Event::Apply(deployment)))) => {
                insert(deployments.get_or_insert_default(), &deployment);
            }
            Some(Some(Ok(Event::Delete(deployment)))) => {
                let namespace = deployment.namespace().unwrap_or_default();
                deployments.get_or_insert_default().remove(&namespace);
            }
            Some(Some(Err(error))) => {
                warn!(
                    error = api_error::chain(&error),
                    "failed to watch the Deployments {OPERATOR}; grant the provisioner list and watch on them, or set \
                     --catalog-server"
                );
                // Two programs must not serve the same catalogs because of missing permissions. Other errors are transient,
                // and the last decision remains: a catalog that is withdrawn for a moment loses its clients.
                let is_refused = api_error::code(&error).is_some_and(api_error::is_refusal);
                if deployments.is_none() && is_refused {
                    report(true, None);
                }
            }
        }
        if let Some(deployments) = &deployments {
            let now = Instant::now();
            let best = deployments
                .values()
                .max_by_key(|deployed| deployed.operator);
            let operator = best.map_or(CatalogOperatorState::Absent, |deployed| deployed.operator);
            let (has_olm, remaining) = detector
                .as_mut()
                .map_or((true, None), |detector| detector.observe(operator, now));
            report(has_olm, best.map(|deployed| &deployed.facts));
            next_check = remaining.map(|remaining| now + remaining);
        }
    }
}

fn insert(deployments: &mut BTreeMap<String, ObservedDeployment>, deployment: &Deployment) {
    let namespace = deployment.namespace().unwrap_or_default();
    if NAMESPACES.contains(&namespace.as_str()) {
        let observed = ObservedDeployment {
            operator: CatalogOperatorState::from_deployments(deployment),
            facts: deployment.into(),
        };
        deployments.insert(namespace, observed);
    }
}

/// Watches the objects that declare the version of OLM in addition to its Deployment, once a template needs the
/// version.
pub(super) async fn watch_version(ctx: &Context, sender: &watch::Sender<ClusterFacts>) {
    let mut facts = sender.subscribe();
    let is_required = facts.wait_for(|facts| facts.required.contains(&FactSource::Packageserver));
    if is_required.await.is_err() {
        return;
    }
    tokio::join!(
        watch_cluster_operator(ctx, sender),
        watch_packageserver(ctx, sender),
    );
}

async fn watch_cluster_operator(ctx: &Context, sender: &watch::Sender<ClusterFacts>) {
    let kind = GroupVersionKind::gvk("config.openshift.io", "v1", "ClusterOperator");
    let report = &|operator: Option<&ClusterOperator>| {
        change(sender, FactSource::ClusterOperator, |facts| {
            facts.olm.cluster_operator = operator.and_then(reported_version);
        });
    };
    ctx.discovery
        .while_served(&kind, |served| async move {
            if served.is_none() {
                report(None);
                return;
            }
            let api: Api<ClusterOperator> = Api::all(ctx.client.clone());
            watch_one(api, CLUSTER_OPERATOR, report, |error| {
                warn!(
                    error = api_error::chain(error),
                    "failed to watch ClusterOperator {CLUSTER_OPERATOR}; image templates keep the last known OLM version"
                );
                change(sender, FactSource::ClusterOperator, |_| {});
            })
            .await;
        })
        .await;
}

async fn watch_packageserver(ctx: &Context, sender: &watch::Sender<ClusterFacts>) {
    let kind = GroupVersionKind::gvk(GROUP, "v1alpha1", "ClusterServiceVersion");
    ctx.discovery
        .while_served(&kind, |served| async move {
            let Some(kind) = served else {
                change(sender, FactSource::Packageserver, |facts| {
                    facts.olm.packageserver = None;
                });
                return;
            };
            let api: Api<PartialObjectMeta<DynamicObject>> =
                Api::all_with(ctx.client.clone(), &kind.resource);
            follow_packageserver(api, sender).await;
        })
        .await;
}

async fn follow_packageserver(
    api: Api<PartialObjectMeta<DynamicObject>>,
    sender: &watch::Sender<ClusterFacts>,
) {
    let only = format!("metadata.name={PACKAGESERVER}");
    let events = watcher::watcher(api, watcher::Config::default().fields(&only));
    let mut events = patient(events).boxed();
    let (mut labels, mut listing) = (BTreeMap::new(), BTreeMap::new());
    while let Some(event) = events.next().await {
        let entry = |version: &PartialObjectMeta<DynamicObject>| {
            let label = version.labels().get(VERSION_LABEL).cloned();
            (version.namespace().unwrap_or_default(), label)
        };
        match event {
            Ok(Event::Init) => {
                listing.clear();
                continue;
            }
            Ok(Event::InitApply(version)) => {
                listing.extend([entry(&version)]);
                continue;
            }
            Ok(Event::InitDone) => labels = std::mem::take(&mut listing),
            Ok(Event::Apply(version)) => labels.extend([entry(&version)]),
            Ok(Event::Delete(version)) => {
                labels.remove(&entry(&version).0);
            }
            Err(error) => {
                warn!(
                    error = api_error::chain(&error),
                    "failed to watch ClusterServiceVersion {PACKAGESERVER}; image templates keep the last known OLM version"
                );
                change(sender, FactSource::Packageserver, |_| {});
                continue;
            }
        }
        change(sender, FactSource::Packageserver, |facts| {
            // An object of this name in another namespace may belong to any user.
            let mut own = NAMESPACES
                .iter()
                .filter_map(|namespace| labels.get(*namespace)?.clone());
            facts.olm.packageserver = own.next();
        });
    }
}

#[cfg(test)]
mod tests {
    use futures::stream;
    use kube::core::Status;
    use parking_lot::Mutex;

    use super::*;

    #[tokio::test]
    async fn only_refused_watches_make_olm_the_server() {
        let failed = |code: u16| {
            let error = kube::Error::Api(Status::failure("no", "Any").with_code(code).boxed());
            Err(watcher::Error::InitialListFailed(error))
        };
        let listed = || vec![Ok(Event::Init), Ok(Event::InitDone)];
        for (was_serving, error, expected) in ::tests::rows![
            None, 503 => &[false][..];
            None, 429 => &[false];
            Some(true), 500 => &[true];
            None, 403 => &[true, false];
            Some(false), 401 => &[true, false];
        ] {
            let reported = Mutex::new(Vec::new());
            let report = |has_olm, _: Option<&DeploymentFacts>| reported.lock().push(has_olm);
            let events = stream::iter([failed(error)].into_iter().chain(listed()));
            let detector = OlmDetector::starting_from(was_serving);
            follow_deployments(events, Some(detector), &report).await;
            assert_eq!(reported.into_inner(), expected, "{was_serving:?} {error}");
        }
    }
}
