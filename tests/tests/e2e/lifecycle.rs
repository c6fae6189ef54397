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
    wait::{self, available, line, message, ready},
    world::{conditions, world},
};

fn image_of(deployment: &Deployment) -> &str {
    let spec = deployment.spec.as_ref().unwrap();
    let pod = spec.template.spec.as_ref().unwrap();
    pod.containers[0].image.as_deref().unwrap()
}

// parity: r1
#[tokio::test]
async fn r1_h2_h3_an_operator_runs_is_kept_as_declared_and_goes_without_a_trace() {
    let world = world().await;
    let (name, namespace, operator) = ("kept", "kept-system", "kept-operator");
    let image = world.image("kept:v1.0.0");
    Operator::new(name, "1.0.0").push(&image, &[]);
    world.install(name, &image, json!({})).await;
    world.healthy(name, "1.0.0").await;
    // Its readiness shows that it may do what its bundle asked for.
    let deployments = || world.of::<Deployment>(namespace);
    wait::until(deployments(), operator, "Available", available).await;
    let pod = wait::pod(world.of(namespace), "app=kept-operator", "Ready", ready).await;

    let deployment = deployments().get(operator).await.unwrap();
    let params = DeleteParams::background();
    deployments().delete(operator, &params).await.unwrap();
    wait::until(deployments(), operator, "back, and Available", |it| {
        it.uid() != deployment.uid() && available(it)
    })
    .await;
    wait::gone(world.of::<Pod>(namespace), &pod.name_any()).await;

    let wrong = json!({"spec": {"template": {"spec": {"containers": [{"name": "operator", "image": "example.com/no:v1"}]}}}});
    let (wrong, params) = (Patch::Strategic(wrong), PatchParams::default());
    let patched = deployments().patch(operator, &params, &wrong).await;
    patched.unwrap();
    wait::until(deployments(), operator, "repaired, and Available", |it| {
        image_of(it) == IMAGE && available(it)
    })
    .await;

    world.remove(name).await;
    wait::gone(deployments(), operator).await;
    wait::gone(world.of::<ServiceAccount>(namespace), operator).await;
}

#[tokio::test]
async fn an_upgrade_replaces_the_pods_and_one_that_never_gets_ready_is_taken_back() {
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
    let deployments = || world.of::<Deployment>("upgraded-system");
    let is_good = |it: &Deployment| image_of(it) == next && available(it);
    wait::until(deployments(), operator, "Available as 1.1.0", is_good).await;

    for bad in ["1.2.0", "1.3.0"] {
        world.upgrade(name, &image(bad)).await;
        let back = world.condition(name, "Installed", "True RolledBack").await;
        assert!(
            message(conditions(&back), "Installed").contains(operator),
            "{back:?}"
        );
        let installed = |it: &manifests::api::instance::BundleInstance| {
            it.status.as_ref().unwrap().installed_bundle_name.clone()
        };
        assert_eq!(installed(&back), installed(&good));
        world.healthy(name, "1.1.0").await;
        wait::until(deployments(), operator, "Available as 1.1.0 again", is_good).await;
        world.upgrade(name, &image("1.1.0")).await;
        world
            .condition(name, "Installed", "True InstallationSucceeded")
            .await;
    }
    world.remove(name).await;
}

#[tokio::test]
async fn what_the_node_cannot_pull_is_unhealthy_until_the_next_version() {
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
    let namespace = world.of::<Pod>("unpulled-system");
    wait::pod(
        namespace,
        "app=unpulled-operator",
        "without its image",
        |it| {
            let told = serde_json::to_string(&it.status).unwrap();
            told.contains("ImagePullBackOff") && told.contains("operator:missing")
        },
    )
    .await;
    let instance = wait::until(world.instances(), name, "unhealthy", |it| {
        line(conditions(it), "Healthy").starts_with("False ")
            && message(conditions(it), "Healthy").contains("unpulled-operator")
    })
    .await;
    assert!(line(conditions(&instance), "Installed").starts_with("True "));
    world.upgrade(name, &good).await;
    world.healthy(name, "1.1.0").await;
    world.remove(name).await;
}
