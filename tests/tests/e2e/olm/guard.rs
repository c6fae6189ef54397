//! Whether an operator goes on running, whatever becomes of those who upgrade it.

use std::{collections::BTreeMap, pin::pin, sync::mpsc, thread};

use futures::{StreamExt as _, stream};
use k8s_openapi::api::apps::v1::Deployment;
use kube::{
    Api, Client, ResourceExt as _,
    core::{ApiResource, DynamicObject, GroupVersionKind},
    runtime::watcher::{self, Event, watcher},
};
use tokio::sync::oneshot;

use super::world::World;

/// Watches an operator from now on.
#[derive(Debug)]
pub(crate) struct Guard {
    stop: oneshot::Sender<()>,
    thread: thread::JoinHandle<Vec<String>>,
}

/// What is seen.
enum Seen {
    Deployment(Box<Event<Deployment>>),
    Version(Box<Event<DynamicObject>>),
}

/// What was seen so far.
#[derive(Debug, Default)]
struct Story {
    /// The UID of the Deployment.
    uid: Option<String>,
    /// The phases of the ClusterServiceVersions.
    phases: BTreeMap<String, String>,
    trouble: Vec<String>,
}

impl Guard {
    /// Of a namespace with one operator, which runs.
    pub(crate) fn of(world: &World, namespace: &str, deployment: &str) -> Self {
        let config = world.cluster.config().clone();
        let (namespace, deployment) = (namespace.to_owned(), deployment.to_owned());
        let (stop, stopped) = oneshot::channel();
        let (begun, begins) = mpsc::channel();
        let thread = thread::spawn(move || {
            let mut runtime = tokio::runtime::Builder::new_current_thread();
            let runtime = runtime.enable_all().build().unwrap();
            let mut story = Story::default();
            runtime.block_on(async {
                let client = Client::try_from(config).unwrap();
                tokio::select! {
                    _ = stopped => (),
                    () = watch(client, &namespace, &deployment, &begun, &mut story) => (),
                }
            });
            story.trouble
        });
        // Both kinds.
        begins.recv().unwrap();
        begins.recv().unwrap();
        Self { stop, thread }
    }

    /// Its Deployment was never deleted or scaled down, and no version before another one worked.
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
    begun: &mpsc::Sender<()>,
    story: &mut Story,
) {
    let kind = GroupVersionKind::gvk("operators.coreos.com", "v1alpha1", "ClusterServiceVersion");
    let versions = ApiResource::from_gvk(&kind);
    let versions = Api::<DynamicObject>::namespaced_with(client.clone(), namespace, &versions);
    let named = watcher::Config::default().fields(&format!("metadata.name={deployment}"));
    let deployments = watcher(Api::<Deployment>::namespaced(client, namespace), named);
    let versions = watcher(versions, watcher::Config::default());
    let mut events = pin!(stream::select(
        deployments.map(|it| it.map(|it| Seen::Deployment(Box::new(it)))),
        versions.map(|it| it.map(|it| Seen::Version(Box::new(it)))),
    ));
    while let Some(seen) = events.next().await {
        match seen {
            Ok(Seen::Deployment(event)) => story.deployment(*event, begun),
            Ok(Seen::Version(event)) => story.version(*event, begun),
            Err(_) => {} // it begins again
        }
    }
}

impl Story {
    fn deployment(&mut self, event: Event<Deployment>, begun: &mpsc::Sender<()>) {
        match event {
            Event::Apply(it) | Event::InitApply(it) => {
                let known = self.uid.get_or_insert_with(|| it.uid().unwrap());
                if *known != it.uid().unwrap() {
                    self.trouble.push("another Deployment".to_owned());
                }
                // Whether its pods are ready while it is replaced is a matter of OLM and the node.
                let replicas = it.spec.and_then(|spec| spec.replicas);
                if replicas != Some(1) {
                    self.trouble.push(format!("{replicas:?} replicas"));
                }
            }
            Event::Delete(_) => self.trouble.push("no Deployment".to_owned()),
            Event::Init => {}
            // Nobody waits for it the second time.
            Event::InitDone => drop(begun.send(())),
        }
    }

    fn version(&mut self, event: Event<DynamicObject>, begun: &mpsc::Sender<()>) {
        match event {
            Event::Apply(it) | Event::InitApply(it) => {
                let phase = it.data["status"]["phase"].as_str().unwrap_or_default();
                self.phases.insert(it.name_any(), phase.to_owned());
            }
            Event::Delete(it) => {
                self.phases.remove(&it.name_any());
                if !self.phases.values().any(|phase| phase == "Succeeded") {
                    let told = format!(
                        "{} is gone, and no other works: {:?}",
                        it.name_any(),
                        self.phases
                    );
                    self.trouble.push(told);
                }
            }
            Event::Init => {}
            // Nobody waits for it the second time.
            Event::InitDone => drop(begun.send(())),
        }
    }
}
