//! Informers of registry pods and their objects: one metadata-only watch per kind and namespace, shared by all catalogs
//! of the namespace.

use std::{collections::BTreeMap, fmt::Debug, pin::pin, sync::Arc};

use futures::{StreamExt as _, future};
use k8s_openapi::{
    NamespaceResourceScope,
    api::{
        core::v1::{Pod, Service, ServiceAccount},
        networking::v1::NetworkPolicy,
    },
};
use kube::{
    Api, Client, Resource, ResourceExt as _,
    api::PartialObjectMeta,
    runtime::watcher::{self, Event},
};
use manifests::api::{catalog_source::CatalogSource, labels::CATALOG_POD};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use tokio::task::AbortHandle;
use tracing::warn;

use crate::controllers::catalog_source::{
    CatalogKey,
    change_notifier::{ChangeNotifier, ChangeSubscription},
};
use apply::backoff::patient;

/// Informers of all namespaces that have registry pods.
#[derive(Debug, Default)]
pub struct PodInformers {
    notifier: Arc<ChangeNotifier>,
    namespaces: Mutex<BTreeMap<String, Namespace>>,
}

#[derive(Debug)]
struct Namespace {
    task: AbortHandle,
    /// Number of subscribers.
    count: usize,
}

/// Subscription to the changes of one catalog's objects. Dropping it unsubscribes.
#[derive(Debug)]
pub(super) struct PodChanges<'a> {
    changes: ChangeSubscription,
    namespace: String,
    watches: &'a PodInformers,
}

// === impl PodInformers ===

impl PodInformers {
    /// Returns the number of watched namespaces.
    pub fn count(&self) -> usize {
        self.namespaces.lock().len()
    }

    /// Subscribes to the changes of a catalog's objects.
    pub(super) fn watch(&self, client: &Client, key: &CatalogKey) -> PodChanges<'_> {
        let changes = self.notifier.subscribe(key);
        let mut namespaces = self.namespaces.lock();
        let namespace = namespaces.entry(key.namespace.clone());
        let namespace = namespace.or_insert_with(|| {
            let watching = run(
                Arc::clone(&self.notifier),
                client.clone(),
                key.namespace.clone(),
            );
            Namespace {
                task: tokio::spawn(watching).abort_handle(),
                count: 0,
            }
        });
        namespace.count += 1;
        PodChanges {
            changes,
            namespace: key.namespace.clone(),
            watches: self,
        }
    }
}

// === impl PodChanges ===

impl PodChanges<'_> {
    pub(super) async fn changed(&mut self) {
        self.changes.changed().await;
    }
}

impl Drop for PodChanges<'_> {
    fn drop(&mut self) {
        let mut namespaces = self.watches.namespaces.lock();
        let Some(namespace) = namespaces.get_mut(&self.namespace) else {
            return;
        };
        namespace.count = namespace.count.saturating_sub(1);
        if namespace.count == 0
            && let Some(last) = namespaces.remove(&self.namespace)
        {
            last.task.abort();
        }
    }
}

/// Runs the watches of a namespace.
async fn run(notifier: Arc<ChangeNotifier>, client: Client, namespace: String) {
    let (notifier, client, namespace) = (&*notifier, &client, &*namespace);
    let pods = watch::<Pod>(notifier, client, namespace);
    let services = watch::<Service>(notifier, client, namespace);
    let accounts = watch::<ServiceAccount>(notifier, client, namespace);
    let policies = watch::<NetworkPolicy>(notifier, client, namespace);
    future::join4(pods, services, accounts, policies).await;
}

async fn watch<K>(notifier: &ChangeNotifier, client: &Client, namespace: &str)
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + Debug
        + Send
        + 'static,
{
    let api: Api<PartialObjectMeta<K>> = Api::namespaced(client.clone(), namespace);
    let config = watcher::Config::default().labels(CATALOG_POD);
    let events = patient(watcher::watcher(api, config));
    let mut events = pin!(events);
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Apply(object) | Event::Delete(object)) => {
                if let Some(name) = catalog_of(&object) {
                    let namespace = namespace.to_owned();
                    notifier.notify(&CatalogKey { namespace, name });
                }
            }
            Ok(Event::Init | Event::InitApply(_)) => {}
            // Objects may have been deleted while the watch was down.
            Ok(Event::InitDone) => notifier.notify_all(namespace),
            Err(error) => {
                let kind = K::kind(&());
                warn!(namespace, %kind, %error, "watch of catalog pods failed; reconnecting");
            }
        }
    }
}

/// Returns the name of the CatalogSource that owns an object.
fn catalog_of<K: Resource<DynamicType = ()>>(object: &PartialObjectMeta<K>) -> Option<String> {
    let mut owners = object.owner_references().iter();
    let owner = owners.find(|owner| owner.kind == CatalogSource::kind(&()))?;
    Some(owner.name.clone())
}
