//! An operator from its installation to its removal, with pods that run.

use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Pod, ServiceAccount},
};
use kube::{
    ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::json;

use super::{
    bundle::{IMAGE, Operator},
    environment::{conditions, world},
    wait::{self, available, line, message, ready},
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
    let image = world.image("kept:v1.0.0");
    Operator::new(name, "1.0.0").push(&image, &[]);
    world.install(name, &image, json!({})).await;
    world.healthy(name, "1.0.0").await;
    // The operator becomes ready only with the permissions that its bundle requests.
    let deployments = || world.api::<Deployment>(namespace);
    wait::until(deployments(), operator, "Available", available).await;
    let pod = wait::pod(world.api(namespace), "app=kept-operator", "Ready", ready).await;

    let deployment = deployments().get(operator).await.unwrap();
    let params = DeleteParams::background();
    deployments().delete(operator, &params).await.unwrap();
    wait::until(deployments(), operator, "back, and Available", |current| {
        current.uid() != deployment.uid() && available(current)
    })
    .await;
    wait::deleted(world.api::<Pod>(namespace), &pod.name_any()).await;

    let wrong = json!({"spec": {"template": {"spec": {"containers": [{"name": "operator", "image": "example.com/no:v1"}]}}}});
    let (wrong, params) = (Patch::Strategic(wrong), PatchParams::default());
    let patched = deployments().patch(operator, &params, &wrong).await;
    patched.unwrap();
    wait::until(
        deployments(),
        operator,
        "repaired, and Available",
        |deployment| image_of(deployment) == IMAGE && available(deployment),
    )
    .await;

    world.remove(name).await;
    wait::deleted(deployments(), operator).await;
    wait::deleted(world.api::<ServiceAccount>(namespace), operator).await;
}

#[tokio::test]
async fn upgrade_replaces_pods_and_unready_upgrade_is_rolled_back() {
    let world = world().await;
    let (name, operator) = ("upgraded", "upgraded-operator");
    let image = |version: &str| world.image(&format!("upgraded:v{version}"));
    let of = |version, image, flags| Operator {
        image,
        flags,
        ..Operator::new(name, version)
    };
    let next = "quay.io/tidewatch/operator:v1.5.0";
    of("1.0.0", IMAGE, &[]).push(&image("1.0.0"), &[]);
    of("1.1.0", next, &[]).push(&image("1.1.0"), &[]);
    of("1.2.0", IMAGE, &["--ready=false"]).push(&image("1.2.0"), &[]);
    of("1.3.0", IMAGE, &["--crash"]).push(&image("1.3.0"), &[]);
    world
        .install(name, &image("1.0.0"), json!({"rollback": "OnFailure"}))
        .await;
    world.healthy(name, "1.0.0").await;

    world.upgrade(name, &image("1.1.0")).await;
    let good = world.healthy(name, "1.1.0").await;
    let deployments = || world.api::<Deployment>("upgraded-system");
    let runs_next = |deployment: &Deployment| image_of(deployment) == next && available(deployment);
    wait::until(deployments(), operator, "Available as 1.1.0", runs_next).await;

    for bad in ["1.2.0", "1.3.0"] {
        world.upgrade(name, &image(bad)).await;
        let back = world.condition(name, "Installed", "True RolledBack").await;
        assert!(
            message(conditions(&back), "Installed").contains(operator),
            "{back:?}"
        );
        let installed = |instance: &manifests::api::bundle_instance::BundleInstance| {
            instance
                .status
                .as_ref()
                .unwrap()
                .installed_bundle_name
                .clone()
        };
        assert_eq!(installed(&back), installed(&good));
        world.healthy(name, "1.1.0").await;
        wait::until(
            deployments(),
            operator,
            "Available as 1.1.0 again",
            runs_next,
        )
        .await;
        world.upgrade(name, &image("1.1.0")).await;
        world
            .condition(name, "Installed", "True InstallationSucceeded")
            .await;
    }
    world.remove(name).await;
}

#[tokio::test]
async fn operator_with_missing_image_is_unhealthy_until_upgraded() {
    let world = world().await;
    let name = "unpulled";
    let (bad, good) = (
        world.image("unpulled:v1.0.0"),
        world.image("unpulled:v1.1.0"),
    );
    let missing = Operator {
        image: "quay.io/tidewatch/operator:missing",
        ..Operator::new(name, "1.0.0")
    };
    missing.push(&bad, &[]);
    Operator::new(name, "1.1.0").push(&good, &[]);
    world.install(name, &bad, json!({})).await;
    let namespace = world.api::<Pod>("unpulled-system");
    wait::pod(
        namespace,
        "app=unpulled-operator",
        "without its image",
        |pod| {
            let status = serde_json::to_string(&pod.status).unwrap();
            status.contains("ImagePullBackOff") && status.contains("operator:missing")
        },
    )
    .await;
    let instance = wait::until(world.instances(), name, "unhealthy", |instance| {
        line(conditions(instance), "Healthy").starts_with("False ")
            && message(conditions(instance), "Healthy").contains("unpulled-operator")
    })
    .await;
    assert!(line(conditions(&instance), "Installed").starts_with("True "));
    world.upgrade(name, &good).await;
    world.healthy(name, "1.1.0").await;
    world.remove(name).await;
}
