//! An operator from its installation to its removal, with pods that run.

use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Pod, ServiceAccount},
};
use kube::{ResourceExt as _, api::DeleteParams};
use manifests::api::bundle_instance::BundleInstance;
use serde_json::json;

use super::{
    bundle::{IMAGE, Operator},
    environment::{conditions, kubectl, world},
    wait::{self, available, message, ready},
};

fn image_of(deployment: &Deployment) -> &str {
    let spec = deployment.spec.as_ref().unwrap();
    let pod = spec.template.spec.as_ref().unwrap();
    pod.containers[0].image.as_deref().unwrap()
}

// parity: r1
#[tokio::test]
async fn r1_h2_h3_operator_runs_is_repaired_and_is_removed() {
    let world = world().await;
    let (name, namespace, operator) = ("kept", "kept-system", "kept-operator");
    let image = Operator::new(name, "1.0.0").push();
    world.install(name, &image, json!({})).await;
    world.healthy(name, "1.0.0").await;
    // The operator becomes ready only with the permissions that its bundle requests.
    let deployments = || world.api::<Deployment>(namespace);
    world.runs(namespace, operator).await;
    let pod = wait::pod(world.api(namespace), "app=kept-operator", "Ready", ready).await;

    let deployment = deployments().get(operator).await.unwrap();
    let params = DeleteParams::background();
    deployments().delete(operator, &params).await.unwrap();
    wait::until(deployments(), operator, "back, and Available", |current| {
        current.uid() != deployment.uid() && available(current)
    })
    .await;
    wait::deleted(world.api::<Pod>(namespace), &pod.name_any()).await;

    let wrong =
        format!("-n {namespace} set image deployment/{operator} operator=example.com/no:v1");
    kubectl(world.cluster, &wrong);
    let is_repaired = |current: &Deployment| image_of(current) == IMAGE && available(current);
    wait::until(deployments(), operator, "repaired", is_repaired).await;

    world.remove(name).await;
    wait::deleted(deployments(), operator).await;
    wait::deleted(world.api::<ServiceAccount>(namespace), operator).await;
}

#[tokio::test]
async fn upgrade_replaces_pods_and_unready_upgrade_is_rolled_back() {
    let world = world().await;
    let (name, operator) = ("upgraded", "upgraded-operator");
    let next = "quay.io/tidewatch/operator:v1.5.0";
    let missing = "quay.io/tidewatch/operator:missing";
    let versions: [(_, _, &[&str]); 5] = [
        ("1.0.0", IMAGE, &[]),
        ("1.1.0", next, &[]),
        ("1.2.0", IMAGE, &["--ready=false"]),
        ("1.3.0", IMAGE, &["--crash"]),
        ("1.4.0", missing, &[]),
    ];
    let [first, second, bad @ ..] = versions.map(|(version, image, flags)| {
        tests::with!(Operator::new(name, version) => image: image, flags: flags).push()
    });
    let rollback = json!({"rollback": "OnFailure"});
    world.install(name, &first, rollback).await;
    world.healthy(name, "1.0.0").await;

    world.upgrade(name, &second).await;
    let good = world.healthy(name, "1.1.0").await;
    let deployments = || world.api::<Deployment>("upgraded-system");
    let runs_next = |deployment: &Deployment| image_of(deployment) == next && available(deployment);
    wait::until(deployments(), operator, "Available as 1.1.0", runs_next).await;

    let installed = |one: &BundleInstance| one.status.clone().unwrap().installed_bundle_name;
    for bad in bad {
        world.upgrade(name, &bad).await;
        let back = world.condition(name, "Installed", "True RolledBack").await;
        let reported = message(conditions(&back), "Installed");
        assert!(reported.contains(operator), "{bad}: {back:?}");
        assert_eq!(installed(&back), installed(&good), "{bad}");
        world.healthy(name, "1.1.0").await;
        wait::until(deployments(), operator, "Available again", runs_next).await;
        world.upgrade(name, &second).await;
        let succeeded = "True InstallationSucceeded";
        world.condition(name, "Installed", succeeded).await;
    }
    world.remove(name).await;
}
