//! Asserts that an operator keeps running while the commands that upgrade it are interrupted.

use std::{collections::BTreeMap, pin::pin, sync::mpsc, thread};

use futures::{StreamExt as _, stream};
use k8s_openapi::api::apps::v1::Deployment;
use kube::{
    Api, Client, ResourceExt as _,
    core::{ApiResource, DynamicObject, GroupVersionKind},
    runtime::watcher::{self, Event, watcher},
};
use tokio::sync::oneshot;

use super::environment::World;

/// Watches an operator until it is asserted to be unharmed.
#[derive(Debug)]
pub(crate) struct Guard {
    stop: oneshot::Sender<()>,
    thread: thread::JoinHandle<Vec<String>>,
}

/// An event of one of the two watches.
enum WatchEvent {
    Deployment(Box<Event<Deployment>>),
    Version(Box<Event<DynamicObject>>),
}

/// The observed state, and the problems so far.
#[derive(Debug, Default)]
struct Story {
    /// The UID of the Deployment.
    uid: Option<String>,
    /// The phases of the ClusterServiceVersions.
    phases: BTreeMap<String, String>,
    problems: Vec<String>,
}

impl Guard {
    /// Starts to watch the operator of a namespace, which must be its only one.
    pub(crate) fn start(world: &World, namespace: &str, deployment: &str) -> Self {
        let config = world.cluster.config().clone();
        let (namespace, deployment) = (namespace.to_owned(), deployment.to_owned());
        let (stop, stopped) = oneshot::channel();
        let (synced, both_synced) = mpsc::channel();
        let thread = thread::spawn(move || {
            let mut runtime = tokio::runtime::Builder::new_current_thread();
            let runtime = runtime.enable_all().build().unwrap();
            let mut story = Story::default();
            runtime.block_on(async {
                let client = Client::try_from(config).unwrap();
                tokio::select! {
                    _ = stopped => (),
                    () = watch(client, &namespace, &deployment, &synced, &mut story) => (),
                }
            });
            story.problems
        });
        // Once for each kind.
        both_synced.recv().unwrap();
        both_synced.recv().unwrap();
        Self { stop, thread }
    }

    /// Asserts that the Deployment was never deleted or scaled, and that one version had succeeded at any time.
    #[track_caller]
    pub(crate) fn assert_unharmed(self) {
        self.stop.send(()).unwrap();
        assert_eq!(self.thread.join().unwrap(), [""; 0]);
    }
}

async fn watch(
    client: Client,
    namespace: &str,
    deployment: &str,
    synced: &mpsc::Sender<()>,
    story: &mut Story,
) {
    let kind = GroupVersionKind::gvk("operators.coreos.com", "v1alpha1", "ClusterServiceVersion");
    let versions = ApiResource::from_gvk(&kind);
    let versions = Api::<DynamicObject>::namespaced_with(client.clone(), namespace, &versions);
    let named = watcher::Config::default().fields(&format!("metadata.name={deployment}"));
    let deployments = watcher(Api::<Deployment>::namespaced(client, namespace), named);
    let versions = watcher(versions, watcher::Config::default());
    let mut events = pin!(stream::select(
        deployments.map(|event| event.map(|event| WatchEvent::Deployment(Box::new(event)))),
        versions.map(|event| event.map(|event| WatchEvent::Version(Box::new(event)))),
    ));
    while let Some(event) = events.next().await {
        match event {
            Ok(WatchEvent::Deployment(event)) => story.deployment(*event, synced),
            Ok(WatchEvent::Version(event)) => story.version(*event, synced),
            Err(_) => {} // it begins again
        }
    }
}

impl Story {
    fn deployment(&mut self, event: Event<Deployment>, synced: &mpsc::Sender<()>) {
        match event {
            Event::Apply(deployment) | Event::InitApply(deployment) => {
                let uid = self.uid.get_or_insert_with(|| deployment.uid().unwrap());
                if *uid != deployment.uid().unwrap() {
                    self.problems.push("another Deployment".to_owned());
                }
                // The readiness of pods during an upgrade depends on OLM and the node.
                let replicas = deployment.spec.and_then(|spec| spec.replicas);
                if replicas != Some(1) {
                    self.problems.push(format!("{replicas:?} replicas"));
                }
            }
            Event::Delete(_) => self.problems.push("no Deployment".to_owned()),
            Event::Init => {}
            // After a restart of the watch the receiver no longer exists.
            Event::InitDone => drop(synced.send(())),
        }
    }

    fn version(&mut self, event: Event<DynamicObject>, synced: &mpsc::Sender<()>) {
        match event {
            Event::Apply(csv) | Event::InitApply(csv) => {
                let phase = csv.data["status"]["phase"].as_str().unwrap_or_default();
                self.phases.insert(csv.name_any(), phase.to_owned());
            }
            Event::Delete(csv) => {
                self.phases.remove(&csv.name_any());
                if !self.phases.values().any(|phase| phase == "Succeeded") {
                    let problem = format!(
                        "{} is gone, and no other works: {:?}",
                        csv.name_any(),
                        self.phases
                    );
                    self.problems.push(problem);
                }
            }
            Event::Init => {}
            // After a restart of the watch the receiver no longer exists.
            Event::InitDone => drop(synced.send(())),
        }
    }
}
