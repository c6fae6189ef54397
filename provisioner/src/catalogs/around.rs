//! What of the cluster decides how catalogs are followed: whether OLM runs, and the values of templates. Watched, and of the
//! server's version asked now and then, for nothing tells of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use futures::StreamExt as _;
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Node};
use kube::{
    Api, ResourceExt as _,
    core::{GroupVersionKind, PartialObjectMeta},
    runtime::watcher::{self, Event},
};
use manifests::{
    api::{
        catalog_source::GROUP,
        config::{CLUSTER_VERSION, ClusterVersion},
    },
    template::{self, Values},
};
use tokio::{sync::watch, time::sleep};
use tracing::{info, warn};

use super::{
    release::Release,
    server::{Judge, NAMESPACES, OPERATOR, Operator},
};
use crate::{
    context::Context,
    settings::CatalogServer,
    watches::{patient, spread},
};

/// How often the server is asked for its version.
const POLL: Duration = Duration::from_secs(60);
/// How soon it is asked again when it did not answer.
const AGAIN: Duration = Duration::from_secs(5);
/// Where nodes tell their architecture.
const ARCHITECTURE: &str = "kubernetes.io/arch";

/// The cluster, as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Around {
    /// Whether OLM runs what CatalogSources declare.
    pub(super) has_olm: bool,
    pub(super) values: Values,
    /// What nodes call their architectures: with several, no template has one.
    pub(super) architectures: BTreeSet<String>,
    /// Whether some template wants to know of nodes.
    pub(super) wants_nodes: bool,
    /// What nobody has looked at yet.
    pub(super) pending: BTreeSet<Part>,
}

/// What is looked at by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    Olm,
    Kubernetes,
    Openshift,
    /// Only if some template wants to know.
    Nodes,
}

/// Follows all of it, for ever.
pub(super) async fn follow(ctx: &Context, around: &watch::Sender<Around>) {
    tokio::join!(
        olm(ctx, around),
        kubernetes(ctx, around),
        openshift(ctx, around),
        nodes(ctx, around),
    );
}

/// Whether something is to be had of nodes: from the first template on that wants it.
pub(super) fn want_nodes(around: &watch::Sender<Around>) {
    around.send_if_modified(|around| {
        let was_wanted = std::mem::replace(&mut around.wants_nodes, true);
        // A second look comes with the next change of a node alone, and there may be none.
        !was_wanted && around.pending.insert(Part::Nodes)
    });
}

fn change(around: &watch::Sender<Around>, part: Part, change: impl FnOnce(&mut Around)) {
    around.send_if_modified(|around| {
        let before = around.clone();
        change(around);
        around.pending.remove(&part);
        *around != before
    });
}

async fn olm(ctx: &Context, around: &watch::Sender<Around>) {
    let tell = |has_olm: bool| {
        let was_known = !around.borrow().pending.contains(&Part::Olm);
        if !was_known || around.borrow().has_olm != has_olm {
            info!(has_olm, "who serves the catalogs of CatalogSources");
        }
        ctx.metrics.olm_serves(has_olm);
        change(around, Part::Olm, |around| around.has_olm = has_olm);
    };
    match ctx.settings.catalog_server {
        CatalogServer::Own => tell(false),
        CatalogServer::Olm => tell(true),
        CatalogServer::Auto => {
            // Without its kinds there is no OLM, whatever else is called so.
            let wanted = GroupVersionKind::gvk(GROUP, "v1alpha1", "ClusterServiceVersion");
            let tell = &tell;
            ctx.kinds
                .while_served(&wanted, |kind| async move {
                    let was = {
                        let around = around.borrow();
                        let is_known = !around.pending.contains(&Part::Olm);
                        is_known.then_some(around.has_olm)
                    };
                    match kind {
                        None => tell(false),
                        Some(_) => watch_olm(ctx, Judge::after(was), tell).await,
                    }
                })
                .await;
        }
    }
}

