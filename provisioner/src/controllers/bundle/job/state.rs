//! State of an unpack Job, with a message for the condition, derived from the Job, its pods and its events.

mod pod;
#[cfg(test)]
mod tests;

use jiff::Timestamp;
use k8s_openapi::api::{
    batch::v1::{Job, JobCondition},
    core::v1::Pod,
};
use kube::ResourceExt;
use manifests::api::{
    bundle::Bundle,
    condition::{self, UNPACKED, reason},
    labels,
};

pub(super) use pod::is_lingering;

/// Precedes the previous message when no pod is left to inspect.
const LAST_KNOWN_PREFIX: &str = "; what was last known: ";

/// State of an unpack Job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum JobState {
    /// The Job is starting normally.
    Starting(String),
    /// A problem that may resolve itself.
    Waiting(String),
    /// The pod is running and uploads the content.
    Running,
    /// A permanent problem. The Job remains until its deadline.
    Stuck(String),
    /// The Job has ended without content, and another one has to follow.
    Failed {
        message: String,
        since: Option<Timestamp>,
    },
}

/// Returns the state of a Job. `refused` is the reason why its last pod was rejected, `previous` the message that was
/// reported before.
pub(super) fn evaluate(
    job: &Job,
    pods: &[Pod],
    refused: Option<&str>,
    previous: Option<&str>,
) -> JobState {
    let full = format!("{}/{}", job.namespace().unwrap_or_default(), job.name_any());
    // `FailureTarget` precedes `Failed` while the pods are terminating, whose statuses are not useful then.
    let failed = condition(job, "FailureTarget").or_else(|| condition(job, "Failed"));
    if let Some(failed) = failed {
        return JobState::Failed {
            message: format!(
                "unpack Job {full} failed: {}",
                failure_reason(job, failed, pods, previous)
            ),
            since: failed.last_transition_time.as_ref().map(|time| time.0),
        };
    }
    if let Some(complete) = condition(job, "Complete") {
        return JobState::Failed {
            message: format!(
                "unpack Job {full} completed without uploading content: its container was modified in this cluster; \
                 check its pod"
            ),
            since: complete.last_transition_time.as_ref().map(|time| time.0),
        };
    }
    if job.spec.as_ref().and_then(|spec| spec.suspend) == Some(true) {
        return JobState::Waiting(format!(
            "Job {full} is suspended; resume it (spec.suspend: false)"
        ));
    }
    match (pod::newest(pods), refused) {
        (Some(pod), refused) => match (pod::state(pod, &full, previous), refused) {
            (JobState::Waiting(message), Some(refused)) => JobState::Waiting(format!(
                "Job {full} cannot create another pod: {refused}; previously: {message}"
            )),
            // The state of a terminating pod already repeats the previous message.
            (state, _) if has_labels(job, pod) || pod.metadata.deletion_timestamp.is_some() => {
                state
            }
            (JobState::Waiting(message) | JobState::Starting(message), _) => {
                JobState::Waiting(format!(
                    "{message}; an admission policy removed its labels, so its progress is unknown; exempt the system \
                     namespace from that policy"
                ))
            }
            (state, _) => state,
        },
        (None, Some(refused)) => {
            JobState::Waiting(format!("Job {full} cannot create its pod: {refused}"))
        }
        (None, None) => JobState::Starting(format!("waiting for Job {full} to create its pod")),
    }
}

/// Returns the time since which a Job has no pod that could do its work, or `None` if it has such a pod. Earlier rejections
/// are outdated.
pub(super) fn without_pod(pods: &[Pod]) -> Option<Timestamp> {
    match pod::newest(pods) {
        None => Some(Timestamp::MIN),
        Some(pod) if pod::is_over(pod) => {
            let created = pod.metadata.creation_timestamp.as_ref();
            Some(created.map_or(Timestamp::MIN, |time| time.0))
        }
        Some(_) => None,
    }
}

/// Reports whether a pod still has the labels that the watch selects.
fn has_labels(job: &Job, pod: &Pod) -> bool {
    let is_unchanged = |key: &str| pod.labels().get(key) == job.labels().get(key);
    [labels::OWNER_KIND, labels::OWNER_NAME]
        .into_iter()
        .all(is_unchanged)
}

/// Reports whether a Job has ended, successfully or not.
pub(super) fn is_finished(job: &Job) -> bool {
    condition(job, "Failed").is_some() || condition(job, "Complete").is_some()
}

/// Returns the problem of an earlier reconcile from the condition of a Bundle.
pub(super) fn previous_message(bundle: &Bundle) -> Option<&str> {
    let conditions = &bundle.status.as_ref()?.conditions;
    let condition = condition::find(conditions, UNPACKED)?;
    match condition.reason.as_str() {
        reason::UNPACK_PENDING => Some(&condition.message),
        // The condition already reports the deadline, or a problem that lasts until the deadline.
        reason::UNPACK_FAILED => {
            let last = condition
                .message
                .split_once(LAST_KNOWN_PREFIX)
                .map(|(_, last)| last);
            let stuck = || condition.message.find(pod::UNREADABLE);
            last.or_else(|| condition.message.get(stuck()?..))
        }
        _ => None,
    }
}

fn condition<'a>(job: &'a Job, type_: &str) -> Option<&'a JobCondition> {
    let conditions = job.status.as_ref()?.conditions.as_ref()?;
    conditions
        .iter()
        .find(|condition| condition.type_ == type_ && condition.status == "True")
}

/// Returns why a Job has failed. Its pods give a better reason than the Job itself, unless they are deleted. Terminating
/// pods report only their deletion.
fn failure_reason(
    job: &Job,
    failed: &JobCondition,
    pods: &[Pod],
    previous: Option<&str>,
) -> String {
    let remaining = pods
        .iter()
        .filter(|pod| pod.metadata.deletion_timestamp.is_none());
    let failing = remaining.filter(|pod| pod::describe_failure(pod).is_some());
    if let Some(reason) = pod::newest(failing).and_then(pod::describe_failure) {
        return reason;
    }
    let spec = job.spec.as_ref();
    let deadline = spec.and_then(|spec| spec.active_deadline_seconds);
    let mut text = match (failed.reason.as_deref(), deadline) {
        (Some("DeadlineExceeded"), Some(seconds)) => format!("timed out after {seconds} s"),
        _ => failed.message.clone().unwrap_or_default(),
    };
    if let Some(previous) = previous.filter(|previous| !previous.is_empty()) {
        text.push_str(LAST_KNOWN_PREFIX);
        text.push_str(previous);
    }
    text
}
