//! Diagnostics of an operator that does not become ready in time: Warning events of the cluster, and unready pods with the
//! end of their logs. Data that cannot be read, or not in time, is omitted, so that a slow API does not delay the command.

use std::{future::Future, time::Duration};

use futures::future::join_all;
use k8s_openapi::api::core::v1::{ContainerStatus, Event, Pod};
use kube::{
    Api, ResourceExt as _,
    api::{ListParams, LogParams},
};
use manifests::api::{bundle_instance::BundleInstance, labels};
use tokio::time::timeout;

use crate::{cluster::Cluster, commands::status::bundles_of, output::message};

/// Timeout of each step. Independent requests run concurrently, and the diagnosis has three steps.
const STEP_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of warnings, and of unhealthy pods.
const MAX_REPORTED: usize = 5;
/// Maximum number of log lines.
const MAX_LOG_LINES: i64 = 15;
/// Maximum size of a log, in bytes.
const MAX_LOG_BYTES: i64 = 16 << 10;
/// Maximum number of events and of pods that are read.
const PAGE_SIZE: u32 = 500;

/// Prints the probable causes why an instance is not ready.
pub(super) async fn print(cluster: &Cluster, instance: &BundleInstance) {
    for line in Box::pin(lines(cluster, instance)).await {
        message::quote(&line);
    }
}

/// Prints the probable causes why objects in a namespace are not ready.
pub(super) async fn print_namespace(cluster: &Cluster, namespace: &str) {
    let (events, pods) = in_namespace(cluster, namespace).await;
    for line in with_pods(cluster, warning_events(events), &pods).await {
        message::quote(&line);
    }
}

/// Returns the result of `work`, or an empty default if it takes longer than `limit`.
async fn within<T: Default>(limit: Duration, work: impl Future<Output = T>) -> T {
    timeout(limit, work).await.unwrap_or_default()
}

async fn in_namespace(cluster: &Cluster, namespace: &str) -> (Vec<Event>, Vec<Pod>) {
    let params = ListParams::default().limit(PAGE_SIZE);
    tokio::join!(
        within(STEP_TIMEOUT, events(cluster, namespace)),
        within(STEP_TIMEOUT, list(cluster, namespace, &params)),
    )
}

async fn lines(cluster: &Cluster, instance: &BundleInstance) -> Vec<String> {
    let status = instance.status.as_ref();
    let namespace = status.and_then(|status| status.install_namespace.as_deref());
    let bundles = async { bundles_of(cluster, instance).await.unwrap_or_default() };
    let bundles = within(STEP_TIMEOUT, bundles).await;
    let mut names: Vec<String> = bundles.iter().map(kube::ResourceExt::name_any).collect();
    let jobs = names.iter().map(|name| async move {
        let label = format!(
            "{}=Bundle,{}={name}",
            labels::OWNER_KIND,
            labels::OWNER_NAME
        );
        let params = ListParams::default().limit(PAGE_SIZE).labels(&label);
        list(cluster, &cluster.system_namespace, &params).await
    });
    let installed = async {
        match namespace {
            Some(namespace) => in_namespace(cluster, namespace).await,
            None => (Vec::new(), Vec::new()),
        }
    };
    let (mut events, jobs, installed) = tokio::join!(
        within(STEP_TIMEOUT, events(cluster, "default")),
        join_all(jobs.map(|job| within(STEP_TIMEOUT, job))),
        installed,
    );
    names.push(instance.name_any());
    events.retain(|event| {
        let name = event.involved_object.name.as_deref().unwrap_or_default();
        names.iter().any(|own| own == name)
    });
    events.extend(installed.0);
    let mut pods: Vec<Pod> = jobs.into_iter().flatten().collect();
    pods.extend(installed.1);
    with_pods(cluster, warning_events(events), &pods).await
}

/// Appends the descriptions of unhealthy pods to `lines`.
async fn with_pods(cluster: &Cluster, mut lines: Vec<String>, pods: &[Pod]) -> Vec<String> {
    let unhealthy = pods
        .iter()
        .filter(|pod| is_unhealthy(pod))
        .take(MAX_REPORTED);
    lines.extend(
        describe_all(
            STEP_TIMEOUT,
            unhealthy.map(|pod| (describe(pod), log(cluster, pod))),
        )
        .await,
    );
    lines
}

