//! Plans the changes to the pods of a catalog. Pure; no I/O.
//!
//! A pod that has to be replaced keeps serving until its successor is ready. A catalog image that cannot be pulled or
//! served therefore does not interrupt the previous one. To check whether a tag has moved, an update pod is created that
//! pulls it. If the update pod has another image, it replaces the serving pod; otherwise it is deleted.

#[cfg(test)]
mod tests;

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodStatus};

use super::manifest::{CATALOG, CONTAINER, POD_HASH, UPDATE};

/// Delay until the next reconcile after a pod was created.
const SETTLE_DELAY: Duration = Duration::from_secs(30);
/// Delay before a failed pod is replaced. A node that rejects a pod does so at once, and would reject each successor too.
const REPLACE_DELAY: Duration = Duration::from_secs(60);
/// Time after which an update pod that is not ready is deleted. The update pod of the next poll may succeed.
const START_TIMEOUT: Duration = Duration::from_secs(600);

/// Observed state of a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodObservation {
    /// Name of the pod.
    pub name: String,
    /// True if the pod was created to check the tag.
    pub is_update: bool,
    /// Hash of the spec from which the pod was created.
    pub hash: String,
    /// Presence of the pod.
    pub presence: PodPresence,
    /// Phase reported by the kubelet: `Pending`, `Running`, `Failed`, `Succeeded` or `Unknown`; empty before the first
    /// report.
    pub phase: String,
    /// True if the pod serves the catalog.
    pub is_ready: bool,
    /// Reason why a container is waiting, such as `CrashLoopBackOff` or `ImagePullBackOff`.
    pub waits: Option<String>,
    /// Digest of the catalog's image.
    pub digest: Option<String>,
    /// Creation time of the pod.
    pub since: Option<Timestamp>,
}

/// Presence of a pod.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PodPresence {
    /// The pod exists and is not terminating.
    #[default]
    Present,
    /// The pod is terminating.
    Terminating,
    /// The node of the pod is lost, or the pod is being disrupted (condition `DisruptionTarget`).
    Lost,
}

/// One change to the pods of a catalog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PodAction {
    /// Create a pod that serves the catalog.
    Create,
    /// Create an update pod. The tag counts as checked at that time.
    CheckTag,
    /// Make an update pod the pod behind the Service.
    Promote(String),
    /// Delete a pod with this grace period in seconds.
    Delete(String, u32),
}

/// Serving state of a catalog after the plan is applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PodServingState {
    /// The catalog is not served yet. Contains the reason.
    Starting(String),
    /// A ready pod serves the catalog, with this digest if the kubelet has reported it. The pod may be about to be
    /// replaced.
    Serving(Option<String>),
}

/// Planned changes to the pods of a catalog, and the state to report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodPlan {
    /// Changes in the order of execution.
    pub acts: Vec<PodAction>,
    /// Serving state of the catalog.
    pub state: PodServingState,
    /// Problem to report, with OLM's text if OLM has one (OLM v0 parity).
    pub trouble: Option<String>,
    /// Verdict on the image that the tag names, if a pod has provided one.
    pub judged: Option<Result<(), String>>,
    /// Delay until the next reconcile if nothing changes.
    pub again: Option<Duration>,
}

// === impl PodObservation ===

impl PodObservation {
    /// Extracts the observed state of a pod.
    pub fn from_pod(pod: &Pod) -> Self {
        let label = |key: &str| {
            let labels = pod.metadata.labels.as_ref();
            labels
                .and_then(|labels| labels.get(key))
                .map_or("", String::as_str)
        };
        let status = pod.status.as_ref();
        let has = |condition: &str| {
            let conditions = status.and_then(|status| status.conditions.as_ref());
            let mut conditions = conditions.into_iter().flatten();
            conditions.any(|entry| entry.type_ == condition && entry.status == "True")
        };
        let containers = |field: fn(&PodStatus) -> &Option<Vec<ContainerStatus>>| {
            status
                .and_then(|status| field(status).as_ref())
                .into_iter()
                .flatten()
        };
        let main = containers(|status| &status.container_statuses)
            .find(|container| container.name == CONTAINER);
        let mut all = containers(|status| &status.init_container_statuses)
            .chain(containers(|status| &status.container_statuses));
        let waits = all.find_map(|container| {
            let waiting = container.state.as_ref()?.waiting.as_ref()?;
            let reason = waiting.reason.as_deref()?;
            // These are normal while a pod starts.
            (!matches!(reason, "ContainerCreating" | "PodInitializing" | ""))
                .then(|| reason.to_owned())
        });
        Self {
            name: pod.metadata.name.clone().unwrap_or_default(),
            is_update: label(CATALOG).is_empty() && !label(UPDATE).is_empty(),
            hash: label(POD_HASH).to_owned(),
            presence: match pod.metadata.deletion_timestamp {
                _ if has("DisruptionTarget") => PodPresence::Lost,
                Some(_) => PodPresence::Terminating,
                None => PodPresence::Present,
            },
            phase: status
                .and_then(|status| status.phase.clone())
                .unwrap_or_default(),
            is_ready: has("Ready"),
            waits,
            digest: main.and_then(|container| digest(&container.image_id)),
            since: pod.metadata.creation_timestamp.as_ref().map(|time| time.0),
        }
    }

