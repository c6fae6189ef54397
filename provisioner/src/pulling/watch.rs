//! One watch, which tells all objects there are whenever something changes: there are few.

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
    backoff::Pauses,
};

/// After how long a watch that is not allowed is tried again: nothing tells when it is.
const REFUSED: Duration = Duration::from_secs(60);
/// What is watched: all objects of a kind, or one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) resource: ApiResource,
    pub(super) namespace: Option<&'static str>,
    pub(super) name: Option<String>,
}

/// What a watch tells.
#[derive(Debug)]
pub(super) enum Told {
    /// These are all there are.
    Objects(Vec<DynamicObject>),
    /// It does not work.
    Failing(Failure),
}

/// Why a watch does not work.
#[derive(Debug, Clone)]
pub(super) struct Failure {
    pub(super) problem: String,
    /// Whether it will not work by itself: the API server has refused it.
    pub(super) is_refusal: bool,
}

/// Tells of a target's objects until nobody listens.
pub(super) async fn run(
    client: Client,
    source: Source,
    target: Target,
    sender: mpsc::Sender<(Source, Target, Told)>,
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
        .backoff(Pauses::default())
        .boxed();
    let mut objects: BTreeMap<String, DynamicObject> = BTreeMap::new();
    let mut listing = BTreeMap::new();
    while let Some(event) = events.next().await {
        let mut pause = None;
        let told = match event {
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
                Told::Objects(objects.values().cloned().collect())
            }
            Err(error) => {
                let code = code(&error);
                // It has to be listed anew, and is.
                if code == Some(410) {
                    continue;
                }
                let is_refusal = code.is_some_and(is_refusal);
                pause = is_refusal.then_some(REFUSED);
                Told::Failing(Failure {
                    problem: trouble(&target, code, &error),
                    is_refusal,
                })
            }
        };
        if sender.send((source, target.clone(), told)).await.is_err() {
            return;
        }
        if let Some(pause) = pause {
            sleep(pause).await;
        }
    }
}

fn trouble(target: &Target, code: Option<u16>, error: &watcher::Error) -> String {
    let what = match (target.namespace, &target.name) {
        (Some(namespace), Some(name)) => format!("{} {namespace}/{name}", target.resource.kind),
        (_, Some(name)) => format!("{} {name}", target.resource.kind),
        _ => target.resource.plural.clone(),
    };
    match code {
        Some(403) => format!(
            "the provisioner may not watch {what}; apply manifests/install/openshift.yaml, which gives it that right, or set \
             --follow-openshift=false"
        ),
        _ => format!("{what} cannot be watched: {}", unpacker::job::chain(error)),
    }
}
