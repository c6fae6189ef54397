//! Watches of the objects that belong to catalogs. The watches cover only metadata, and only namespaces with such
//! objects, because the provisioner may have permissions in single namespaces only.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
    mem,
    sync::{Arc, Weak},
};

use futures::{
    Stream, StreamExt as _, future,
    stream::{self, BoxStream},
};
use k8s_openapi::NamespaceResourceScope;
use kube::{
    Api, Client, Resource, ResourceExt as _,
    api::PartialObjectMeta,
    runtime::watcher::{self, Event},
};
use manifests::api::{catalog_source::CatalogSource, labels::CATALOG};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use tokio::sync::Notify;
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::warn;

use super::CatalogKey;
use apply::{api_error, backoff::patient};

/// Change of the objects of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum OwnedChange {
    /// An object of this catalog was created, changed or deleted. Contains its resource version.
    Changed(CatalogKey, Option<String>),
    /// The watch has listed all objects: these catalogs have one. Those of other catalogs were deleted while the watch was
    /// down.
    Listed(BTreeSet<CatalogKey>),
}

/// Namespaces whose objects are watched.
#[derive(Debug, Default)]
pub(super) struct WatchedNamespaces {
    /// Guard and token of the watches of each namespace.
    watched: Mutex<BTreeMap<String, (Weak<DropGuard>, CancellationToken)>>,
    /// Namespaces whose watches have not started yet.
    added: Mutex<Vec<(String, CancellationToken)>>,
    wake: Notify,
}

// === impl WatchedNamespaces ===

impl WatchedNamespaces {
    /// Starts the watches of a namespace, unless they are running. They end when the last guard is dropped.
    pub(super) fn watch(&self, namespace: &str) -> Arc<DropGuard> {
        let mut watched = self.watched.lock();
        if let Some((guard, _)) = watched.get(namespace)
            && let Some(guard) = guard.upgrade()
        {
            return guard;
        }
        watched.retain(|_, (guard, _)| guard.strong_count() > 0);
        let stop = CancellationToken::new();
        let guard = Arc::new(stop.clone().drop_guard());
        let entry = (Arc::downgrade(&guard), stop.clone());
        watched.insert(namespace.to_owned(), entry);
        self.added.lock().push((namespace.to_owned(), stop));
        self.wake.notify_one();
        guard
    }

    /// Returns the changes in all namespaces. Only one stream may be in use at a time.
    pub(super) fn changes<S, F>(
        self: &Arc<Self>,
        watch: F,
    ) -> impl Stream<Item = (String, S::Item)> + Send + use<S, F>
    where
        S: Stream<Item: Send> + Send + Unpin,
        F: Fn(&str) -> S + Send,
    {
        // A former stream may have taken namespaces from `added`. The new stream watches all namespaces.
        let watched = self.watched.lock();
        let all = watched
            .iter()
            .map(|(name, (_, stop))| (name.clone(), stop.clone()));
        *self.added.lock() = all.collect();
        drop(watched);
        let added = stream::unfold(Arc::clone(self), |namespaces| async move {
            loop {
                let added = mem::take(&mut *namespaces.added.lock());
                if !added.is_empty() {
                    return Some((stream::iter(added), namespaces));
                }
                namespaces.wake.notified().await;
            }
        });
        added
            .flatten()
            .boxed()
            .flat_map_unordered(None, move |(namespace, stop)| {
                let changes = watch(&namespace).take_until(Box::pin(stop.cancelled_owned()));
                changes.map(move |change| (namespace.clone(), change))
            })
    }
}

/// Watches the objects of a namespace with a label. `catalog` returns the catalog that an object belongs to.
pub(super) fn watch_owned<K>(
    client: &Client,
    namespace: &str,
    label: &str,
    catalog: fn(&PartialObjectMeta<K>) -> Option<CatalogKey>,
) -> BoxStream<'static, OwnedChange>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + Debug
        + Send
        + 'static,
{
    let api: Api<PartialObjectMeta<K>> = Api::namespaced(client.clone(), namespace);
    let (config, namespace) = (
        watcher::Config::default().labels(label),
        namespace.to_owned(),
    );
    let mut listed = BTreeSet::new();
    let changes = patient(watcher::watcher(api, config)).filter_map(move |event| {
        let changed = |object: &PartialObjectMeta<K>| {
            let version = object.resource_version();
            catalog(object).map(|key| OwnedChange::Changed(key, version))
        };
        future::ready(match event {
            Ok(Event::Init) => {
                listed.clear();
                None
            }
            Ok(Event::InitApply(object)) => {
                listed.extend(catalog(&object));
                changed(&object)
            }
            Ok(Event::Apply(object) | Event::Delete(object)) => changed(&object),
            Ok(Event::InitDone) => Some(OwnedChange::Listed(mem::take(&mut listed))),
            Err(error) => {
                let (kind, error) = (K::kind(&()), api_error::chain(&error));
                warn!(namespace, %kind, error, "watch of the objects of catalogs failed; reconnecting");
                None
            }
        })
    });
    changes.boxed()
}

/// Returns the CatalogSource that owns an object.
pub(super) fn owner<K: Resource<DynamicType = ()>>(
    object: &PartialObjectMeta<K>,
) -> Option<CatalogKey> {
    let mut owners = object.owner_references().iter();
    let owner = owners.find(|owner| owner.kind == CatalogSource::kind(&()))?;
    Some(CatalogKey {
        namespace: object.namespace()?,
        name: owner.name.clone(),
    })
}

/// Returns the catalog that the label of the catalog server names.
pub(super) fn labeled<K: Resource<DynamicType = ()>>(
    object: &PartialObjectMeta<K>,
) -> Option<CatalogKey> {
    Some(CatalogKey {
        namespace: object.namespace()?,
        name: object.labels().get(CATALOG)?.clone(),
    })
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn namespace_is_watched_until_its_last_guard_is_dropped() {
        let namespaces = Arc::new(WatchedNamespaces::default());
        let mut changes = Box::pin(namespaces.changes(|_| stream::repeat(()).boxed()));
        assert!(changes.next().now_or_never().is_none());
        let [first, _other, second] = ["a", "b", "a"].map(|namespace| namespaces.watch(namespace));
        let mut watched = async || -> BTreeSet<String> {
            let some = changes.by_ref().take(1000);
            some.map(|(namespace, ())| namespace).collect().await
        };
        let both = BTreeSet::from(["a", "b"].map(str::to_owned));
        assert_eq!(watched().await, both);
        drop(first);
        watched().await;
        assert_eq!(watched().await, both, "another catalog needs the watch");
        drop(second);
        watched().await;
        assert_eq!(watched().await, ["b".to_owned()].into());
        let _again = namespaces.watch("a");
        assert_eq!(watched().await, both);
    }
}
