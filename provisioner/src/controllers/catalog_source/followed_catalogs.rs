//! All followed catalogs, and their workers.

use std::{collections::BTreeMap, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures::FutureExt as _;
use kube::ResourceExt as _;
use manifests::api::catalog_source::CatalogSource;
use parking_lot::Mutex;
use tokio::{
    task::{AbortHandle, spawn_blocking},
    time::sleep,
};
use tracing::error;

use super::{
    CatalogKey,
    catalog_cache::{CatalogIdentity, hidden},
    cluster_facts,
    locate::templates,
    owned_objects::OwnedChange,
    reconcile::{CatalogContext, FollowedCatalog},
    worker,
};

/// Delay before a worker that panicked is started again.
const RESTART_DELAY: Duration = Duration::from_secs(60);

/// The followed catalogs by key, each with its worker.
pub(super) struct FollowedCatalogs {
    pub(super) shared: Arc<CatalogContext>,
    catalogs: Mutex<BTreeMap<CatalogKey, CatalogHandle>>,
}

/// Handle of a followed catalog. Dropping it stops the worker and the running reconcile of its pod.
struct CatalogHandle {
    catalog: Arc<FollowedCatalog>,
    worker: AbortHandle,
}

// === impl FollowedCatalogs ===

impl FollowedCatalogs {
    pub(super) fn new(shared: &Arc<CatalogContext>) -> Self {
        Self {
            shared: Arc::clone(shared),
            catalogs: Mutex::default(),
        }
    }

    /// Returns a followed catalog.
    pub(super) fn get(&self, key: &CatalogKey) -> Option<Arc<FollowedCatalog>> {
        let catalogs = self.catalogs.lock();
        catalogs.get(key).map(|handle| Arc::clone(&handle.catalog))
    }

    /// Follows a CatalogSource, or records its later version.
    pub(super) fn add(&self, source: CatalogSource) {
        let key = CatalogKey::from_source(&source);
        let former = self.get(&key);
        let former = former.map(|catalog| Arc::clone(&catalog.source.borrow()));
        if let Some(former) = former.filter(|former| is_replacement(former, &source)) {
            // Content of the former CatalogSource must not be used for the new one.
            self.remove(&key);
            self.forget(former.uid());
        }
        cluster_facts::require(&self.shared.facts, templates(&source));
        // The cache is updated here and not by the worker, which may still be busy when the catalog is deleted.
        let (identity, priority) = (CatalogIdentity::from_source(&source), source.spec.priority);
        let ctx = &self.shared.ctx;
        if ctx.settings.is_selectable_namespace(&key.namespace) {
            ctx.catalogs
                .change(|cache| cache.add(&key, &identity, priority.unwrap_or_default()));
        }
        if let Some(catalog) = self.get(&key) {
            catalog.update(source);
            return;
        }
        let handle = CatalogHandle::start(FollowedCatalog::new(&self.shared, key.clone(), source));
        self.catalogs.lock().insert(key, handle);
    }

    /// Stops following a catalog.
    pub(super) fn remove(&self, key: &CatalogKey) {
        let removed = self.catalogs.lock().remove(key);
        if let Some(handle) = removed {
            // The worker stops first. A running reconcile may hold the catalog for some time.
            drop(handle);
            if let Some(serving) = &self.shared.serving {
                serving.catalog_removed(key);
            }
            let ctx = &self.shared.ctx;
            ctx.catalogs.change(|cache| {
                ctx.metrics.catalog_gone(key);
                cache.remove(key)
            });
        }
    }

    /// Removes the recorded digest of a deleted CatalogSource. If the removal fails, the record applies only to the uid of that
    /// CatalogSource, and the store keeps the content until eviction.
    pub(super) fn forget(&self, uid: Option<String>) {
        let digest_cache = self.shared.digest_cache.clone();
        // The result is not awaited.
        drop(spawn_blocking(move || {
            uid.map(|uid| digest_cache.forget(&uid))
        }));
    }

    /// Stops following all catalogs.
    pub(super) fn clear(&self) {
        let all: Vec<CatalogKey> = self.catalogs.lock().keys().cloned().collect();
        for key in all {
            self.remove(&key);
        }
        let ctx = &self.shared.ctx;
        for namespace in &ctx.settings.catalog_namespaces {
            ctx.metrics.catalog_gone(&hidden(namespace));
        }
    }

    /// Marks registry pods as due whose objects have changed. Returns the catalogs to reconcile.
    pub(super) fn pod_object_changed(
        &self,
        namespace: &str,
        change: &OwnedChange,
    ) -> Vec<CatalogKey> {
        let catalogs = self.catalogs.lock();
        let affected = catalogs.iter().filter(|(key, _)| match change {
            OwnedChange::Changed(changed, _) => *key == changed,
            OwnedChange::Listed(listed) => key.namespace == namespace && !listed.contains(key),
        });
        affected
            .map(|(key, handle)| {
                handle.catalog.pod.object_changed();
                key.clone()
            })
            .collect()
    }
}

// === impl CatalogHandle ===

impl CatalogHandle {
    /// Starts the worker of a catalog.
    fn start(catalog: FollowedCatalog) -> Self {
        let catalog = Arc::new(catalog);
        let followed = Arc::clone(&catalog);
        let worker = tokio::spawn(restarted(move || worker::run(Arc::clone(&followed))));
        Self {
            catalog,
            worker: worker.abort_handle(),
        }
    }
}

impl Drop for CatalogHandle {
    fn drop(&mut self) {
        self.worker.abort();
        self.catalog.pod.close();
    }
}

/// Runs a worker that ends only by a panic, and starts it again. Without a restart, its catalog would keep its last status.
async fn restarted<F: Future<Output = ()>>(worker: impl Fn() -> F) {
    while AssertUnwindSafe(worker()).catch_unwind().await.is_err() {
        error!("the worker of a catalog panicked; it starts again in a minute");
        sleep(RESTART_DELAY).await;
    }
}

/// Reports whether a CatalogSource was replaced by another one of the same name while the watch was down.
fn is_replacement(old: &CatalogSource, new: &CatalogSource) -> bool {
    old.metadata.uid != new.metadata.uid
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn recreated_source_is_a_replacement() {
        let source = |uid: &str, image: &str| -> CatalogSource {
            object!({"metadata": {"name": "mine", "uid": uid}, "spec": {"sourceType": "grpc", "image": image}})
        };
        let former = source("a", "example.com/one");
        assert_rows! {
            is_replacement(&former, &former) => false;
            is_replacement(&former, &source("a", "example.com/two")) => false;
            // Even with the same spec.
            is_replacement(&former, &source("b", "example.com/one")) => true;
            is_replacement(&former, &source("b", "example.com/two")) => true;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn worker_is_started_again_after_a_panic() {
        let starts = AtomicUsize::new(0);
        restarted(async || assert!(starts.fetch_add(1, Ordering::Relaxed) > 1, "a bug")).await;
        assert_eq!(starts.into_inner(), 3);
    }
}
