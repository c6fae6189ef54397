//! Client for the Services and EndpointSlices of served catalogs: writes, repairs and removes them.
//!
//! [`Requests`] limits the number of concurrent requests for all catalogs. The API server allocates an IP address for each
//! new Service, and concurrent creations slow each other down. A request that times out wastes its allocation and is
//! repeated. A thousand concurrent creations would therefore take minutes.

use std::{fmt::Debug, time::Duration};

use k8s_openapi::{
    NamespaceResourceScope,
    api::{core::v1::Service, discovery::v1::EndpointSlice},
    apimachinery::pkg::apis::meta::v1::Time,
};
use kube::{
    Api, Client, Resource, ResourceExt as _,
    api::{Patch, PatchParams},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::{sync::Semaphore, time::timeout};

use super::{
    Error,
    objects::{EndpointSpec, MANAGER, ObjectState, has_stale_endpoints, is_ours, slice_name},
};
use crate::controllers::catalog_source::CatalogKey;
use apply::delete_params;

/// Timeout of one request to the API server.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of concurrent requests.
const MAX_CONCURRENT: usize = 8;
/// Maximum length of an API server message in an error, in characters.
const MAX_MESSAGE_LEN: usize = 400;

/// Client and request limit for the objects of all catalogs.
pub(super) struct Requests {
    pub(super) client: Client,
    permits: Semaphore,
}

/// Object of a served catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::controllers::catalog_source) enum ServerObject {
    /// The Service that clients connect to.
    Service,
    /// The EndpointSlice of that Service.
    EndpointSlice,
}

/// Both objects of a catalog as of the last reconcile.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct AppliedObjects {
    /// Resource version of the Service.
    pub(super) service: Option<String>,
    /// Resource version of the EndpointSlice.
    pub(super) slice: Option<String>,
    /// Creation time of the Service.
    pub(super) created: Option<Time>,
    /// Number of objects written by this reconcile.
    pub(super) written: u64,
    /// True if the Service belongs to the registry pod of the catalog.
    pub(super) is_pod_service: bool,
}

// === impl Requests ===

impl Requests {
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            permits: Semaphore::new(MAX_CONCURRENT),
        }
    }
}

// === impl AppliedObjects ===

impl AppliedObjects {
    /// Returns the resource version of an object.
    pub(super) fn version(&self, object: ServerObject) -> Option<&str> {
        match object {
            ServerObject::Service => self.service.as_deref(),
            ServerObject::EndpointSlice => self.slice.as_deref(),
        }
    }

    /// Returns the number of objects that another client had changed or deleted since `before`. Writes for a new endpoint,
    /// or for a Service that a registry pod has handed over, do not count as repairs.
    pub(super) fn repaired(&self, before: Option<&Self>, is_new: bool) -> u64 {
        let had_service = before.is_some_and(|applied| !applied.is_pod_service);
        if had_service && !is_new {
            self.written
        } else {
            0
        }
    }
}

/// Applies both objects if they differ from the desired state.
pub(super) async fn reconcile(
    requests: &Requests,
    declared: &EndpointSpec,
) -> Result<AppliedObjects, Error> {
    let namespace = &declared.key.namespace;
    let services = ObjectClient::<Service>::new(requests, namespace, "Service");
    let slices = ObjectClient::<EndpointSlice>::new(requests, namespace, "EndpointSlice");
    let mut written = 0;
    let name = declared.service_name();
    let live = services.get(&name).await?;
    let state = declared.compare_service(live.as_ref());
    let is_pod_service = state == ObjectState::Shared;
    let service = match state {
        ObjectState::UpToDate | ObjectState::Shared => live,
        ObjectState::Foreign(message) => {
            // An EndpointSlice of the provisioner must not add endpoints to a foreign Service.
            slices.remove(&declared.slice_name(), &declared.key).await?;
            return Err(Error::Foreign(message));
        }
        ObjectState::Terminating => return Err(services.terminating(&name)),
        state => {
            written += 1;
            let exists = state != ObjectState::Missing;
            Some(
                services
                    .apply(&name, declared.service(), live.as_ref().filter(|_| exists))
                    .await?,
            )
        }
    };
    let name = declared.slice_name();
    let mut live = slices.get(&name).await?;
    let mut state = declared.compare_slice(live.as_ref());
    if state == ObjectState::Recreate {
        slices.remove(&name, &declared.key).await?;
        (live, state) = (None, ObjectState::Missing);
    }
    let slice = match state {
        ObjectState::UpToDate => live,
        ObjectState::Foreign(message) => return Err(Error::Foreign(message)),
        ObjectState::Terminating => return Err(slices.terminating(&name)),
        _ => {
            written += 1;
            Some(slices.apply(&name, declared.slice(), live.as_ref()).await?)
        }
    };
    let created = service
        .as_ref()
        .and_then(|service| service.meta().creation_timestamp.clone());
    Ok(AppliedObjects {
        service: service.and_then(|service| service.resource_version()),
        slice: slice.and_then(|slice| slice.resource_version()),
        created,
        written,
        is_pod_service,
    })
}

