//! Facts about the cluster that affect all catalogs: whether OLM runs, and the values of image templates. All facts are
//! watched, except the version of the API server, which is polled.

mod olm;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, Resource, ResourceExt as _,
    core::{GroupVersionKind, PartialObjectMeta},
    runtime::watcher::{self, Event},
};
use manifests::{
    api::config::{CLUSTER_VERSION, ClusterVersion},
    image_template::{self, TemplateValues, Variable},
};
use serde::de::DeserializeOwned;
use tokio::{sync::watch, time::sleep};
use tracing::{info, warn};

use super::{kubernetes_version::VersionTracker, olm_version::OlmFacts};
use crate::controllers::context::Context;
use apply::{
    api_error,
    backoff::{patient, spread},
};

/// Poll interval of the API server's version.
const POLL_INTERVAL: Duration = Duration::from_secs(60);
/// Delay before the version is requested again after a failure.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);
/// Label of a node with its architecture.
const ARCHITECTURE: &str = "kubernetes.io/arch";

/// Known facts about the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ClusterFacts {
    /// True if OLM serves the CatalogSources.
    pub(super) has_olm: bool,
    pub(super) values: TemplateValues,
    /// The declared version of OLM.
    pub(super) olm: OlmFacts,
    /// Architectures of the nodes. A template has no value for the architecture if they differ.
    pub(super) architectures: BTreeSet<String>,
    /// Facts that a template needs and that are watched only on demand.
    pub(super) required: BTreeSet<FactSource>,
    /// Required facts that are not known yet: their source has neither reported a value nor failed.
    pub(super) pending: BTreeSet<FactSource>,
}

/// Independent source of facts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FactSource {
    /// Whether OLM runs, and its Deployment.
    Olm,
    Kubernetes,
    Openshift,
    /// Nodes. This source and the next two are watched only once a template needs them.
    Nodes,
    /// The ClusterOperator of OLM.
    ClusterOperator,
    /// The ClusterServiceVersion that comes with OLM.
    Packageserver,
}

/// Runs all watches forever.
pub(super) async fn watch_all(ctx: &Context, sender: &watch::Sender<ClusterFacts>) {
    tokio::join!(
        olm::watch_server(ctx, sender),
        olm::watch_version(ctx, sender),
        kubernetes(ctx, sender),
        openshift(ctx, sender),
        nodes(ctx, sender),
    );
}

/// Starts the watches that only some templates need, when the first such template appears.
pub(super) fn require<'a>(
    sender: &watch::Sender<ClusterFacts>,
    templates: impl IntoIterator<Item = &'a str>,
) {
    let variables = templates.into_iter().flat_map(image_template::variables);
    let required: BTreeSet<FactSource> = variables
        .flat_map(|variable| match variable {
            Variable::Architecture => &[FactSource::Nodes][..],
            Variable::Olm(_) => &FactSource::OLM_VERSION,
            Variable::Kube(_) | Variable::Openshift(_) | Variable::UpdateChannel => &[],
        })
        .copied()
        .collect();
    if required.is_subset(&sender.borrow().required) {
        return;
    }
    sender.send_modify(|facts| {
        let new = required.difference(&facts.required);
        // A template is resolved again only after the next change, which may never come. A pending fact delays the
        // resolution until the fact is known.
        facts.pending.extend(new.copied());
        facts.required.extend(required.iter().copied());
    });
}

fn change(
    sender: &watch::Sender<ClusterFacts>,
    source: FactSource,
    change: impl FnOnce(&mut ClusterFacts),
) {
    sender.send_if_modified(|facts| {
        let before = facts.clone();
        change(facts);
        facts.values.olm = facts.olm_version();
        facts.pending.remove(&source);
        *facts != before
    });
}

async fn kubernetes(ctx: &Context, sender: &watch::Sender<ClusterFacts>) {
    let (mut changes, mut release) = (ctx.versions.changes(), VersionTracker::default());
    loop {
        changes.mark_unchanged();
        let delay = match ctx.versions.kubernetes_release().await {
            Ok(reported) => {
                let openshift = sender.borrow().values.openshift.clone();
                let version = release.observe(reported.clone(), openshift.as_ref(), Instant::now());
                if *version != reported {
                    info!(
                        reported = %reported,
                        counts = %version,
                        "API servers report different versions; using the newest for image templates"
                    );
                }
                let version = version.clone();
                change(sender, FactSource::Kubernetes, |facts| {
                    facts.values.kube = Some(version);
                });
                POLL_INTERVAL
            }
            // The last known version is kept (OLM v0 parity).
            Err(error) => {
                let error = api_error::chain(&error);
                warn!(error, "failed to get the API server version");
                change(sender, FactSource::Kubernetes, |_| {});
                RETRY_INTERVAL
            }
        };
        tokio::select! {
            () = sleep(spread(delay)) => {}
            _ = changes.changed() => {}
        }
    }
}