    /// Reports whether the pod no longer serves, according to its phase.
    fn has_ended(&self) -> bool {
        matches!(self.phase.as_str(), "Failed" | "Succeeded" | "Unknown")
    }

    /// Returns the age of the pod, or `None` if it is unknown or negative because of clock skew.
    fn age(&self, now: Timestamp) -> Option<Duration> {
        Duration::try_from(now.duration_since(self.since?)).ok()
    }

    /// Returns the phase or waiting reason that makes the pod unusable.
    fn failure(&self) -> Option<&str> {
        if self.has_ended() {
            return Some(&self.phase);
        }
        self.waits
            .as_deref()
            .filter(|reason| *reason == "CrashLoopBackOff")
    }
}

/// Extracts the digest from an image ID of the kubelet: `docker-pullable://quay.io/a/b@sha256:…`, or the digest alone.
fn digest(image: &str) -> Option<String> {
    let digest = image.rsplit_once('@').map_or(image, |(_, digest)| digest);
    (digest.starts_with("sha") && digest.contains(':')).then(|| digest.to_owned())
}

/// Plans the changes to the pods. `hash` is that of the desired spec; `asks` is true if the tag has to be checked.
pub fn decide(pods: &[PodObservation], hash: &str, asks: bool, now: Timestamp) -> PodPlan {
    let mut acts: Vec<PodAction> = pods
        .iter()
        .filter(|pod| pod.presence == PodPresence::Lost)
        .map(|pod| PodAction::Delete(pod.name.clone(), 0))
        .collect();
    let mut present: Vec<&PodObservation> = pods
        .iter()
        .filter(|pod| pod.presence == PodPresence::Present)
        .collect();
    // Ready pods first, then the oldest.
    present.sort_by_key(|pod| (!pod.is_ready, pod.since, &pod.name));
    let (updates, serving): (Vec<&PodObservation>, Vec<&PodObservation>) =
        present.into_iter().partition(|pod| pod.is_update);
    let (good, other): (Vec<&PodObservation>, Vec<&PodObservation>) = serving
        .into_iter()
        .partition(|pod| pod.hash == hash && !pod.has_ended());
    let (update, old_updates) = newest(updates, hash);
    acts.extend(
        old_updates
            .iter()
            .map(|pod| PodAction::Delete(pod.name.clone(), 1)),
    );
    let mut plan = PlanBuilder {
        acts,
        trouble: None,
        judged: None,
        again: None,
    };
    let Some((chosen, spare)) = good.split_first() else {
        return plan.without(&other, update, hash, now);
    };
    plan.delete(spare);
    if chosen.is_ready {
        plan.delete(&other);
    } else {
        let useless: Vec<&PodObservation> = other
            .iter()
            .copied()
            .filter(|pod| pod.has_ended())
            .collect();
        plan.delete(&useless);
    }
    let before = before(&other);
    let mut promoted = None;
    if let Some(update) = update {
        promoted = plan.update(chosen, update, now);
    } else if asks && chosen.is_ready {
        plan.acts.push(PodAction::CheckTag);
        plan.again = Some(SETTLE_DELAY);
    }
    let state = match promoted {
        Some(update) => PodServingState::Serving(update.digest.clone()),
        None if chosen.is_ready => PodServingState::Serving(chosen.digest.clone()),
        None => before.unwrap_or_else(|| {
            PodServingState::Starting(format!("pod {} is not ready yet", chosen.name))
        }),
    };
    if let (false, None, Some(reason)) = (chosen.is_ready, promoted, &chosen.waits) {
        let problem = || format!("pod {} is not ready: {reason}", chosen.name);
        plan.trouble.get_or_insert_with(problem);
    }
    plan.with(state)
}

