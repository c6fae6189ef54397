//! Watch of one target. It reports the complete set of objects after each change, because the sets are small.

use std::{collections::BTreeMap, time::Duration};

use futures::StreamExt as _;
use kube::{
    Api, Client, ResourceExt as _,
    core::{ApiResource, DynamicObject},
    runtime::{
        WatchStreamExt as _,
        watcher::{self, Event, watcher},
    },
};
use tokio::{sync::mpsc, time::sleep};

use super::Source;
use apply::{
    api_error::{code, is_refusal},
    backoff::WatchBackoff,
};

/// Delay before a forbidden watch is retried. Granted permissions are not observable.
const FORBIDDEN_RETRY_INTERVAL: Duration = Duration::from_secs(60);
/// Target of a watch: all objects of a kind, or a single one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) resource: ApiResource,
    pub(super) namespace: Option<&'static str>,
    pub(super) name: Option<String>,
}

/// Event of a watch.
#[derive(Debug)]
pub(super) enum WatchEvent {
    /// All objects of the target.
    Objects(Vec<DynamicObject>),
    /// The watch has failed.
    Failed(Failure),
}

/// Failure of a watch.
#[derive(Debug, Clone)]
pub(super) struct Failure {
    pub(super) problem: String,
    /// True if the API server has rejected the watch, so that it does not recover by itself.
    pub(super) is_refusal: bool,
}

/// Watches a target and sends its objects until the receiver is dropped.
pub(super) async fn run(
    client: Client,
    source: Source,
    target: Target,
    sender: mpsc::Sender<(Source, Target, WatchEvent)>,
) {
    let api: Api<DynamicObject> = match target.namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, &target.resource),
        None => Api::all_with(client, &target.resource),
    };
    let config = match &target.name {
        Some(name) => watcher::Config::default().fields(&format!("metadata.name={name}")),
        None => watcher::Config::default(),
    };
    let mut events = watcher(api, config)
        .modify(|object| object.managed_fields_mut().clear())
        .backoff(WatchBackoff::default())
        .boxed();
    let mut objects: BTreeMap<String, DynamicObject> = BTreeMap::new();
    let mut listing = BTreeMap::new();
    while let Some(event) = events.next().await {
        let mut delay = None;
        let message = match event {
            Ok(Event::Init) => {
                listing.clear();
                continue;
            }
            Ok(Event::InitApply(object)) => {
                listing.insert(object.name_any(), object);
                continue;
            }
            Ok(event) => {
                match event {
                    Event::Apply(object) => drop(objects.insert(object.name_any(), object)),
                    Event::Delete(object) => drop(objects.remove(&object.name_any())),
                    _ => objects = std::mem::take(&mut listing),
                }
                WatchEvent::Objects(objects.values().cloned().collect())
            }
            Err(error) => {
                let code = code(&error);
                // The watcher lists the objects again by itself.
                if code == Some(410) {
                    continue;
                }
                let is_refusal = code.is_some_and(is_refusal);
                delay = is_refusal.then_some(FORBIDDEN_RETRY_INTERVAL);
                WatchEvent::Failed(Failure {
                    problem: describe_failure(&target, code, &error),
                    is_refusal,
                })
            }
        };
        if sender
            .send((source, target.clone(), message))
            .await
            .is_err()
        {
            return;
        }
        if let Some(delay) = delay {
            sleep(delay).await;
        }
    }
}

fn describe_failure(target: &Target, code: Option<u16>, error: &watcher::Error) -> String {
    let subject = match (target.namespace, &target.name) {
        (Some(namespace), Some(name)) => format!("{} {namespace}/{name}", target.resource.kind),
        (_, Some(name)) => format!("{} {name}", target.resource.kind),
        _ => target.resource.plural.clone(),
    };
    match code {
        Some(403) => format!(
            "the provisioner is not allowed to watch {subject}; apply manifests/install/openshift.yaml, which grants \
             this permission, or set --follow-openshift=false"
        ),
        _ => format!(
            "failed to watch {subject}: {}",
            manifests::error::chain(error)
        ),
    }
}
