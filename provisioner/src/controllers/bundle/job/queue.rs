//! Queue of the unpack Jobs: limits how many run at once. After a rollout the store may be empty, so that every Bundle
//! needs a Job. Without the limit, nodes would pull all images at the same moment, and a quota would be exhausted.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    time::Duration,
};

use k8s_openapi::api::batch::v1::Job;
use kube::runtime::watcher::Event;
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, watch},
    time,
};

use super::{authorize, state};

/// Maximum number of unpack Jobs that run at once.
const MAX_CONCURRENT_JOBS: usize = 16;
/// Maximum wait for the initial list of Jobs.
const INITIAL_LIST_TIMEOUT: Duration = Duration::from_secs(30);

/// Queue of the Bundles whose Jobs run or wait. Bundles are identified by their uid.
#[derive(Debug, Default)]
pub struct JobQueue {
    state: Mutex<QueueState>,
    listed: watch::Sender<bool>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct QueueState {
    running: HashSet<String>,
    /// Waiting Bundles: name by uid.
    waiting: HashMap<String, String>,
    /// Order of the waiting Bundles. A uid that is missing in `waiting` has left the queue.
    order: VecDeque<String>,
    /// Bundles of the list that the watch is receiving.
    listing: HashSet<String>,
}

impl JobQueue {
    /// Waits until the Jobs of the cluster are listed.
    pub(super) async fn wait_until_listed(&self) {
        let mut listed = self.listed.subscribe();
        // If Jobs cannot be listed, creating one fails as well.
        let _ = time::timeout(INITIAL_LIST_TIMEOUT, listed.wait_for(|listed| *listed)).await;
    }

    /// Reports whether a Bundle may create its Job. Otherwise the Bundle is queued, and [`Self::next_granted`] returns it
    /// later.
    pub(super) fn try_start(&self, uid: &str, name: &str) -> bool {
        let mut state = self.state.lock();
        if state.running.contains(uid) {
            return true;
        }
        let is_waiting = state.waiting.contains_key(uid);
        if state.running.len() < MAX_CONCURRENT_JOBS
            && state.waiting.len() == usize::from(is_waiting)
        {
            state.waiting.clear();
            state.order.clear();
            state.running.insert(uid.to_owned());
            return true;
        }
        if !is_waiting {
            state.waiting.insert(uid.to_owned(), name.to_owned());
            state.order.push_back(uid.to_owned());
        }
        self.changed.notify_one();
        false
    }

    /// Removes a Bundle that has no active Job and needs none.
    pub(in crate::controllers::bundle) fn finish(&self, uid: &str) {
        let mut state = self.state.lock();
        state.waiting.remove(uid);
        state.running.remove(uid);
        self.changed.notify_one();
    }

    /// Removes Bundles that do not exist.
    pub(in crate::controllers::bundle) fn retain(&self, exists: impl Fn(&str) -> bool) {
        let mut state = self.state.lock();
        state.waiting.retain(|uid, _| exists(uid));
        state.running.retain(|uid| exists(uid));
        self.changed.notify_one();
    }

    /// Records an event of the watch of Jobs.
    pub(in crate::controllers::bundle) fn observe(&self, event: &Event<Job>) {
        let mut state = self.state.lock();
        match event {
            Event::Init => state.listing.clear(),
            Event::InitApply(job) => {
                if let Some(uid) = active_bundle(job) {
                    state.listing.insert(uid.to_owned());
                }
            }
            Event::InitDone => {
                state.running = std::mem::take(&mut state.listing);
                self.listed.send_replace(true);
            }
            Event::Apply(job) => match (active_bundle(job), authorize::bundle(&job.metadata)) {
                (Some(uid), _) => {
                    state.running.insert(uid.to_owned());
                }
                (None, Some(uid)) => {
                    state.running.remove(uid);
                }
                (None, None) => {}
            },
            Event::Delete(job) => {
                if let Some(uid) = authorize::bundle(&job.metadata) {
                    state.running.remove(uid);
                }
            }
        }
        self.changed.notify_one();
    }

