//! The label that leads the Service to the pod that works.
//!
//! Content has to come to who works with it. So the one that leads labels its own pod and takes the label from others;
//! who begins, and who ends, has it no longer. Outside of a cluster there is no pod and no label.

use std::{env, time::Duration};

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, ResourceExt,
    api::{PartialObjectMeta, Patch, PatchParams},
    runtime::{WatchStreamExt as _, watcher},
};
use manifests::api::labels::LEADER;
use serde_json::json;
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use crate::watches::Pauses;

/// How long the apiserver may take for one request.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long to wait after it has refused one.
const PAUSE: Duration = Duration::from_secs(1);

/// The label, as one replica sees it.
pub(super) struct Label {
    namespace: String,
    pods: Api<PartialObjectMeta<Pod>>,
    me: String,
}

impl Label {
    /// Nothing where there is no pod.
    pub(super) fn new(client: Client, namespace: &str) -> Option<Self> {
        let me = env::var("POD_NAME").ok().filter(|name| !name.is_empty())?;
        Some(Self {
            namespace: namespace.to_owned(),
            pods: Api::namespaced(client, namespace),
            me,
        })
    }

    /// The same, with another client.
    pub(super) fn with(&self, client: Client) -> Self {
        Self {
            namespace: self.namespace.clone(),
            pods: Api::namespaced(client, &self.namespace),
            me: self.me.clone(),
        }
    }

    /// Takes the label from our own pod: it may be left from a container that ran in it before.
    pub(super) async fn leave(&self) {
        match timeout(PATIENCE, self.set(&self.me, false)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                warn!(pod = self.me, %error, "failed to take the leader's label from this pod");
            }
            Err(_) => warn!(
                pod = self.me,
                "failed to take the leader's label from this pod in time"
            ),
        }
    }

    /// Labels our own pod, and takes the label from others, whenever that is not so. Never ends.
    pub(super) async fn hold(&self) {
        while let Err(error) = self.set(&self.me, true).await {
            warn!(pod = self.me, %error, "failed to label this pod as the leader's; trying again");
            sleep(PAUSE).await;
        }
        info!(pod = self.me, "this pod has the leader's label");
        let config = watcher::Config::default().labels(&format!("{LEADER}=true"));
        let mut events = watcher(self.pods.clone(), config)
            .backoff(Pauses::default())
            .boxed();
        while let Some(event) = events.next().await {
            let (name, should) = match event {
                Ok(watcher::Event::Apply(pod) | watcher::Event::InitApply(pod))
                    if pod.name_any() != self.me =>
                {
                    (pod.name_any(), false)
                }
                // A pod without the label is gone for the watch.
                Ok(watcher::Event::Delete(pod)) if pod.name_any() == self.me => {
                    (pod.name_any(), true)
                }
                Ok(_) => continue,
                Err(error) => {
                    warn!(%error, "failed to watch the leader's label; trying again");
                    continue;
                }
            };
            if let Err(error) = self.set(&name, should).await {
                warn!(pod = name, %error, "failed to change the leader's label");
            }
        }
    }

    async fn set(&self, pod: &str, leads: bool) -> Result<(), kube::Error> {
        let label = leads.then_some("true");
        let patch = Patch::Merge(json!({"metadata": {"labels": {LEADER: label}}}));
        match self
            .pods
            .patch_metadata(pod, &PatchParams::default(), &patch)
            .await
        {
            Ok(_) => Ok(()),
            // Somebody else's pod may be gone; ours is there as long as we are.
            Err(kube::Error::Api(status)) if status.code == 404 && !leads => Ok(()),
            Err(error) => Err(error),
        }
    }
}
