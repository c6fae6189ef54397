//! States of Jobs and pods, and the outcomes that are derived from them.

use ::tests::assert_has;
use serde_json::{Value, json};

use super::*;

const TIME: &str = "2026-01-02T03:04:05Z";

fn job(status: &Value) -> Job {
    object!({
        "metadata": {"name": "b-1", "namespace": "system"}, "spec": {"activeDeadlineSeconds": 600, "template": {}},
        "status": status,
    })
}

fn ended_job(type_: &str, reason: &str, message: &str) -> Job {
    job(&json!({"conditions": [
        {"type": type_, "status": "True", "reason": reason, "message": message, "lastTransitionTime": TIME},
    ]}))
}

fn pod(phase: &str, status: &Value) -> Pod {
    object!({
        "metadata": {"name": "b-1-x", "creationTimestamp": TIME},
        "spec": {"nodeName": "node", "containers": [], "volumes": [{"name": "bundle", "image": {"reference": "a"}}]},
        "status": with!(status.clone() => |status| status["phase"] = phase.into()),
    })
}

fn status(name: &str, state: &Value) -> Value {
    json!({"name": name, "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": state})
}

fn container(phase: &str, state: &Value) -> Pod {
    let statuses = json!({"containerStatuses": [status("unpack", state)]});
    pod(phase, &statuses)
}

fn waits(reason: &str, message: &str) -> Pod {
    let state = json!({"waiting": {"reason": reason, "message": message}});
    container("Pending", &state)
}

fn terminated(code: i32, reason: &str, message: &str) -> Value {
    json!({"terminated": {"exitCode": code, "reason": reason, "message": message, "finishedAt": TIME}})
}

fn leaving(mut pod: Pod) -> Pod {
    pod.metadata.deletion_timestamp = serde_json::from_value(TIME.into()).unwrap();
    pod
}

fn held(text: &str) -> JobState {
    JobState::Waiting(text.to_owned())
}

fn retried(text: &str) -> JobState {
    held(&format!("pod b-1-x failed; its Job retries: {text}"))
}

fn begun(text: &str) -> JobState {
    JobState::Starting(text.to_owned())
}

fn failed(text: &str) -> JobState {
    let message = format!("unpack Job system/b-1 failed: {text}");
    let since = Some(TIME.parse().unwrap());
    JobState::Failed { message, since }
}

fn failure(state: JobState) -> String {
    let JobState::Failed { message, .. } = state else {
        panic!("{state:?}");
    };
    message
}

fn waiting(state: JobState) -> String {
    let JobState::Waiting(message) = state else {
        panic!("{state:?}");
    };
    message
}

// parity: rukpak-17
#[test]
fn pod_waiting_reasons_are_reported() {
    let unreadable = "the node cannot read the name of the image: couldn't parse image name \"A\"";
    let back_off = r#"Back-off pulling image "quay.io/a/b:v1""#;
    let unscheduled = json!({"conditions": [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes are available"},
    ]});
    let both = json!({
        "initContainerStatuses": [status("install", &json!({"waiting": {"reason": "ErrImagePull", "message": "no such host"}}))],
        "containerStatuses": [status("unpack", &json!({"waiting": {"reason": "PodInitializing"}}))],
    });
    assert_each!(|pod, expected| evaluate(&job(&json!({})), &[pod], None, None) => expected;
        waits("ImagePullBackOff", back_off) => held(back_off);
        waits("ErrImagePull", "not found") => held("not found");
        pod("Pending", &both) => held("no such host");
        waits("InvalidImageName", "couldn't parse image name \"A\"")
            => JobState::Stuck(format!("{unreadable}; create a new Bundle with a valid name in spec.source.image.ref"));
        waits("CreateContainerError", "stat : no such file")
            => held("pod b-1-x cannot start: CreateContainerError: stat : no such file; if the container runtime of node \
                     \"node\" does not support image volumes, start the provisioner with --unpack-mode=init-container");
        waits("CreateContainerConfigError", "secret not found")
            => held("pod b-1-x cannot start: CreateContainerConfigError: secret not found");
        waits("ContainerCreating", "") => begun("pod b-1-x of Job system/b-1 is starting");
        pod("Pending", &unscheduled) => held("pod b-1-x is not scheduled: 0/1 nodes are available");
        pod("Pending", &json!({})) => begun("pod b-1-x of Job system/b-1 is starting");
        container("Running", &json!({"running": {}})) => JobState::Running;
        leaving(waits("ContainerCreating", "")) => begun("pod b-1-x of Job system/b-1 is being deleted");
    );
}

#[test]
fn failed_pod_is_reported_with_its_own_message() {
    let unreadable = "FileUnreadable: \"/manifests/a\" is not readable by user 65532";
    let disrupted = json!({
        "reason": "Evicted", "message": "The node was low on resource: memory.",
        "conditions": [{"type": "DisruptionTarget", "status": "True"}],
        "containerStatuses": [status("unpack", &terminated(143, "Error", "Stopped: stopped by SIGTERM"))],
    });
    assert_each!(|pod, expected| evaluate(&job(&json!({})), &[pod], None, None) => expected;
        container("Failed", &terminated(1, "Error", unreadable)) => failed(unreadable);
        // An admission policy added a container that does not end.
        container("Running", &terminated(1, "Error", unreadable)) => failed(unreadable);
        container("Running", &terminated(137, "OOMKilled", ""))
            => failed("out of memory (OOMKilled); check the container's memory limit and the node's free memory");
        container("Failed", &terminated(139, "Error", ""))
            => retried("exited with code 139 (Error) without a message; see the pod log");
        container("Failed", &terminated(128, "StartError", "no /unpack")) => retried("StartError: no /unpack");
        pod("Failed", &disrupted) => retried("Evicted: The node was low on resource: memory.");
        pod("Failed", &json!({})) => retried("the pod failed without a reason");
        // The Job reports whether the pod has delivered content.
        container("Succeeded", &terminated(0, "Completed", "")) => begun("pod b-1-x of Job system/b-1 is starting");
    );
}