async fn watch_olm(ctx: &Context, mut judge: Judge, tell: &(impl Fn(bool) + Sync)) {
    let api: Api<Deployment> = Api::all(ctx.client.clone());
    // With this selector the right to watch that name is enough.
    let config = watcher::Config::default().fields(&format!("metadata.name={OPERATOR}"));
    let mut events = patient(watcher::watcher(api, config)).boxed();
    let (mut known, mut listing) = (None, BTreeMap::<String, Operator>::new());
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
            Some(Some(Ok(Event::InitApply(found)))) => note(&mut listing, &found),
            Some(Some(Ok(Event::InitDone))) => known = Some(std::mem::take(&mut listing)),
            Some(Some(Ok(Event::Apply(found)))) => note(known.get_or_insert_default(), &found),
            Some(Some(Ok(Event::Delete(found)))) => {
                let namespace = found.namespace().unwrap_or_default();
                known.get_or_insert_default().remove(&namespace);
            }
            Some(Some(Err(error))) => {
                warn!(
                    %error,
                    "it cannot be seen whether OLM runs; let the provisioner list and watch the Deployments {OPERATOR}, or say who \
                     serves catalogs with --catalog-server"
                );
                // Nobody becomes OLM's rival because of that.
                if known.is_none() {
                    tell(true);
                }
            }
        }
        if let Some(known) = &known {
            let now = Instant::now();
            let best = known.values().max().copied();
            let (has_olm, left) = judge.see(best.unwrap_or(Operator::Gone), now);
            tell(has_olm);
            again = left.map(|left| now + left);
        }
    }
}

fn note(known: &mut BTreeMap<String, Operator>, found: &Deployment) {
    let namespace = found.namespace().unwrap_or_default();
    if NAMESPACES.contains(&namespace.as_str()) {
        known.insert(namespace, Operator::of(found));
    }
}

async fn kubernetes(ctx: &Context, around: &watch::Sender<Around>) {
    let (mut changes, mut release) = (ctx.versions.changes(), Release::default());
    loop {
        changes.mark_unchanged();
        let pause = match ctx.versions.kubernetes_release().await {
            Ok(told) => {
                let openshift = around.borrow().values.openshift.clone();
                let version = release.see(told.clone(), openshift.as_ref(), Instant::now());
                if *version != told {
                    info!(%told, counts = %version, "another apiserver has told a newer Kubernetes, which counts for templates");
                }
                let version = version.clone();
                change(around, Part::Kubernetes, |around| {
                    around.values.kube = Some(version);
                });
                POLL
            }
            // What was known remains (OLM v0 parity).
            Err(error) => {
                warn!(%error, "the server does not tell its version");
                change(around, Part::Kubernetes, |_| {});
                AGAIN
            }
        };
        tokio::select! {
            () = sleep(spread(pause)) => {}
            _ = changes.changed() => {}
        }
    }
}

async fn openshift(ctx: &Context, around: &watch::Sender<Around>) {
    let wanted = GroupVersionKind::gvk("config.openshift.io", "v1", "ClusterVersion");
    let tell = |version: Option<&ClusterVersion>| {
        change(around, Part::Openshift, |around| {
            let (openshift, channel) = version.map(of_cluster_version).unwrap_or_default();
            around.values.openshift = openshift;
            around.values.update_channel = channel;
        });
    };
    let tell = &tell;
    ctx.kinds
        .while_served(&wanted, |served| async move {
            if served.is_none() {
                tell(None);
                return;
            }
            let api: Api<ClusterVersion> = Api::all(ctx.client.clone());
            let only = format!("metadata.name={CLUSTER_VERSION}");
            let events = watcher::watcher(api, watcher::Config::default().fields(&only));
            let mut events = patient(events).boxed();
            let mut listed = None;
            while let Some(event) = events.next().await {
                match event {
                    Ok(Event::Init) => listed = None,
                    Ok(Event::InitApply(version)) => listed = Some(version),
                    Ok(Event::InitDone) => tell(listed.take().as_ref()),
                    Ok(Event::Apply(version)) => tell(Some(&version)),
                    Ok(Event::Delete(_)) => tell(None),
                    Err(error) => {
                        warn!(%error, "the ClusterVersion cannot be watched");
                        change(around, Part::Openshift, |_| {});
                    }
                }
            }
        })
        .await;
}

/// The newest version that an update was completed to, and the name of the update channel.
fn of_cluster_version(version: &ClusterVersion) -> (Option<semver::Version>, Option<String>) {
    let history = version.status.iter().flat_map(|it| it.history.iter());
    let newest = history
        .flatten()
        .find(|entry| entry.state == "Completed")
        .and_then(|entry| template::server(&entry.version));
    let channel = version.spec.channel.as_deref();
    (newest, channel.and_then(template::update_channel))
}

