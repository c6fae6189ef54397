//! Removes the registry pod of a catalog that is served in another way, with the objects that belong to it.

use std::fmt::Debug;

use k8s_openapi::{
    NamespaceResourceScope,
    api::{
        core::v1::{Endpoints, Service},
        discovery::v1::EndpointSlice,
    },
};
use kube::{
    Api, Client, Resource, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use manifests::api::{catalog_source::CatalogSource, labels};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{
    Error, Options, PodEnvironment, PodServer, RegistryPodSpec,
    apply::{RegistryPodClient, failed},
    manifest::{MANAGED, RegistryPodObjects, SERVICE_HASH, objects},
    plan::PodAction,
};

/// Label of an EndpointSlice with the name of its Service.
const SERVICE: &str = "kubernetes.io/service-name";
/// Label of an EndpointSlice with the controller that manages it.
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// EndpointSlice controllers of Kubernetes.
const CONTROLLERS: &str =
    "endpointslice-controller.k8s.io,endpointslicemirroring-controller.k8s.io";

/// Removes the pods, the policies and the service account of a catalog that is served in another way. The Service is kept,
/// because the new server uses it.
///
/// # Errors
/// Returns an error if the API server rejects a request.
pub async fn remove(
    client: &Client,
    desired: &RegistryPodSpec<'_>,
    around: &PodEnvironment<'_>,
) -> Result<(), Error> {
    let pod_client = RegistryPodClient::new(client, desired);
    for pod in pod_client.pods().await? {
        pod_client
            .act(PodAction::Delete(pod.name_any(), 1), &pod)
            .await?;
    }
    let RegistryPodObjects {
        account, policies, ..
    } = objects(desired, around)?;
    for policy in policies {
        delete(client, &policy).await?;
    }
    delete(client, &account).await
}

/// Removes the pods of a catalog that is served in another way, if it has any, with all objects that belong to them.
///
/// # Errors
/// Returns an error if the API server rejects a request.
pub async fn tear_down(client: &Client, source: &CatalogSource) -> Result<(), Error> {
    let Some(service) = remove_if_exists(client, source).await? else {
        return Ok(());
    };
    delete(client, &service).await
}

/// Removes the pods like [`tear_down`], but hands the Service over to the catalog server. `is_left` waits until the
/// endpoints of the pods are removed. Endpoints that Kubernetes' controllers have not removed by then would remain forever.
///
/// # Errors
/// Returns an error if the API server rejects a request.
pub async fn return_service(
    client: &Client,
    source: &CatalogSource,
    is_left: impl Future<Output = ()>,
) -> Result<(), Error> {
    let Some(service) = remove_if_exists(client, source).await? else {
        return Ok(());
    };
    let (namespace, name) = (service.namespace().unwrap_or_default(), service.name_any());
    let api: Api<Service> = Api::namespaced(client.clone(), &namespace);
    let fail = |source| failed::<Service>("patch", (&namespace, &name), source);
    let metadata = api.get_metadata_opt(&name).await.map_err(fail)?;
    let Some(metadata) = metadata.filter(|live| live.labels().contains_key(labels::CATALOG_POD))
    else {
        return Ok(());
    };
    // The EndpointSlice controller ignores Services without a selector, so the selector is removed only after the
    // endpoints.
    is_left.await;
    let (uid, params) = (metadata.uid(), PatchParams::default());
    let patch = async |patch: Value| match api.patch(&name, &params, &Patch::Merge(&patch)).await {
        // The Service was deleted or replaced. The new server applies it.
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        done => done.map(drop).map_err(fail),
    };
    let labels = json!({SERVICE_HASH: null});
    patch(json!({"metadata": {"uid": uid, "labels": labels}, "spec": {"selector": null}})).await?;
    reclaim_service(client, &namespace, &name).await?;
    // This patch is last, because the label marks an unfinished handover.
    let labels =
        json!({labels::CATALOG: source.name_any(), labels::CATALOG_POD: null, MANAGED: null});
    patch(json!({"metadata": {"uid": uid, "labels": labels}})).await
}

/// Removes the endpoints that Kubernetes' controllers have created for a Service with a selector. The controllers ignore
/// these endpoints once the Service has no selector, and mirror remaining Endpoints into an EndpointSlice.
async fn reclaim_service(client: &Client, namespace: &str, service: &str) -> Result<(), Error> {
    let endpoints: Api<Endpoints> = Api::namespaced(client.clone(), namespace);
    remove_any(&endpoints, (namespace, service)).await?;
    let slices: Api<EndpointSlice> = Api::namespaced(client.clone(), namespace);
    let selector = format!("{SERVICE}={service},{MANAGED_BY} in ({CONTROLLERS})");
    let listed = slices
        .list_metadata(&ListParams::default().labels(&selector))
        .await;
    let listed =
        listed.map_err(|error| failed::<EndpointSlice>("list", (namespace, service), error))?;
    for slice in listed {
        remove_any(&slices, (namespace, &slice.name_any())).await?;
    }
    Ok(())
}

/// Deletes an object regardless of its owner. A missing permission is not an error.
async fn remove_any<K>(api: &Api<K>, (namespace, name): (&str, &str)) -> Result<(), Error>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    match api.delete(name, &DeleteParams::default()).await {
        Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404) => Ok(()),
        done => done
            .map(drop)
            .map_err(|error| failed::<K>("delete", (namespace, name), error)),
    }
}

