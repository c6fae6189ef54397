//! Bounds the concurrent pulls of catalog images from one registry. Many catalogs start together, for example after a
//! restart; without a bound, their connections time out, and registries reject the requests. A registry that does not
//! respond delays only its own catalogs.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Maximum number of concurrent pulls from one registry.
const MAX_PULLS: usize = 32;

/// Slots for pulls, by the domain of the registry.
#[derive(Debug, Default)]
pub(in crate::controllers::catalog_source) struct RegistrySlots(
    Mutex<HashMap<String, Weak<Semaphore>>>,
);

// === impl RegistrySlots ===

impl RegistrySlots {
    /// Waits for a slot of a registry. The permit frees the slot when it is dropped.
    pub(super) async fn acquire(&self, domain: &str) -> Option<OwnedSemaphorePermit> {
        // The semaphore is never closed.
        self.slots(domain).acquire_owned().await.ok()
    }

    fn slots(&self, domain: &str) -> Arc<Semaphore> {
        let mut registries = self.0.lock();
        if let Some(slots) = registries.get(domain).and_then(Weak::upgrade) {
            return slots;
        }
        registries.retain(|_, slots| slots.strong_count() > 0);
        let slots = Arc::new(Semaphore::new(MAX_PULLS));
        registries.insert(domain.to_owned(), Arc::downgrade(&slots));
        slots
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[test]
    fn each_registry_has_a_bounded_number_of_pulls() {
        let slots = RegistrySlots::default();
        let acquire = |domain| slots.acquire(domain).now_or_never();
        let mut pulls: Vec<_> = (0..MAX_PULLS).map(|_| acquire("quay.io")).collect();
        assert!(pulls.iter().all(Option::is_some) && acquire("quay.io").is_none());
        let other = acquire("ghcr.io");
        assert!(other.is_some());
        pulls.pop();
        assert!(acquire("quay.io").is_some());
        drop((pulls, other));
        drop(acquire("docker.io"));
        assert_eq!(slots.0.lock().len(), 1, "unused registries are dropped");
    }
}