async fn nodes(ctx: &Context, around: &watch::Sender<Around>) {
    let mut wanted = around.subscribe();
    let is_wanted = wanted.wait_for(|around| around.wants_nodes);
    if is_wanted.await.is_err() {
        return;
    }
    let api: Api<PartialObjectMeta<Node>> = Api::all(ctx.client.clone());
    let events = watcher::watcher(api, watcher::Config::default());
    let mut events = patient(events).boxed();
    let mut nodes = BTreeMap::new();
    let mut listing = BTreeMap::new();
    while let Some(event) = events.next().await {
        let of = |node: &PartialObjectMeta<Node>| {
            let architecture = node.labels().get(ARCHITECTURE).cloned();
            (node.name_any(), architecture.unwrap_or_default())
        };
        match event {
            Ok(Event::Init) => {
                listing.clear();
                continue;
            }
            Ok(Event::InitApply(node)) => {
                listing.extend([of(&node)]);
                continue;
            }
            Ok(Event::InitDone) => nodes = std::mem::take(&mut listing),
            Ok(Event::Apply(node)) => nodes.extend([of(&node)]),
            Ok(Event::Delete(node)) => {
                nodes.remove(&node.name_any());
            }
            Err(error) => {
                warn!(%error, "nodes cannot be watched; for templates their architectures stay what was known before");
                change(around, Part::Nodes, |_| {});
                continue;
            }
        }
        change(around, Part::Nodes, |around| {
            // A node that has just come says nothing of itself yet.
            let said = nodes.values().filter(|it: &&String| !it.is_empty());
            around.architectures = said.cloned().collect();
            let all = around.architectures.iter().map(String::as_str);
            around.values.architecture = template::architecture(all);
        });
    }
}

// === impl Around ===

impl Default for Around {
    /// Nothing is known yet but our own version.
    fn default() -> Self {
        Self {
            has_olm: false,
            values: Values {
                olm: template::server(env!("CARGO_PKG_VERSION")),
                ..Values::default()
            },
            architectures: BTreeSet::new(),
            wants_nodes: false,
            pending: [Part::Olm, Part::Kubernetes, Part::Openshift].into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_newest_completed_version_counts() {
        let entry = |state: &str, version: &str| json!({"state": state, "version": version});
        let history = |entries: &[serde_json::Value]| json!({ "history": entries });
        for (channel, status, version, name) in [
            (
                Some("fast-4.9"),
                history(&[
                    entry("Partial", "4.10.1"),
                    entry("Completed", "4.9.5"),
                    entry("Completed", "4.8.2"),
                ]),
                Some("4.9.5"),
                Some("fast"),
            ),
            (
                Some("stable"),
                history(&[entry("Completed", "4.20.0-rc.1")]),
                Some("4.20.0-rc.1"),
                Some("stable"),
            ),
            (Some(""), history(&[entry("Partial", "4.8.2")]), None, None),
            (None, json!({"history": null}), None, None),
            (None, history(&[entry("Completed", "soon")]), None, None),
        ] {
            let version_of: ClusterVersion = serde_json::from_value(json!({
                "apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion", "metadata": {"name": "version"},
                "spec": {"channel": channel}, "status": status,
            }))
            .unwrap();
            let (found, channel) = of_cluster_version(&version_of);
            assert_eq!(found.map(|it| it.to_string()).as_deref(), version);
            assert_eq!(channel.as_deref(), name);
        }
    }

    #[test]
    fn nodes_are_looked_at_once_somebody_wants_to_know() {
        let (around, mut changes) = watch::channel(Around::default());
        changes.mark_unchanged();
        change(&around, Part::Olm, |_| {});
        assert!(changes.has_changed().unwrap());
        want_nodes(&around);
        assert!(around.borrow().pending.contains(&Part::Nodes));
        changes.mark_unchanged();
        // There is none, and nobody waits for one.
        change(&around, Part::Nodes, |_| {});
        assert!(changes.has_changed().unwrap());
        want_nodes(&around);
        assert!(!around.borrow().pending.contains(&Part::Nodes));
        changes.mark_unchanged();
        change(&around, Part::Nodes, |around| {
            around.architectures = ["amd64", "arm64"].map(str::to_owned).into();
        });
        assert!(changes.has_changed().unwrap());
        changes.mark_unchanged();
        want_nodes(&around);
        change(&around, Part::Kubernetes, |_| {});
        change(&around, Part::Kubernetes, |_| {});
        assert!(!around.borrow().pending.contains(&Part::Nodes));
    }
}
