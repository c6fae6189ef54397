//! What to do about the pods of a catalog. No I/O.
//!
//! A pod that is to be replaced goes on serving until the one that follows is ready, so that a catalog that cannot be
//! pulled or served any more does not take the one before with it. To see whether a tag has moved, an update pod is made
//! that pulls it: if it has another image it takes the place of the one that serves, and otherwise it goes.

#[cfg(test)]
mod tests;

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodStatus};

use super::declare::{CATALOG, CONTAINER, POD_HASH, UPDATE};

/// How long a new pod may take before it is looked at again.
const SOON: Duration = Duration::from_secs(30);
/// When a pod that has failed is followed by another one: nodes that refuse a pod do so at once, and again and again.
const PAUSE: Duration = Duration::from_secs(60);
/// An update pod that is not ready after so long goes: that of the next poll may be better off.
const LATE: Duration = Duration::from_secs(600);

/// What is known of a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    /// Its name.
    pub name: String,
    /// Whether it is there to see what a tag is now.
    pub is_update: bool,
    /// Of what was declared.
    pub hash: String,
    /// Whether it stays.
    pub stay: Stay,
    /// The kubelet's word: `Pending`, `Running`, `Failed`, `Succeeded`, `Unknown`; empty before there is one.
    pub phase: String,
    /// It serves.
    pub is_ready: bool,
    /// Why a container does not run, in one word: `CrashLoopBackOff`, `ImagePullBackOff`.
    pub waits: Option<String>,
    /// The digest of the catalog's image.
    pub digest: Option<String>,
    /// Since when it is there.
    pub since: Option<Timestamp>,
}

/// Whether a pod stays.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Stay {
    /// It does.
    #[default]
    Here,
    /// It is being deleted.
    Leaving,
    /// Its node is gone, or wants it gone.
    Lost,
}

/// What is to be done, in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// Make a pod that serves.
    Make,
    /// Make an update pod; from now on the registry was asked.
    Ask,
    /// Let the Service lead to an update pod.
    Promote(String),
    /// Delete a pod, with so many seconds to end.
    Delete(String, u32),
}

/// How the catalog is served then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// Not at all: a pod is on its way.
    Starting(String),
    /// By a pod that is ready, with this image if the kubelet has told. It may be one that is about to be replaced.
    Serving(Option<String>),
}

/// What to do, and what to say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// In this order.
    pub acts: Vec<Act>,
    /// How the catalog is served.
    pub state: State,
    /// What is wrong; OLM's words where it has some.
    pub trouble: Option<String>,
    /// How the image is that the tag names, if a pod has shown it.
    pub judged: Option<Result<(), String>>,
    /// When to look again although nothing changes.
    pub again: Option<Duration>,
}

// === impl Seen ===

impl Seen {
    /// What a pod tells of itself.
    pub fn of(pod: &Pod) -> Self {
        let label = |key: &str| {
            let labels = pod.metadata.labels.as_ref();
            labels.and_then(|it| it.get(key)).map_or("", String::as_str)
        };
        let status = pod.status.as_ref();
        let has = |condition: &str| {
            let conditions = status.and_then(|it| it.conditions.as_ref());
            let mut conditions = conditions.into_iter().flatten();
            conditions.any(|it| it.type_ == condition && it.status == "True")
        };
        let containers = |of: fn(&PodStatus) -> &Option<Vec<ContainerStatus>>| {
            status.and_then(|it| of(it).as_ref()).into_iter().flatten()
        };
        let main = containers(|it| &it.container_statuses).find(|it| it.name == CONTAINER);
        let mut all = containers(|it| &it.init_container_statuses)
            .chain(containers(|it| &it.container_statuses));
        let waits = all.find_map(|it| {
            let waiting = it.state.as_ref()?.waiting.as_ref()?;
            let reason = waiting.reason.as_deref()?;
            // These are how pods begin.
            (!matches!(reason, "ContainerCreating" | "PodInitializing" | ""))
                .then(|| reason.to_owned())
        });
        Self {
            name: pod.metadata.name.clone().unwrap_or_default(),
            is_update: label(CATALOG).is_empty() && !label(UPDATE).is_empty(),
            hash: label(POD_HASH).to_owned(),
            stay: match pod.metadata.deletion_timestamp {
                _ if has("DisruptionTarget") => Stay::Lost,
                Some(_) => Stay::Leaving,
                None => Stay::Here,
            },
            phase: status.and_then(|it| it.phase.clone()).unwrap_or_default(),
            is_ready: has("Ready"),
            waits,
            digest: main.and_then(|it| digest(&it.image_id)),
            since: pod.metadata.creation_timestamp.as_ref().map(|it| it.0),
        }
    }

