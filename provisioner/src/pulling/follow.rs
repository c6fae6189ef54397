//! The watches of what the cluster says about pulling: which there are is decided anew whenever something is told.

use std::{
    collections::{BTreeMap, BTreeSet},
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
    Configuration, Problem, Source,
    configuration::{Objects, named},
    watch::{self, Failure, Target, Told},
};
use crate::context::Context;
use apply::discovery::{Kinds, Remembered};

/// After how long it is asked again what is served, when there was no answer.
const UNANSWERED: Duration = Duration::from_secs(5);
/// How many events one change may lead to; the log has all of it.
const EVENTS: usize = 20;

/// A running watch; dropping this ends it.
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

/// Everything that is known at a moment.
#[derive(Default)]
struct Known {
    watches: BTreeMap<Source, Watch>,
    objects: Objects,
    told: BTreeSet<Problem>,
}

/// Keeps [`Pulling`] what the cluster says until it is told to stop.
pub(crate) async fn run(ctx: Context, stop: CancellationToken) {
    let follow = follow(&ctx);
    tokio::select! {
        () = stop.cancelled() => {}
        () = follow => {}
    }
}

async fn follow(ctx: &Context) {
    let (sender, mut told) = mpsc::channel(16);
    let mut changes = ctx.kinds.changes();
    for (_, kind) in kinds() {
        ctx.kinds.seek(&kind.group);
    }
    let mut known = Known::default();
    loop {
        changes.mark_unchanged();
        let served = served(&ctx.kinds, &mut changes).await;
        let wanted = wanted(&served, &known.objects);
        known.keep(wanted, &ctx.client, &sender);
        known.publish(ctx).await;
        tokio::select! {
            Ok(()) = changes.changed() => {}
            Some((source, target, news)) = told.recv() => known.learn(source, &target, news),
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

/// Which of the kinds are served. Nobody is asked for what is remembered.
async fn served(
    kinds_served: &Kinds,
    changes: &mut Receiver<u64>,
) -> BTreeMap<Source, ApiResource> {
    loop {
        let mut served = BTreeMap::new();
        let mut unknown = Vec::new();
        for (source, kind) in kinds() {
            match kinds_served.remembered(&kind) {
                Remembered::Served(kind) => drop(served.insert(source, kind.resource.clone())),
                Remembered::NotServed => {}
                Remembered::Nothing => unknown.push((source, kind)),
            }
        }
        if unknown.is_empty() {
            return served;
        }
        let wanted = unknown.iter().map(|(_, kind)| kind.clone());
        match kinds_served.find(wanted).await {
            Ok(mut found) => {
                for (source, kind) in unknown {
                    if let Some(kind) = found.remove(&kind).flatten() {
                        served.insert(source, kind.resource.clone());
                    }
                }
                return served;
            }
            Err(error) => {
                let error = unpacker::job::chain(&error);
                warn!(error, "failed to ask whether the cluster says how to pull");
                tokio::select! {
                    () = sleep(UNANSWERED) => {}
                    _ = changes.changed() => {}
                }
            }
        }
    }
}

/// What has to be watched, given what is served and what is known.
fn wanted(served: &BTreeMap<Source, ApiResource>, objects: &Objects) -> BTreeMap<Source, Target> {
    let mut wanted = BTreeMap::new();
    for (source, resource) in served {
        let is_single = matches!(source, Source::Image | Source::Proxy);
        let target = Target {
            resource: resource.clone(),
            namespace: None,
            name: is_single.then(|| CLUSTER.to_owned()),
        };
        wanted.insert(*source, target);
    }
    let configured = |kind: &str, name: String| Target {
        resource: ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", kind)),
        namespace: Some(CONFIG_NAMESPACE),
        name: Some(name),
    };
    if served.contains_key(&Source::Image) || served.contains_key(&Source::Proxy) {
        let target = configured("Secret", PULL_SECRET.to_owned());
        wanted.insert(Source::PullSecret, target);
    }
    for source in [Source::ImageAuthorities, Source::ProxyAuthorities] {
        let name = named(objects, source);
        // Any other name stands for nothing, and might mean something else in a selector.
        if let Some(name) = name.filter(|name| names::dns_subdomain(name).is_ok()) {
            wanted.insert(source, configured("ConfigMap", name));
        }
    }
    wanted
}

// === impl Known ===

impl Known {
    /// Starts and ends watches.
    fn keep(
        &mut self,
        wanted: BTreeMap<Source, Target>,
        client: &Client,
        sender: &mpsc::Sender<(Source, Target, Told)>,
    ) {
        let objects = &mut self.objects;
        self.watches.retain(|source, watch| {
            let is_wanted = wanted.get(source) == Some(&watch.target);
            if !is_wanted {
                objects.remove(source);
            }
            is_wanted
        });
        for (source, target) in wanted {
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

    /// Takes in what a watch has told, unless it has ended since.
    fn learn(&mut self, source: Source, target: &Target, told: Told) {
        let watch = self.watches.get_mut(&source);
        let Some(watch) = watch.filter(|watch| watch.target == *target) else {
            return;
        };
        match told {
            Told::Objects(objects) => {
                watch.failing = None;
                self.objects.insert(source, objects);
            }
            // What was known still counts.
            Told::Failing(failure) => watch.failing = Some(failure),
        }
    }

    /// Reports whether a watch is still to say its first word.
    fn waits(&self) -> bool {
        self.watches.iter().any(|(source, watch)| {
            let failing = watch.failing.as_ref();
            !failing.is_some_and(|failure| failure.is_refusal) && !self.objects.contains_key(source)
        })
    }

    /// Says what follows from all of it.
    async fn publish(&mut self, ctx: &Context) {
        let objects = std::mem::take(&mut self.objects);
        // There may be a thousand certificates to look at.
        let reading = spawn_blocking(move || {
            let read = Configuration::read(&objects);
            (objects, read)
        });
        // It ends early only with the process.
        let Ok((objects, (configuration, mut problems))) = reading.await else {
            return;
        };
        self.objects = objects;
        for (source, watch) in &self.watches {
            if let Some(failure) = &watch.failing {
                problems.push(Problem::of(*source, "", &failure.problem));
            }
        }
        let summary = (
            configuration.mirrors.rules().len(),
            configuration.authorities.len(),
            configuration.proxies.is_some(),
        );
        if ctx.pulling.note(configuration, self.waits()) {
            let (rules, authorities, proxies) = summary;
            info!(rules, authorities, proxies, "pulling follows the cluster");
        }
        for source in Source::ALL {
            let number = problems
                .iter()
                .filter(|problem| problem.source == source)
                .count();
            ctx.metrics.pull_problems(source, number);
        }
        let problems: BTreeSet<Problem> = problems.into_iter().collect();
        for (number, problem) in problems.difference(&self.told).enumerate() {
            let Problem {
                source,
                object,
                text,
            } = problem;
            warn!(
                ?source,
                object,
                problem = text,
                "cannot follow the cluster in pulling"
            );
            let watch = self.watches.get(source).filter(|_| number < EVENTS);
            // Whoever does not answer takes no events either.
            let tells = |watch: &&Watch| watch.failing.as_ref().is_none_or(|it| it.is_refusal);
            if let Some(watch) = watch.filter(tells) {
                let about = about(&watch.target, object);
                let (type_, reason) = (EventType::Warning, "PullConfigurationInvalid");
                ctx.events
                    .publish(&about, type_, reason, "Pull", text)
                    .await;
            }
        }
        self.told = problems;
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
