//! Waits that fail the test with a message after a timeout.

use std::{fmt::Debug, time::Duration};

use cluster::wait::{self, Watched};
use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        core::v1::{ContainerStatus, Pod},
    },
    apimachinery::pkg::apis::meta::v1::Condition,
};
use kube::{
    Api,
    api::{DeleteParams, ListParams},
};

/// The timeout of most waits, on a busy machine. It is shorter than the longest retry delay of the provisioner.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(240);
/// The timeout of changes that are polled once a minute, or that wait for a restart of the provisioner.
pub(crate) const LONG_TIMEOUT: Duration = Duration::from_secs(480);

/// Waits until an object is as expected, and returns it. Panics with `expectation` at the timeout.
pub(crate) async fn until<K: Watched>(
    api: Api<K>,
    name: &str,
    expectation: &str,
    is_expected: impl Fn(&K) -> bool,
) -> K {
    until_within(TIMEOUT, api, name, expectation, is_expected).await
}

pub(crate) async fn until_within<K: Watched>(
    limit: Duration,
    api: Api<K>,
    name: &str,
    expectation: &str,
    is_expected: impl Fn(&K) -> bool,
) -> K {
    let object = wait::object(api, name, limit, is_expected).await;
    object.unwrap_or_else(|state| panic!("{name}: not {expectation} after {limit:?}: {state}"))
}

/// Repeats an attempt until it succeeds, and returns its result. Panics with `expectation` at the long timeout.
pub(crate) async fn eventually<T, E: ToString>(
    expectation: &str,
    attempt: impl AsyncFn() -> Result<T, E>,
) -> T {
    eventually_within(LONG_TIMEOUT, expectation, attempt).await
}

async fn eventually_within<T, E: ToString>(
    limit: Duration,
    expectation: &str,
    attempt: impl AsyncFn() -> Result<T, E>,
) -> T {
    let attempt = async || attempt().await.map_err(|error| error.to_string());
    let result = wait::eventually(limit, attempt).await;
    result.unwrap_or_else(|reason| panic!("not {expectation} after {limit:?}: {reason}"))
}

/// Repeats an attempt until its result is as expected.
pub(crate) async fn equal<T: Debug + PartialEq<U>, U: Debug, E: ToString>(
    expected: U,
    attempt: impl AsyncFn() -> Result<T, E>,
) {
    eventually(&format!("{expected:?}"), async || match attempt().await {
        Ok(found) if found == expected => Ok(()),
        Ok(found) => Err(format!("{found:?}")),
        Err(error) => Err(error.to_string()),
    })
    .await;
}

/// Deletes an object, and waits until it does not exist.
pub(crate) async fn delete<K: Watched>(api: Api<K>, name: &str) {
    api.delete(name, &DeleteParams::default()).await.unwrap();
    deleted(api, name).await;
}

pub(crate) async fn deleted<K: Watched>(api: Api<K>, name: &str) {
    eventually_within(TIMEOUT, &format!("{name} deleted"), async || {
        match api.get_opt(name).await {
            Ok(None) => Ok(()),
            Ok(Some(object)) => Err(serde_json::to_string(&object).unwrap()),
            Err(error) => Err(error.to_string()),
        }
    })
    .await;
}

/// Waits until a pod with these labels is as expected, and returns it.
pub(crate) async fn pod(
    pods: Api<Pod>,
    labels: &str,
    expectation: &str,
    is_expected: impl Fn(&Pod) -> bool,
) -> Pod {
    let params = ListParams::default().labels(labels);
    let expectation = format!("{expectation}: a pod with {labels}");
    eventually_within(TIMEOUT, &expectation, async || {
        let pods = pods.list(&params).await;
        let pods = pods.map_err(|error| error.to_string())?.items;
        let expected = pods.iter().find(|pod| is_expected(pod)).cloned();
        expected.ok_or_else(|| serde_json::to_string_pretty(&pods).unwrap())
    })
    .await
}

/// The pods with these labels that are not terminating.
pub(crate) async fn present(pods: &Api<Pod>, labels: &str) -> Vec<Pod> {
    let params = ListParams::default().labels(labels);
    let mut pods = pods.list(&params).await.unwrap().items;
    pods.retain(|pod| pod.metadata.deletion_timestamp.is_none());
    pods
}

/// Reports whether all pods of a Deployment have its current template and are Available.
pub(crate) fn available(deployment: &Deployment) -> bool {
    let replicas = deployment.spec.as_ref().and_then(|spec| spec.replicas);
    deployment.status.as_ref().is_some_and(|status| {
        status.observed_generation >= deployment.metadata.generation
            && status.updated_replicas == replicas
            && status.available_replicas == replicas
            && status.replicas == replicas
    })
}

pub(crate) fn container(pod: &Pod) -> &ContainerStatus {
    let status = pod.status.as_ref().unwrap();
    &status.container_statuses.as_ref().unwrap()[0]
}

/// Reports whether a pod is Ready and not terminating.
pub(crate) fn ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| &status.conditions);
    let mut conditions = conditions.flatten();
    let is_ready =
        conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True");
    is_ready && pod.metadata.deletion_timestamp.is_none()
}

/// `status reason` of a condition.
pub(crate) fn line(conditions: &[Condition], kind: &str) -> String {
    let found = conditions.iter().find(|condition| condition.type_ == kind);
    let text = found.map(|condition| format!("{} {}", condition.status, condition.reason));
    text.unwrap_or_else(|| "absent".to_owned())
}

pub(crate) fn message<'a>(conditions: &'a [Condition], kind: &str) -> &'a str {
    let found = conditions.iter().find(|condition| condition.type_ == kind);
    found.map_or("", |condition| condition.message.as_str())
}
