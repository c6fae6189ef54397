//! Watches whether OLM serves catalogs, and the objects that declare its version. The latter only once a template needs it.

use std::{collections::BTreeMap, time::Instant};

use futures::StreamExt as _;
use k8s_openapi::api::apps::v1::Deployment;
use kube::{
    Api, ResourceExt as _,
    core::{DynamicObject, GroupVersionKind, PartialObjectMeta},
    runtime::watcher::{self, Event},
};
use manifests::api::{catalog_source::GROUP, config::ClusterOperator};
use tokio::sync::watch;
use tracing::{info, warn};

use super::{Around, Part, change, watch_one};
use crate::{
    catalogs::{
        olm_version::{
            CLUSTER_OPERATOR, DeploymentFacts, PACKAGESERVER, VERSION_LABEL, reported_version,
        },
        server::{Judge, NAMESPACES, OPERATOR, Operator},
    },
    context::Context,
    settings::CatalogServer,
};
use apply::backoff::patient;

/// A Deployment of OLM's catalog-operator, as far as it is read.
#[derive(Debug)]
struct Deployed {
    operator: Operator,
    facts: DeploymentFacts,
}

/// Reports forever whether OLM serves catalogs, and what its Deployment declares.
pub(super) async fn watch_server(ctx: &Context, around: &watch::Sender<Around>) {
    let report = |has_olm: bool, facts: Option<&DeploymentFacts>| {
        let was_known = !around.borrow().pending.contains(&Part::Olm);
        if !was_known || around.borrow().has_olm != has_olm {
            info!(has_olm, "determined whether OLM serves CatalogSources");
        }
        ctx.metrics.olm_serves(has_olm);
        change(around, Part::Olm, |around| {
            around.has_olm = has_olm;
            around.olm.deployment = facts.cloned().unwrap_or_default();
        });
    };
    // A Deployment of that name is OLM's only where OLM's kinds are served.
    let kind = GroupVersionKind::gvk(GROUP, "v1alpha1", "ClusterServiceVersion");
    let report = &report;
    match ctx.settings.catalog_server {
        CatalogServer::Own => report(false, None),
        CatalogServer::Olm => {
            report(true, None);
            watch_deployments(ctx, None, report).await;
        }
        CatalogServer::Auto => {
            ctx.kinds
                .while_served(&kind, |kind| async move {
                    let was = {
                        let around = around.borrow();
                        let is_known = !around.pending.contains(&Part::Olm);
                        is_known.then_some(around.has_olm)
                    };
                    match kind {
                        None => report(false, None),
                        Some(_) => watch_deployments(ctx, Some(Judge::after(was)), report).await,
                    }
                })
                .await;
        }
    }
}

/// Follows the Deployments of OLM's catalog-operator. Without a judge, a setting says that OLM serves.
async fn watch_deployments(
    ctx: &Context,
    mut judge: Option<Judge>,
    report: &(impl Fn(bool, Option<&DeploymentFacts>) + Sync),
) {
    let api: Api<Deployment> = Api::all(ctx.client.clone());
    // With this selector the permission to watch that name is enough.
    let config = watcher::Config::default().fields(&format!("metadata.name={OPERATOR}"));
    let mut events = patient(watcher::watcher(api, config)).boxed();
    let (mut known, mut listing) = (None, BTreeMap::<String, Deployed>::new());
    let mut again: Option<Instant> = None;
    loop {
        let rest = async {
            match again {
                Some(again) => tokio::time::sleep_until(again.into()).await,
                None => std::future::pending().await,
            }
        };
        let event = tokio::select! {
            event = events.next() => Some(event),
            () = rest => None,
        };
        match event {
            None => {}
            Some(None) => return,
            Some(Some(Ok(Event::Init))) => listing.clear(),
            Some(Some(Ok(Event::InitApply(found)))) => insert(&mut listing, &found),
            Some(Some(Ok(Event::InitDone))) => known = Some(std::mem::take(&mut listing)),
            Some(Some(Ok(Event::Apply(found)))) => insert(known.get_or_insert_default(), &found),
            Some(Some(Ok(Event::Delete(found)))) => {
                let namespace = found.namespace().unwrap_or_default();
                known.get_or_insert_default().remove(&namespace);
            }
            Some(Some(Err(error))) => {
                warn!(
                    %error,
                    "failed to watch the Deployments {OPERATOR}; grant the provisioner list and watch on them, or set \
                     --catalog-server"
                );
                // Two programs must not serve the same catalogs because of that.
                if known.is_none() {
                    report(true, None);
                }
            }
        }
        if let Some(known) = &known {
            let now = Instant::now();
            let best = known.values().max_by_key(|deployed| deployed.operator);
            let operator = best.map_or(Operator::Gone, |deployed| deployed.operator);
            let (has_olm, left) = judge
                .as_mut()
                .map_or((true, None), |judge| judge.see(operator, now));
            report(has_olm, best.map(|deployed| &deployed.facts));
            again = left.map(|left| now + left);
        }
    }
}

