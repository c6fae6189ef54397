//! What is in the way of a Job, in the words of the kubelet, the scheduler and the program.

use std::{fs, os::unix::fs::PermissionsExt as _};

use k8s_openapi::api::core::v1::Pod;
use kube::{
    ResourceExt as _,
    api::{EvictParams, PostParams},
};
use manifests::api::bundle::Phase;
use serde_json::json;
use tests::Buildah;

use super::{delete, job_of, labels, pulled, told};
use crate::e2e::{
    bundle::Operator,
    wait::{self, PATIENCE, eventually, message},
    world::{CORE_POD, World, kubectl, world},
};

// parity: b6
#[tokio::test]
async fn b06_an_image_that_does_not_exist_is_told_in_the_words_of_the_kubelet() {
    let world = world().await;
    let _flags = CORE_POD.read().await;
    let image = world.image("by-node-missing:v1.0.0");
    world.bundle("by-node-missing", pulled(&image)).await;
    let words = format!("Back-off pulling image \"{image}\"");
    let bundle = told(world, "by-node-missing", "False UnpackPending", &words).await;
    let status = bundle.status.unwrap();
    assert_eq!(status.phase, Some(Phase::Pending));
    assert!(message(&status.conditions, "Unpacked").starts_with(&words));
    // As soon as it is there, the kubelet's next try takes it.
    Operator::new("bynodemissing", "1.0.0").push(&image, &[]);
    world.unpacked("by-node-missing").await;
    delete(world, "by-node-missing").await;
}

#[tokio::test]
async fn a_pod_that_is_evicted_is_followed_by_another_one_of_the_same_job() {
    let world = world().await;
    let _flags = CORE_POD.read().await;
    let (name, image) = ("by-node-evicted", world.image("by-node-evicted:v1.0.0"));
    world.bundle(name, pulled(&image)).await;
    told(world, name, "False UnpackPending", "pull").await;
    let job = job_of(world, name).await;
    let is_there = |pod: &Pod| pod.metadata.deletion_timestamp.is_none();
    let pod = wait::pod(world.pods(), &labels(name), "there", is_there).await;
    world
        .pods()
        .evict(&pod.name_any(), &EvictParams::default())
        .await
        .unwrap();
    wait::pod(world.pods(), &labels(name), "another one", |it| {
        is_there(it) && it.uid() != pod.uid()
    })
    .await;
    Operator::new("bynodeevicted", "1.0.0").push(&image, &[]);
    world.unpacked(name).await;
    assert_eq!(job_of(world, name).await.uid(), job.uid());
    delete(world, name).await;
}

#[tokio::test]
async fn a_name_that_the_node_cannot_read_fails_with_what_to_do() {
    let world = world().await;
    let _flags = CORE_POD.read().await;
    // It could be the identifier of an image that lies on a node, which is nothing to pull.
    let (name, image) = ("by-node-unreadable", "0123456789abcdef".repeat(4));
    world.bundle(name, pulled(&image)).await;
    let bundle = told(world, name, "False UnpackFailed", &image).await;
    let status = bundle.status.unwrap();
    assert_eq!(status.phase, Some(Phase::Failing));
    let told = message(&status.conditions, "Unpacked");
    for words in [
        "the node cannot read the name of the image",
        "create a new Bundle",
    ] {
        assert!(told.contains(words), "{told}");
    }
    delete(world, name).await;
}

#[tokio::test]
async fn files_that_the_job_may_not_read_are_named() {
    let world = world().await;
    let _flags = CORE_POD.read().await;
    let (name, image) = ("by-node-closed", world.image("by-node-closed:v1.0.0"));
    let folder = Operator::new("bynodeclosed", "1.0.0").folder();
    let closed = folder.path().join("manifests/csv.yaml");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o600)).unwrap();
    let file = "FROM scratch\nCOPY manifests /manifests\nCOPY metadata /metadata\n";
    Buildah::new().publish(file, folder.path(), &image, &[]);
    world.bundle(name, pulled(&image)).await;
    let words = "FileUnreadable: \"/bundle/manifests/csv.yaml\" is not readable by user 65532; make it readable";
    let bundle = told(world, name, "False UnpackFailed", words).await;
    assert_eq!(bundle.status.unwrap().phase, Some(Phase::Failing));
    delete(world, name).await;

    // The provisioner takes files out of layers, where nothing is closed.
    let mut source = pulled(&image);
    source["image"]["pull"] = "Registry".into();
    world.bundle(name, source).await;
    world.unpacked(name).await;
    world.delete(name).await;
}

#[tokio::test]
async fn a_pod_that_no_node_takes_is_told_in_the_words_of_the_scheduler() {
    let world = world().await;
    let _flags = CORE_POD.read().await;
    let (name, image) = ("by-no-node", world.image("by-no-node:v1.0.0"));
    Operator::new("bynonode", "1.0.0").push(&image, &[]);
    no_node(world, name).await;
    world.bundle(name, pulled(&image)).await;
    let bundle = told(world, name, "False UnpackPending", "nodes are available").await;
    assert_eq!(bundle.status.unwrap().phase, Some(Phase::Pending));
    delete(world, name).await;
    let kinds = "mutatingadmissionpolicies,mutatingadmissionpolicybindings";
    let deletion = format!("delete {kinds} --field-selector metadata.name={name}");
    kubectl(world.cluster, &deletion);
}

/// Lets a policy send all pods of a Bundle to a node that is not there. It is in force as soon as this returns.
async fn no_node(world: &World, bundle: &str) {
    let admission = "admissionregistration.k8s.io/v1";
    let elsewhere =
        "[JSONPatch{op: 'add', path: '/spec/nodeSelector', value: {'example.com/no': 'node'}}]";
    let is_its =
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
                "matchConditions": [{"name": "bundle", "expression": is_its}],
                "mutations": [
                    {"patchType": "JSONPatch", "jsonPatch": {"expression": elsewhere}},
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
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    // The apiserver's own watch brings the policy, and nothing tells when.
    let pods = world.of::<Pod>("default");
    eventually("the policy in force", PATIENCE, async || {
        let made = pods.create(&dry, &pod).await.unwrap();
        let selector = made.spec.unwrap().node_selector;
        selector.map(drop).ok_or_else(|| "it is not".to_owned())
    })
    .await;
}
