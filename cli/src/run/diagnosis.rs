//! What is told when something does not work in time: warnings of the cluster, and the pods that are not ready with the end of
//! their logs. All of it is read as far as one may; what cannot be read, or takes too long, is left out, and nothing waits for
//! what is slow.

use std::{future::Future, time::Duration};

use futures::future::join_all;
use k8s_openapi::api::core::v1::{ContainerStatus, Event, Pod};
use kube::{
    Api, ResourceExt as _,
    api::{ListParams, LogParams},
};
use manifests::api::{instance::BundleInstance, labels};
use tokio::time::timeout;

use crate::{cluster::Cluster, message, status::bundles_of};

/// How long each part of looking may take. Those that need nothing of one another are done at once, and there are three steps.
const SHARE: Duration = Duration::from_secs(5);
/// Of each kind of thing no more is told.
const MOST: usize = 5;
/// Lines and bytes of a log.
const LINES: i64 = 15;
const BYTES: i64 = 16 << 10;
/// Events and pods that are looked at.
const PAGE: u32 = 500;

/// Tells what may be the matter with an instance.
pub(super) async fn tell(cluster: &Cluster, instance: &BundleInstance) {
    for line in Box::pin(lines(cluster, instance)).await {
        message::quote(&line);
    }
}

/// Tells what may be the matter with what is in a namespace.
pub(super) async fn tell_namespace(cluster: &Cluster, namespace: &str) {
    let (events, pods) = in_namespace(cluster, namespace).await;
    for line in with_pods(cluster, warnings(events), &pods).await {
        message::quote(&line);
    }
}

/// What there is of a part when its time is up: all or nothing.
async fn share<T: Default>(patience: Duration, work: impl Future<Output = T>) -> T {
    timeout(patience, work).await.unwrap_or_default()
}

async fn in_namespace(cluster: &Cluster, namespace: &str) -> (Vec<Event>, Vec<Pod>) {
    let params = ListParams::default().limit(PAGE);
    tokio::join!(
        share(SHARE, events(cluster, namespace)),
        share(SHARE, list(cluster, namespace, &params)),
    )
}

async fn lines(cluster: &Cluster, instance: &BundleInstance) -> Vec<String> {
    let status = instance.status.as_ref();
    let namespace = status.and_then(|it| it.install_namespace.as_deref());
    let bundles = async { bundles_of(cluster, instance).await.unwrap_or_default() };
    let bundles = share(SHARE, bundles).await;
    let mut names: Vec<String> = bundles.iter().map(kube::ResourceExt::name_any).collect();
    let jobs = names.iter().map(|name| async move {
        let label = format!(
            "{}=Bundle,{}={name}",
            labels::OWNER_KIND,
            labels::OWNER_NAME
        );
        let params = ListParams::default().limit(PAGE).labels(&label);
        list(cluster, &cluster.system_namespace, &params).await
    });
    let installed = async {
        match namespace {
            Some(namespace) => in_namespace(cluster, namespace).await,
            None => (Vec::new(), Vec::new()),
        }
    };
    let (mut events, jobs, installed) = tokio::join!(
        share(SHARE, events(cluster, "default")),
        join_all(jobs.map(|job| share(SHARE, job))),
        installed,
    );
    names.push(instance.name_any());
    events.retain(|it| {
        let name = it.involved_object.name.as_deref().unwrap_or_default();
        names.iter().any(|known| known == name)
    });
    events.extend(installed.0);
    let mut pods: Vec<Pod> = jobs.into_iter().flatten().collect();
    pods.extend(installed.1);
    with_pods(cluster, warnings(events), &pods).await
}

/// The lines, and those of pods that are unwell.
async fn with_pods(cluster: &Cluster, mut lines: Vec<String>, pods: &[Pod]) -> Vec<String> {
    let unwell = pods.iter().filter(|it| is_unwell(it)).take(MOST);
    lines.extend(described(SHARE, unwell.map(|it| (describe(it), log(cluster, it)))).await);
    lines
}

/// What is known of pods, and what of their logs comes in time.
async fn described<L>(patience: Duration, pods: impl Iterator<Item = (String, L)>) -> Vec<String>
where
    L: Future<Output = Vec<String>>,
{
    let all = pods.map(|(line, log)| async {
        let mut lines = vec![line];
        lines.extend(share(patience, log).await);
        lines
    });
    join_all(all).await.concat()
}