fn insert(known: &mut BTreeMap<String, Deployed>, found: &Deployment) {
    let namespace = found.namespace().unwrap_or_default();
    if NAMESPACES.contains(&namespace.as_str()) {
        let deployed = Deployed {
            operator: Operator::of(found),
            facts: found.into(),
        };
        known.insert(namespace, deployed);
    }
}

/// Follows what declares the version of OLM beside its Deployment, from the first template on that needs it.
pub(super) async fn watch_version(ctx: &Context, around: &watch::Sender<Around>) {
    let mut wanted = around.subscribe();
    let is_wanted = wanted.wait_for(|around| around.wanted.contains(&Part::Packageserver));
    if is_wanted.await.is_err() {
        return;
    }
    tokio::join!(
        watch_cluster_operator(ctx, around),
        watch_packageserver(ctx, around),
    );
}

async fn watch_cluster_operator(ctx: &Context, around: &watch::Sender<Around>) {
    let kind = GroupVersionKind::gvk("config.openshift.io", "v1", "ClusterOperator");
    let report = &|operator: Option<&ClusterOperator>| {
        change(around, Part::ClusterOperator, |around| {
            around.olm.cluster_operator = operator.and_then(reported_version);
        });
    };
    ctx.kinds
        .while_served(&kind, |served| async move {
            if served.is_none() {
                report(None);
                return;
            }
            let api: Api<ClusterOperator> = Api::all(ctx.client.clone());
            watch_one(api, CLUSTER_OPERATOR, report, |error| {
                warn!(%error, "failed to watch ClusterOperator {CLUSTER_OPERATOR}; templates with the version of OLM keep its last one");
                change(around, Part::ClusterOperator, |_| {});
            })
            .await;
        })
        .await;
}

async fn watch_packageserver(ctx: &Context, around: &watch::Sender<Around>) {
    let kind = GroupVersionKind::gvk(GROUP, "v1alpha1", "ClusterServiceVersion");
    ctx.kinds
        .while_served(&kind, |served| async move {
            let Some(kind) = served else {
                change(around, Part::Packageserver, |around| {
                    around.olm.packageserver = None;
                });
                return;
            };
            let api: Api<PartialObjectMeta<DynamicObject>> =
                Api::all_with(ctx.client.clone(), &kind.resource);
            follow_packageserver(api, around).await;
        })
        .await;
}

async fn follow_packageserver(
    api: Api<PartialObjectMeta<DynamicObject>>,
    around: &watch::Sender<Around>,
) {
    let only = format!("metadata.name={PACKAGESERVER}");
    let events = watcher::watcher(api, watcher::Config::default().fields(&only));
    let mut events = patient(events).boxed();
    let (mut labels, mut listing) = (BTreeMap::new(), BTreeMap::new());
    while let Some(event) = events.next().await {
        let of = |version: &PartialObjectMeta<DynamicObject>| {
            let label = version.labels().get(VERSION_LABEL).cloned();
            (version.namespace().unwrap_or_default(), label)
        };
        match event {
            Ok(Event::Init) => {
                listing.clear();
                continue;
            }
            Ok(Event::InitApply(version)) => {
                listing.extend([of(&version)]);
                continue;
            }
            Ok(Event::InitDone) => labels = std::mem::take(&mut listing),
            Ok(Event::Apply(version)) => labels.extend([of(&version)]),
            Ok(Event::Delete(version)) => {
                labels.remove(&of(&version).0);
            }
            Err(error) => {
                warn!(%error, "failed to watch ClusterServiceVersion {PACKAGESERVER}; templates with the version of OLM keep its last one");
                change(around, Part::Packageserver, |_| {});
                continue;
            }
        }
        change(around, Part::Packageserver, |around| {
            // An object of this name in another namespace may belong to any user.
            let mut own = NAMESPACES
                .iter()
                .filter_map(|namespace| labels.get(*namespace)?.clone());
            around.olm.packageserver = own.next();
        });
    }
}
