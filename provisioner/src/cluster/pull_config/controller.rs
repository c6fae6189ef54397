//! Controller of the pull configuration: watches its objects, and decides after each change which objects have to be
//! watched.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use k8s_openapi::api::core::v1::ObjectReference;
use kube::{
    Client,
    core::{ApiResource, GroupVersionKind},
    runtime::events::EventType,
};
use manifests::{
    api::pulling::{CLUSTER, CONFIG_NAMESPACE, PULL_SECRET},
    names,
};
use tokio::{
    sync::{mpsc, watch::Receiver},
    task::{JoinHandle, spawn_blocking},
    time::sleep,
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{
    ConfigProblem, PullConfig, PullSettings, Source,
    parse::{Objects, named},
    watch::{self, Failure, Target, WatchEvent},
};
use crate::runtime::{events::EventRecorder, metrics::Metrics};
use apply::{
    api_error,
    discovery::{CachedKind, Discovery},
};

/// Delay before discovery is retried after a failure.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);
/// Maximum number of Events per change. The log contains all problems.
const MAX_EVENTS: usize = 20;

/// A running watch. Dropping it stops the watch.
struct Watch {
    target: Target,
    task: JoinHandle<()>,
    failing: Option<Failure>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// State of the watches and the objects.
#[derive(Default)]
struct WatchState {
    watches: BTreeMap<Source, Watch>,
    objects: Objects,
    reported: BTreeSet<ConfigProblem>,
}

/// Keeps [`PullConfig`] up to date.
pub(crate) struct PullConfigController {
    /// Client of the watches.
    pub(crate) client: Client,
    /// Cached API discovery.
    pub(crate) kinds: Arc<Discovery>,
    /// Pull configuration to update.
    pub(crate) pulling: Arc<PullConfig>,
    /// Metrics of the problems.
    pub(crate) metrics: Arc<Metrics>,
    /// Publisher of the problems.
    pub(crate) events: Arc<EventRecorder>,
}

impl PullConfigController {
    /// Runs until `stop` is cancelled.
    pub(crate) async fn run(self, stop: CancellationToken) {
        let _ = stop.run_until_cancelled(self.follow()).await;
    }

    async fn follow(&self) {
        let (sender, mut events) = mpsc::channel(16);
        let mut changes = self.kinds.changes();
        for (_, kind) in kinds() {
            self.kinds.request_group(&kind.group);
        }
        let mut state = WatchState::default();
        loop {
            changes.mark_unchanged();
            let served = served(&self.kinds, &mut changes).await;
            let targets = targets(&served, &state.objects);
            state.update_watches(targets, &self.client, &sender);
            state.publish(self).await;
            tokio::select! {
                Ok(()) = changes.changed() => {}
                Some((source, target, event)) = events.recv() => state.observe(source, &target, event),
            }
        }
    }
}

fn kinds() -> [(Source, GroupVersionKind); 5] {
    let config = |kind| GroupVersionKind::gvk("config.openshift.io", "v1", kind);
    [
        (Source::ImageDigestMirrorSet, config("ImageDigestMirrorSet")),
        (Source::ImageTagMirrorSet, config("ImageTagMirrorSet")),
        (
            Source::ImageContentSourcePolicy,
            GroupVersionKind::gvk(
                "operator.openshift.io",
                "v1alpha1",
                "ImageContentSourcePolicy",
            ),
        ),
        (Source::Image, config("Image")),
        (Source::Proxy, config("Proxy")),
    ]
}

/// Returns the kinds that are served. Discovery requests are made only for kinds that are not cached.
async fn served(
    kinds_served: &Discovery,
    changes: &mut Receiver<u64>,
) -> BTreeMap<Source, ApiResource> {
    loop {
        let mut served = BTreeMap::new();
        let mut unknown = Vec::new();
        for (source, kind) in kinds() {
            match kinds_served.cached(&kind) {
                CachedKind::Served(kind) => drop(served.insert(source, kind.resource.clone())),
                CachedKind::NotServed => {}
                CachedKind::Unknown => unknown.push((source, kind)),
            }
        }
        if unknown.is_empty() {
            return served;
        }
        let requested = unknown.iter().map(|(_, kind)| kind.clone());
        match kinds_served.find(requested).await {
            Ok(mut discovered) => {
                for (source, kind) in unknown {
                    if let Some(kind) = discovered.remove(&kind).flatten() {
                        served.insert(source, kind.resource.clone());
                    }
                }
                return served;
            }
            Err(error) => {
                let error = api_error::chain(&error);
                warn!(
                    error,
                    "failed to determine whether the cluster serves pull configuration; retrying"
                );
                tokio::select! {
                    () = sleep(RETRY_INTERVAL) => {}
                    _ = changes.changed() => {}
                }
            }
        }
    }
}

/// Returns the objects to watch, given the served kinds and the known objects.
fn targets(served: &BTreeMap<Source, ApiResource>, objects: &Objects) -> BTreeMap<Source, Target> {
    let mut targets = BTreeMap::new();
    for (source, resource) in served {
        let is_single = matches!(source, Source::Image | Source::Proxy);
        let target = Target {
            resource: resource.clone(),
            namespace: None,
            name: is_single.then(|| CLUSTER.to_owned()),
        };
        targets.insert(*source, target);
    }
    let configured = |kind: &str, name: String| Target {
        resource: ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", kind)),
        namespace: Some(CONFIG_NAMESPACE),
        name: Some(name),
    };
    if served.contains_key(&Source::Image) || served.contains_key(&Source::Proxy) {
        let target = configured("Secret", PULL_SECRET.to_owned());
        targets.insert(Source::PullSecret, target);
    }
    for source in [Source::ImageAuthorities, Source::ProxyAuthorities] {
        let name = named(objects, source);
        // An invalid name cannot exist, and might have another meaning in a selector.
        if let Some(name) = name.filter(|name| names::dns_subdomain(name).is_ok()) {
            targets.insert(source, configured("ConfigMap", name));
        }
    }
    targets
}

// === impl WatchState ===

impl WatchState {
    /// Starts and stops watches.
    fn update_watches(
        &mut self,
        targets: BTreeMap<Source, Target>,
        client: &Client,
        sender: &mpsc::Sender<(Source, Target, WatchEvent)>,
    ) {
        let objects = &mut self.objects;
        self.watches.retain(|source, watch| {
            let is_current = targets.get(source) == Some(&watch.target);
            if !is_current {
                objects.remove(source);
            }
            is_current
        });
        for (source, target) in targets {
            self.watches.entry(source).or_insert_with(|| {
                let watching = watch::run(client.clone(), source, target.clone(), sender.clone());
                Watch {
                    target,
                    task: tokio::spawn(watching),
                    failing: None,
                }
            });
        }
    }

    /// Records an event of a watch, unless the watch was stopped in the meantime.
    fn observe(&mut self, source: Source, target: &Target, event: WatchEvent) {
        let watch = self.watches.get_mut(&source);
        let Some(watch) = watch.filter(|watch| watch.target == *target) else {
            return;
        };
        match event {
            WatchEvent::Objects(objects) => {
                watch.failing = None;
                self.objects.insert(source, objects);
            }
            // The last known objects remain in effect.
            WatchEvent::Failed(failure) => watch.failing = Some(failure),
        }
    }

    /// Reports whether the initial list of a watch is incomplete.
    fn is_incomplete(&self) -> bool {
        self.watches.iter().any(|(source, watch)| {
            let failing = watch.failing.as_ref();
            !failing.is_some_and(|failure| failure.is_refusal) && !self.objects.contains_key(source)
        })
    }

    /// Publishes the configuration and its problems.
    async fn publish(&mut self, ctx: &PullConfigController) {
        let objects = std::mem::take(&mut self.objects);
        // Parsing may involve a thousand certificates.
        let parsing = spawn_blocking(move || {
            let parsed = PullSettings::read(&objects);
            (objects, parsed)
        });
        // The task is cancelled only when the process ends.
        let Ok((objects, (configuration, mut problems))) = parsing.await else {
            return;
        };
        self.objects = objects;
        for (source, watch) in &self.watches {
            if let Some(failure) = &watch.failing {
                problems.push(ConfigProblem::new(*source, "", &failure.problem));
            }
        }
        let summary = (
            configuration.mirrors.rules().len(),
            configuration.cas.len(),
            configuration.proxies.is_some(),
        );
        if ctx.pulling.record(configuration, self.is_incomplete()) {
            let (rules, cas, proxies) = summary;
            info!(rules, cas, proxies, "updated pull configuration");
        }
        for source in Source::ALL {
            let number = problems
                .iter()
                .filter(|problem| problem.source == source)
                .count();
            ctx.metrics.pull_problems(source.label(), number);
        }
        let problems: BTreeSet<ConfigProblem> = problems.into_iter().collect();
        for (number, problem) in problems.difference(&self.reported).enumerate() {
            let ConfigProblem {
                source,
                object,
                text,
            } = problem;
            warn!(
                ?source,
                object,
                problem = text,
                "invalid pull configuration"
            );
            let watch = self.watches.get(source).filter(|_| number < MAX_EVENTS);
            // An API server that does not respond accepts no Events either.
            let accepts_events = |watch: &&Watch| {
                watch
                    .failing
                    .as_ref()
                    .is_none_or(|failure| failure.is_refusal)
            };
            if let Some(watch) = watch.filter(accepts_events) {
                let about = about(&watch.target, object);
                let (type_, reason) = (EventType::Warning, "PullConfigurationInvalid");
                ctx.events
                    .publish(&about, type_, reason, "Pull", text)
                    .await;
            }
        }
        self.reported = problems;
    }
}

fn about(target: &Target, object: &str) -> ObjectReference {
    let name = match (object, &target.name) {
        ("", Some(name)) => name.clone(),
        ("", None) => target.resource.plural.clone(),
        (name, _) => name.to_owned(),
    };
    ObjectReference {
        api_version: Some(target.resource.api_version.clone()),
        kind: Some(target.resource.kind.clone()),
        name: Some(name),
        namespace: target.namespace.map(str::to_owned),
        ..ObjectReference::default()
    }
}

#[cfg(test)]
mod tests;
