//! Triggers of reconciles: catalogs whose state in memory has changed.

use std::{collections::BTreeSet, mem, sync::Arc};

use futures::{Stream, StreamExt as _, stream};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::CatalogKey;

/// Catalogs that are due for a reconcile. Repeated triggers of one catalog are merged.
#[derive(Debug, Default)]
pub(super) struct ReconcileTriggers {
    due: Mutex<BTreeSet<CatalogKey>>,
    added: Notify,
}

// === impl ReconcileTriggers ===

impl ReconcileTriggers {
    /// Triggers a reconcile of a catalog.
    pub(super) fn add(&self, key: &CatalogKey) {
        self.due.lock().insert(key.clone());
        self.added.notify_one();
    }

    /// Returns the triggered catalogs. Only one stream may be in use at a time.
    pub(super) fn stream(self: &Arc<Self>) -> impl Stream<Item = CatalogKey> + Send + use<> {
        let batches = stream::unfold(Arc::clone(self), |triggers| async move {
            loop {
                let due = mem::take(&mut *triggers.due.lock());
                if !due.is_empty() {
                    return Some((stream::iter(due), triggers));
                }
                triggers.added.notified().await;
            }
        });
        batches.flatten()
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[test]
    fn repeated_triggers_of_a_catalog_are_merged() {
        let triggers = Arc::new(ReconcileTriggers::default());
        let mut stream = Box::pin(triggers.stream());
        let mut due = || {
            let next = || stream.next().now_or_never().flatten();
            let names = std::iter::from_fn(next).map(|key| key.name);
            names.collect::<Vec<_>>()
        };
        assert_eq!(due(), [""; 0]);
        for name in ["b", "a", "b"] {
            triggers.add(&CatalogKey::new("catalogs", name));
        }
        assert_eq!(due(), ["a", "b"]);
        triggers.add(&CatalogKey::new("catalogs", "b"));
        assert_eq!(due(), ["b"]);
    }
}
