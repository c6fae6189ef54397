//! State of a pod of an unpack Job.

use std::fmt::Write as _;

use k8s_openapi::api::core::v1::{ContainerStateTerminated, ContainerStatus, Pod};
use kube::ResourceExt;

use super::JobState;
use crate::controllers::bundle::job::manifest::CONTAINER;

/// Waiting reasons of the kubelet for an image that is not pulled yet. As in rukpak, the status repeats the kubelet's
/// message unchanged.
const PULLING: [&str; 6] = [
    "ErrImagePull",
    "ImagePullBackOff",
    "ErrImageNeverPull",
    "ImageInspectError",
    "RegistryUnavailable",
    "SignatureValidationFailed",
];
/// Waiting reasons that are not a problem.
const STARTING: [&str; 2] = ["ContainerCreating", "PodInitializing"];
/// Start of the message for an image name that cannot be parsed.
pub(super) const UNREADABLE: &str = "the node cannot read the name of the image";
/// Exit codes of the unpack program itself. Its termination message gives the reason, and another pod would fail as well.
const PROGRAM_EXIT_CODES: [i32; 2] = [1, 2];

/// Returns the pod that was created last.
pub(super) fn newest<'a>(pods: impl IntoIterator<Item = &'a Pod>) -> Option<&'a Pod> {
    let age = |pod: &&Pod| {
        let created = pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
        (created, pod.name_any())
    };
    pods.into_iter().max_by_key(age)
}

/// Returns the state of a Job from its last pod. `previous` is the message that was reported before.
pub(super) fn state(pod: &Pod, job: &str, previous: Option<&str>) -> JobState {
    let name = pod.name_any();
    let phase = phase(pod);
    if pod.metadata.deletion_timestamp.is_some() {
        // The earlier problem is more useful than the deletion, which it may have caused.
        let message = previous.map(str::to_owned);
        return JobState::Starting(
            message.unwrap_or_else(|| format!("pod {name} of Job {job} is being deleted")),
        );
    }
    let ended = ended(pod).filter(|ended| ended.exit_code != 0);
    if let Some(reason) = describe_failure(pod) {
        let is_program_exit =
            ended.is_some_and(|ended| PROGRAM_EXIT_CODES.contains(&ended.exit_code));
        // Next to an injected container that does not exit, the pod does not end either, so the Job does not fail.
        if (is_program_exit && !is_disrupted(pod)) || phase == "Running" {
            return JobState::Failed {
                message: format!("unpack Job {job} failed: {reason}"),
                since: ended.and_then(|ended| Some(ended.finished_at.as_ref()?.0)),
            };
        }
        return JobState::Waiting(format!("pod {name} failed; its Job retries: {reason}"));
    }
    if let Some(state) = waiting(pod, &name) {
        return state;
    }
    if let Some(reason) = unschedulable(pod) {
        return JobState::Waiting(format!("pod {name} is not scheduled: {reason}"));
    }
    let runs = container(pod).and_then(|status| status.state.as_ref()?.running.as_ref());
    match runs {
        Some(_) => JobState::Running,
        None => JobState::Starting(format!("pod {name} of Job {job} is starting")),
    }
}

/// Reports whether a pod has failed, so that another one has to follow.
pub(super) fn is_over(pod: &Pod) -> bool {
    phase(pod) == "Failed"
}

/// Reports whether the unpack container has finished while its pod still runs.
pub(in crate::controllers::bundle::job) fn is_lingering(pods: &[Pod]) -> bool {
    newest(pods).is_some_and(|pod| phase(pod) == "Running" && ended(pod).is_some())
}

/// Returns the reason why a pod has failed, or `None` if it has not failed.
pub(super) fn describe_failure(pod: &Pod) -> Option<String> {
    let statuses = statuses(pod);
    let relevant = statuses.filter(|status| matches!(status.name.as_str(), CONTAINER | "install"));
    let ended = relevant
        .filter_map(|status| status.state.as_ref()?.terminated.as_ref())
        .find(|ended| ended.exit_code != 0);
    let status = pod.status.as_ref()?;
    let evicted = || {
        let reason = status.reason.as_deref()?;
        let message = status.message.as_deref().unwrap_or_default();
        Some(
            format!("{reason}: {message}")
                .trim_end_matches(": ")
                .to_owned(),
        )
    };
    match ended {
        Some(ended) => evicted().or_else(|| Some(describe_exit(ended))),
        None if phase(pod) == "Failed" => {
            Some(evicted().unwrap_or_else(|| "the pod failed without a reason".to_owned()))
        }
        None => None,
    }
}

