//! BundleInstances, from installation to uninstall. Test names begin with the row of docs/parity-rukpak.md that they cover.

mod account;
mod bundle_info;
mod drift;
mod hostile;
mod install;
mod ownership;
mod policies;
mod repair_during_upgrade;
mod rollback;
mod squatting;
mod uninstall;

use std::{collections::BTreeMap, fmt::Debug};

use cluster::TempNamespace;
use k8s_openapi::{
    api::{apps::v1::Deployment, core::v1::ConfigMap},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{Api, ResourceExt as _, api::ListParams, core::DynamicObject};
use manifests::api::{
    bundle::{Bundle, BundleSource},
    bundle_instance::{BundleInstance, BundleInstanceSpec, BundleInstanceStatus},
    labels,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tests::assert_has;

use crate::support::{
    self, World, condition, custom_resources, image, message, plain, running, unique,
};

/// Returns the world with a provisioner, the name of a new instance, and a namespace for its objects.
async fn start(prefix: &str) -> (&'static World, String, TempNamespace) {
    let world = running().await;
    let (name, space) = fresh(world, prefix).await;
    (world, name, space)
}

/// Returns the name of a new instance and a namespace for its objects.
async fn fresh(world: &World, prefix: &str) -> (String, TempNamespace) {
    let space = world.cluster.temp_namespace(prefix).await.unwrap();
    (unique(prefix), space)
}

/// Returns `type status reason` of a condition.
fn line(instance: &BundleInstance, type_: &str) -> String {
    let conditions = &instance.status.as_ref().unwrap().conditions;
    let found = condition(conditions, type_).unwrap();
    format!("{} {}", found.status, found.reason)
}

/// Checks that the message of a condition contains these parts, and returns the message.
#[track_caller]
fn assert_message<'a>(instance: &'a BundleInstance, type_: &str, parts: &[&str]) -> &'a str {
    let message = message(instance, type_);
    has_parts(message, parts);
    message
}

#[track_caller]
fn has_parts(text: &str, parts: &[&str]) {
    for part in parts {
        assert_has(text, part);
    }
}

/// Selects the objects with the owner labels of an instance.
fn owned_by(instance: &str) -> ListParams {
    let selector = format!("{}={instance}", labels::OWNER_NAME);
    ListParams::default().labels(&selector)
}

/// Lists the Bundles of an instance.
async fn bundles(world: &World, instance: &str) -> Vec<Bundle> {
    let api: Api<Bundle> = world.api();
    api.list(&owned_by(instance)).await.unwrap().items
}

/// Waits until the Bundles of an instance match a predicate.
async fn bundles_become(
    world: &World,
    instance: &str,
    description: &str,
    is_desired: impl Fn(&Vec<Bundle>) -> bool,
) {
    let description = format!("Bundles of {instance}: {description}");
    let read = async || bundles(world, instance).await;
    support::until(&description, read, is_desired).await;
}

/// Waits until an instance has no Bundles.
async fn no_bundles(world: &World, instance: &str) {
    bundles_become(world, instance, "none", Vec::is_empty).await;
}

fn map(namespace: &str, name: &str, data: &[(&str, &str)]) -> Value {
    let data: BTreeMap<&str, &str> = data.iter().copied().collect();
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace}, "data": data,
    })
}

fn cluster_role(name: &str) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": name}, "rules": [],
    })
}

/// Returns a custom resource of the CRD that [`support::crd`] creates.
fn widget(group: &str, namespace: &str, name: &str, size: impl Into<Value>) -> Value {
    json!({
        "apiVersion": format!("{group}/v1"), "kind": "Widget",
        "metadata": {"name": name, "namespace": namespace}, "spec": {"size": size.into()},
    })
}

/// Returns a CRD that serves `v1`. With `two`, the CRD serves `v2` as well and stores objects in `v2`.
fn crd(group: &str, two: bool) -> Value {
    let mut crd = support::crd(group, "Widget");
    if two {
        let versions = crd["spec"]["versions"].as_array_mut().unwrap();
        let mut second = versions[0].clone();
        second["name"] = json!("v2");
        versions[0]["storage"] = json!(false);
        versions.push(second);
    }
    crd
}

