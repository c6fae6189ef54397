//! Removes the pod of a catalog that is to be served in another way, with what belonged to it.

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
    Around, Content, Error, Options, Wanted,
    decide::Act,
    declare::{MANAGED, Objects, SERVICE_HASH, objects},
    keep::{Keeper, failed},
};

/// On an EndpointSlice: its Service.
const SERVICE: &str = "kubernetes.io/service-name";
/// On an EndpointSlice: who looks after it.
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// Kubernetes' own.
const CONTROLLERS: &str =
    "endpointslice-controller.k8s.io,endpointslicemirroring-controller.k8s.io";

/// Removes the pods of a catalog that is served in another way now, with what belonged to them. The Service stays: it
/// belongs to whoever serves.
///
/// # Errors
/// When the cluster does not let us.
pub async fn remove(
    client: &Client,
    wanted: &Wanted<'_>,
    around: &Around<'_>,
) -> Result<(), Error> {
    let keeper = Keeper::new(client, wanted);
    for pod in keeper.pods().await? {
        keeper.act(Act::Delete(pod.name_any(), 1), &pod).await?;
    }
    let Objects {
        account, policies, ..
    } = objects(wanted, around)?;
    for policy in policies {
        delete(client, &policy).await?;
    }
    delete(client, &account).await
}

/// Removes the pods of a catalog that is to be served in another way, if it has any, with all that belonged to them.
///
/// # Errors
/// When the cluster does not let us.
pub async fn leave(client: &Client, source: &CatalogSource) -> Result<(), Error> {
    let Some(service) = left(client, source).await? else {
        return Ok(());
    };
    delete(client, &service).await
}

/// The same where the catalog server takes over: the Service stays, and is its own from now on. `is_left` waits until
/// nothing of the pods is in the way; what Kubernetes' controllers have not taken back by then, they never would.
///
/// # Errors
/// When the cluster does not let us.
pub async fn hand_back(
    client: &Client,
    source: &CatalogSource,
    is_left: impl Future<Output = ()>,
) -> Result<(), Error> {
    let Some(service) = left(client, source).await? else {
        return Ok(());
    };
    let (namespace, name) = (service.namespace().unwrap_or_default(), service.name_any());
    let api: Api<Service> = Api::namespaced(client.clone(), &namespace);
    let fail = |source| failed::<Service>("patch", (&namespace, &name), source);
    let there = api.get_metadata_opt(&name).await.map_err(fail)?;
    let Some(there) = there.filter(|it| it.labels().contains_key(labels::CATALOG_POD)) else {
        return Ok(());
    };
    // Who selects no pods gets nothing more to know of them, not even that they are gone.
    is_left.await;
    let (uid, params) = (there.uid(), PatchParams::default());
    let patch = async |patch: Value| match api.patch(&name, &params, &Patch::Merge(&patch)).await {
        // Gone, or another one: made as it should be by whoever serves.
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        done => done.map(drop).map_err(fail),
    };
    let labels = json!({SERVICE_HASH: null});
    patch(json!({"metadata": {"uid": uid, "labels": labels}, "spec": {"selector": null}})).await?;
    take_back(client, &namespace, &name).await?;
    // Last, for by that it is known that something is to be done.
    let labels =
        json!({labels::CATALOG: source.name_any(), labels::CATALOG_POD: null, MANAGED: null});
    patch(json!({"metadata": {"uid": uid, "labels": labels}})).await
}

/// Removes what Kubernetes' controllers have made of the pods that a Service selected. They do not look at it again when it
/// selects none, and of Endpoints that are left make an EndpointSlice.
async fn take_back(client: &Client, namespace: &str, service: &str) -> Result<(), Error> {
    let endpoints: Api<Endpoints> = Api::namespaced(client.clone(), namespace);
    remove_any(&endpoints, (namespace, service)).await?;
    let slices: Api<EndpointSlice> = Api::namespaced(client.clone(), namespace);
    let theirs = format!("{SERVICE}={service},{MANAGED_BY} in ({CONTROLLERS})");
    let listed = slices
        .list_metadata(&ListParams::default().labels(&theirs))
        .await;
    let listed =
        listed.map_err(|error| failed::<EndpointSlice>("list", (namespace, service), error))?;
    for slice in listed {
        remove_any(&slices, (namespace, &slice.name_any())).await?;
    }
    Ok(())
}

/// Deletes an object whose owner matters to nobody, where that is allowed.
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

/// Reports whether a catalog has pods, or the Service in front of them.
///
/// # Errors
/// When the cluster does not tell.
pub async fn are_there(client: &Client, source: &CatalogSource) -> Result<bool, Error> {
    let options = Options::default();
    let (wanted, around) = nothing(source, &options);
    // One that cannot have had any.
    let Ok(Objects { service, .. }) = objects(&wanted, &around) else {
        return Ok(false);
    };
    has_any(client, &wanted, &service).await
}

async fn has_any(client: &Client, wanted: &Wanted<'_>, service: &Service) -> Result<bool, Error> {
    let namespace = service.namespace().unwrap_or_default();
    let services: Api<Service> = Api::namespaced(client.clone(), &namespace);
    let name = service.name_any();
    let there = services.get_metadata_opt(&name).await;
    let there = there.map_err(|error| failed::<Service>("get", (&namespace, &name), error))?;
    let has_service = there.is_some_and(|it| it.labels().contains_key(labels::CATALOG_POD));
    Ok(has_service || !Keeper::new(client, wanted).pods().await?.is_empty())
}

/// Removes pods, if there are any, and what belonged to them but the Service, which is returned as it would be.
async fn left(client: &Client, source: &CatalogSource) -> Result<Option<Service>, Error> {
    let options = Options::default();
    let (wanted, around) = nothing(source, &options);
    let Ok(Objects { service, .. }) = objects(&wanted, &around) else {
        return Ok(None);
    };
    if !has_any(client, &wanted, &service).await? {
        return Ok(None);
    }
    remove(client, &wanted, &around).await?;
    Ok(Some(service))
}

/// For names: what would be in the pod is no matter.
fn nothing<'a>(source: &'a CatalogSource, options: &'a Options) -> (Wanted<'a>, Around<'a>) {
    let wanted = Wanted {
        source,
        image: "",
        options,
        content: Content::Entrypoint,
    };
    let around = Around {
        program: "",
        is_restricted: false,
        chooses_users: false,
    };
    (wanted, around)
}

/// Deletes an object if we have made it for the same owner.
async fn delete<K>(client: &Client, wanted: &K) -> Result<(), Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned,
{
    let (namespace, name) = (wanted.namespace().unwrap_or_default(), wanted.name_any());
    let api: Api<K> = Api::namespaced(client.clone(), &namespace);
    let fail = |action| {
        let place = (namespace.clone(), name.clone());
        move |source| failed::<K>(action, (&place.0, &place.1), source)
    };
    let there = api.get_metadata_opt(&name).await.map_err(fail("get"))?;
    let owner = wanted.owner_references().first().map(|it| it.uid.clone());
    let is_ours = there.is_some_and(|it| {
        let mut owners = it.owner_references().iter();
        let is_owned = owners.any(|it| Some(&it.uid) == owner.as_ref());
        is_owned && it.labels().contains_key(labels::CATALOG_POD)
    });
    if !is_ours {
        return Ok(());
    }
    match api.delete(&name, &DeleteParams::default()).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        done => done.map(drop).map_err(fail("delete")),
    }
}
