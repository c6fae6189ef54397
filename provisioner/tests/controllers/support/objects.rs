//! Requests that must succeed, and objects that many tests need.

use std::fmt::Debug;

use cluster::{Cluster, DryRun};
use k8s_openapi::api::core::v1::ResourceQuota;
use kube::{
    Api, Client,
    api::{DeleteParams, Patch, PatchParams},
    core::{ApiResource, DynamicObject, GroupVersionKind},
    discovery::{ApiGroup, Discovery, verbs},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{World, notes_about, wait_for};

/// Applies any object as cluster admin.
pub(crate) async fn apply(cluster: &Cluster, object: &Value) {
    cluster.apply(object, DryRun::No).await.unwrap();
}

/// Applies a CRD, and waits until the API server serves it.
pub(crate) async fn define(cluster: &Cluster, crd: &Value) {
    apply(cluster, crd).await;
    let name = crd["metadata"]["name"].as_str().unwrap();
    cluster.wait_established(name).await.unwrap();
}

/// Patches an object by a merge patch.
pub(crate) async fn merge<K>(api: &Api<K>, name: &str, patch: &Value) -> K
where
    K: Clone + DeserializeOwned + Debug,
{
    let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
    api.patch(name, &params, &patch).await.unwrap()
}

/// Patches the status of an object by a merge patch.
pub(crate) async fn merge_status<K>(api: &Api<K>, name: &str, patch: &Value) -> K
where
    K: DeserializeOwned,
{
    let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
    api.patch_status(name, &params, &patch).await.unwrap()
}

/// Patches an object by a merge patch of a field manager.
pub(crate) async fn patch_as<K>(api: &Api<K>, name: &str, manager: &str, patch: &Value) -> K
where
    K: Clone + DeserializeOwned + Debug,
{
    let params = PatchParams {
        field_manager: Some(manager.to_owned()),
        ..PatchParams::default()
    };
    let patch = Patch::Merge(patch);
    api.patch(name, &params, &patch).await.unwrap()
}

/// Deletes an object.
pub(crate) async fn delete<K>(api: &Api<K>, name: &str)
where
    K: Clone + DeserializeOwned + Debug,
{
    let params = DeleteParams::default();
    api.delete(name, &params).await.unwrap();
}

/// Returns the API of a kind in a namespace, by group, version and kind.
pub(crate) fn custom_resources(
    world: &World,
    namespace: &str,
    [group, version, kind]: [&str; 3],
) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk(group, version, kind);
    let resource = ApiResource::from_gvk(&kind);
    Api::namespaced_with(world.client(), namespace, &resource)
}

/// Lists all kinds whose objects can be listed.
pub(crate) async fn listable(client: Client) -> Result<Vec<ApiResource>, String> {
    let discovery = Discovery::new(client).run_aggregated().await;
    let discovery = discovery.map_err(|error| error.to_string())?;
    let kinds = discovery.groups().flat_map(ApiGroup::recommended_resources);
    let listed = kinds.filter(|(_, can)| can.supports_operation(verbs::LIST));
    Ok(listed.map(|(kind, _)| kind).collect())
}

/// Lists the notes of the Events about a cluster-scoped object that have this reason, sorted.
pub(crate) async fn notes(world: &World, about: &str, reason: &str) -> Vec<String> {
    let mut notes = notes_about(&world.client(), "default", about, reason).await;
    notes.sort();
    notes
}

/// Creates a quota, and waits until the quota is enforced.
pub(crate) async fn quota(
    world: &World,
    namespace: &str,
    name: &str,
    hard: &Value,
) -> Api<ResourceQuota> {
    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota",
        "metadata": {"name": name, "namespace": namespace}, "spec": {"hard": hard},
    });
    world.apply(&quota).await;
    let quotas: Api<ResourceQuota> = Api::namespaced(world.client(), namespace);
    wait_for(quotas.clone(), name, "counted", |quota: &ResourceQuota| {
        quota.status.as_ref()?.used.as_ref().map(drop)
    })
    .await;
    quotas
}

/// Returns a Namespace.
pub(crate) fn namespace_object(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}