fn describe_exit(ended: &ContainerStateTerminated) -> String {
    let reason = ended.reason.as_deref().unwrap_or_default();
    let message = ended.message.as_deref().unwrap_or_default().trim();
    let code = ended.exit_code;
    match (reason, message) {
        ("OOMKilled", _) => {
            "out of memory (OOMKilled); check the container's memory limit and the node's free memory"
                .to_owned()
        }
        (_, "") => format!("exited with code {code} ({reason}) without a message; see the pod log"),
        // The message of the program is complete without the reason.
        ("Error", message) => message.to_owned(),
        (reason, message) => format!("{reason}: {message}"),
    }
}

/// Returns the state for a waiting container, if its reason is worth reporting.
fn waiting(pod: &Pod, name: &str) -> Option<JobState> {
    let waits = || {
        statuses(pod).filter_map(|status| {
            let waiting = status.state.as_ref()?.waiting.as_ref()?;
            let reason = waiting.reason.as_deref()?;
            let message = waiting.message.as_deref().unwrap_or(reason);
            Some((reason, message))
        })
    };
    if let Some((_, message)) = waits().find(|(reason, _)| *reason == "InvalidImageName") {
        return Some(JobState::Stuck(format!(
            "{UNREADABLE}: {message}; create a new Bundle with a valid name in spec.source.image.ref"
        )));
    }
    let mut pulls: Vec<&str> = waits()
        .filter(|(reason, _)| PULLING.contains(reason))
        .map(|(_, message)| message)
        .collect();
    pulls.dedup();
    if !pulls.is_empty() {
        return Some(JobState::Waiting(pulls.join("; ")));
    }
    let (reason, message) = waits().find(|(reason, _)| !STARTING.contains(reason))?;
    let mut text = format!("pod {name} cannot start: {reason}");
    if message != reason {
        text.push_str(": ");
        text.push_str(message);
    }
    if is_volume(pod) && reason == "CreateContainerError" {
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
        let node = node.unwrap_or_default();
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "; if the container runtime of node {node:?} does not support image volumes, start the provisioner with \
             --unpack-mode=init-container"
        );
    }
    Some(JobState::Waiting(text))
}

fn is_volume(pod: &Pod) -> bool {
    let volumes = pod
        .spec
        .iter()
        .flat_map(|spec| spec.volumes.iter().flatten());
    volumes.into_iter().any(|volume| volume.image.is_some())
}

fn unschedulable(pod: &Pod) -> Option<&str> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let scheduled = conditions
        .iter()
        .find(|condition| condition.type_ == "PodScheduled")?;
    if scheduled.status != "False" {
        return None;
    }
    scheduled.message.as_deref().or(scheduled.reason.as_deref())
}

/// Reports whether a pod was disrupted for a reason outside of the pod, such as a node drain.
fn is_disrupted(pod: &Pod) -> bool {
    let conditions = pod
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    conditions
        .into_iter()
        .any(|condition| condition.type_ == "DisruptionTarget" && condition.status == "True")
}

fn phase(pod: &Pod) -> &str {
    let status = pod.status.as_ref();
    status
        .and_then(|status| status.phase.as_deref())
        .unwrap_or("Pending")
}

/// Returns how the unpack program ended.
fn ended(pod: &Pod) -> Option<&ContainerStateTerminated> {
    container(pod)?.state.as_ref()?.terminated.as_ref()
}

fn container(pod: &Pod) -> Option<&ContainerStatus> {
    statuses(pod).find(|status| status.name == CONTAINER)
}

/// Returns the statuses of all containers, init containers first.
fn statuses(pod: &Pod) -> impl Iterator<Item = &ContainerStatus> {
    pod.status.iter().flat_map(|status| {
        let init = status.init_container_statuses.iter().flatten();
        init.chain(status.container_statuses.iter().flatten())
    })
}
