//! The leader label, by which the Service selects the pod of the leader.
//!
//! Clients have to reach the replica that uses their content. So the leader labels its own pod and removes the label from
//! other pods. Every replica removes its label at startup and at shutdown. Without a Lease, no replica can know whether it
//! is the only one. Then all active replicas have the label, and none removes it from others, which would add it again.
//! A process outside of a cluster has no pod and no label.

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

use apply::{api_error, backoff::WatchBackoff};

/// Timeout of one request to the API server.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Delay between changes, successful or not.
const CHANGE_DELAY: Duration = Duration::from_secs(1);

/// Pods that have the label according to the watch.
#[derive(Debug, Default)]
struct LabeledPods {
    pods: BTreeSet<String>,
    is_listed: bool,
    /// Pods of the list that the watch is receiving.
    listing: BTreeSet<String>,
}

impl LabeledPods {
    /// Records a watch event. The watch reports a pod that loses the label as deleted. Changes during an interruption of
    /// the watch are only visible in the next list.
    fn observe<K: Resource>(&mut self, event: &watcher::Event<K>) {
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

    /// Returns the pods whose label has to change, and whether they have to have it.
    fn changes(&self, pod_name: &str, exclusive: bool) -> Vec<(String, bool)> {
        if !self.is_listed {
            return Vec::new();
        }
        let own_pod = (!self.pods.contains(pod_name)).then(|| (pod_name.to_owned(), true));
        let others = self.pods.iter().filter(|&pod| exclusive && pod != pod_name);
        let others = others.map(|pod| (pod.clone(), false));
        own_pod.into_iter().chain(others).collect()
    }

    fn record_change(&mut self, pod: &str, is_labeled: bool) {
        if is_labeled {
            self.pods.insert(pod.to_owned());
        } else {
            self.pods.remove(pod);
        }
    }
}

fn observe<K: Resource>(
    labeled: &mut LabeledPods,
    event: Result<watcher::Event<K>, watcher::Error>,
) {
    match event {
        Ok(event) => labeled.observe(&event),
        Err(error) => {
            let error = api_error::chain(&error);
            warn!(error, "failed to watch the leader label; retrying");
        }
    }
}

/// The leader label from the view of one replica.
pub(crate) struct LeaderLabel {
    namespace: String,
    pods: Api<PartialObjectMeta<Pod>>,
    pod_name: String,
}

impl LeaderLabel {
    /// Returns `None` outside of a pod.
    pub(crate) fn new(client: Client, namespace: &str) -> Option<Self> {
        let pod_name = env::var("POD_NAME").ok().filter(|name| !name.is_empty())?;
        Some(Self {
            namespace: namespace.to_owned(),
            pods: Api::namespaced(client, namespace),
            pod_name,
        })
    }

    /// Returns the same label with another client.
    pub(crate) fn with_client(&self, client: Client) -> Self {
        Self {
            namespace: self.namespace.clone(),
            pods: Api::namespaced(client, &self.namespace),
            pod_name: self.pod_name.clone(),
        }
    }

    /// Removes the label from the own pod. A previous container of the pod may have left it.
    pub(crate) async fn remove(&self) {
        match timeout(REQUEST_TIMEOUT, self.set(&self.pod_name, false)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                warn!(
                    pod = self.pod_name,
                    error = api_error::chain(&error),
                    "failed to remove the leader label from this pod"
                );
            }
            Err(_) => warn!(
                pod = self.pod_name,
                "timed out while removing the leader label from this pod"
            ),
        }
    }

    /// Keeps the label on the own pod, and removes it from other pods if `exclusive` is true. Never returns.
    pub(crate) async fn maintain(&self, exclusive: bool) {
        while !self.change(&self.pod_name, true).await {
            sleep(CHANGE_DELAY).await;
        }
        info!(pod = self.pod_name, "this pod has the leader label");
        let config = watcher::Config::default().labels(&format!("{LEADER}=true"));
        let mut events = watcher(self.pods.clone(), config)
            .backoff(WatchBackoff::default())
            .boxed();
        let mut labeled = LabeledPods::default();
        while let Some(event) = events.next().await {
            observe(&mut labeled, event);
            loop {
                while let Some(Some(event)) = events.next().now_or_never() {
                    observe(&mut labeled, event);
                }
                let changes = labeled.changes(&self.pod_name, exclusive);
                if changes.is_empty() {
                    break;
                }
                for (pod, should) in changes {
                    if self.change(&pod, should).await {
                        labeled.record_change(&pod, should);
                    }
                }
                // Limits the rate if a change failed, or if another client reverts it each time.
                sleep(CHANGE_DELAY).await;
            }
        }
    }

    /// Changes the label of a pod. Logs a failure and returns false.
    async fn change(&self, pod: &str, should: bool) -> bool {
        match timeout(REQUEST_TIMEOUT, self.set(pod, should)).await {
            Ok(Ok(())) => return true,
            Ok(Err(error)) => {
                let error = api_error::chain(&error);
                warn!(
                    pod,
                    should, error, "failed to change the leader label; retrying"
                );
            }
            Err(_) => warn!(
                pod,
                should, "timed out while changing the leader label; retrying"
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
            // Another pod may be deleted. The own pod exists as long as this process.
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

    fn list(labeled: &mut LabeledPods, names: &[&str]) {
        labeled.observe(&Event::<Pod>::Init);
        for name in names {
            labeled.observe(&Event::InitApply(pod(name)));
        }
        labeled.observe(&Event::<Pod>::InitDone);
    }

    #[test]
    fn label_is_removed_from_other_pods_if_a_lease_exists() {
        let mut labeled = LabeledPods::default();
        assert_rows!(labeled.changes("me", true).is_empty() => true, "nothing is known yet");
        list(&mut labeled, &["me", "other"]);
        let others = [("other".to_owned(), false)];
        assert_rows! {
            labeled.changes("me", true) => others;
            labeled.changes("me", false).is_empty() => true;
            // A change is pending until it has succeeded.
            labeled.changes("me", true) => others;
            { labeled.record_change("other", false); labeled.changes("me", true).is_empty() } => true;
            { labeled.observe(&Event::Apply(pod("other"))); labeled.changes("me", true) } => others;
            { labeled.observe(&Event::Delete(pod("other"))); labeled.changes("me", true).is_empty() } => true;
        }
    }

    #[test]
    fn lost_label_is_detected_by_list_and_by_event() {
        let expected = [("me".to_owned(), true)];
        for exclusive in [true, false] {
            let mut labeled = LabeledPods::default();
            list(&mut labeled, &["me"]);
            assert_rows!({ labeled.observe(&Event::Delete(pod("me"))); labeled.changes("me", exclusive) } => expected);
            assert_rows!({ labeled.record_change("me", true); labeled.changes("me", exclusive).is_empty() } => true);
            assert_rows!({ list(&mut labeled, &[]); labeled.changes("me", exclusive) } => expected);
        }
    }
}
