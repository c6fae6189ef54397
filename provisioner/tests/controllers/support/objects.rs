//! Requests that must succeed, and objects that many tests need.

use std::fmt::Debug;

use cluster::{Cluster, DryRun};
use k8s_openapi::api::{core::v1::ResourceQuota, events::v1::Event};
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
    core::{ApiResource, DynamicObject, GroupVersionKind},
    discovery::{ApiGroup, Discovery, verbs},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::{World, wait_for};

/// An object that the API server returns.
pub(crate) trait ApiObject: Clone + DeserializeOwned + Debug {}

impl<K: Clone + DeserializeOwned + Debug> ApiObject for K {}

pub(crate) async fn apply(cluster: &Cluster, object: &Value) {
    cluster.apply(object, DryRun::No).await.unwrap();
}

pub(crate) async fn define(cluster: &Cluster, crd: &Value) {
    apply(cluster, crd).await;
    let name = crd["metadata"]["name"].as_str().unwrap();
    cluster.wait_established(name).await.unwrap();
}

pub(crate) async fn merge<K: ApiObject>(api: &Api<K>, name: &str, patch: &Value) -> K {
    let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
    api.patch(name, &params, &patch).await.unwrap()
}

pub(crate) async fn merge_status<K: ApiObject>(api: &Api<K>, name: &str, patch: &Value) -> K {
    let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
    api.patch_status(name, &params, &patch).await.unwrap()
}

pub(crate) async fn patch_as<K>(api: &Api<K>, name: &str, manager: &str, patch: &Value) -> K
where
    K: ApiObject,
{
    let params = tests::with!(PatchParams, field_manager: Some(manager.to_owned()));
    let patch = Patch::Merge(patch);
    api.patch(name, &params, &patch).await.unwrap()
}

pub(crate) async fn delete<K: ApiObject>(api: &Api<K>, name: &str) {
    api.delete(name, &DeleteParams::default()).await.unwrap();
}

/// Returns the API of a kind in a namespace, by group, version and kind.
pub(crate) fn custom_resources(
    world: &World,
    namespace: &str,
    [group, version, kind]: [&str; 3],
) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    Api::namespaced_with(world.client(), namespace, &resource)
}

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
    let is_counted = |quota: &ResourceQuota| quota.status.as_ref()?.used.as_ref().map(drop);
    wait_for(quotas.clone(), name, "counted", is_counted).await;
    quotas
}

pub(crate) fn namespace_object(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

pub(crate) async fn create<K: ApiObject + Serialize>(api: &Api<K>, object: &K) -> K {
    api.create(&PostParams::default(), object).await.unwrap()
}

pub(crate) async fn list<K: ApiObject>(api: &Api<K>) -> Vec<K> {
    api.list(&ListParams::default()).await.unwrap().items
}

/// Lists the notes of the Events with this reason about objects of this name, oldest first.
pub(crate) async fn notes_about(
    client: &Client,
    namespace: &str,
    about: &str,
    reason: &str,
) -> Vec<String> {
    let mut found: Vec<Event> = list(&Api::namespaced(client.clone(), namespace)).await;
    found.retain(|event| {
        let regarding = event.regarding.as_ref();
        regarding.is_some_and(|object| object.name.as_deref() == Some(about))
            && event.reason.as_deref() == Some(reason)
    });
    found.sort_by_key(|event| event.event_time.as_ref().map(|time| time.0));
    found.into_iter().filter_map(|event| event.note).collect()
}

pub(crate) fn account_object(namespace: &str, name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}})
}

pub(crate) fn node_object(name: &str, architecture: &str) -> Value {
    let labels = json!({"kubernetes.io/arch": architecture});
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}})
}

pub(crate) fn catalog_source(namespace: &str, name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
        "metadata": {"name": name, "namespace": namespace}, "spec": spec,
    })
}

pub(crate) fn user(name: &str) -> Value {
    json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name})
}

pub(crate) fn account(namespace: &str, name: &str) -> Value {
    json!({"kind": "ServiceAccount", "name": name, "namespace": namespace})
}

/// Binds a role to a subject, in a namespace or cluster-wide.
pub(crate) async fn bind_role(
    cluster: &Cluster,
    subject: &Value,
    namespace: Option<&str>,
    (kind, role): (&str, &str),
    name: &str,
) {
    let group = "rbac.authorization.k8s.io";
    let binding = json!({
        "apiVersion": format!("{group}/v1"),
        "kind": namespace.map_or("ClusterRoleBinding", |_| "RoleBinding"),
        "metadata": {"name": name, "namespace": namespace},
        "roleRef": {"apiGroup": group, "kind": kind, "name": role}, "subjects": [subject],
    });
    apply(cluster, &binding).await;
}
