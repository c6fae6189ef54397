//! Tells stands that their Service or EndpointSlice has changed. Metadata only: what was written here is known by its
//! resource version.

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

use super::{Shared, Stand, keep::Kept};
use crate::catalogs::Key;
use apply::backoff::patient;

/// Watches both kinds in a namespace.
pub(super) async fn run(shared: Arc<Shared>, namespace: String) {
    let services = watch::<Service>(&shared, &namespace, |kept| kept.service.as_deref());
    let slices = watch::<EndpointSlice>(&shared, &namespace, |kept| kept.slice.as_deref());
    future::join(services, slices).await;
}

async fn watch<K>(shared: &Shared, namespace: &str, version: fn(&Kept) -> Option<&str>)
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
    let mut seen = BTreeSet::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => seen.clear(),
            Ok(Event::InitApply(object)) => {
                seen.extend(object.labels().get(CATALOG).cloned());
                shared.has_changed(namespace, &object, version);
            }
            Ok(Event::Apply(object)) => shared.has_changed(namespace, &object, version),
            // What went while nobody watched.
            Ok(Event::InitDone) => {
                shared.wake(|key| key.namespace == namespace && !seen.contains(&key.name));
            }
            Ok(Event::Delete(object)) => {
                let catalog = object.labels().get(CATALOG);
                shared.wake(|key| key.namespace == namespace && Some(&key.name) == catalog);
            }
            Err(error) => {
                let kind = K::kind(&());
                warn!(namespace, %kind, %error, "the watch of what leads to catalogs failed; it is taken up again");
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
        version: fn(&Kept) -> Option<&str>,
    ) where
        K: Resource<DynamicType = ()>,
    {
        let Some(catalog) = object.labels().get(CATALOG) else {
            return;
        };
        let key = Key {
            namespace: namespace.to_owned(),
            name: catalog.clone(),
        };
        if let Some(stand) = self.stands().get(&key) {
            let now = object.resource_version();
            if !stand.knows(now.as_deref(), version) {
                stand.wake.notify_one();
            }
        }
    }

    fn wake(&self, which: impl Fn(&Key) -> bool) {
        let stands = self.stands();
        let woken = stands.iter().filter(|(key, _)| which(key));
        woken.for_each(|(_, stand)| stand.wake.notify_one());
    }
}

// === impl Stand ===

impl Stand {
    /// Reports whether this is what the object was like when it was looked at last.
    fn knows(&self, now: Option<&str>, version: fn(&Kept) -> Option<&str>) -> bool {
        let kept = self.kept();
        now.is_some() && kept.as_ref().and_then(version) == now
    }
}
