//! How many Jobs there are at once. After a rollout the store may be empty, and then every Bundle wants a Job: the nodes
//! would pull everything at the same moment, and a quota would be full of it.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use k8s_openapi::api::batch::v1::Job;
use kube::runtime::watcher::Event;
use tokio::{
    sync::{Notify, watch},
    time,
};

use super::{admit, outcome};

/// How many Jobs may work at once.
const MOST: usize = 16;
/// How long to wait to be told which Jobs there are.
const PATIENCE: Duration = Duration::from_secs(30);

/// Whose Jobs work, and who waits for them. Bundles are known by their uids.
#[derive(Debug, Default)]
pub struct Turns {
    known: Mutex<Known>,
    listed: watch::Sender<bool>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Known {
    taken: HashSet<String>,
    /// The waiting Bundles: uid and name.
    waiting: HashMap<String, String>,
    /// The order of the waiting Bundles. A uid that is not in `waiting` has left.
    order: VecDeque<String>,
    /// What the watch lists at this moment.
    listing: HashSet<String>,
}

impl Turns {
    /// Waits until it is known which Jobs there are.
    pub(super) async fn listed(&self) {
        let mut listed = self.listed.subscribe();
        // If they cannot be listed, nothing can be made of them either.
        let _ = time::timeout(PATIENCE, listed.wait_for(|listed| *listed)).await;
    }

    /// Reports whether a Bundle may make its Job. If not, it is woken when it may.
    pub(super) fn take(&self, uid: &str, name: &str) -> bool {
        let mut known = self.lock();
        if known.taken.contains(uid) {
            return true;
        }
        let is_waiting = known.waiting.contains_key(uid);
        if known.taken.len() < MOST && known.waiting.len() == usize::from(is_waiting) {
            known.waiting.clear();
            known.order.clear();
            known.taken.insert(uid.to_owned());
            return true;
        }
        if !is_waiting {
            known.waiting.insert(uid.to_owned(), name.to_owned());
            known.order.push_back(uid.to_owned());
        }
        self.changed.notify_one();
        false
    }

    /// A Bundle has no Job that works, and wants none.
    pub(in crate::bundle) fn leave(&self, uid: &str) {
        let mut known = self.lock();
        known.waiting.remove(uid);
        known.taken.remove(uid);
        self.changed.notify_one();
    }

    /// Forgets Bundles that do not exist.
    pub(in crate::bundle) fn retain(&self, exists: impl Fn(&str) -> bool) {
        let mut known = self.lock();
        known.waiting.retain(|uid, _| exists(uid));
        known.taken.retain(|uid| exists(uid));
        self.changed.notify_one();
    }

    /// The watch of Jobs tells something.
    pub(in crate::bundle) fn see(&self, event: &Event<Job>) {
        let mut known = self.lock();
        match event {
            Event::Init => known.listing.clear(),
            Event::InitApply(job) => {
                if let Some(uid) = works(job) {
                    known.listing.insert(uid.to_owned());
                }
            }
            Event::InitDone => {
                known.taken = std::mem::take(&mut known.listing);
                self.listed.send_replace(true);
            }
            Event::Apply(job) => match (works(job), admit::bundle(&job.metadata)) {
                (Some(uid), _) => {
                    known.taken.insert(uid.to_owned());
                }
                (None, Some(uid)) => {
                    known.taken.remove(uid);
                }
                (None, None) => {}
            },
            Event::Delete(job) => {
                if let Some(uid) = admit::bundle(&job.metadata) {
                    known.taken.remove(uid);
                }
            }
        }
        self.changed.notify_one();
    }

    /// Waits for the next Bundle whose turn it is, which has it from then on, and tells its uid and its name. One may ask
    /// at a time.
    pub(in crate::bundle) async fn next(&self) -> (String, String) {
        loop {
            if let Some(next) = self.lock().pop() {
                return next;
            }
            self.changed.notified().await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn pop(&mut self) -> Option<(String, String)> {
        while self.taken.len() < MOST {
            let uid = self.order.pop_front()?;
            if let Some(name) = self.waiting.remove(&uid) {
                self.taken.insert(uid.clone());
                return Some((uid, name));
            }
        }
        None
    }
}

/// The Bundle whose Job works, or will.
fn works(job: &Job) -> Option<&str> {
    admit::bundle(&job.metadata).filter(|_| !outcome::is_finished(job))
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use serde_json::json;

    use super::*;

    fn job(bundle: &str, ended: Option<&str>) -> Job {
        let conditions = ended.map(|type_| json!({"type": type_, "status": "True"}));
        serde_json::from_value(json!({
            "metadata": {"name": bundle, "ownerReferences": [{
                "apiVersion": "core.rukpak.io/v1alpha1", "kind": "Bundle", "name": bundle, "uid": bundle, "controller": true,
            }]},
            "status": {"conditions": conditions.as_slice()},
        }))
        .unwrap()
    }

    fn list(turns: &Turns, jobs: &[Job]) {
        turns.see(&Event::Init);
        for job in jobs {
            turns.see(&Event::InitApply(job.clone()));
        }
        turns.see(&Event::InitDone);
    }

    fn full() -> Turns {
        let turns = Turns::default();
        let jobs: Vec<Job> = (0..MOST).map(|it| job(&it.to_string(), None)).collect();
        list(&turns, &jobs);
        turns
    }

    fn next(turns: &Turns) -> Option<String> {
        turns.next().now_or_never().map(|(_, name)| name)
    }

    #[tokio::test]
    async fn whoever_comes_when_all_turns_are_taken_waits_and_goes_on_in_order() {
        let turns = full();
        turns.listed().await;
        assert!(turns.take("0", "0"), "it has one");
        for name in ["a", "b", "a", "c"] {
            assert!(!turns.take(name, name));
        }
        assert_rows! {
            next(&turns) => None;
            { turns.see(&Event::Apply(job("0", Some("Complete")))); next(&turns) } => Some("a".to_owned());
            next(&turns) => None;
            // Who is woken has its turn; nobody else takes it meanwhile.
            turns.take("d", "d") => false;
            turns.take("a", "a") => true;
            // One that wants none any more passes it on, whether it has it or waits for it.
            { turns.leave("b"); turns.leave("a"); next(&turns) } => Some("c".to_owned());
            { turns.see(&Event::Delete(job("1", None))); next(&turns) } => Some("d".to_owned());
            next(&turns) => None;
        }
    }

    #[test]
    fn jobs_that_have_ended_or_belong_to_nobody_take_no_turn() {
        let turns = full();
        let foreign = with!(job("x", None) => metadata.owner_references: None);
        let jobs = [
            job("a", Some("Failed")),
            job("b", Some("Complete")),
            foreign,
        ];
        list(&turns, &jobs);
        for number in 0..MOST {
            let name = format!("new {number}");
            assert!(turns.take(&name, &name));
        }
        assert!(!turns.take("last", "last"));
        // Bundles that are gone have no turns.
        turns.retain(|uid| uid != "new 0");
        assert_eq!(next(&turns).as_deref(), Some("last"));
    }

    #[tokio::test]
    async fn who_waits_is_woken() {
        let turns = std::sync::Arc::new(full());
        assert!(!turns.take("a", "a"));
        let asked = std::sync::Arc::clone(&turns);
        let next = tokio::spawn(async move { asked.next().await });
        tokio::task::yield_now().await;
        turns.see(&Event::Apply(job("3", Some("Failed"))));
        assert_eq!(next.await.unwrap().0, "a");
    }
}
