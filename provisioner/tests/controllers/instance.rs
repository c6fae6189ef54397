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

use std::{collections::BTreeMap, time::Duration};

use cluster::{Cluster, TempNamespace, wait::Watched};
use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        core::v1::{ConfigMap, Namespace},
        rbac::v1::ClusterRole,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
    core::DynamicObject,
};
use manifests::api::{
    bundle::{Bundle, BundleSource},
    bundle_instance::{
        BundleInstance, BundleInstanceSpec, BundleInstanceStatus, CrdDeletionPolicy, Rollback,
    },
    labels,
};
use provisioner::controllers::bundle_instance::template;
use serde_json::{Value, json};
use tests::assert_has;
use tokio::time::Instant;

use crate::support::{
    self, ApiObject, Options, Provisioner, World, condition, custom_resources, eventually, image,
    message, plain, running, unique, wait_deleted, wait_for,
};

/// Returns the world with a provisioner, the name of a new instance, and a namespace for its objects.
async fn start(prefix: &str) -> (&'static World, String, TempNamespace) {
    let world = running().await;
    let (name, space) = fresh(world, prefix).await;
    (world, name, space)
}

async fn fresh(world: &World, prefix: &str) -> (String, TempNamespace) {
    let space = world.cluster.temp_namespace(prefix).await.unwrap();
    (unique(prefix), space)
}

/// Returns `type status reason` of a condition.
fn line(instance: &BundleInstance, type_: &str) -> String {
    let found = condition(&instance.status.as_ref().unwrap().conditions, type_).unwrap();
    format!("{} {}", found.status, found.reason)
}

fn installed(instance: &BundleInstance) -> Option<&str> {
    let status = instance.status.as_ref().unwrap();
    status.installed_bundle_name.as_deref()
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

fn owned_by(instance: &str) -> ListParams {
    ListParams::default().labels(&format!("{}={instance}", labels::OWNER_NAME))
}

async fn bundles(world: &World, instance: &str) -> Vec<Bundle> {
    let api: Api<Bundle> = world.api();
    api.list(&owned_by(instance)).await.unwrap().items
}

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

async fn no_bundles(world: &World, instance: &str) {
    bundles_become(world, instance, "none", Vec::is_empty).await;
}

fn map(namespace: &str, name: &str, data: &[(&str, &str)]) -> Value {
    let data: BTreeMap<&str, &str> = data.iter().copied().collect();
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, "data": data})
}

/// Returns the ConfigMap `a` with a version.
fn a(namespace: &str, version: &str) -> Value {
    map(namespace, "a", &[("v", version)])
}

fn cluster_role(name: &str) -> Value {
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": []})
}

/// Returns a custom resource of the CRD that [`support::crd`] creates.
fn widget(group: &str, namespace: &str, name: &str, size: impl Into<Value>) -> Value {
    json!({"apiVersion": format!("{group}/v1"), "kind": "Widget",
        "metadata": {"name": name, "namespace": namespace}, "spec": {"size": size.into()}})
}

/// Returns a CRD that serves `v1` and `v2`, and stores objects in `v2`.
fn crd_with_v2(group: &str) -> Value {
    let mut crd = support::crd(group, "Widget");
    let versions = crd["spec"]["versions"].as_array_mut().unwrap();
    let second = tests::with!(versions[0].clone() => |version| version["name"] = json!("v2"));
    versions[0]["storage"] = json!(false);
    versions.push(second);
    crd
}

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

async fn publish(world: &World, name: &str, objects: &[Value]) -> BundleSource {
    image(&world.push(name, &plain(objects)).await)
}

async fn declare(world: &World, name: &str, objects: &[Value]) -> BundleSource {
    declare_with(world, name, objects, |_| {}).await
}

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

async fn install(world: &World, name: &str, objects: &[Value]) -> BundleInstance {
    declare(world, name, objects).await;
    world.wait_instance(name, "Healthy", "True").await
}

/// Removes the finalizers of an object, as the controller of the finalizers does.
async fn finalize<K: ApiObject>(api: &Api<K>, name: &str) {
    patch_as_other(api, name, json!({"metadata": {"finalizers": null}})).await;
}

