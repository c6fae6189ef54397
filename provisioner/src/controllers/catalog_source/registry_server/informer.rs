//! Informers of the Services and EndpointSlices of served catalogs, which notify the endpoints of changes. They cover
//! metadata only; the provisioner's own writes are recognized by their resource version.

use std::{collections::BTreeSet, fmt::Debug, pin::pin, sync::Arc};

use futures::{StreamExt as _, future};
use k8s_openapi::{
    NamespaceResourceScope,
    api::{core::v1::Service, discovery::v1::EndpointSlice},
};
use kube::{
    Api, Resource, ResourceExt as _,
    api::PartialObjectMeta,
    runtime::watcher::{self, Event},
};
use manifests::api::labels::CATALOG;
use serde::de::DeserializeOwned;
use tracing::warn;

use super::{CatalogEndpoint, Shared, apply::AppliedObjects};
use crate::controllers::catalog_source::CatalogKey;
use apply::backoff::patient;

/// Watches both kinds in a namespace.
pub(super) async fn run(shared: Arc<Shared>, namespace: String) {
    let services = watch::<Service>(&shared, &namespace, |kept| kept.service.as_deref());
    let slices = watch::<EndpointSlice>(&shared, &namespace, |kept| kept.slice.as_deref());
    future::join(services, slices).await;
}

async fn watch<K>(shared: &Shared, namespace: &str, version: fn(&AppliedObjects) -> Option<&str>)
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + Debug
        + Send
        + 'static,
{
    let api: Api<PartialObjectMeta<K>> = Api::namespaced(shared.requests.client.clone(), namespace);
    let config = watcher::Config::default().labels(CATALOG);
    let events = patient(watcher::watcher(api, config));
    let mut events = pin!(events);
    let mut listed = BTreeSet::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => listed.clear(),
            Ok(Event::InitApply(object)) => {
                listed.extend(object.labels().get(CATALOG).cloned());
                shared.has_changed(namespace, &object, version);
            }
            Ok(Event::Apply(object)) => shared.has_changed(namespace, &object, version),
            // Objects that the list lacks were deleted while the watch was down.
            Ok(Event::InitDone) => {
                shared.wake(|key| key.namespace == namespace && !listed.contains(&key.name));
            }
            Ok(Event::Delete(object)) => {
                let catalog = object.labels().get(CATALOG);
                shared.wake(|key| key.namespace == namespace && Some(&key.name) == catalog);
            }
            Err(error) => {
                let kind = K::kind(&());
                warn!(
                    namespace,
                    %kind,
                    %error,
                    "watch of catalog Services or EndpointSlices failed; reconnecting"
                );
            }
        }
    }
}

// === impl Shared ===

impl Shared {
    fn has_changed<K>(
        &self,
        namespace: &str,
        object: &PartialObjectMeta<K>,
        version: fn(&AppliedObjects) -> Option<&str>,
    ) where
        K: Resource<DynamicType = ()>,
    {
        let Some(catalog) = object.labels().get(CATALOG) else {
            return;
        };
        let key = CatalogKey {
            namespace: namespace.to_owned(),
            name: catalog.clone(),
        };
        if let Some(endpoint) = self.endpoints().get(&key) {
            let now = object.resource_version();
            if !endpoint.knows(now.as_deref(), version) {
                endpoint.wake.notify_one();
            }
        }
    }

    fn wake(&self, matches: impl Fn(&CatalogKey) -> bool) {
        let endpoints = self.endpoints();
        let woken = endpoints.iter().filter(|(key, _)| matches(key));
        woken.for_each(|(_, endpoint)| endpoint.wake.notify_one());
    }
}

// === impl CatalogEndpoint ===

impl CatalogEndpoint {
    /// Reports whether this resource version is that of the last reconcile.
    fn knows(&self, now: Option<&str>, version: fn(&AppliedObjects) -> Option<&str>) -> bool {
        let applied = self.lock_applied();
        now.is_some() && applied.as_ref().and_then(version) == now
    }
}