async fn openshift(ctx: &Context, sender: &watch::Sender<ClusterFacts>) {
    let kind = GroupVersionKind::gvk("config.openshift.io", "v1", "ClusterVersion");
    let report = |version: Option<&ClusterVersion>| {
        change(sender, FactSource::Openshift, |facts| {
            let (openshift, channel) = version.map(of_cluster_version).unwrap_or_default();
            facts.values.openshift = openshift;
            facts.values.update_channel = channel;
        });
    };
    let report = &report;
    ctx.discovery
        .while_served(&kind, |served| async move {
            if served.is_none() {
                report(None);
                return;
            }
            let api: Api<ClusterVersion> = Api::all(ctx.client.clone());
            watch_one(api, CLUSTER_VERSION, report, |error| {
                let error = api_error::chain(error);
                warn!(error, "failed to watch the ClusterVersion; retrying");
                change(sender, FactSource::Openshift, |_| {});
            })
            .await;
        })
        .await;
}

/// Watches a single named object. Reports the object, `None` while it does not exist, and failures.
async fn watch_one<K>(
    api: Api<K>,
    name: &str,
    report: impl Fn(Option<&K>),
    report_failure: impl Fn(&watcher::Error),
) where
    K: Resource + Clone + DeserializeOwned + std::fmt::Debug + Send + 'static,
{
    let only = format!("metadata.name={name}");
    let events = watcher::watcher(api, watcher::Config::default().fields(&only));
    let mut events = patient(events).boxed();
    let mut listed = None;
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => listed = None,
            Ok(Event::InitApply(object)) => listed = Some(object),
            Ok(Event::InitDone) => report(listed.take().as_ref()),
            Ok(Event::Apply(object)) => report(Some(&object)),
            Ok(Event::Delete(_)) => report(None),
            Err(error) => report_failure(&error),
        }
    }
}

/// Returns the version of the last completed update, and the name of the update channel.
fn of_cluster_version(version: &ClusterVersion) -> (Option<semver::Version>, Option<String>) {
    let history = version
        .status
        .iter()
        .flat_map(|status| status.history.iter());
    let newest = history
        .flatten()
        .find(|entry| entry.state == "Completed")
        .and_then(|entry| image_template::server(&entry.version));
    let channel = version.spec.channel.as_deref();
    (newest, channel.and_then(image_template::update_channel))
}

async fn nodes(ctx: &Context, sender: &watch::Sender<ClusterFacts>) {
    let mut facts = sender.subscribe();
    let is_required = facts.wait_for(|facts| facts.required.contains(&FactSource::Nodes));
    if is_required.await.is_err() {
        return;
    }
    let api: Api<PartialObjectMeta<Node>> = Api::all(ctx.client.clone());
    let events = watcher::watcher(api, watcher::Config::default());
    let mut events = patient(events).boxed();
    let mut nodes = BTreeMap::new();
    let mut listing = BTreeMap::new();
    while let Some(event) = events.next().await {
        let entry = |node: &PartialObjectMeta<Node>| {
            let architecture = node.labels().get(ARCHITECTURE).cloned();
            (node.name_any(), architecture.unwrap_or_default())
        };
        match event {
            Ok(Event::Init) => {
                listing.clear();
                continue;
            }
            Ok(Event::InitApply(node)) => {
                listing.extend([entry(&node)]);
                continue;
            }
            Ok(Event::InitDone) => nodes = std::mem::take(&mut listing),
            Ok(Event::Apply(node)) => nodes.extend([entry(&node)]),
            Ok(Event::Delete(node)) => {
                nodes.remove(&node.name_any());
            }
            Err(error) => {
                warn!(
                    error = api_error::chain(&error),
                    "failed to watch nodes; image templates keep the last known architectures"
                );
                change(sender, FactSource::Nodes, |_| {});
                continue;
            }
        }
        change(sender, FactSource::Nodes, |facts| {
            // A new node may not have the label yet.
            let labeled = nodes
                .values()
                .filter(|architecture: &&String| !architecture.is_empty());
            facts.architectures = labeled.cloned().collect();
            let all = facts.architectures.iter().map(String::as_str);
            facts.values.architecture = image_template::architecture(all);
        });
    }
}

// === impl FactSource ===

impl FactSource {
    /// Sources that declare the version of OLM in addition to its Deployment.
    pub(super) const OLM_VERSION: [Self; 2] = [Self::ClusterOperator, Self::Packageserver];
}

