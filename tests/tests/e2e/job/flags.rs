//! Flags of the provisioner that change Jobs.

use std::panic::{AssertUnwindSafe, resume_unwind};

use futures::FutureExt as _;
use k8s_openapi::api::apps::v1::Deployment;
use serde_json::json;
use tests::assert_has;

use super::{delete, pulled, reference, succeeded};
use crate::e2e::{
    bundle::Operator,
    catalogs,
    environment::{CORE, CORE_POD, LEADER_LABELS, SYSTEM, World, kubectl, world},
    wait::{self, message},
};

// parity: pod-1
#[tokio::test]
async fn flags_select_job_pull_init_container_and_deadline() {
    let world = world().await;
    let _alone = CORE_POD.write().await;
    let image = Operator::new("by-copy", "1.0.0").push();
    let deployment = world.api::<Deployment>(SYSTEM).get(CORE).await.unwrap();
    let pod = deployment.spec.unwrap().template.spec.unwrap();
    let before = pod.containers[0].args.clone().unwrap();
    let job_flags =
        "--image-pull=job --unpack-mode=init-container --unpack-deadline=40s --catalog-pods";
    let mut forced = before.clone();
    forced.extend(job_flags.split(' ').map(str::to_owned));
    // The other tests rely on the default flags, so a failure must not leave these.
    let check = with_flags(world, &forced, &image);
    let checked = AssertUnwindSafe(check).catch_unwind().await;
    start(world, &before).await;
    if let Err(panic) = checked {
        resume_unwind(panic);
    }
    delete(world, "by-copy").await;
    delete(world, "by-copy-missing").await;
    world.without_pods(SYSTEM, "podded").await;
    world.lists(SYSTEM, "podded", &["podded.v1.0.0"]).await;
    world.remove_source(SYSTEM, "podded").await;
}

async fn with_flags(world: &World, flags: &[String], image: &str) {
    start(world, flags).await;
    let missing = Operator::new("by-copy-missing", "1.0.0").reference();
    let mut unspecified = pulled(image);
    unspecified["image"].as_object_mut().unwrap().remove("pull");
    world.bundle("by-copy", unspecified).await;
    world.bundle("by-copy-missing", pulled(&missing)).await;
    // A catalog without pod options.
    let catalog = catalogs::publish("podded:v1", "podded", &["1.0.0"]);
    let spec = json!({"sourceType": "grpc", "image": catalog, "priority": -10});
    world.apply(catalogs::source(SYSTEM, "podded", &spec)).await;

    let bundle = world.unpacked("by-copy").await;
    assert!(reference(&bundle).contains("@sha256:"));
    let pod = succeeded(world, "by-copy").await;
    let mut volumes = pod.volumes.iter().flatten();
    assert!(volumes.all(|volume| volume.image.is_none()));
    assert_eq!(pod.init_containers.unwrap().len(), 1);
    assert_eq!(pod.containers[0].image, Some(reference(&bundle)));

    let (failed, text) = ("False UnpackFailed", "timed out after 40 s");
    let late = world.reports("by-copy-missing", failed, text).await;
    // The kubelet reports the back-off or the attempt, depending on the moment.
    let conditions = late.status.unwrap().conditions;
    let message = message(&conditions, "Unpacked");
    assert_has(message, "pull");
    assert_has(message, &missing);
    world.serving_pod(SYSTEM, "podded", None).await;
    world.lists(SYSTEM, "podded", &["podded.v1.0.0"]).await;
}

/// Starts the provisioner with these flags, and waits until it holds the Lease.
async fn start(world: &World, args: &[String]) {
    let path = "/spec/template/spec/containers/0/args";
    let patch = json!([{"op": "replace", "path": path, "value": args}]).to_string();
    let args_patch = ["patch", "deployment", CORE, "--type=json", "-p", &patch];
    kubectl(world.cluster, &[&["-n", SYSTEM], &args_patch[..]].concat());
    world.runs(SYSTEM, CORE).await;
    wait::pod(world.pods(), LEADER_LABELS, "of these flags", |pod| {
        let mut containers = pod.spec.iter().flat_map(|spec| &spec.containers);
        containers.any(|container| container.args.as_deref() == Some(args))
    })
    .await;
}
