//! Waiting for what is to come, with a message when it does not.

use std::{fmt::Debug, time::Duration};

use futures::StreamExt as _;
use k8s_openapi::{
    api::{apps::v1::Deployment, core::v1::Pod},
    apimachinery::pkg::apis::meta::v1::Condition,
};
use kube::{
    Api, Resource,
    api::ListParams,
    runtime::{WatchStreamExt as _, watcher},
};
use serde::{Serialize, de::DeserializeOwned};
use tokio::time::{Instant, sleep, timeout_at};

/// How long anything may take on a machine with a lot to do.
pub(crate) const PATIENCE: Duration = Duration::from_secs(240);
/// How long what is only looked at once a minute may take, or what waits for the provisioner to be started anew.
pub(crate) const LONG: Duration = Duration::from_secs(480);
const POLL: Duration = Duration::from_millis(250);

/// Waits until an object is as wanted, and returns it. `what` is said when that does not happen.
pub(crate) async fn until<K>(api: Api<K>, name: &str, what: &str, wanted: impl Fn(&K) -> bool) -> K
where
    K: Resource<DynamicType: Default>
        + Clone
        + Debug
        + Serialize
        + DeserializeOwned
        + Send
        + 'static,
{
    until_within(api, name, what, PATIENCE, wanted).await
}

/// The same, for what takes its time.
pub(crate) async fn until_within<K>(
    api: Api<K>,
    name: &str,
    what: &str,
    patience: Duration,
    wanted: impl Fn(&K) -> bool,
) -> K
where
    K: Resource<DynamicType: Default>
        + Clone
        + Debug
        + Serialize
        + DeserializeOwned
        + Send
        + 'static,
{
    let end = Instant::now() + patience;
    let mut seen = None;
    let mut changes = std::pin::pin!(watcher::watch_object(api, name));
    while let Ok(Some(change)) = timeout_at(end, changes.next()).await {
        match change {
            Ok(Some(object)) if wanted(&object) => return object,
            Ok(object) => seen = object,
            Err(_) => {}
        }
    }
    let seen = seen.map(|object| serde_json::to_string_pretty(&object).unwrap());
    let seen = seen.unwrap_or_else(|| "there is no such object".to_owned());
    panic!("{name}: not {what} after {patience:?}: {seen}");
}

/// Waits until this succeeds, and tells what comes of it.
pub(crate) async fn eventually<T>(
    what: &str,
    patience: Duration,
    attempt: impl AsyncFn() -> Result<T, String>,
) -> T {
    let end = Instant::now() + patience;
    loop {
        let seen = match attempt().await {
            Ok(done) => return done,
            Err(seen) => seen,
        };
        assert!(
            Instant::now() < end,
            "not {what} after {patience:?}: {seen}"
        );
        sleep(POLL).await;
    }
}

/// Waits until an object does not exist.
pub(crate) async fn gone<K>(api: Api<K>, name: &str)
where
    K: Resource<DynamicType: Default>
        + Clone
        + Debug
        + Serialize
        + DeserializeOwned
        + Send
        + 'static,
{
    let end = Instant::now() + PATIENCE;
    let mut changes = std::pin::pin!(watcher::watch_object(api, name));
    loop {
        match timeout_at(end, changes.next()).await {
            Ok(Some(Ok(None))) => return,
            Ok(Some(_)) => {}
            Ok(None) | Err(_) => panic!("{name} is still there after {PATIENCE:?}"),
        }
    }
}

/// Waits until a pod that can be found by these labels is as wanted, and returns it.
pub(crate) async fn pod(
    pods: Api<Pod>,
    labels: &str,
    what: &str,
    wanted: impl Fn(&Pod) -> bool,
) -> Pod {
    let end = Instant::now() + PATIENCE;
    let config = watcher::Config::default().labels(labels);
    let mut changes = std::pin::pin!(watcher(pods.clone(), config).applied_objects());
    while let Ok(Some(change)) = timeout_at(end, changes.next()).await {
        if let Ok(pod) = change
            && wanted(&pod)
        {
            return pod;
        }
    }
    let seen = pods.list(&ListParams::default().labels(labels)).await;
    let seen = serde_json::to_string_pretty(&seen.unwrap().items).unwrap();
    panic!("no pod with {labels} is {what} after {PATIENCE:?}: {seen}");
}

/// Whether all pods of a Deployment are of its present template, and Available.
pub(crate) fn available(deployment: &Deployment) -> bool {
    let replicas = deployment.spec.as_ref().and_then(|spec| spec.replicas);
    deployment.status.as_ref().is_some_and(|status| {
        status.observed_generation >= deployment.metadata.generation
            && status.updated_replicas == replicas
            && status.available_replicas == replicas
            && status.replicas == replicas
    })
}

/// Whether a pod is Ready, and stays.
pub(crate) fn ready(pod: &Pod) -> bool {
    let conditions = pod
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_ref());
    pod.metadata.deletion_timestamp.is_none()
        && conditions
            .into_iter()
            .flatten()
            .any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// `status reason` of a condition.
pub(crate) fn line(conditions: &[Condition], kind: &str) -> String {
    let found = conditions.iter().find(|condition| condition.type_ == kind);
    found.map_or_else(
        || "absent".to_owned(),
        |condition| format!("{} {}", condition.status, condition.reason),
    )
}

/// The message of a condition.
pub(crate) fn message<'a>(conditions: &'a [Condition], kind: &str) -> &'a str {
    let found = conditions.iter().find(|condition| condition.type_ == kind);
    found.map_or("", |condition| condition.message.as_str())
}
