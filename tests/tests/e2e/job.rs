//! Images that the node pulls: how its kubelet and its runtime run unpack Jobs.

mod flags;

use std::fs;

use k8s_openapi::api::core::v1::PodSpec;
use manifests::api::bundle::{Bundle, Phase};
use serde_json::{Value, json};
use tests::{Auth, OWNER, Registry, TENANT};

use super::{
    bundle::{self, Operator},
    environment::{CORE_POD, SYSTEM, World, kubectl, world},
    wait::{self, message},
};

fn pulled(image: &str) -> Value {
    json!({"type": "image", "image": {"ref": image, "insecureSkipTLSVerify": true, "pull": "Job"}})
}

async fn delete(world: &World, name: &str) {
    wait::delete(world.bundles(), name).await;
    let wait = format!("-n {SYSTEM} wait --for=delete --timeout=240s jobs,pods");
    kubectl(world.cluster, &format!("{wait} -l {}", labels(name)));
}

fn labels(bundle: &str) -> String {
    format!("core.rukpak.io/owner-kind=Bundle,core.rukpak.io/owner-name={bundle}")
}

fn reference(bundle: &Bundle) -> String {
    let resolved = bundle.status.as_ref().unwrap().resolved_source.clone();
    resolved.unwrap().image.unwrap().reference
}

async fn succeeded(world: &World, name: &str) -> PodSpec {
    let pod = wait::pod(world.pods(), &labels(name), "done", |pod| {
        let status = pod.status.as_ref();
        status.and_then(|status| status.phase.as_deref()) == Some("Succeeded")
    })
    .await;
    pod.spec.unwrap()
}

#[tokio::test]
async fn job_pull_delivers_the_same_content_as_registry_pull() {
    let world = world().await;
    let _flags = CORE_POD.read().await;
    let image = Operator::new("by-node", "1.0.0").push();
    let mut source = pulled(&image);
    source["image"]["pull"] = "Registry".into();
    world.bundle("by-registry", source).await;
    world.bundle("by-node", pulled(&image)).await;
    let by_registry = world.unpacked("by-registry").await;
    let by_node = world.unpacked("by-node").await;
    let digest = |bundle: &Bundle| bundle.status.as_ref()?.content_digest.clone();
    assert_eq!(digest(&by_node), digest(&by_registry));
    assert_eq!(reference(&by_node), reference(&by_registry));
    assert!(reference(&by_node).contains("@sha256:"));

    // The pod mounts the image and runs no program of it.
    let pod = succeeded(world, "by-node").await;
    let volumes = pod.volumes.iter().flatten();
    let mounted = volumes.filter_map(|volume| volume.image.as_ref()?.reference.as_deref());
    assert_eq!(mounted.collect::<Vec<_>>(), [reference(&by_node)]);
    let init_containers = pod.init_containers.unwrap_or_default();
    assert_eq!(pod.containers.len() + init_containers.len(), 1);
    let run = pod.containers[0].image.as_ref().unwrap();
    assert!(!run.contains("by-node"), "{run}");
    wait::delete(world.bundles(), "by-registry").await;
    delete(world, "by-node").await;
}

// parity: b6
#[tokio::test]
async fn b06_missing_image_is_reported_with_kubelet_message() {
    let world = world().await;
    let _flags = CORE_POD.read().await;
    let operator = Operator::new("by-node-missing", "1.0.0");
    let image = operator.reference();
    world.bundle("by-node-missing", pulled(&image)).await;
    let text = format!("Back-off pulling image \"{image}\"");
    let bundle = world.reports("by-node-missing", "False UnpackPending", &text);
    let status = bundle.await.status.unwrap();
    assert_eq!(status.phase, Some(Phase::Pending));
    assert!(message(&status.conditions, "Unpacked").starts_with(&text));
    // The kubelet's next attempt pulls the image once it exists.
    operator.push();
    world.unpacked("by-node-missing").await;
    delete(world, "by-node-missing").await;
}

#[tokio::test]
async fn node_pulls_private_image_with_pull_secret() {
    let world = world().await;
    let _flags = CORE_POD.read().await;
    let registry = Registry::start(Auth::Basic, None);
    cluster::node::trust(registry.host()).unwrap();
    let image = registry.image("by-node:v1.0.0");
    let login = tempfile::tempdir().unwrap();
    let login = login.path().join("config.json");
    fs::write(&login, registry.docker_config(OWNER)).unwrap();
    let dir = Operator::new("by-node-private", "1.0.0").dir();
    bundle::push(dir.path(), &image, &["--authfile", login.to_str().unwrap()]);
    // Without the Secret neither the provisioner nor the node may pull the image.
    world.bundle("by-node-stranger", pulled(&image)).await;
    let pending = world.reports("by-node-stranger", "False UnpackPending", &image);
    pending.await;
    delete(world, "by-node-stranger").await;

    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/dockerconfigjson",
        "metadata": {"name": "by-node", "namespace": SYSTEM},
        "stringData": {".dockerconfigjson": registry.docker_config(TENANT)},
    });
    world.apply(secret).await;
    let mut source = pulled(&image);
    source["image"]["pullSecret"] = "by-node".into();
    world.bundle("by-node-private", source).await;
    world.unpacked("by-node-private").await;
    delete(world, "by-node-private").await;
}