    /// It will not serve any more.
    fn has_ended(&self) -> bool {
        matches!(self.phase.as_str(), "Failed" | "Succeeded" | "Unknown")
    }

    /// For how long it is there. Nothing when nobody knows, or by another clock.
    fn age(&self, now: Timestamp) -> Option<Duration> {
        Duration::try_from(now.duration_since(self.since?)).ok()
    }

    /// What is wrong with it, in one word.
    fn fault(&self) -> Option<&str> {
        if self.has_ended() {
            return Some(&self.phase);
        }
        self.waits.as_deref().filter(|it| *it == "CrashLoopBackOff")
    }
}

/// The digest in what a kubelet calls an image: `docker-pullable://quay.io/a/b@sha256:…`, or the digest alone.
fn digest(image: &str) -> Option<String> {
    let digest = image.rsplit_once('@').map_or(image, |(_, digest)| digest);
    (digest.starts_with("sha") && digest.contains(':')).then(|| digest.to_owned())
}

/// Decides. `hash` is of what is wanted now; `asks` says that it is time to see what the tag is.
pub fn decide(pods: &[Seen], hash: &str, asks: bool, now: Timestamp) -> Decision {
    let mut acts: Vec<Act> = pods
        .iter()
        .filter(|it| it.stay == Stay::Lost)
        .map(|it| Act::Delete(it.name.clone(), 0))
        .collect();
    let mut here: Vec<&Seen> = pods.iter().filter(|it| it.stay == Stay::Here).collect();
    // Those that are ready first, then the oldest.
    here.sort_by_key(|it| (!it.is_ready, it.since, &it.name));
    let (updates, serving): (Vec<&Seen>, Vec<&Seen>) =
        here.into_iter().partition(|it| it.is_update);
    let (good, other): (Vec<&Seen>, Vec<&Seen>) = serving
        .into_iter()
        .partition(|it| it.hash == hash && !it.has_ended());
    let (update, old_updates) = newest(updates, hash);
    acts.extend(old_updates.iter().map(|it| Act::Delete(it.name.clone(), 1)));
    let mut ending = Ending {
        acts,
        trouble: None,
        judged: None,
        again: None,
    };
    let Some((chosen, spare)) = good.split_first() else {
        return ending.without(&other, update, hash, now);
    };
    ending.delete(spare);
    if chosen.is_ready {
        ending.delete(&other);
    } else {
        let useless: Vec<&Seen> = other.iter().copied().filter(|it| it.has_ended()).collect();
        ending.delete(&useless);
    }
    let before = before(&other);
    let mut promoted = None;
    if let Some(update) = update {
        promoted = ending.update(chosen, update, now);
    } else if asks && chosen.is_ready {
        ending.acts.push(Act::Ask);
        ending.again = Some(SOON);
    }
    let state = match promoted {
        Some(update) => State::Serving(update.digest.clone()),
        None if chosen.is_ready => State::Serving(chosen.digest.clone()),
        None => before
            .unwrap_or_else(|| State::Starting(format!("pod {} is not ready yet", chosen.name))),
    };
    if let (false, None, Some(reason)) = (chosen.is_ready, promoted, &chosen.waits) {
        let trouble = || format!("pod {} is not ready: {reason}", chosen.name);
        ending.trouble.get_or_insert_with(trouble);
    }
    ending.with(state)
}

