//! What of the cluster decides how catalogs are followed: whether OLM runs, and the values of templates. Watched, and of the
//! server's version asked now and then, for nothing tells of it.

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
    template::{self, Values, Variable},
};
use serde::de::DeserializeOwned;
use tokio::{sync::watch, time::sleep};
use tracing::{info, warn};

use super::{olm_version::OlmFacts, release::Release};
use crate::context::Context;
use apply::backoff::{patient, spread};

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
    /// The declared version of OLM.
    pub(super) olm: OlmFacts,
    /// What nodes call their architectures: with several, no template has one.
    pub(super) architectures: BTreeSet<String>,
    /// The parts that a template needs and nothing else watches.
    pub(super) wanted: BTreeSet<Part>,
    /// What nobody has looked at yet.
    pub(super) pending: BTreeSet<Part>,
}

/// What is looked at by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    /// Whether OLM runs, and its Deployment.
    Olm,
    Kubernetes,
    Openshift,
    /// Only once a template needs it, as the next two.
    Nodes,
    /// The ClusterOperator of OLM.
    ClusterOperator,
    /// The ClusterServiceVersion that comes with OLM.
    Packageserver,
}

/// Follows all of it, for ever.
pub(super) async fn follow(ctx: &Context, around: &watch::Sender<Around>) {
    tokio::join!(
        olm::watch_server(ctx, around),
        olm::watch_version(ctx, around),
        kubernetes(ctx, around),
        openshift(ctx, around),
        nodes(ctx, around),
    );
}

/// Starts the watches that only some templates need, from the first such template on.
pub(super) fn require<'a>(
    around: &watch::Sender<Around>,
    templates: impl IntoIterator<Item = &'a str>,
) {
    let variables = templates.into_iter().flat_map(template::variables);
    let wanted: BTreeSet<Part> = variables
        .flat_map(|variable| match variable {
            Variable::Architecture => &[Part::Nodes][..],
            Variable::Olm(_) => &Part::OLM_VERSION,
            Variable::Kube(_) | Variable::Openshift(_) | Variable::UpdateChannel => &[],
        })
        .copied()
        .collect();
    if wanted.is_subset(&around.borrow().wanted) {
        return;
    }
    around.send_modify(|around| {
        let new = wanted.difference(&around.wanted);
        // A second look comes with the next change alone, and there may be none.
        around.pending.extend(new.copied());
        around.wanted.extend(wanted.iter().copied());
    });
}

fn change(around: &watch::Sender<Around>, part: Part, change: impl FnOnce(&mut Around)) {
    around.send_if_modified(|around| {
        let before = around.clone();
        change(around);
        around.values.olm = around.olm_version();
        around.pending.remove(&part);
        *around != before
    });
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
            watch_one(api, CLUSTER_VERSION, tell, |error| {
                warn!(%error, "failed to watch the ClusterVersion; retrying");
                change(around, Part::Openshift, |_| {});
            })
            .await;
        })
        .await;
}

/// Follows the one object of a kind that has a name: reports it, `None` while it does not exist, and failures.
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
    let is_wanted = wanted.wait_for(|around| around.wanted.contains(&Part::Nodes));
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

// === impl Part ===

impl Part {
    /// The parts that declare the version of OLM beside its Deployment.
    pub(super) const OLM_VERSION: [Self; 2] = [Self::ClusterOperator, Self::Packageserver];
}

// === impl Around ===

impl Around {
    /// Returns the version of the program that serves catalogs: OLM where it does, else the provisioner.
    fn olm_version(&self) -> Option<semver::Version> {
        if self.has_olm {
            self.olm.version()
        } else {
            template::server(env!("CARGO_PKG_VERSION"))
        }
    }

    /// Describes why the version of the OLM that serves catalogs is unknown, if it is.
    pub(super) fn unknown_olm(&self) -> Option<String> {
        (self.has_olm && self.values.olm.is_none()).then(|| self.olm.describe_unknown())
    }
}

impl Default for Around {
    /// Nothing is known yet but our own version.
    fn default() -> Self {
        Self {
            has_olm: false,
            values: Values {
                olm: template::server(env!("CARGO_PKG_VERSION")),
                ..Values::default()
            },
            olm: OlmFacts::default(),
            architectures: BTreeSet::new(),
            wanted: BTreeSet::new(),
            pending: [Part::Olm, Part::Kubernetes, Part::Openshift].into(),
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
        let history = |entries: &[serde_json::Value]| json!({ "history": entries });
        for (channel, status, version, name) in ::tests::rows![
            Some("fast-4.9"), history(&[entry("Partial", "4.10.1"), entry("Completed", "4.9.5"), entry("Completed", "4.8.2")]),
              Some("4.9.5") => Some("fast");
            Some("stable"), history(&[entry("Completed", "4.20.0-rc.1")]), Some("4.20.0-rc.1") => Some("stable");
            Some(""), history(&[entry("Partial", "4.8.2")]), None => None;
            None, json!({"history": null}), None => None;
            None, history(&[entry("Completed", "soon")]), None => None;
        ] {
            let version_of: ClusterVersion = object!({
                "metadata": {"name": "version"}, "spec": {"channel": channel}, "status": status,
            });
            let (found, channel) = of_cluster_version(&version_of);
            assert_eq!(found.map(|it| it.to_string()).as_deref(), version);
            assert_eq!(channel.as_deref(), name);
        }
    }

    // parity: switch-6
    #[test]
    fn watches_start_once_a_template_needs_them() {
        for (text, wanted) in [
            ("r/c:{platform_architecture}", &[Part::Nodes][..]),
            ("r/c:{olm_minor_version}", &Part::OLM_VERSION),
        ] {
            let (around, mut changes) = watch::channel(Around::default());
            changes.mark_unchanged();
            change(&around, Part::Olm, |_| {});
            assert!(changes.has_changed().unwrap());
            changes.mark_unchanged();
            require(&around, ["r/c:{kube_minor_version}", "r/c:v1"]);
            assert!(!changes.has_changed().unwrap(), "{text}");
            require(&around, [text]);
            for part in wanted {
                assert!(around.borrow().pending.contains(part), "{text}");
                changes.mark_unchanged();
                // The list is empty, and no later event would end the wait.
                change(&around, *part, |_| {});
                assert!(changes.has_changed().unwrap(), "{text}");
            }
            // A second template waits for nothing.
            changes.mark_unchanged();
            require(&around, [text]);
            assert!(!changes.has_changed().unwrap(), "{text}");
            change(&around, Part::Kubernetes, |_| {});
            let pending = around.borrow().pending.clone();
            assert!(wanted.iter().all(|part| !pending.contains(part)), "{text}");
        }
    }

    // parity: switch-5
    #[test]
    fn olm_version_is_that_of_the_program_that_serves() {
        let ours = template::server(env!("CARGO_PKG_VERSION"));
        let (around, _changes) = watch::channel(Around::default());
        let label = |text: Option<&str>| with!(OlmFacts::default() => packageserver: text.map(str::to_owned));
        for (has_olm, declared, expected) in [
            (false, None, ours.clone()),
            (false, Some("0.38.0"), ours.clone()),
            (true, Some("0.38.0"), template::server("0.38.0")),
            (true, None, None),
            (false, None, ours),
        ] {
            change(&around, Part::Olm, |around| {
                around.has_olm = has_olm;
                around.olm = label(declared);
            });
            let around = around.borrow();
            assert_eq!(around.values.olm, expected, "{has_olm} {declared:?}");
            assert_rows!(around.unknown_olm().is_some() => expected.is_none(), "{has_olm} {declared:?}");
        }
    }
}