/// Reports whether a catalog has registry pods or a Service of such pods.
async fn has_any(
    client: &Client,
    desired: &RegistryPodSpec<'_>,
    service: &Service,
) -> Result<bool, Error> {
    let namespace = service.namespace().unwrap_or_default();
    let services: Api<Service> = Api::namespaced(client.clone(), &namespace);
    let name = service.name_any();
    let metadata = services.get_metadata_opt(&name).await;
    let metadata =
        metadata.map_err(|error| failed::<Service>("get", (&namespace, &name), error))?;
    let has_service = metadata.is_some_and(|live| live.labels().contains_key(labels::CATALOG_POD));
    Ok(has_service
        || !RegistryPodClient::new(client, desired)
            .pods()
            .await?
            .is_empty())
}

/// Removes the pods and everything that belongs to them except the Service. Returns the Service manifest, or `None` if no
/// pods exist.
async fn remove_if_exists(
    client: &Client,
    source: &CatalogSource,
) -> Result<Option<Service>, Error> {
    // The names of the objects do not depend on the content of the pod.
    let desired = RegistryPodSpec {
        source,
        image: "",
        options: &Options::default(),
        content: PodServer::Entrypoint,
    };
    let around = PodEnvironment {
        program: "",
        is_restricted: false,
        chooses_users: false,
    };
    // A catalog without valid names cannot have had a registry pod.
    let Ok(RegistryPodObjects { service, .. }) = objects(&desired, &around) else {
        return Ok(None);
    };
    if !has_any(client, &desired, &service).await? {
        return Ok(None);
    }
    remove(client, &desired, &around).await?;
    Ok(Some(service))
}

/// Deletes an object if it was created by the provisioner for the same owner.
async fn delete<K>(client: &Client, desired: &K) -> Result<(), Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned,
{
    let (namespace, name) = (desired.namespace().unwrap_or_default(), desired.name_any());
    let api: Api<K> = Api::namespaced(client.clone(), &namespace);
    let fail = |action| {
        let full_name = (namespace.clone(), name.clone());
        move |source| failed::<K>(action, (&full_name.0, &full_name.1), source)
    };
    let live = api.get_metadata_opt(&name).await.map_err(fail("get"))?;
    let owner = desired
        .owner_references()
        .first()
        .map(|owner| owner.uid.clone());
    let is_ours = live.is_some_and(|object| {
        let mut owners = object.owner_references().iter();
        let is_owned = owners.any(|reference| Some(&reference.uid) == owner.as_ref());
        is_owned && object.labels().contains_key(labels::CATALOG_POD)
    });
    if !is_ours {
        return Ok(());
    }
    match api.delete(&name, &DeleteParams::default()).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        done => done.map(drop).map_err(fail("delete")),
    }
}