/// How the catalog is served by what is to be replaced.
fn before(other: &[&Seen]) -> Option<State> {
    let mut other = other.iter();
    let ready = other.find(|it| it.is_ready && !it.has_ended())?;
    Some(State::Serving(ready.digest.clone()))
}

/// The update pod that counts, and those that do not.
fn newest<'a>(updates: Vec<&'a Seen>, hash: &str) -> (Option<&'a Seen>, Vec<&'a Seen>) {
    let (mut right, mut wrong): (Vec<_>, Vec<_>) =
        updates.into_iter().partition(|it| it.hash == hash);
    right.sort_by_key(|it| (it.since, &it.name));
    let newest = right.pop();
    wrong.extend(right);
    (newest, wrong)
}

/// A decision that is being made.
struct Ending {
    acts: Vec<Act>,
    trouble: Option<String>,
    judged: Option<Result<(), String>>,
    again: Option<Duration>,
}

// === impl Ending ===

impl Ending {
    fn delete(&mut self, pods: &[&Seen]) {
        let pods = pods.iter().map(|it| Act::Delete(it.name.clone(), 1));
        self.acts.extend(pods);
    }

    /// Where no pod is as it should be.
    fn without(
        mut self,
        other: &[&Seen],
        update: Option<&Seen>,
        hash: &str,
        now: Timestamp,
    ) -> Decision {
        if let Some(update) = update {
            if update.is_ready {
                self.acts.push(Act::Promote(update.name.clone()));
                self.delete(other);
                self.judged = Some(Ok(()));
                return self.with(State::Serving(update.digest.clone()));
            }
            self.delete(&[update]);
        }
        let failed = other
            .iter()
            .filter(|it| it.hash == hash)
            .max_by_key(|it| it.since);
        if let Some(failed) = failed {
            self.trouble = Some(format!("pod {} has ended: {}", failed.name, failed.phase));
            let left = failed.age(now).and_then(|it| PAUSE.checked_sub(it));
            if let Some(left) = left.filter(|it| !it.is_zero()) {
                self.again = Some(left);
                let starting = || State::Starting("another pod follows".to_owned());
                return self.with(before(other).unwrap_or_else(starting));
            }
        }
        let useless: Vec<&Seen> = other.iter().copied().filter(|it| it.has_ended()).collect();
        self.delete(&useless);
        self.acts.push(Act::Make);
        self.again = Some(SOON);
        let starting = || State::Starting("its pod is being made".to_owned());
        self.with(before(other).unwrap_or_else(starting))
    }

    /// What becomes of an update pod; itself if it serves from now on.
    fn update<'a>(&mut self, chosen: &Seen, update: &'a Seen, now: Timestamp) -> Option<&'a Seen> {
        if let Some(fault) = update.fault() {
            self.delete(&[update]);
            let name = &update.name;
            let why = format!("update pod {name} in a {fault} state: deleted update pod");
            self.judged = Some(Err(why.clone()));
            self.trouble = Some(why);
            return None;
        }
        if !update.is_ready {
            let name = &update.name;
            let is_late = update.age(now).is_some_and(|it| it >= LATE);
            let reason = update.waits.as_deref();
            let reason = reason.or(is_late.then_some(update.phase.as_str()));
            let mut why = reason.map(|it| format!("update pod {name} is not ready: {it}"));
            if is_late {
                self.delete(&[update]);
                why = why.map(|it| format!("{it}: deleted update pod"));
                self.judged = why.clone().map(Err);
            } else {
                self.again = Some(SOON);
            }
            self.trouble = why;
            return None;
        }
        self.judged = Some(Ok(()));
        let is_other = update.digest.is_some() && update.digest != chosen.digest;
        if !chosen.is_ready || is_other && chosen.digest.is_some() {
            self.acts.push(Act::Promote(update.name.clone()));
            self.delete(&[chosen]);
            return Some(update);
        }
        self.delete(&[update]);
        None
    }

    fn with(self, state: State) -> Decision {
        Decision {
            acts: self.acts,
            state,
            trouble: self.trouble,
            judged: self.judged,
            again: self.again,
        }
    }
}
