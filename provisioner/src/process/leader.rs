//! The label that leads the Service to the pod that works.
//!
//! Content has to come to who works with it. So the one that leads labels its own pod and takes the label from others;
//! who begins, and who ends, has it no longer. Without a Lease nobody knows who is alone: then all have it that work, and
//! nobody takes it from others, who would take it back. Outside of a cluster there is no pod and no label.

use std::{collections::BTreeSet, env, mem, time::Duration};

use futures::{FutureExt as _, StreamExt as _};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{PartialObjectMeta, Patch, PatchParams},
    runtime::{WatchStreamExt as _, watcher},
};
use manifests::api::labels::LEADER;
use serde_json::json;
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use apply::backoff::Pauses;

/// How long the API server may take for one request.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long to wait between changes, whether they were refused or not.
const PAUSE: Duration = Duration::from_secs(1);

/// Which pods have the label, as far as is known.
#[derive(Debug, Default)]
struct Labeled {
    pods: BTreeSet<String>,
    is_listed: bool,
    /// What the watch lists at this moment.
    listing: BTreeSet<String>,
}

impl Labeled {
    /// What the watch tells. A pod without the label is gone for it; and what was lost while there was no watch, it does
    /// not tell but by not listing it.
    fn see<K: Resource>(&mut self, event: &watcher::Event<K>) {
        match event {
            watcher::Event::Init => self.listing.clear(),
            watcher::Event::InitApply(pod) => {
                self.listing.insert(pod.name_any());
            }
            watcher::Event::InitDone => {
                self.pods = mem::take(&mut self.listing);
                self.is_listed = true;
            }
            watcher::Event::Apply(pod) => {
                self.pods.insert(pod.name_any());
            }
            watcher::Event::Delete(pod) => {
                self.pods.remove(&pod.name_any());
            }
        }
    }

    /// Which pods have to have it, or not.
    fn changes(&self, me: &str, alone: bool) -> Vec<(String, bool)> {
        if !self.is_listed {
            return Vec::new();
        }
        let ours = (!self.pods.contains(me)).then(|| (me.to_owned(), true));
        let others = self.pods.iter().filter(|&pod| alone && pod != me);
        let others = others.map(|pod| (pod.clone(), false));
        ours.into_iter().chain(others).collect()
    }

    fn changed(&mut self, pod: &str, has: bool) {
        if has {
            self.pods.insert(pod.to_owned());
        } else {
            self.pods.remove(pod);
        }
    }
}

fn see<K: Resource>(labeled: &mut Labeled, event: Result<watcher::Event<K>, watcher::Error>) {
    match event {
        Ok(event) => labeled.see(&event),
        Err(error) => warn!(%error, "failed to watch the leader's label; trying again"),
    }
}

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

    /// Labels our own pod, and takes the label from others if nobody else may have it, whenever that is not so. Never
    /// ends.
    pub(super) async fn hold(&self, alone: bool) {
        while !self.change(&self.me, true).await {
            sleep(PAUSE).await;
        }
        info!(pod = self.me, "this pod has the leader's label");
        let config = watcher::Config::default().labels(&format!("{LEADER}=true"));
        let mut events = watcher(self.pods.clone(), config)
            .backoff(Pauses::default())
            .boxed();
        let mut labeled = Labeled::default();
        while let Some(event) = events.next().await {
            see(&mut labeled, event);
            loop {
                while let Some(Some(event)) = events.next().now_or_never() {
                    see(&mut labeled, event);
                }
                let changes = labeled.changes(&self.me, alone);
                if changes.is_empty() {
                    break;
                }
                for (pod, should) in changes {
                    if self.change(&pod, should).await {
                        labeled.changed(&pod, should);
                    }
                }
                // Whether it was refused, or somebody changes it back each time.
                sleep(PAUSE).await;
            }
        }
    }

    /// Says in the log if it does not succeed.
    async fn change(&self, pod: &str, should: bool) -> bool {
        match timeout(PATIENCE, self.set(pod, should)).await {
            Ok(Ok(())) => return true,
            Ok(Err(error)) => {
                warn!(pod, should, %error, "failed to change the leader's label; trying again");
            }
            Err(_) => warn!(
                pod,
                should, "failed to change the leader's label in time; trying again"
            ),
        }
        false
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

#[cfg(test)]
mod tests {
    use kube::runtime::watcher::Event;

    use super::*;

    fn pod(name: &str) -> Pod {
        with!(Pod::default() => metadata.name: Some(name.to_owned()))
    }

    fn list(labeled: &mut Labeled, names: &[&str]) {
        labeled.see(&Event::<Pod>::Init);
        for name in names {
            labeled.see(&Event::InitApply(pod(name)));
        }
        labeled.see(&Event::<Pod>::InitDone);
    }

    #[test]
    fn the_label_is_ours_and_nobody_elses_if_there_is_a_lease() {
        let mut labeled = Labeled::default();
        assert_rows!(labeled.changes("me", true).is_empty() => true, "nothing is known yet");
        list(&mut labeled, &["me", "other"]);
        let others = [("other".to_owned(), false)];
        assert_rows! {
            labeled.changes("me", true) => others;
            labeled.changes("me", false).is_empty() => true;
            // It is not done before it has succeeded.
            labeled.changes("me", true) => others;
            { labeled.changed("other", false); labeled.changes("me", true).is_empty() } => true;
            { labeled.see(&Event::Apply(pod("other"))); labeled.changes("me", true) } => others;
            { labeled.see(&Event::Delete(pod("other"))); labeled.changes("me", true).is_empty() } => true;
        }
    }

    #[test]
    fn a_label_that_was_lost_is_noticed_whether_it_was_seen_to_go_or_not() {
        let ours = [("me".to_owned(), true)];
        for alone in [true, false] {
            let mut labeled = Labeled::default();
            list(&mut labeled, &["me"]);
            assert_rows!({ labeled.see(&Event::Delete(pod("me"))); labeled.changes("me", alone) } => ours);
            assert_rows!({ labeled.changed("me", true); labeled.changes("me", alone).is_empty() } => true);
            assert_rows!({ list(&mut labeled, &[]); labeled.changes("me", alone) } => ours);
        }
    }
}
