//! Waiting for what is to come, with a message when it does not.

use std::time::Duration;

use cluster::wait::{self, Watched};
use futures::StreamExt as _;
use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        core::v1::{ContainerStatus, Pod},
    },
    apimachinery::pkg::apis::meta::v1::Condition,
};
use kube::{
    Api,
    api::ListParams,
    runtime::{WatchStreamExt as _, watcher},
};
use tokio::time::{Instant, timeout_at};

/// How long anything may take on a machine with a lot to do.
pub(crate) const PATIENCE: Duration = Duration::from_secs(240);
/// How long what is only looked at once a minute may take, or what waits for the provisioner to be started anew.
pub(crate) const LONG: Duration = Duration::from_secs(480);

/// Waits until an object is as wanted, and returns it. `what` is said when that does not happen.
pub(crate) async fn until<K: Watched>(
    api: Api<K>,
    name: &str,
    what: &str,
    wanted: impl Fn(&K) -> bool,
) -> K {
    until_within(api, name, what, PATIENCE, wanted).await
}

/// The same, for what takes its time.
pub(crate) async fn until_within<K: Watched>(
    api: Api<K>,
    name: &str,
    what: &str,
    patience: Duration,
    wanted: impl Fn(&K) -> bool,
) -> K {
    let found = wait::object(api, name, patience, wanted).await;
    found.unwrap_or_else(|seen| panic!("{name}: not {what} after {patience:?}: {seen}"))
}

/// Waits until this succeeds, and tells what comes of it.
pub(crate) async fn eventually<T>(
    what: &str,
    patience: Duration,
    attempt: impl AsyncFn() -> Result<T, String>,
) -> T {
    let done = wait::eventually(patience, attempt).await;
    done.unwrap_or_else(|seen| panic!("not {what} after {patience:?}: {seen}"))
}

/// Waits until an object does not exist.
pub(crate) async fn gone<K: Watched>(api: Api<K>, name: &str) {
    eventually(&format!("{name} is gone"), PATIENCE, async || {
        match api.get_opt(name).await {
            Ok(None) => Ok(()),
            Ok(Some(_)) => Err("it is still there".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    })
    .await;
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

/// The status of a pod's first container.
pub(crate) fn container(pod: &Pod) -> &ContainerStatus {
    let status = pod.status.as_ref().unwrap();
    &status.container_statuses.as_ref().unwrap()[0]
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