async fn change(world: &World, name: &str, patch: Value) {
    support::merge::<BundleInstance>(&world.api(), name, &patch).await;
}

/// Sets the source of an instance, of any type.
async fn point_at(world: &World, name: &str, source: &BundleSource) {
    let (git, config_maps) = (&source.git, &source.config_maps);
    let source =
        json!({"type": source.type_, "image": source.image, "git": git, "configMaps": config_maps});
    let patch = json!({"spec": {"template": {"spec": {"source": source}}}});
    change(world, name, patch).await;
}

async fn read(world: &World, name: &str) -> BundleInstance {
    world.api::<BundleInstance>().get(name).await.unwrap()
}

async fn has_value(world: &World, namespace: &str, name: &str, key: &str, value: &str) {
    support::wait_part(maps(world, namespace), name, json!({"data": {key: value}})).await;
}

async fn patch_as_other<K: ApiObject>(api: &Api<K>, name: &str, patch: Value) {
    support::patch_as(api, name, "rival", &patch).await;
}

/// Returns the duration of the fastest of several repairs. The machine may be busy with other tests.
async fn quickest<T>(
    objects: impl IntoIterator<Item = T>,
    mut repair: impl AsyncFnMut(T),
) -> Duration {
    let mut best = Duration::MAX;
    for object in objects {
        let began = Instant::now();
        repair(object).await;
        best = best.min(began.elapsed());
    }
    best
}

/// Returns a Deployment whose pods can be set to fail. The rollout of failing pods times out after two seconds. Other rollouts
/// have ten minutes, so that a busy machine causes no rollback of a healthy version.
fn deployment(namespace: &str, name: &str, replicas: u32, version: &str, fate: &str) -> Value {
    let deadline = if fate == "fails" { 2 } else { 600 };
    let containers = json!([{"name": "main", "image": format!("example.com/{name}:{version}")}]);
    let labels = json!({"app": name, "version": version});
    let metadata = json!({"labels": labels, "annotations": {"cluster-tests/fate": fate}});
    let template =
        json!({"metadata": metadata, "spec": {"nodeSelector": null, "containers": containers}});
    json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace, "labels": {"version": version}},
        "spec": {"replicas": replicas, "progressDeadlineSeconds": deadline, "selector": {"matchLabels": {"app": name}},
            "strategy": null, "template": template}})
}

async fn upgrade(world: &World, name: &str, tag: &str, objects: &[Value]) {
    let source = publish(world, &format!("{name}:{tag}"), objects).await;
    point_at(world, name, &source).await;
}

async fn wait_owned<K: Watched>(api: Api<K>, object: &str, instance: &str) {
    let is_owned = |found: &K| (found.labels().get(labels::OWNER_NAME)? == instance).then_some(());
    wait_for(api, object, "owned", is_owned).await;
}

async fn becomes(
    world: &World,
    name: &str,
    description: &str,
    predicate: impl Fn(&BundleInstanceStatus) -> Option<()>,
) -> BundleInstance {
    let matches = |instance: &BundleInstance| predicate(instance.status.as_ref()?);
    wait_for(world.api(), name, description, matches).await
}

/// Waits until the first installation is rejected, and no bundle is installed.
async fn refused(world: &World, name: &str, parts: &[&str]) -> BundleInstance {
    let refused = wait_message(world, name, "Installed InstallFailed", parts).await;
    assert_eq!(line(&refused, "Installed"), "False InstallFailed");
    assert_eq!(installed(&refused), None);
    refused
}

async fn wait_reason(world: &World, name: &str, type_: &str, reason: &str) -> BundleInstance {
    wait_message(world, name, &format!("{type_} {reason}"), &[]).await
}

async fn wait_message(world: &World, name: &str, kind: &str, parts: &[&str]) -> BundleInstance {
    world.wait_message(name, kind, parts).await
}

/// Waits until the controller has observed the current generation of an instance.
async fn observed(world: &World, name: &str) -> BundleInstance {
    let is_observed = |instance: &BundleInstance| {
        let observed = instance.status.as_ref()?.observed_generation;
        (observed == instance.metadata.generation).then_some(())
    };
    wait_for(world.api(), name, "observed", is_observed).await
}