async fn events(cluster: &Cluster, namespace: &str) -> Vec<Event> {
    let api = Api::<Event>::namespaced(cluster.client.clone(), namespace);
    let params = ListParams::default().limit(PAGE).fields("type=Warning");
    api.list(&params)
        .await
        .map(|it| it.items)
        .unwrap_or_default()
}

async fn list(cluster: &Cluster, namespace: &str, params: &ListParams) -> Vec<Pod> {
    let api = Api::<Pod>::namespaced(cluster.client.clone(), namespace);
    api.list(params)
        .await
        .map(|it| it.items)
        .unwrap_or_default()
}

/// The end of what the pod's first unready container wrote, or wrote before it was started again.
async fn log(cluster: &Cluster, pod: &Pod) -> Vec<String> {
    let (Some(namespace), Some(status)) = (pod.namespace(), unready(pod)) else {
        return Vec::new();
    };
    let api = Api::<Pod>::namespaced(cluster.client.clone(), &namespace);
    let is_waiting = status.state.as_ref().is_some_and(|it| it.waiting.is_some());
    let params = LogParams {
        container: Some(status.name.clone()),
        tail_lines: Some(LINES),
        limit_bytes: Some(BYTES),
        previous: is_waiting && status.restart_count > 0,
        ..LogParams::default()
    };
    let text = api.logs(&pod.name_any(), &params).await.unwrap_or_default();
    text.lines().map(|line| format!("  | {line}")).collect()
}

/// The last warnings, oldest first, each once.
fn warnings(mut events: Vec<Event>) -> Vec<String> {
    let time = |it: &Event| {
        let last = it.last_timestamp.as_ref().map(|it| it.0);
        last.or(it.event_time.as_ref().map(|it| it.0))
    };
    events.sort_by_key(time);
    let mut lines: Vec<String> = Vec::new();
    for event in events.iter().rev() {
        let about = &event.involved_object;
        let line = format!(
            "{} {}: {}: {}",
            about.kind.as_deref().unwrap_or_default(),
            about.name.as_deref().unwrap_or_default(),
            event.reason.as_deref().unwrap_or_default(),
            event.message.as_deref().unwrap_or_default().trim()
        );
        if !lines.contains(&line) {
            lines.push(line);
        }
        if lines.len() == MOST {
            break;
        }
    }
    lines.reverse();
    lines
}

fn is_unwell(pod: &Pod) -> bool {
    let status = pod.status.as_ref();
    let is_done = status.and_then(|it| it.phase.as_deref()) == Some("Succeeded");
    let conditions = status.and_then(|it| it.conditions.as_deref());
    let is_ready = |pod: &[_]| {
        let mut conditions = pod.iter();
        conditions.any(|it: &k8s_openapi::api::core::v1::PodCondition| {
            it.type_ == "Ready" && it.status == "True"
        })
    };
    !is_done && !conditions.is_some_and(is_ready)
}

fn statuses(pod: &Pod) -> impl Iterator<Item = &ContainerStatus> {
    let status = pod.status.iter();
    status.flat_map(|it| {
        let first = it.init_container_statuses.iter().flatten();
        // One that has done its work is not ready, either.
        let first = first.filter(|it| {
            let ended = it.state.as_ref().and_then(|it| it.terminated.as_ref());
            ended.is_none_or(|it| it.exit_code != 0)
        });
        first.chain(it.container_statuses.iter().flatten())
    })
}

fn unready(pod: &Pod) -> Option<&ContainerStatus> {
    statuses(pod).find(|it| !it.ready)
}

