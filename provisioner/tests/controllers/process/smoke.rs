//! From an image to objects, by the process as it is shipped.

use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;
use manifests::api::{condition, instance::BundleInstance};

use super::get;
use crate::support::{self, delete, eventually, gone, unique, world};

#[tokio::test]
async fn an_operator_is_installed_and_removed() {
    let world = world().await;
    let provisioner = world.provisioner().await;
    let name = unique("smoke");
    let namespace = world.cluster.temp_namespace("smoke").await.unwrap();
    let image = format!("{name}:v1");
    let image = world
        .push(&image, &support::operator(&name, "1.0.0", &[]))
        .await;
    let mut instance = support::instance(&name, "registry", support::image(&image));
    instance.spec.install_namespace = Some(namespace.name().to_owned());
    world.create(&instance).await;
    world
        .wait_instance(&name, condition::INSTALLED, "True")
        .await;
    let deployments: Api<Deployment> = Api::namespaced(world.client(), namespace.name());
    let operator = format!("{name}-operator");
    deployments.get(&operator).await.unwrap();

    let metrics = format!("{}/metrics", provisioner.url("metrics"));
    eventually("everything is counted", async || {
        let (_, text) = get(&metrics).await;
        let value = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|value| value.trim().parse::<u64>().ok())
        };
        let counted = value("rukpak_objects_applied_total") > Some(0)
            && value("rukpak_unpacked_bytes_total") > Some(0)
            && value("rukpak_reconciles_total{controller=\"Bundle\"}") > Some(0)
            && value("rukpak_reconciles_total{controller=\"Instance\"}") > Some(0)
            && value("rukpak_queue_length{controller=\"Bundle\"}") == Some(0)
            && value("rukpak_queue_length{controller=\"Instance\"}") == Some(0);
        counted.then_some(()).ok_or(text)
    })
    .await;

    let instances: Api<BundleInstance> = world.api();
    delete(&instances, &name).await;
    gone(instances, &name).await;
    gone(deployments, &operator).await;
}