/// Returns the descriptions of pods, each with the part of its log that arrives in time.
async fn describe_all<L>(limit: Duration, pods: impl Iterator<Item = (String, L)>) -> Vec<String>
where
    L: Future<Output = Vec<String>>,
{
    let all = pods.map(|(line, log)| async {
        let mut lines = vec![line];
        lines.extend(within(limit, log).await);
        lines
    });
    join_all(all).await.concat()
}

async fn events(cluster: &Cluster, namespace: &str) -> Vec<Event> {
    let api = Api::<Event>::namespaced(cluster.client.clone(), namespace);
    let params = ListParams::default()
        .limit(PAGE_SIZE)
        .fields("type=Warning");
    api.list(&params)
        .await
        .map(|list| list.items)
        .unwrap_or_default()
}

async fn list(cluster: &Cluster, namespace: &str, params: &ListParams) -> Vec<Pod> {
    let api = Api::<Pod>::namespaced(cluster.client.clone(), namespace);
    api.list(params)
        .await
        .map(|list| list.items)
        .unwrap_or_default()
}

/// Returns the end of the log of the pod's first unready container, or the log of its previous run if it waits for a
/// restart.
async fn log(cluster: &Cluster, pod: &Pod) -> Vec<String> {
    let (Some(namespace), Some(status)) = (pod.namespace(), unready(pod)) else {
        return Vec::new();
    };
    let api = Api::<Pod>::namespaced(cluster.client.clone(), &namespace);
    let is_waiting = status
        .state
        .as_ref()
        .is_some_and(|state| state.waiting.is_some());
    let params = LogParams {
        container: Some(status.name.clone()),
        tail_lines: Some(MAX_LOG_LINES),
        limit_bytes: Some(MAX_LOG_BYTES),
        previous: is_waiting && status.restart_count > 0,
        ..LogParams::default()
    };
    let text = api.logs(&pod.name_any(), &params).await.unwrap_or_default();
    text.lines().map(|line| format!("  | {line}")).collect()
}

/// Returns the latest distinct warnings, oldest first.
fn warning_events(mut events: Vec<Event>) -> Vec<String> {
    let time = |event: &Event| {
        let last = event.last_timestamp.as_ref().map(|time| time.0);
        last.or(event.event_time.as_ref().map(|time| time.0))
    };
    events.sort_by_key(time);
    let mut lines: Vec<String> = Vec::new();
    for event in events.iter().rev() {
        let object = &event.involved_object;
        let line = format!(
            "{} {}: {}: {}",
            object.kind.as_deref().unwrap_or_default(),
            object.name.as_deref().unwrap_or_default(),
            event.reason.as_deref().unwrap_or_default(),
            event.message.as_deref().unwrap_or_default().trim()
        );
        if !lines.contains(&line) {
            lines.push(line);
        }
        if lines.len() == MAX_REPORTED {
            break;
        }
    }
    lines.reverse();
    lines
}

fn is_unhealthy(pod: &Pod) -> bool {
    let status = pod.status.as_ref();
    let is_done = status.and_then(|status| status.phase.as_deref()) == Some("Succeeded");
    let conditions = status.and_then(|status| status.conditions.as_deref());
    let is_ready = |pod: &[_]| {
        let mut conditions = pod.iter();
        conditions.any(|condition: &k8s_openapi::api::core::v1::PodCondition| {
            condition.type_ == "Ready" && condition.status == "True"
        })
    };
    !is_done && !conditions.is_some_and(is_ready)
}

fn statuses(pod: &Pod) -> impl Iterator<Item = &ContainerStatus> {
    let status = pod.status.iter();
    status.flat_map(|status| {
        let first = status.init_container_statuses.iter().flatten();
        // A completed init container is not ready either.
        let first = first.filter(|container| {
            let ended = container
                .state
                .as_ref()
                .and_then(|state| state.terminated.as_ref());
            ended.is_none_or(|state| state.exit_code != 0)
        });
        first.chain(status.container_statuses.iter().flatten())
    })
}

fn unready(pod: &Pod) -> Option<&ContainerStatus> {
    statuses(pod).find(|container| !container.ready)
}