/// `Pod a/b: Pending: container c: ImagePullBackOff: …`.
pub(super) fn describe(pod: &Pod) -> String {
    let name = format!("{}/{}", pod.namespace().unwrap_or_default(), pod.name_any());
    let status = pod.status.as_ref();
    let phase = status
        .and_then(|it| it.phase.as_deref())
        .unwrap_or("Unknown");
    let mut parts = vec![format!("Pod {name}: {phase}")];
    let unscheduled = status
        .into_iter()
        .flat_map(|it| it.conditions.iter().flatten());
    let unscheduled = unscheduled.filter(|it| it.type_ == "PodScheduled" && it.status == "False");
    parts.extend(unscheduled.filter_map(|it| it.message.clone()));
    if let Some(container) = unready(pod) {
        let state = container.state.clone().unwrap_or_default();
        let waiting = state.waiting.map(|it| (it.reason, it.message));
        let ended = state.terminated.map(|it| {
            let code = format!("it ended with code {}", it.exit_code);
            (it.reason, Some(it.message.unwrap_or(code)))
        });
        let why = waiting.or(ended).unwrap_or((None, None));
        parts.push(format!("container {}", container.name));
        parts.extend([why.0, why.1].into_iter().flatten());
        if container.restart_count > 0 {
            parts.push(format!("started again {} times", container.restart_count));
        }
    }
    parts.join(": ")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(status: &Value) -> Pod {
        serde_json::from_value(json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "tide-1", "namespace": "tides"}, "status": status,
        }))
        .unwrap()
    }

    fn container(name: &str, ready: bool, state: &Value) -> Value {
        json!({"name": name, "ready": ready, "restartCount": 2, "image": "", "imageID": "", "state": state})
    }

    // parity: sdk-28
    #[test]
    fn pods_that_are_not_ready_tell_why() {
        let back_off =
            json!({"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}});
        let ended = json!({"terminated": {"reason": "Error", "exitCode": 3}});
        let done = json!({"terminated": {"reason": "Completed", "exitCode": 0}});
        let unscheduled = json!({"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available"});
        for (status, is_bad, expected) in ::tests::rows![
            json!({"phase": "Succeeded"}), false => "Pod tides/tide-1: Succeeded";
            json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}), false
                => "Pod tides/tide-1: Running";
            json!({"phase": "Pending", "conditions": [unscheduled]}), true
                => "Pod tides/tide-1: Pending: 0/1 nodes are available";
            json!({
                "phase": "Pending",
                "initContainerStatuses": [container("init", false, &done)],
                "containerStatuses": [container("a", true, &json!({})), container("b", false, &back_off)],
            }), true => "Pod tides/tide-1: Pending: container b: ImagePullBackOff: no such image: started again 2 times";
            json!({"phase": "Pending", "initContainerStatuses": [container("init", false, &ended)]}), true
                => "Pod tides/tide-1: Pending: container init: Error: it ended with code 3: started again 2 times";
        ] {
            let pod = pod(&status);
            let found = (is_unwell(&pod), describe(&pod));
            assert_eq!(found, (is_bad, expected.to_owned()));
        }
    }

    // parity: sdk-28
    #[tokio::test]
    async fn what_is_slow_keeps_nobody_from_the_others() {
        use std::future::{pending, ready};

        use futures::FutureExt as _;

        let log = |text: &str| ready(vec![format!("  | {text}")]).boxed();
        let pods = [
            ("a".to_owned(), log("1")),
            ("b".to_owned(), pending().boxed()),
            ("c".to_owned(), log("3")),
        ];
        let told = described(Duration::from_millis(10), pods.into_iter()).await;
        assert_eq!(told, ["a", "  | 1", "b", "c", "  | 3"]);
        let (slow, fast) = tokio::join!(
            share(Duration::from_millis(10), pending::<Vec<Event>>()),
            share(Duration::from_secs(60), ready(vec![1])),
        );
        assert_eq!((slow.len(), fast), (0, vec![1]));
    }

    // parity: sdk-28
    #[test]
    fn the_last_warnings_are_told_once() {
        let event = |second: u32, message: &str| -> Event {
            serde_json::from_value(json!({
                "metadata": {}, "reason": "Failed", "message": message, "type": "Warning",
                "involvedObject": {"kind": "Pod", "name": "a"},
                "lastTimestamp": format!("2026-01-01T00:00:{second:02}Z"),
            }))
            .unwrap()
        };
        let told = |all: Vec<Event>| warnings(all).join(",").replace("Pod a: Failed: ", "");
        let many = (0..9).map(|at| event(at, &at.to_string()));
        ::tests::assert_rows! {
            told(vec![event(2, "b\n"), event(1, "a"), event(3, "b")]) => "a,b";
            told(many.collect()) => "4,5,6,7,8";
            told(Vec::new()) => "";
        }
    }
}