/// Returns the serving state provided by the pods that are being replaced.
fn before(other: &[&PodObservation]) -> Option<PodServingState> {
    let mut other = other.iter();
    let ready = other.find(|pod| pod.is_ready && !pod.has_ended())?;
    Some(PodServingState::Serving(ready.digest.clone()))
}

/// Selects the newest update pod with the desired hash; the others are returned for deletion.
fn newest<'a>(
    updates: Vec<&'a PodObservation>,
    hash: &str,
) -> (Option<&'a PodObservation>, Vec<&'a PodObservation>) {
    let (mut current, mut outdated): (Vec<_>, Vec<_>) =
        updates.into_iter().partition(|pod| pod.hash == hash);
    current.sort_by_key(|pod| (pod.since, &pod.name));
    let newest = current.pop();
    outdated.extend(current);
    (newest, outdated)
}

/// A plan under construction.
struct PlanBuilder {
    acts: Vec<PodAction>,
    trouble: Option<String>,
    judged: Option<Result<(), String>>,
    again: Option<Duration>,
}

// === impl PlanBuilder ===

impl PlanBuilder {
    fn delete(&mut self, pods: &[&PodObservation]) {
        let pods = pods
            .iter()
            .map(|pod| PodAction::Delete(pod.name.clone(), 1));
        self.acts.extend(pods);
    }

    /// Plans the case without a pod of the desired spec.
    fn without(
        mut self,
        other: &[&PodObservation],
        update: Option<&PodObservation>,
        hash: &str,
        now: Timestamp,
    ) -> PodPlan {
        if let Some(update) = update {
            if update.is_ready {
                self.acts.push(PodAction::Promote(update.name.clone()));
                self.delete(other);
                self.judged = Some(Ok(()));
                return self.with(PodServingState::Serving(update.digest.clone()));
            }
            self.delete(&[update]);
        }
        let failed = other
            .iter()
            .filter(|pod| pod.hash == hash)
            .max_by_key(|pod| pod.since);
        if let Some(failed) = failed {
            self.trouble = Some(format!("pod {} terminated: {}", failed.name, failed.phase));
            let remaining = failed
                .age(now)
                .and_then(|age| REPLACE_DELAY.checked_sub(age));
            if let Some(remaining) = remaining.filter(|remaining| !remaining.is_zero()) {
                self.again = Some(remaining);
                let starting = || PodServingState::Starting("a new pod will be created".to_owned());
                return self.with(before(other).unwrap_or_else(starting));
            }
        }
        let useless: Vec<&PodObservation> = other
            .iter()
            .copied()
            .filter(|pod| pod.has_ended())
            .collect();
        self.delete(&useless);
        self.acts.push(PodAction::Create);
        self.again = Some(SETTLE_DELAY);
        let starting = || PodServingState::Starting("its pod is being created".to_owned());
        self.with(before(other).unwrap_or_else(starting))
    }

    /// Plans the fate of an update pod. Returns the pod if it is promoted.
    fn update<'a>(
        &mut self,
        chosen: &PodObservation,
        update: &'a PodObservation,
        now: Timestamp,
    ) -> Option<&'a PodObservation> {
        if let Some(failure) = update.failure() {
            self.delete(&[update]);
            let name = &update.name;
            let problem = format!("update pod {name} in a {failure} state: deleted update pod");
            self.judged = Some(Err(problem.clone()));
            self.trouble = Some(problem);
            return None;
        }
        if !update.is_ready {
            let name = &update.name;
            let is_overdue = update.age(now).is_some_and(|age| age >= START_TIMEOUT);
            let reason = update.waits.as_deref();
            let reason = reason.or(is_overdue.then_some(update.phase.as_str()));
            let mut problem =
                reason.map(|reason| format!("update pod {name} is not ready: {reason}"));
            if is_overdue {
                self.delete(&[update]);
                problem = problem.map(|problem| format!("{problem}: deleted update pod"));
                self.judged = problem.clone().map(Err);
            } else {
                self.again = Some(SETTLE_DELAY);
            }
            self.trouble = problem;
            return None;
        }
        self.judged = Some(Ok(()));
        let is_other = update.digest.is_some() && update.digest != chosen.digest;
        if !chosen.is_ready || is_other && chosen.digest.is_some() {
            self.acts.push(PodAction::Promote(update.name.clone()));
            self.delete(&[chosen]);
            return Some(update);
        }
        self.delete(&[update]);
        None
    }

    fn with(self, state: PodServingState) -> PodPlan {
        PodPlan {
            acts: self.acts,
            state,
            trouble: self.trouble,
            judged: self.judged,
            again: self.again,
        }
    }
}