/// Removes all endpoints from the EndpointSlice of a catalog, unless the slice is foreign or the catalog is served in
/// the meantime.
pub(super) async fn remove_endpoints(
    requests: &Requests,
    key: &CatalogKey,
    is_served: impl Fn() -> bool,
) -> Result<(), Error> {
    let name = slice_name(&key.name);
    let slices = ObjectClient::<EndpointSlice>::new(requests, &key.namespace, "EndpointSlice");
    let live = slices.get(&name).await?;
    // A write after this read is detected by the resource version; a write before it, by `is_served`.
    let Some(live) = live.filter(|slice| has_stale_endpoints(slice, &key.name, is_served())) else {
        return Ok(());
    };
    // The resource version makes the patch fail if another client has changed the endpoints in the meantime.
    let version = live.resource_version();
    let patch = json!({"metadata": {"resourceVersion": version}, "endpoints": []});
    let params = PatchParams::apply(MANAGER);
    let patch = Patch::Merge(&patch);
    match slices
        .send("write", &name, slices.api.patch(&name, &params, &patch))
        .await
    {
        Err(Error::Api { source, .. }) if is_gone_or_replaced(&source) => Ok(()),
        other => other.map(drop),
    }
}

/// Removes both objects, except foreign ones.
pub(super) async fn remove(requests: &Requests, key: &CatalogKey) -> Result<(), Error> {
    let name = key.name.replace('.', "-");
    let slices = ObjectClient::<EndpointSlice>::new(requests, &key.namespace, "EndpointSlice");
    slices.remove(&slice_name(&key.name), key).await?;
    let services = ObjectClient::<Service>::new(requests, &key.namespace, "Service");
    services.remove(&name, key).await
}

/// Objects of one kind in one namespace.
struct ObjectClient<'a, K> {
    api: Api<K>,
    permits: &'a Semaphore,
    namespace: String,
    kind: &'static str,
}

// === impl ObjectClient ===

impl<'a, K> ObjectClient<'a, K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + Debug,
{
    fn new(requests: &'a Requests, namespace: &str, kind: &'static str) -> Self {
        Self {
            api: Api::namespaced(requests.client.clone(), namespace),
            permits: &requests.permits,
            namespace: namespace.to_owned(),
            kind,
        }
    }

    async fn get(&self, name: &str) -> Result<Option<K>, Error> {
        let object = self.send("get", name, self.api.get_opt(name)).await?;
        Ok(object)
    }

    /// Applies an object: updates `live`, or creates the object if `live` is `None`.
    async fn apply(&self, name: &str, mut object: Value, live: Option<&K>) -> Result<K, Error> {
        let mut params = PatchParams::apply(MANAGER);
        if let Some(live) = live {
            params.force = true;
            // The uid makes the request fail if the object was replaced in the meantime.
            let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
            metadata.map(|metadata| metadata.insert("uid".to_owned(), live.uid().into()));
        }
        let patch = Patch::Apply(&object);
        self.send("write", name, self.api.patch(name, &params, &patch))
            .await
    }

    /// Deletes an object if it belongs to the catalog.
    async fn remove(&self, name: &str, key: &CatalogKey) -> Result<(), Error> {
        let Some(object) = self.get(name).await? else {
            return Ok(());
        };
        if !is_ours(&object, &key.name) || object.meta().deletion_timestamp.is_some() {
            return Ok(());
        }
        let params = delete_params::for_uid(object.uid());
        match self
            .send("delete", name, self.api.delete(name, &params))
            .await
        {
            // The object was deleted or replaced in the meantime.
            Err(Error::Api { source, .. }) if is_gone_or_replaced(&source) => Ok(()),
            other => other.map(drop),
        }
    }

    fn terminating(&self, name: &str) -> Error {
        Error::Terminating(self.object(name))
    }

    fn object(&self, name: &str) -> String {
        format!("{} {}/{name}", self.kind, self.namespace)
    }

    async fn send<T>(
        &self,
        action: &'static str,
        name: &str,
        request: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, Error> {
        let object = || self.object(name);
        let Ok(_permit) = self.permits.acquire().await else {
            return Err(Error::ShuttingDown);
        };
        match timeout(REQUEST_TIMEOUT, request).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(kube::Error::Api(status))) if matches!(status.code, 401 | 403) => {
                Err(Error::Forbidden {
                    namespace: self.namespace.clone(),
                    said: status.message.chars().take(MAX_MESSAGE_LEN).collect(),
                })
            }
            Ok(Err(source)) => Err(Error::Api {
                action,
                object: object(),
                source: Box::new(source),
            }),
            Err(_) => Err(Error::Timeout {
                action,
                object: object(),
            }),
        }
    }
}

fn is_gone_or_replaced(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if matches!(status.code, 404 | 409))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_drifted_objects_are_repaired() {
        let applied = |written: u64, is_pod_service: bool| AppliedObjects {
            service: None,
            slice: None,
            created: None,
            written,
            is_pod_service,
        };
        assert_each!(|before, is_new, now, expected| now.repaired(before.as_ref(), is_new) => expected;
            None, true, applied(2, false) => 0;
            None, false, applied(2, false) => 0;
            Some(applied(2, false)), true, applied(1, false) => 0;
            Some(applied(2, false)), false, applied(1, false) => 1;
            Some(applied(0, false)), false, applied(0, false) => 0;
            // The Service belonged to a registry pod before.
            Some(applied(1, true)), false, applied(1, false) => 0;
            Some(applied(1, false)), false, applied(1, true) => 1;
        );
    }
}