// === impl ClusterFacts ===

impl ClusterFacts {
    /// Returns the version of the program that serves catalogs: OLM if it runs, else the provisioner.
    fn olm_version(&self) -> Option<semver::Version> {
        if self.has_olm {
            self.olm.version()
        } else {
            image_template::server(env!("CARGO_PKG_VERSION"))
        }
    }

    /// Describes why the version of the OLM that serves catalogs is unknown. Returns `None` for a known version, and
    /// without OLM.
    pub(super) fn unknown_olm(&self) -> Option<String> {
        (self.has_olm && self.values.olm.is_none()).then(|| self.olm.describe_unknown())
    }
}

impl Default for ClusterFacts {
    /// Only the provisioner's own version is known initially.
    fn default() -> Self {
        Self {
            has_olm: false,
            values: TemplateValues {
                olm: image_template::server(env!("CARGO_PKG_VERSION")),
                ..TemplateValues::default()
            },
            olm: OlmFacts::default(),
            architectures: BTreeSet::new(),
            required: BTreeSet::new(),
            pending: [
                FactSource::Olm,
                FactSource::Kubernetes,
                FactSource::Openshift,
            ]
            .into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    // parity: switch-7
    #[test]
    fn the_newest_completed_version_counts() {
        let entry = |state: &str, version: &str| json!({"state": state, "version": version});
        for (channel, history, version, name) in ::tests::rows![
            Some("fast-4.9"), json!([entry("Partial", "4.10.1"), entry("Completed", "4.9.5"), entry("Completed", "4.8.2")]),
                Some("4.9.5") => Some("fast");
            Some("stable"), json!([entry("Completed", "4.20.0-rc.1")]), Some("4.20.0-rc.1") => Some("stable");
            Some(""), json!([entry("Partial", "4.8.2")]), None => None;
            None, json!(null), None => None;
            None, json!([entry("Completed", "soon")]), None => None;
        ] {
            let cluster_version: ClusterVersion = object!({
                "metadata": {"name": "version"}, "spec": {"channel": channel}, "status": {"history": history},
            });
            let (found, channel) = of_cluster_version(&cluster_version);
            let found = found.map(|version| version.to_string());
            assert_rows!((found.as_deref(), channel.as_deref()) => (version, name), "{history}");
        }
    }

    // parity: switch-6
    #[test]
    fn watches_start_once_a_template_needs_them() {
        for (text, required) in [
            ("r/c:{platform_architecture}", &[FactSource::Nodes][..]),
            ("r/c:{olm_minor_version}", &FactSource::OLM_VERSION),
        ] {
            let (around, mut changes) = watch::channel(ClusterFacts::default());
            changes.mark_unchanged();
            change(&around, FactSource::Olm, |_| {});
            assert!(changes.has_changed().unwrap());
            changes.mark_unchanged();
            require(&around, ["r/c:{kube_minor_version}", "r/c:v1"]);
            assert!(!changes.has_changed().unwrap(), "{text}");
            require(&around, [text]);
            for part in required {
                assert!(around.borrow().pending.contains(part), "{text}");
                changes.mark_unchanged();
                // The list is empty, and no later event would end the wait.
                change(&around, *part, |_| {});
                assert!(changes.has_changed().unwrap(), "{text}");
            }
            // A second template does not wait.
            changes.mark_unchanged();
            require(&around, [text]);
            assert!(!changes.has_changed().unwrap(), "{text}");
            change(&around, FactSource::Kubernetes, |_| {});
            assert_rows!(required.iter().any(|part| around.borrow().pending.contains(part)) => false, "{text}");
        }
    }

    // parity: switch-5
    #[test]
    fn olm_version_is_that_of_the_serving_program() {
        let own_version = image_template::server(env!("CARGO_PKG_VERSION"));
        let (around, _changes) = watch::channel(ClusterFacts::default());
        let label = |text: Option<&str>| with!(OlmFacts::default() => packageserver: text.map(str::to_owned));
        for (has_olm, declared, expected) in [
            (false, None, own_version.clone()),
            (false, Some("0.38.0"), own_version.clone()),
            (true, Some("0.38.0"), image_template::server("0.38.0")),
            (true, None, None),
            (false, None, own_version),
        ] {
            change(&around, FactSource::Olm, |around| {
                around.has_olm = has_olm;
                around.olm = label(declared);
            });
            let around = around.borrow();
            assert_eq!(around.values.olm, expected, "{has_olm} {declared:?}");
            assert_rows!(around.unknown_olm().is_some() => expected.is_none(), "{has_olm} {declared:?}");
        }
    }
}