/// Lists the versions of such a CRD in the cluster.
async fn served(world: &World, group: &str) -> Vec<String> {
    let crds: Api<CustomResourceDefinition> = world.api();
    let found = crds.get(&format!("widgets.{group}")).await.unwrap();
    let versions = found.spec.versions.into_iter();
    versions.map(|version| version.name).collect()
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

/// Publishes a plain bundle and creates an instance of it.
async fn declare(world: &World, name: &str, objects: &[Value]) -> BundleSource {
    declare_with(world, name, objects, |_| {}).await
}

/// Like [`declare`], with a changed spec.
async fn declare_with(
    world: &World,
    name: &str,
    objects: &[Value],
    change: impl FnOnce(&mut BundleInstanceSpec),
) -> BundleSource {
    let source = publish(world, &format!("{name}:v1"), objects).await;
    let mut instance = support::instance(name, "plain", source.clone());
    change(&mut instance.spec);
    world.create(&instance).await;
    source
}

/// Installs a plain bundle, and waits until the instance is healthy.
async fn install(world: &World, name: &str, objects: &[Value]) -> BundleInstance {
    declare(world, name, objects).await;
    world.wait_instance(name, "Healthy", "True").await
}

/// Patches fields of an instance.
async fn change(world: &World, name: &str, patch: Value) {
    let api: Api<BundleInstance> = world.api();
    support::merge(&api, name, &patch).await;
}

/// Sets the source of an instance, of any type.
async fn point_at(world: &World, name: &str, source: &BundleSource) {
    let mut source = serde_json::to_value(source).unwrap();
    for member in ["image", "git", "configMaps"] {
        if source.get(member).is_none() {
            source[member] = Value::Null;
        }
    }
    let patch = json!({"spec": {"template": {"spec": {"source": source}}}});
    change(world, name, patch).await;
}

async fn read(world: &World, name: &str) -> BundleInstance {
    let api: Api<BundleInstance> = world.api();
    api.get(name).await.unwrap()
}

async fn delete(world: &World, name: &str) {
    world.uninstall(name).await;
}

/// Waits until a key of a ConfigMap has this value.
async fn has_value(world: &World, namespace: &str, name: &str, key: &str, value: &str) {
    let description = format!("{key}={value}");
    let has_value = |found: &ConfigMap| (found.data.as_ref()?.get(key)? == value).then_some(());
    support::wait_for(maps(world, namespace), name, &description, has_value).await;
}

/// Patches an object as another field manager.
async fn patch_as_other<K: Clone + DeserializeOwned + Debug>(
    api: &Api<K>,
    name: &str,
    patch: Value,
) {
    support::patch_as(api, name, "rival", &patch).await;
}

/// Returns a Deployment whose pods can be set to fail.
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

/// Sets the source of an instance to another plain bundle.
async fn upgrade(world: &World, name: &str, tag: &str, objects: &[Value]) {
    let source = publish(world, &format!("{name}:{tag}"), objects).await;
    point_at(world, name, &source).await;
}

/// Waits until the status of an instance matches a predicate.
async fn becomes(
    world: &World,
    name: &str,
    description: &str,
    predicate: impl Fn(&BundleInstanceStatus) -> Option<()>,
) -> BundleInstance {
    let matches = |instance: &BundleInstance| predicate(instance.status.as_ref()?);
    support::wait_for(world.api(), name, description, matches).await
}

/// Waits until a condition has this reason.
async fn wait_reason(world: &World, name: &str, type_: &str, reason: &str) -> BundleInstance {
    wait_message(world, name, &format!("{type_} {reason}"), &[]).await
}

/// See [`World::wait_message`].
async fn wait_message(world: &World, name: &str, kind: &str, parts: &[&str]) -> BundleInstance {
    world.wait_message(name, kind, parts).await
}

/// Waits until the controller has observed the current generation of an instance.
async fn observed(world: &World, name: &str) -> BundleInstance {
    let is_observed = |instance: &BundleInstance| {
        let observed = instance.status.as_ref()?.observed_generation;
        (observed == instance.metadata.generation).then_some(())
    };
    support::wait_for(world.api(), name, "observed", is_observed).await
}
