//! What a pod of a Job says about itself.

use std::fmt::Write as _;

use k8s_openapi::api::core::v1::{ContainerStateTerminated, ContainerStatus, Pod};
use kube::ResourceExt;

use super::State;
use crate::bundle::job::declare::CONTAINER;

/// The reason why a kubelet has no image yet, in its own words; rukpak repeats these without a word of its own.
const PULLING: [&str; 6] = [
    "ErrImagePull",
    "ImagePullBackOff",
    "ErrImageNeverPull",
    "ImageInspectError",
    "RegistryUnavailable",
    "SignatureValidationFailed",
];
/// What is no problem.
const STARTING: [&str; 2] = ["ContainerCreating", "PodInitializing"];
/// How it begins what is told of a name that cannot be pulled.
pub(super) const UNREADABLE: &str = "the node cannot read the name of the image";
/// The program's own exit codes: it has said why, and no other pod would fare better.
const SAID: [i32; 2] = [1, 2];

/// The last pod that was made.
pub(super) fn newest<'a>(pods: impl IntoIterator<Item = &'a Pod>) -> Option<&'a Pod> {
    let age = |pod: &&Pod| {
        let created = pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
        (created, pod.name_any())
    };
    pods.into_iter().max_by_key(age)
}

/// How a Job whose last pod this is is getting on, of which that was known before.
pub(super) fn state(pod: &Pod, job: &str, before: Option<&str>) -> State {
    let name = pod.name_any();
    let phase = phase(pod);
    if pod.metadata.deletion_timestamp.is_some() {
        // What was in its way is more than that it goes, which may be just because of that.
        let told = before.map(str::to_owned);
        return State::Begun(
            told.unwrap_or_else(|| format!("pod {name} of Job {job} is being deleted")),
        );
    }
    let ended = ended(pod).filter(|ended| ended.exit_code != 0);
    if let Some(why) = words(pod) {
        let is_said = ended.is_some_and(|ended| SAID.contains(&ended.exit_code));
        // Beside somebody's container that does not end, the pod does not either, and the Job does not notice.
        if (is_said && !is_disrupted(pod)) || phase == "Running" {
            return State::Failed {
                message: format!("unpack Job {job} failed: {why}"),
                since: ended.and_then(|ended| Some(ended.finished_at.as_ref()?.0)),
            };
        }
        return State::Held(format!("pod {name} failed, and its Job tries again: {why}"));
    }
    if let Some(state) = waiting(pod, &name) {
        return state;
    }
    if let Some(why) = unschedulable(pod) {
        return State::Held(format!("pod {name} has no node: {why}"));
    }
    let runs = container(pod).and_then(|status| status.state.as_ref()?.running.as_ref());
    match runs {
        Some(_) => State::Runs,
        None => State::Begun(format!("pod {name} of Job {job} starts")),
    }
}

/// Reports whether a pod has failed, and another one has to follow.
pub(super) fn is_over(pod: &Pod) -> bool {
    phase(pod) == "Failed"
}

/// Reports whether the work is done and the pod is not.
pub(in crate::bundle::job) fn lingers(pods: &[Pod]) -> bool {
    newest(pods).is_some_and(|pod| phase(pod) == "Running" && ended(pod).is_some())
}

/// The reason why a pod has failed, if it has.
pub(super) fn words(pod: &Pod) -> Option<String> {
    let all = statuses(pod);
    let ours = all.filter(|status| matches!(status.name.as_str(), CONTAINER | "install"));
    let ended = ours
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
        Some(ended) => evicted().or_else(|| Some(last_words(ended))),
        None if phase(pod) == "Failed" => {
            Some(evicted().unwrap_or_else(|| "the pod failed and does not say why".to_owned()))
        }
        None => None,
    }
}

fn last_words(ended: &ContainerStateTerminated) -> String {
    let reason = ended.reason.as_deref().unwrap_or_default();
    let message = ended.message.as_deref().unwrap_or_default().trim();
    let code = ended.exit_code;
    match (reason, message) {
        ("OOMKilled", _) => {
            "it ran out of memory (OOMKilled); something lowers the limit of its container, or its node has none left"
                .to_owned()
        }
        (_, "") => format!("it ended with exit code {code} ({reason}) and said nothing; see the log of its pod"),
        // What the program says begins with a word of its own.
        ("Error", message) => message.to_owned(),
        (reason, message) => format!("{reason}: {message}"),
    }
}

/// What a container waits for, if that is worth telling.
fn waiting(pod: &Pod, name: &str) -> Option<State> {
    let waits = || {
        statuses(pod).filter_map(|status| {
            let waiting = status.state.as_ref()?.waiting.as_ref()?;
            let reason = waiting.reason.as_deref()?;
            let message = waiting.message.as_deref().unwrap_or(reason);
            Some((reason, message))
        })
    };
    if let Some((_, message)) = waits().find(|(reason, _)| *reason == "InvalidImageName") {
        return Some(State::Stuck(format!(
            "{UNREADABLE}: {message}; make a new Bundle with another name in spec.source.image.ref"
        )));
    }
    let mut pulls: Vec<&str> = waits()
        .filter(|(reason, _)| PULLING.contains(reason))
        .map(|(_, message)| message)
        .collect();
    pulls.dedup();
    if !pulls.is_empty() {
        return Some(State::Held(pulls.join("; ")));
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
            "; if the container runtime of node {node:?} does not know image volumes, start the provisioner with \
             --unpack-mode=init-container"
        );
    }
    Some(State::Held(text))
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
    let scheduled = conditions.iter().find(|one| one.type_ == "PodScheduled")?;
    if scheduled.status != "False" {
        return None;
    }
    scheduled.message.as_deref().or(scheduled.reason.as_deref())
}

/// Reports whether a pod had to go for reasons that have nothing to do with it.
fn is_disrupted(pod: &Pod) -> bool {
    let conditions = pod
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    conditions
        .into_iter()
        .any(|one| one.type_ == "DisruptionTarget" && one.status == "True")
}

fn phase(pod: &Pod) -> &str {
    let status = pod.status.as_ref();
    status
        .and_then(|status| status.phase.as_deref())
        .unwrap_or("Pending")
}

/// How the program ended, here or where it is copied.
fn ended(pod: &Pod) -> Option<&ContainerStateTerminated> {
    container(pod)?.state.as_ref()?.terminated.as_ref()
}

fn container(pod: &Pod) -> Option<&ContainerStatus> {
    statuses(pod).find(|status| status.name == CONTAINER)
}

/// Of all containers, those that come first before the others.
fn statuses(pod: &Pod) -> impl Iterator<Item = &ContainerStatus> {
    pod.status.iter().flat_map(|status| {
        let init = status.init_container_statuses.iter().flatten();
        init.chain(status.container_statuses.iter().flatten())
    })
}
