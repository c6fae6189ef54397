//! Requests that must succeed, and objects that many tests need.

use std::fmt::Debug;

use cluster::{Cluster, DryRun};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Applies any object as the administrator.
pub(crate) async fn apply(cluster: &Cluster, object: &Value) {
    cluster.apply(object, DryRun::No).await.unwrap();
}

/// Applies a definition, and waits until the API server serves it.
pub(crate) async fn define(cluster: &Cluster, definition: &Value) {
    apply(cluster, definition).await;
    let name = definition["metadata"]["name"].as_str().unwrap();
    cluster.wait_established(name).await.unwrap();
}

/// Changes an object by a merge patch.
pub(crate) async fn merge<K>(api: &Api<K>, name: &str, patch: &Value) -> K
where
    K: Clone + DeserializeOwned + Debug,
{
    let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
    api.patch(name, &params, &patch).await.unwrap()
}

/// Changes the status of an object by a merge patch.
pub(crate) async fn merge_status<K>(api: &Api<K>, name: &str, patch: &Value) -> K
where
    K: DeserializeOwned,
{
    let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
    api.patch_status(name, &params, &patch).await.unwrap()
}

/// Deletes an object.
pub(crate) async fn delete<K>(api: &Api<K>, name: &str)
where
    K: Clone + DeserializeOwned + Debug,
{
    let params = DeleteParams::default();
    api.delete(name, &params).await.unwrap();
}

/// A Namespace.
pub(crate) fn namespace_object(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}
