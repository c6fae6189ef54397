//! How a Job is getting on, in words, from what the cluster says about it and its pods.

mod pods;
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

pub(super) use pods::lingers;

/// What precedes the words of before, once there are no pods to ask.
const LAST: &str = "; what was last known: ";

/// How a Job is getting on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum State {
    /// As it should.
    Begun(String),
    /// Something is in its way, and may go away.
    Held(String),
    /// The bundle is being handed over.
    Runs,
    /// Something is in its way that stays, and so will the Job until its time is up.
    Stuck(String),
    /// It has ended, and another one has to follow.
    Failed {
        message: String,
        since: Option<Timestamp>,
    },
}

/// Says so. `refused` is why it could not make its last pod, `before` what was known of it when it was asked before.
pub(super) fn of(job: &Job, pods: &[Pod], refused: Option<&str>, before: Option<&str>) -> State {
    let full = format!("{}/{}", job.namespace().unwrap_or_default(), job.name_any());
    // The former comes first, while its pods go, which have nothing more to say then.
    let failed = condition(job, "FailureTarget").or_else(|| condition(job, "Failed"));
    if let Some(failed) = failed {
        return State::Failed {
            message: format!(
                "unpack Job {full} failed: {}",
                why(job, failed, pods, before)
            ),
            since: failed.last_transition_time.as_ref().map(|time| time.0),
        };
    }
    if let Some(complete) = condition(job, "Complete") {
        return State::Failed {
            message: format!(
                "unpack Job {full} ended well and has handed nothing over: something in this cluster changes what its \
                 container runs; see its pod"
            ),
            since: complete.last_transition_time.as_ref().map(|time| time.0),
        };
    }
    if job.spec.as_ref().and_then(|spec| spec.suspend) == Some(true) {
        return State::Held(format!(
            "Job {full} is suspended; whoever has suspended it has to let it go on"
        ));
    }
    match (pods::newest(pods), refused) {
        (Some(pod), refused) => match (pods::state(pod, &full, before), refused) {
            (State::Held(told), Some(refused)) => State::Held(format!(
                "Job {full} cannot make another pod: {refused}; before that, {told}"
            )),
            // What is said of one that goes is what was said before.
            (state, _) if has_labels(job, pod) || pod.metadata.deletion_timestamp.is_some() => {
                state
            }
            (State::Held(told) | State::Begun(told), _) => State::Held(format!(
                "{told}; its labels were taken away, so nothing tells how it gets on: exempt the system namespace from the \
                 policy that does so"
            )),
            (state, _) => state,
        },
        (None, Some(refused)) => State::Held(format!("Job {full} cannot make its pod: {refused}")),
        (None, None) => State::Begun(format!("waiting for the pod of Job {full}")),
    }
}

/// Since when a Job has no pod that could still do its work, if it has none. What was refused before is history.
pub(super) fn without_pod(pods: &[Pod]) -> Option<Timestamp> {
    match pods::newest(pods) {
        None => Some(Timestamp::MIN),
        Some(pod) if pods::is_over(pod) => {
            let created = pod.metadata.creation_timestamp.as_ref();
            Some(created.map_or(Timestamp::MIN, |time| time.0))
        }
        Some(_) => None,
    }
}

/// Reports whether a pod still has the labels that it is watched by.
fn has_labels(job: &Job, pod: &Pod) -> bool {
    let keeps = |key: &str| pod.labels().get(key) == job.labels().get(key);
    [labels::OWNER_KIND, labels::OWNER_NAME]
        .into_iter()
        .all(keeps)
}

/// Reports whether nothing more becomes of a Job.
pub(super) fn is_finished(job: &Job) -> bool {
    condition(job, "Failed").is_some() || condition(job, "Complete").is_some()
}

/// What a Bundle's condition knows of a Job that has been waited for.
pub(super) fn known_before(bundle: &Bundle) -> Option<&str> {
    let conditions = &bundle.status.as_ref()?.conditions;
    let condition = condition::find(conditions, UNPACKED)?;
    match condition.reason.as_str() {
        reason::UNPACK_PENDING => Some(&condition.message),
        // It was told already that the time was up, or what would last until then.
        reason::UNPACK_FAILED => {
            let last = condition.message.split_once(LAST).map(|(_, last)| last);
            let stuck = || condition.message.find(pods::UNREADABLE);
            last.or_else(|| condition.message.get(stuck()?..))
        }
        _ => None,
    }
}

fn condition<'a>(job: &'a Job, type_: &str) -> Option<&'a JobCondition> {
    let conditions = job.status.as_ref()?.conditions.as_ref()?;
    conditions
        .iter()
        .find(|one| one.type_ == type_ && one.status == "True")
}

/// What a Job has failed of: its pods know better than itself, unless it has removed them. What they say when they are
/// being removed is about that.
fn why(job: &Job, failed: &JobCondition, pods: &[Pod], before: Option<&str>) -> String {
    let stay = pods
        .iter()
        .filter(|pod| pod.metadata.deletion_timestamp.is_none());
    let telling = stay.filter(|pod| pods::words(pod).is_some());
    if let Some(words) = pods::newest(telling).and_then(pods::words) {
        return words;
    }
    let spec = job.spec.as_ref();
    let deadline = spec.and_then(|spec| spec.active_deadline_seconds);
    let mut text = match (failed.reason.as_deref(), deadline) {
        (Some("DeadlineExceeded"), Some(seconds)) => format!("not done within {seconds} s"),
        _ => failed.message.clone().unwrap_or_default(),
    };
    if let Some(before) = before.filter(|before| !before.is_empty()) {
        text.push_str(LAST);
        text.push_str(before);
    }
    text
}
