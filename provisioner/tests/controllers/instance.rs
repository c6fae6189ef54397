//! BundleInstances, from installation to removal; names of tests begin with the row of docs/parity.md that they stand
//! for.

mod account;
mod drift;
mod facts;
mod health;
mod hostile;
mod install;
mod keep;
mod large;
mod limits;
mod optional;
mod ownership;
mod policies;
mod removal;
mod rollback;
mod squatting;
mod terminating;

use std::collections::BTreeMap;

use k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap};
use kube::{Api, ResourceExt as _, api::ListParams};
use manifests::api::{
    bundle::{Bundle, BundleSource},
    instance::BundleInstance,
    labels,
};
use serde_json::{Value, json};

use crate::support::{self, World, condition, image, plain, unique, world};

/// A world with a provisioner.
async fn running() -> &'static World {
    let world = world().await;
    world.provisioner().await;
    world
}

/// `type status reason` of a condition.
fn line(instance: &BundleInstance, type_: &str) -> String {
    let conditions = &instance.status.as_ref().unwrap().conditions;
    let found = condition(conditions, type_).unwrap();
    format!("{} {}", found.status, found.reason)
}

fn message<'a>(instance: &'a BundleInstance, type_: &str) -> &'a str {
    &condition(&instance.status.as_ref().unwrap().conditions, type_)
        .unwrap()
        .message
}

/// The Bundles of an instance.
async fn bundles(world: &World, instance: &str) -> Vec<Bundle> {
    let selector = format!("{}={instance}", labels::OWNER_NAME);
    let api: Api<Bundle> = world.api();
    api.list(&ListParams::default().labels(&selector))
        .await
        .unwrap()
        .items
}

fn map(namespace: &str, name: &str, data: &[(&str, &str)]) -> Value {
    let data: BTreeMap<&str, &str> = data.iter().copied().collect();
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace}, "data": data,
    })
}

fn maps(world: &World, namespace: &str) -> Api<ConfigMap> {
    Api::namespaced(world.client(), namespace)
}

fn deployments(world: &World, namespace: &str) -> Api<Deployment> {
    Api::namespaced(world.client(), namespace)
}

/// Publishes a plain bundle.
async fn publish(world: &World, name: &str, objects: &[Value]) -> BundleSource {
    image(&world.push(name, &plain(objects)).await)
}

/// Changes fields of an instance.
async fn change(world: &World, name: &str, patch: Value) {
    let api: Api<BundleInstance> = world.api();
    api.patch(
        name,
        &kube::api::PatchParams::default(),
        &kube::api::Patch::Merge(patch),
    )
    .await
    .unwrap();
}

async fn read(world: &World, name: &str) -> BundleInstance {
    let api: Api<BundleInstance> = world.api();
    api.get(name).await.unwrap()
}

async fn delete(world: &World, name: &str) {
    let api: Api<BundleInstance> = world.api();
    api.delete(name, &kube::api::DeleteParams::default())
        .await
        .unwrap();
    support::gone(api, name).await;
}

/// Waits until a ConfigMap has a value.
async fn has_value(world: &World, namespace: &str, name: &str, key: &str, value: &str) {
    let what = format!("{key}={value}");
    support::wait_for(maps(world, namespace), name, &what, |it: &ConfigMap| {
        (it.data.as_ref()?.get(key)? == value).then_some(())
    })
    .await;
}

/// Changes an object as somebody else.
async fn meddle<K>(api: &Api<K>, name: &str, patch: Value)
where
    K: kube::Resource + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let params = kube::api::PatchParams {
        field_manager: Some("rival".to_owned()),
        ..kube::api::PatchParams::default()
    };
    api.patch(name, &params, &kube::api::Patch::Merge(patch))
        .await
        .unwrap();
}

/// A Deployment whose pods may be told to fail.
fn deployment(namespace: &str, name: &str, replicas: u32, version: &str, fate: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace, "labels": {"version": version}},
        "spec": {
            "replicas": replicas,
            "progressDeadlineSeconds": 2,
            "selector": {"matchLabels": {"app": name}},
            "strategy": null,
            "template": {
                "metadata": {"labels": {"app": name, "version": version}, "annotations": {"cluster-tests/fate": fate}},
                "spec": {"nodeSelector": null, "containers": [{"name": "main", "image": format!("example.com/{name}:{version}")}]},
            },
        },
    })
}

/// Points an instance at another plain bundle.
async fn upgrade(world: &World, name: &str, tag: &str, objects: &[Value]) {
    let source = publish(world, &format!("{name}:{tag}"), objects).await;
    let patch = json!({"spec": {"template": {"spec": {"source": source}}}});
    change(world, name, patch).await;
}

/// Waits until a condition has this reason.
async fn wait_reason(world: &World, name: &str, type_: &str, reason: &str) -> BundleInstance {
    let what = format!("{type_} {reason}");
    support::wait_for(world.api(), name, &what, |it: &BundleInstance| {
        let found = condition(&it.status.as_ref()?.conditions, type_)?;
        (found.reason == reason).then_some(())
    })
    .await
}
