//! Jobs that cannot run: the Bundle reports the message of the kubelet, the scheduler or the unpack program.

use std::{fs, os::unix::fs::PermissionsExt as _};

use k8s_openapi::api::core::v1::Pod;
use kube::{
    ResourceExt as _,
    api::{EvictParams, PostParams},
};
use manifests::api::bundle::Phase;
use serde_json::json;
use tests::Buildah;

use super::{delete, job_of, labels, pulled, wait_unpacked};
use crate::e2e::{
    bundle::Operator,
    environment::{CORE_POD, World, kubectl, world},
    wait::{self, TIMEOUT, eventually, message},
};

// parity: b6
#[tokio::test]
async fn b06_missing_image_is_reported_with_kubelet_message() {
    let world = world().await;
    let _flags = CORE_POD.read().await;
    let image = world.image("by-node-missing:v1.0.0");
    world.bundle("by-node-missing", pulled(&image)).await;
    let text = format!("Back-off pulling image \"{image}\"");
    let bundle = wait_unpacked(world, "by-node-missing", "False UnpackPending", &text).await;
    let status = bundle.status.unwrap();
    assert_eq!(status.phase, Some(Phase::Pending));
    assert!(message(&status.conditions, "Unpacked").starts_with(&text));
    // The kubelet's next attempt pulls the image once it exists.
    Operator::new("bynodemissing", "1.0.0").push(&image, &[]);
    world.unpacked("by-node-missing").await;
    delete(world, "by-node-missing").await;
}

#[tokio::test]
async fn evicted_pod_is_replaced_by_the_same_job() {
    let world = world().await;
    let _flags = CORE_POD.read().await;
    let (name, image) = ("by-node-evicted", world.image("by-node-evicted:v1.0.0"));
    world.bundle(name, pulled(&image)).await;
    wait_unpacked(world, name, "False UnpackPending", "pull").await;
    let job = job_of(world, name).await;
    let is_present = |pod: &Pod| pod.metadata.deletion_timestamp.is_none();
    let pod = wait::pod(world.pods(), &labels(name), "there", is_present).await;
    world
        .pods()
        .evict(&pod.name_any(), &EvictParams::default())
        .await
        .unwrap();
    wait::pod(world.pods(), &labels(name), "another one", |current| {
        is_present(current) && current.uid() != pod.uid()
    })
    .await;
    Operator::new("bynodeevicted", "1.0.0").push(&image, &[]);
    world.unpacked(name).await;
    assert_eq!(job_of(world, name).await.uid(), job.uid());
    delete(world, name).await;
}

#[tokio::test]
async fn image_name_unreadable_by_node_fails_with_remedy() {
    let world = world().await;
    let _flags = CORE_POD.read().await;
    // The name could be the ID of an image on the node, which is not a reference that can be pulled.
    let (name, image) = ("by-node-unreadable", "0123456789abcdef".repeat(4));
    world.bundle(name, pulled(&image)).await;
    let bundle = wait_unpacked(world, name, "False UnpackFailed", &image).await;
    let status = bundle.status.unwrap();
    assert_eq!(status.phase, Some(Phase::Failing));
    let message = message(&status.conditions, "Unpacked");
    for expected in [
        "the node cannot read the name of the image",
        "create a new Bundle",
    ] {
        assert!(message.contains(expected), "{message}");
    }
    delete(world, name).await;
}

#[tokio::test]
async fn files_unreadable_by_the_job_are_named() {
    let world = world().await;
    let _flags = CORE_POD.read().await;
    let (name, image) = ("by-node-closed", world.image("by-node-closed:v1.0.0"));
    let dir = Operator::new("bynodeclosed", "1.0.0").dir();
    let closed = dir.path().join("manifests/csv.yaml");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o600)).unwrap();
    let file = "FROM scratch\nCOPY manifests /manifests\nCOPY metadata /metadata\n";
    Buildah::new().publish(file, dir.path(), &image, &[]);
    world.bundle(name, pulled(&image)).await;
    let text = "FileUnreadable: \"/bundle/manifests/csv.yaml\" is not readable by user 65532; make it readable";
    let bundle = wait_unpacked(world, name, "False UnpackFailed", text).await;
    assert_eq!(bundle.status.unwrap().phase, Some(Phase::Failing));
    delete(world, name).await;

    // The provisioner extracts the layers itself and is not bound by file modes.
    let mut source = pulled(&image);
    source["image"]["pull"] = "Registry".into();
    world.bundle(name, source).await;
    world.unpacked(name).await;
    world.delete(name).await;
}

#[tokio::test]
async fn unschedulable_pod_is_reported_with_scheduler_message() {
    let world = world().await;
    let _flags = CORE_POD.read().await;
    let (name, image) = ("by-no-node", world.image("by-no-node:v1.0.0"));
    Operator::new("bynonode", "1.0.0").push(&image, &[]);
    block_scheduling(world, name).await;
    world.bundle(name, pulled(&image)).await;
    let bundle = wait_unpacked(world, name, "False UnpackPending", "nodes are available").await;
    assert_eq!(bundle.status.unwrap().phase, Some(Phase::Pending));
    delete(world, name).await;
    let kinds = "mutatingadmissionpolicies,mutatingadmissionpolicybindings";
    let deletion = format!("delete {kinds} --field-selector metadata.name={name}");
    kubectl(world.cluster, &deletion);
}

/// Creates a policy that assigns all pods of a Bundle to a missing node, and waits until the policy is in force.
async fn block_scheduling(world: &World, bundle: &str) {
    let admission = "admissionregistration.k8s.io/v1";
    let select_missing_node =
        "[JSONPatch{op: 'add', path: '/spec/nodeSelector', value: {'example.com/no': 'node'}}]";
    let is_pod_of_bundle =
        format!("object.metadata.?labels[?'core.rukpak.io/owner-name'].orValue('') == '{bundle}'");
    world
        .apply(json!({
            "apiVersion": admission, "kind": "MutatingAdmissionPolicy", "metadata": {"name": bundle},
            "spec": {
                "failurePolicy": "Fail",
                "reinvocationPolicy": "Never",
                "matchConstraints": {"resourceRules": [{
                    "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"],
                }]},
                "matchConditions": [{"name": "bundle", "expression": is_pod_of_bundle}],
                "mutations": [
                    {"patchType": "JSONPatch", "jsonPatch": {"expression": select_missing_node}},
                ],
            },
        }))
        .await;
    world
        .apply(json!({
            "apiVersion": admission, "kind": "MutatingAdmissionPolicyBinding", "metadata": {"name": bundle},
            "spec": {"policyName": bundle},
        }))
        .await;
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": bundle, "labels": {"core.rukpak.io/owner-name": bundle}},
        "spec": {"containers": [{"name": "any", "image": "any"}]},
    }))
    .unwrap();
    let dry_run = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    // The API server learns of the policy through a watch, and does not report when.
    let pods = world.api::<Pod>("default");
    eventually("the policy in force", TIMEOUT, async || {
        let made = pods.create(&dry_run, &pod).await.unwrap();
        let selector = made.spec.unwrap().node_selector;
        selector.map(drop).ok_or_else(|| "it is not".to_owned())
    })
    .await;
}
