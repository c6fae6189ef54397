//! Notifies tasks of changes to single catalogs. A change of one catalog wakes only its own subscribers.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::watch;

use super::CatalogKey;

/// Subscribers of all catalogs.
#[derive(Debug, Default)]
pub(super) struct ChangeNotifier(Mutex<HashMap<CatalogKey, watch::Sender<()>>>);

/// Subscription to the changes of one catalog.
#[derive(Debug)]
pub struct ChangeSubscription {
    last_seen: watch::Receiver<()>,
    key: CatalogKey,
    waiting: Arc<ChangeNotifier>,
}

// === impl ChangeNotifier ===

impl ChangeNotifier {
    /// Subscribes to the changes of a catalog.
    pub(super) fn subscribe(self: &Arc<Self>, key: &CatalogKey) -> ChangeSubscription {
        let last_seen = self.0.lock().entry(key.clone()).or_default().subscribe();
        ChangeSubscription {
            last_seen,
            key: key.clone(),
            waiting: Arc::clone(self),
        }
    }

    /// Notifies the subscribers of a catalog.
    pub(super) fn notify(&self, key: &CatalogKey) {
        if let Some(subscribers) = self.0.lock().get(key) {
            subscribers.send_replace(());
        }
    }

    /// Notifies the subscribers of all catalogs of a namespace.
    pub(super) fn notify_all(&self, namespace: &str) {
        let all = self.0.lock();
        for (_, subscribers) in all.iter().filter(|(key, _)| key.namespace == namespace) {
            subscribers.send_replace(());
        }
    }
}

// === impl ChangeSubscription ===

impl ChangeSubscription {
    /// Marks all changes so far as observed.
    pub fn mark_unchanged(&mut self) {
        self.last_seen.mark_unchanged();
    }

    /// Waits for the next change.
    pub async fn changed(&mut self) {
        if self.last_seen.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for ChangeSubscription {
    fn drop(&mut self) {
        let mut all = self.waiting.0.lock();
        // This is the last subscriber.
        let is_last = |subscribers: &watch::Sender<()>| subscribers.receiver_count() <= 1;
        if all.get(&self.key).is_some_and(is_last) {
            all.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;

    fn key(name: &str) -> CatalogKey {
        fixtures::key("catalogs", name)
    }

    #[test]
    fn change_wakes_only_subscribers_of_that_catalog() {
        let waiting = Arc::new(ChangeNotifier::default());
        let names = (0..1000).map(|at| at.to_string());
        let mut all: Vec<ChangeSubscription> =
            names.map(|name| waiting.subscribe(&key(&name))).collect();
        let second = waiting.subscribe(&key("7"));
        waiting.notify(&key("7"));
        waiting.notify(&key("of-nobody"));
        let is_woken =
            |subscription: &&ChangeSubscription| subscription.last_seen.has_changed().unwrap();
        assert_rows! {
            all.iter().chain([&second]).filter(is_woken).map(|one| one.key.name.as_str()).collect::<Vec<&str>>() => ["7", "7"];
        }
        all[7].mark_unchanged();
        assert!(!all[7].last_seen.has_changed().unwrap());
        // A new subscriber is still notified after another one unsubscribes.
        drop(all);
        assert_eq!(waiting.0.lock().len(), 1);
        waiting.notify(&key("7"));
        assert!(second.last_seen.has_changed().unwrap());
        drop(second);
        assert!(waiting.0.lock().is_empty());
    }
}