/// Describes a pod, as in `Pod a/b: Pending: container c: ImagePullBackOff: …`.
pub(super) fn describe(pod: &Pod) -> String {
    let name = format!("{}/{}", pod.namespace().unwrap_or_default(), pod.name_any());
    let status = pod.status.as_ref();
    let phase = status
        .and_then(|status| status.phase.as_deref())
        .unwrap_or("Unknown");
    let mut parts = vec![format!("Pod {name}: {phase}")];
    let unscheduled = status
        .into_iter()
        .flat_map(|status| status.conditions.iter().flatten());
    let unscheduled = unscheduled
        .filter(|condition| condition.type_ == "PodScheduled" && condition.status == "False");
    parts.extend(unscheduled.filter_map(|condition| condition.message.clone()));
    if let Some(container) = unready(pod) {
        let state = container.state.clone().unwrap_or_default();
        let waiting = state.waiting.map(|state| (state.reason, state.message));
        let ended = state.terminated.map(|state| {
            let code = format!("exited with code {}", state.exit_code);
            (state.reason, Some(state.message.unwrap_or(code)))
        });
        let reason = waiting.or(ended).unwrap_or((None, None));
        parts.push(format!("container {}", container.name));
        parts.extend([reason.0, reason.1].into_iter().flatten());
        if container.restart_count > 0 {
            parts.push(format!("restarted {} times", container.restart_count));
        }
    }
    parts.join(": ")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn container(name: &str, ready: bool, state: &Value) -> Value {
        json!({"name": name, "ready": ready, "restartCount": 2, "image": "", "imageID": "", "state": state})
    }

    // parity: sdk-28
    #[test]
    fn pods_that_are_not_ready_report_the_reason() {
        let back_off =
            json!({"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}});
        let ended = json!({"terminated": {"reason": "Error", "exitCode": 3}});
        let done = json!({"terminated": {"reason": "Completed", "exitCode": 0}});
        let unscheduled = json!({"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available"});
        for (status, is_bad, expected) in ::tests::rows![
            json!({"phase": "Succeeded"}), false => "Succeeded";
            json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}), false => "Running";
            json!({"phase": "Pending", "conditions": [unscheduled]}), true => "Pending: 0/1 nodes are available";
            json!({
                "phase": "Pending",
                "initContainerStatuses": [container("init", false, &done)],
                "containerStatuses": [container("a", true, &json!({})), container("b", false, &back_off)],
            }), true => "Pending: container b: ImagePullBackOff: no such image: restarted 2 times";
            json!({"phase": "Pending", "initContainerStatuses": [container("init", false, &ended)]}), true
                => "Pending: container init: Error: exited with code 3: restarted 2 times";
        ] {
            let metadata = json!({"name": "tide-1", "namespace": "tides"});
            let pod = serde_json::from_value(json!({"metadata": metadata, "status": status}));
            let pod: Pod = pod.unwrap();
            assert_eq!(describe(&pod), format!("Pod tides/tide-1: {expected}"));
            assert_eq!(is_unhealthy(&pod), is_bad, "{expected}");
        }
    }

    // parity: sdk-28
    #[tokio::test]
    async fn slow_diagnosis_does_not_block_the_others() {
        use std::future::{pending, ready};

        use futures::FutureExt as _;

        let log = |text: &str| ready(vec![format!("  | {text}")]).boxed();
        let pods = [
            ("a".to_owned(), log("1")),
            ("b".to_owned(), pending().boxed()),
            ("c".to_owned(), log("3")),
        ];
        let lines = describe_all(Duration::from_millis(10), pods.into_iter()).await;
        assert_eq!(lines, ["a", "  | 1", "b", "c", "  | 3"]);
        let (slow, fast) = tokio::join!(
            within(Duration::from_millis(10), pending::<Vec<Event>>()),
            within(Duration::from_secs(60), ready(vec![1])),
        );
        assert_eq!((slow.len(), fast), (0, vec![1]));
    }

    // parity: sdk-28
    #[test]
    fn last_warnings_are_reported_once() {
        let event = |second: u32, message: &str| -> Event {
            serde_json::from_value(json!({
                "metadata": {}, "reason": "Failed", "message": message, "type": "Warning",
                "involvedObject": {"kind": "Pod", "name": "a"},
                "lastTimestamp": format!("2026-01-01T00:00:{second:02}Z"),
            }))
            .unwrap()
        };
        let joined = |all: Vec<Event>| warning_events(all).join(",").replace("Pod a: Failed: ", "");
        ::tests::assert_rows! {
            joined(vec![event(2, "b\n"), event(1, "a"), event(3, "b")]) => "a,b";
            joined((0..9).map(|at| event(at, &at.to_string())).collect()) => "4,5,6,7,8";
            joined(Vec::new()) => "";
        }
    }
}
