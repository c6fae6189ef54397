//! Tells that the pods of catalogs have changed, or what belongs to them: a watch of each kind for each namespace, however
//! many catalogs it has. Metadata only.

use std::{
    collections::BTreeMap,
    fmt::Debug,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

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
use serde::de::DeserializeOwned;
use tokio::task::AbortHandle;
use tracing::warn;

use crate::catalogs::{
    Key,
    waiting::{Changes, Waiting},
};
use apply::backoff::patient;

/// The watches of all namespaces where somebody wants to know.
#[derive(Debug, Default)]
pub struct Watches {
    waiting: Arc<Waiting>,
    namespaces: Mutex<BTreeMap<String, Namespace>>,
}

#[derive(Debug)]
struct Namespace {
    task: AbortHandle,
    /// Who wants to know.
    count: usize,
}

/// Tells of the pods of one catalog until it is dropped.
#[derive(Debug)]
pub(super) struct Watched<'a> {
    changes: Changes,
    namespace: String,
    watches: &'a Watches,
}

// === impl Watches ===

impl Watches {
    /// How many namespaces are watched.
    pub fn count(&self) -> usize {
        self.namespaces().len()
    }

    /// Tells of the pods of a catalog from now on.
    pub(super) fn watch(&self, client: &Client, key: &Key) -> Watched<'_> {
        let changes = self.waiting.wait(key);
        let mut namespaces = self.namespaces();
        let namespace = namespaces.entry(key.namespace.clone());
        let namespace = namespace.or_insert_with(|| {
            let watching = run(
                Arc::clone(&self.waiting),
                client.clone(),
                key.namespace.clone(),
            );
            Namespace {
                task: tokio::spawn(watching).abort_handle(),
                count: 0,
            }
        });
        namespace.count += 1;
        Watched {
            changes,
            namespace: key.namespace.clone(),
            watches: self,
        }
    }

    fn namespaces(&self) -> MutexGuard<'_, BTreeMap<String, Namespace>> {
        let namespaces = self.namespaces.lock();
        namespaces.unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Watched ===

impl Watched<'_> {
    pub(super) async fn changed(&mut self) {
        self.changes.changed().await;
    }
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        let mut namespaces = self.watches.namespaces();
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

/// Watches a namespace.
async fn run(waiting: Arc<Waiting>, client: Client, namespace: String) {
    let (waiting, client, namespace) = (&*waiting, &client, &*namespace);
    let pods = watch::<Pod>(waiting, client, namespace);
    let services = watch::<Service>(waiting, client, namespace);
    let accounts = watch::<ServiceAccount>(waiting, client, namespace);
    let policies = watch::<NetworkPolicy>(waiting, client, namespace);
    future::join4(pods, services, accounts, policies).await;
}

async fn watch<K>(waiting: &Waiting, client: &Client, namespace: &str)
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
                    waiting.wake(&Key { namespace, name });
                }
            }
            Ok(Event::Init | Event::InitApply(_)) => {}
            // Nobody knows what has gone while nobody watched.
            Ok(Event::InitDone) => waiting.wake_all(namespace),
            Err(error) => {
                let kind = K::kind(&());
                warn!(namespace, %kind, %error, "the watch of catalogs' pods failed; it is taken up again");
            }
        }
    }
}

/// The CatalogSource that owns an object.
fn catalog_of<K: Resource<DynamicType = ()>>(object: &PartialObjectMeta<K>) -> Option<String> {
    let mut owners = object.owner_references().iter();
    let owner = owners.find(|it| it.kind == CatalogSource::kind(&()))?;
    Some(owner.name.clone())
}
