//! Who waits for something about a catalog to change. What happens to one catalog wakes nobody else.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::watch;

use super::Key;

/// All who wait.
#[derive(Debug, Default)]
pub(super) struct Waiting(Mutex<HashMap<Key, watch::Sender<()>>>);

/// Tells that something about a catalog has changed.
#[derive(Debug)]
pub struct Changes {
    told: watch::Receiver<()>,
    key: Key,
    waiting: Arc<Waiting>,
}

// === impl Waiting ===

impl Waiting {
    /// For one more who waits.
    pub(super) fn wait(self: &Arc<Self>, key: &Key) -> Changes {
        let told = self.all().entry(key.clone()).or_default().subscribe();
        Changes {
            told,
            key: key.clone(),
            waiting: Arc::clone(self),
        }
    }

    /// Wakes who waits for this catalog.
    pub(super) fn wake(&self, key: &Key) {
        if let Some(who) = self.all().get(key) {
            who.send_replace(());
        }
    }

    /// Wakes who waits for a catalog of this namespace.
    pub(super) fn wake_all(&self, namespace: &str) {
        let all = self.all();
        for (_, who) in all.iter().filter(|(key, _)| key.namespace == namespace) {
            who.send_replace(());
        }
    }

    fn all(&self) -> MutexGuard<'_, HashMap<Key, watch::Sender<()>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Changes ===

impl Changes {
    /// What has changed until now is known.
    pub fn mark_unchanged(&mut self) {
        self.told.mark_unchanged();
    }

    /// Waits for the next change.
    pub async fn changed(&mut self) {
        if self.told.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for Changes {
    fn drop(&mut self) {
        let mut all = self.waiting.all();
        // Nobody but this one.
        let is_last = |it: &watch::Sender<()>| it.receiver_count() <= 1;
        if all.get(&self.key).is_some_and(is_last) {
            all.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;

    fn key(name: &str) -> Key {
        fixtures::key("catalogs", name)
    }

    #[test]
    fn a_change_wakes_who_waits_for_that_catalog_and_nobody_else() {
        let waiting = Arc::new(Waiting::default());
        let names = (0..1000).map(|at| at.to_string());
        let mut all: Vec<Changes> = names.map(|name| waiting.wait(&key(&name))).collect();
        let second = waiting.wait(&key("7"));
        waiting.wake(&key("7"));
        waiting.wake(&key("of-nobody"));
        let is_woken = |it: &&Changes| it.told.has_changed().unwrap();
        assert_rows! {
            all.iter().chain([&second]).filter(is_woken).map(|one| one.key.name.as_str()).collect::<Vec<&str>>() => ["7", "7"];
        }
        all[7].mark_unchanged();
        assert!(!all[7].told.has_changed().unwrap());
        // Who comes again, as another one goes, goes on to be told.
        drop(all);
        assert_eq!(waiting.all().len(), 1);
        waiting.wake(&key("7"));
        assert!(second.told.has_changed().unwrap());
        drop(second);
        assert!(waiting.all().is_empty());
    }
}