    /// Waits for the next Bundle that may create its Job, and returns its uid and name. The Bundle counts as running from
    /// then on. Only one task may wait at a time.
    pub(in crate::controllers::bundle) async fn next_granted(&self) -> (String, String) {
        loop {
            if let Some(next) = self.state.lock().pop() {
                return next;
            }
            self.changed.notified().await;
        }
    }
}

impl QueueState {
    fn pop(&mut self) -> Option<(String, String)> {
        while self.running.len() < MAX_CONCURRENT_JOBS {
            let uid = self.order.pop_front()?;
            if let Some(name) = self.waiting.remove(&uid) {
                self.running.insert(uid.clone());
                return Some((uid, name));
            }
        }
        None
    }
}

/// Returns the uid of the Bundle whose Job is active, or will be.
fn active_bundle(job: &Job) -> Option<&str> {
    authorize::bundle(&job.metadata).filter(|_| !state::is_finished(job))
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use serde_json::json;

    use super::*;

    fn job(bundle: &str, ended: Option<&str>) -> Job {
        let conditions = ended.map(|type_| json!({"type": type_, "status": "True"}));
        object!({
            "metadata": {"name": bundle, "ownerReferences": [{
                "apiVersion": "core.rukpak.io/v1alpha1", "kind": "Bundle", "name": bundle, "uid": bundle, "controller": true,
            }]},
            "status": {"conditions": conditions.as_slice()},
        })
    }

    fn list(turns: &JobQueue, jobs: &[Job]) {
        turns.observe(&Event::Init);
        for job in jobs {
            turns.observe(&Event::InitApply(job.clone()));
        }
        turns.observe(&Event::InitDone);
    }

    fn full() -> JobQueue {
        let turns = JobQueue::default();
        let jobs = (0..MAX_CONCURRENT_JOBS).map(|number| job(&number.to_string(), None));
        list(&turns, &jobs.collect::<Vec<_>>());
        turns
    }

    fn next(turns: &JobQueue) -> Option<String> {
        turns.next_granted().now_or_never().map(|(_, name)| name)
    }

    #[tokio::test]
    async fn bundles_wait_for_slots_in_order() {
        let turns = full();
        turns.wait_until_listed().await;
        assert!(turns.try_start("0", "0"), "it has one");
        for name in ["a", "b", "a", "c"] {
            assert!(!turns.try_start(name, name));
        }
        assert_rows! {
            next(&turns) => None;
            { turns.observe(&Event::Apply(job("0", Some("Complete")))); next(&turns) } => Some("a".to_owned());
            next(&turns) => None;
            // A granted slot is reserved: no other Bundle gets it.
            turns.try_start("d", "d") => false;
            turns.try_start("a", "a") => true;
            // A Bundle that needs no Job passes its slot on, granted or not.
            { turns.finish("b"); turns.finish("a"); next(&turns) } => Some("c".to_owned());
            { turns.observe(&Event::Delete(job("1", None))); next(&turns) } => Some("d".to_owned());
            next(&turns) => None;
        }
    }

    #[test]
    fn finished_and_unowned_jobs_occupy_no_slot() {
        let turns = full();
        let foreign = with!(job("x", None) => metadata.owner_references: None);
        let (failed, complete) = (job("a", Some("Failed")), job("b", Some("Complete")));
        list(&turns, &[failed, complete, foreign]);
        for number in 0..MAX_CONCURRENT_JOBS {
            let name = format!("new {number}");
            assert!(turns.try_start(&name, &name));
        }
        assert!(!turns.try_start("last", "last"));
        // Deleted Bundles have no slots.
        turns.retain(|uid| uid != "new 0");
        assert_eq!(next(&turns).as_deref(), Some("last"));
    }

    #[tokio::test]
    async fn waiting_bundle_is_woken() {
        let turns = std::sync::Arc::new(full());
        assert!(!turns.try_start("a", "a"));
        let waiting = std::sync::Arc::clone(&turns);
        let next = tokio::spawn(async move { waiting.next_granted().await });
        tokio::task::yield_now().await;
        turns.observe(&Event::Apply(job("3", Some("Failed"))));
        assert_eq!(next.await.unwrap().0, "a");
    }
}
