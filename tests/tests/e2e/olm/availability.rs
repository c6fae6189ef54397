//! Asserts that an operator keeps running while the commands that upgrade it are interrupted.

use std::{collections::BTreeMap, pin::pin};

use futures::{StreamExt as _, stream};
use kube::{
    Api, ResourceExt as _,
    core::{ApiResource, DynamicObject, GroupVersionKind},
    runtime::watcher::{self, Event, watcher},
};
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinHandle,
};

use super::command::Space;

/// Watches an operator until it is asserted to be unharmed.
#[derive(Debug)]
pub(crate) struct Guard {
    stop: oneshot::Sender<()>,
    task: JoinHandle<Vec<String>>,
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
    /// Starts to watch the operator of a namespace, which must be its only one. The test needs a multi-threaded runtime, because
    /// commands block the thread of the test.
    pub(crate) async fn start(space: Space, deployment: &'static str) -> Self {
        let (stop, stopped) = oneshot::channel();
        let (synced, mut both_synced) = mpsc::unbounded_channel();
        let task = tokio::spawn(async move {
            let mut story = Story::default();
            tokio::select! {
                _ = stopped => (),
                () = watch(space, deployment, synced, &mut story) => (),
            }
            story.problems
        });
        // Once for each kind.
        both_synced.recv().await.unwrap();
        both_synced.recv().await.unwrap();
        Self { stop, task }
    }

    /// Asserts that the Deployment was never deleted or scaled, and that one version had succeeded at any time.
    pub(crate) async fn assert_unharmed(self) {
        self.stop.send(()).unwrap();
        assert_eq!(self.task.await.unwrap(), [""; 0]);
    }
}

async fn watch(
    space: Space,
    deployment: &str,
    synced: mpsc::UnboundedSender<()>,
    story: &mut Story,
) {
    let client = space.world.client();
    let watched = |group, version, kind, config| {
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        let api = Api::<DynamicObject>::namespaced_with(client.clone(), space.name, &kind);
        watcher(api, config)
    };
    let named = watcher::Config::default().fields(&format!("metadata.name={deployment}"));
    let deployments = watched("apps", "v1", "Deployment", named);
    let (group, all) = ("operators.coreos.com", watcher::Config::default());
    let versions = watched(group, "v1alpha1", "ClusterServiceVersion", all);
    let mut events = pin!(stream::select(deployments, versions));
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Apply(object) | Event::InitApply(object)) => {
                if object.name_any() == deployment {
                    story.deployment(&object);
                } else {
                    let phase = object.data["status"]["phase"].as_str().unwrap_or_default();
                    story.phases.insert(object.name_any(), phase.to_owned());
                }
            }
            Ok(Event::Delete(object)) => story.deleted(&object.name_any(), deployment),
            // After a restart of the watch the receiver no longer exists.
            Ok(Event::InitDone) => drop(synced.send(())),
            Ok(Event::Init) | Err(_) => {} // it begins again
        }
    }
}

impl Story {
    fn deployment(&mut self, deployment: &DynamicObject) {
        let uid = self.uid.get_or_insert_with(|| deployment.uid().unwrap());
        if *uid != deployment.uid().unwrap() {
            self.problems.push("another Deployment".to_owned());
        }
        // The readiness of pods during an upgrade depends on OLM and the node.
        let replicas = &deployment.data["spec"]["replicas"];
        if *replicas != 1 {
            self.problems.push(format!("{replicas} replicas"));
        }
    }

    fn deleted(&mut self, name: &str, deployment: &str) {
        self.phases.remove(name);
        let mut phases = self.phases.values();
        if name == deployment || !phases.any(|phase| phase == "Succeeded") {
            let problem = format!("{name} was deleted; the versions are {:?}", self.phases);
            self.problems.push(problem);
        }
    }
}