#[test]
fn job_state_follows_its_pods_or_the_last_message() {
    let good = container("Running", &json!({"running": {}}));
    let too_large = terminated(1, "Error", "LimitExceeded: too large");
    let bad = container("Failed", &too_large);
    let lost = terminated(137, "ContainerStatusUnknown", "could not be located");
    let lost = || leaving(container("Failed", &lost));
    let message = "Job was active longer than ...";
    let late = ended_job("Failed", "DeadlineExceeded", message);
    assert_each!(|job, pods, refused, before, expected| evaluate(&job, &pods, refused, before) => expected;
        job(&json!({})), vec![], None, None => begun("waiting for Job system/b-1 to create its pod");
        job(&json!({})), vec![], Some("exceeded quota: pods"), None
            => held("Job system/b-1 cannot create its pod: exceeded quota: pods");
        // A former rejection is ignored once a pod exists.
        job(&json!({})), vec![good], Some("exceeded quota"), None => JobState::Running;
        ended_job("Failed", "PodFailurePolicy", "Container unpack ..."), vec![bad], None, None
            => failed("LimitExceeded: too large");
        ended_job("Failed", "BackoffLimitExceeded", "Job has reached the limit"), vec![], None, None
            => failed("Job has reached the limit");
        late.clone(), vec![], None, Some("Back-off pulling image \"a\"")
            => failed("timed out after 600 s; what was last known: Back-off pulling image \"a\"");
        late, vec![], None, None => failed("timed out after 600 s");
        job(&json!({})), vec![lost()], None, Some("Back-off pulling image \"a\"") => begun("Back-off pulling image \"a\"");
        // The pods are deleted before a Job reports its failure.
        ended_job("FailureTarget", "DeadlineExceeded", ""), vec![lost()], None, Some("Back-off pulling image \"a\"")
            => failed("timed out after 600 s; what was last known: Back-off pulling image \"a\"");
    );
    let ended = evaluate(&ended_job("Complete", "", ""), &[], None, None);
    assert_has(failure(ended), "without uploading content");
    let suspended = with!(job(&json!({})) => |job| job.spec.as_mut().unwrap().suspend = Some(true));
    assert_has(waiting(evaluate(&suspended, &[], None, None)), "suspended");
}

#[test]
fn pod_creation_error_includes_the_previous_pod_failure() {
    let exec_failed = terminated(139, "Error", "exec failed");
    let failed = [container("Failed", &exec_failed)];
    let expected = "Job system/b-1 cannot create another pod: exceeded quota; previously: pod b-1-x failed; its Job \
                    retries: exec failed";
    assert_rows! {
        evaluate(&job(&json!({})), &failed, Some("exceeded quota"), None) => held(expected);
        // Only rejections since the creation of the last pod explain that no other pod exists.
        without_pod(&failed) => Some(TIME.parse().unwrap());
        without_pod(&[]) => Some(Timestamp::MIN);
        without_pod(&[container("Running", &json!({"running": {}}))]) => None;
    }
}

#[test]
fn removed_pod_labels_are_reported_while_the_pod_waits() {
    let mut labeled = job(&json!({}));
    let labels = labeled.labels_mut();
    labels.insert(labels::OWNER_KIND.to_owned(), "Bundle".to_owned());
    labels.insert(labels::OWNER_NAME.to_owned(), "b".to_owned());
    let of = |pod, before| evaluate(&labeled, &[pod], None, before);
    let pod = || waits("ErrImagePull", "not found");
    let message = waiting(of(pod(), None));
    let relabeled = with!(pod() => metadata.labels: labeled.metadata.labels.clone());
    assert_rows! {
        message.starts_with("not found; an admission policy removed its labels") => true, "{message}";
        of(leaving(pod()), Some(&message)) => begun(&message);
        of(container("Running", &json!({"running": {}})), None) => JobState::Running;
        of(relabeled, None) => held("not found");
    }
}

#[test]
fn last_known_message_is_reported_once() {
    let bundle = |reason: &str, message: &str| -> Bundle {
        object!({
            "metadata": {"name": "b"}, "spec": {"source": {"type": "upload", "upload": {}}},
            "status": {"conditions": [crate::fixtures::condition("Unpacked", "False", reason, message)]},
        })
    };
    let pending = bundle("UnpackPending", "no node");
    assert_eq!(previous_message(&pending), Some("no node"));
    let late = ended_job("Failed", "DeadlineExceeded", "");
    let message = failure(evaluate(&late, &[], None, previous_message(&pending)));
    let stuck = "the node cannot read the name of the image: A";
    assert_rows! {
        previous_message(&bundle("UnpackFailed", &message)) => Some("no node");
        previous_message(&bundle("UnpackFailed", &format!("source bundle content: {stuck}"))) => Some(stuck);
        previous_message(&bundle("UnpackFailed", "other")) => None;
        previous_message(&bundle("Unpacking", "")) => None;
    }
}

#[test]
fn pod_lingers_if_its_container_ended_and_it_did_not() {
    let completed = terminated(0, "Completed", "");
    assert_rows! {
        is_lingering(&[container("Running", &completed)]) => true;
        is_lingering(&[container("Running", &json!({"running": {}}))]) => false;
        is_lingering(&[container("Succeeded", &completed)]) => false;
    }
}
