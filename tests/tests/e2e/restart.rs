//! The provisioner ends during its work, and its successor finishes it.

use std::process::Command;

use cluster::node;
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ContainerStatus, Pod},
};
use kube::{ResourceExt as _, api::DeleteParams};
use serde_json::json;

use super::{
    bundle::Operator,
    documents::output,
    environment::{CORE, CORE_LABELS, CORE_POD, LEADER_LABELS, SYSTEM, World, merge, world},
    wait::{self, container, ready},
};

pub(crate) fn process(container: &ContainerStatus) -> u32 {
    let container = container.container_id.as_deref().unwrap();
    let container = container.trim_start_matches("containerd://");
    let mut command = Command::new("ctr");
    command.arg("--address").arg(node::containerd().unwrap());
    let tasks = output(command.args(["--namespace", "k8s.io", "tasks", "list"]));
    let task = tasks.lines().find(|line| line.starts_with(container));
    let task = task.unwrap_or_else(|| panic!("no {container} among\n{tasks}"));
    task.split_whitespace().nth(1).unwrap().parse().unwrap()
}

pub(crate) fn kill(process: u32) {
    output(Command::new("kill").args(["-KILL", &process.to_string()]));
}

/// Starts to install an operator, and waits until the provisioner has observed the BundleInstance.
async fn begin(world: &World, name: &str) {
    let image = Operator::new(name, "1.0.0").push();
    world.install(name, &image, json!({})).await;
    wait::until(world.instances(), name, "begun", |instance| {
        let status = instance.status.as_ref();
        status.is_some_and(|status| status.observed().is_some())
    })
    .await;
}

// parity: rukpak-30
#[tokio::test]
async fn installation_finishes_after_provisioner_restart() {
    let world = world().await;

    let _alone = CORE_POD.write().await;
    let pod = wait::pod(world.pods(), CORE_LABELS, "Ready", ready).await;
    let status = container(&pod);
    begin(world, "killed").await;
    kill(process(status));
    let id = |pod: &Pod| container(pod).container_id.clone();
    let is_restarted = |current: &Pod| ready(current) && id(current) != id(&pod);
    let pod = wait::pod(world.pods(), CORE_LABELS, "restarted", is_restarted).await;
    world.healthy("killed", "1.0.0").await;

    begin(world, "deleted").await;
    let now = DeleteParams::default().grace_period(0);
    world.pods().delete(&pod.name_any(), &now).await.unwrap();
    let is_another = |current: &Pod| ready(current) && current.uid() != pod.uid();
    wait::pod(world.pods(), CORE_LABELS, "Ready, and another", is_another).await;
    world.healthy("deleted", "1.0.0").await;

    world.runs(SYSTEM, CORE).await;
    world.remove("deleted").await;
    world.remove("killed").await;
}

async fn scale(world: &World, replicas: u32) {
    let patch = json!({"spec": {"replicas": replicas}});
    merge(&world.api::<Deployment>(SYSTEM), CORE, &patch).await;
    world.runs(SYSTEM, CORE).await;
}

#[tokio::test]
async fn service_routes_to_the_leading_provisioner() {
    let world = world().await;
    let _alone = CORE_POD.write().await;
    let image = Operator::new("led", "1.0.0").push();
    let image = json!({"ref": image, "insecureSkipTLSVerify": true, "pull": "Job"});
    let source = json!({"type": "image", "image": image});
    scale(world, 2).await;
    let first = wait::pod(world.pods(), LEADER_LABELS, "leading", ready).await;
    // The pod of a Job delivers through the Service; a replica without the Lease would reject the content.
    world.bundle("led-by-one", source.clone()).await;
    world.unpacked("led-by-one").await;

    let (leader, params) = (first.name_any(), DeleteParams::default());
    world.pods().delete(&leader, &params).await.unwrap();
    let is_another = |current: &Pod| ready(current) && current.uid() != first.uid();
    wait::pod(world.pods(), LEADER_LABELS, "leading", is_another).await;
    world.bundle("led-by-two", source).await;
    world.unpacked("led-by-two").await;
    scale(world, 1).await;
    wait::pod(world.pods(), LEADER_LABELS, "leading alone", ready).await;
    wait::delete(world.bundles(), "led-by-one").await;
    wait::delete(world.bundles(), "led-by-two").await;
}
