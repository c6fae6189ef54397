//! Images that the node pulls: what its kubelet, its runtime and its scheduler make of unpack Jobs.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    panic::{AssertUnwindSafe, resume_unwind},
    time::{Duration, Instant},
};

use futures::FutureExt as _;
use k8s_openapi::api::{
    apps::v1::Deployment,
    batch::v1::Job,
    core::v1::{Pod, PodSpec},
};
use kube::{
    Api, ResourceExt as _,
    api::{EvictParams, ListParams, Patch, PatchParams, PostParams},
};
use manifests::api::bundle::{Bundle, Phase};
use serde_json::{Value, json};
use tests::{Auth, Buildah, OWNER, Registry, TENANT};
use tokio::time::sleep;

use super::{
    bundle::Operator,
    wait::{self, PATIENCE, line, message},
    world::{CORE, CORE_POD, LEADER_LABELS, SYSTEM, World, kubectl, world},
};

/// An image for the node to pull.
fn pulled(image: &str) -> Value {
    json!({"type": "image", "image": {"ref": image, "insecureSkipTLSVerify": true, "pull": "Job"}})
}

/// Waits for `status reason` of the condition Unpacked, with this text in its message.
async fn told(world: &World, name: &str, wanted: &str, text: &str) -> Bundle {
    wait::until(
        world.bundles(),
        name,
        &format!("{wanted}: {text}"),
        |it: &Bundle| {
            let conditions = it.status.as_ref().map(|status| &status.conditions);
            conditions.is_some_and(|conditions| {
                line(conditions, "Unpacked") == wanted
                    && message(conditions, "Unpacked").contains(text)
            })
        },
    )
    .await
}

/// Deletes a Bundle, and waits until its Job and its pods are gone.
async fn delete(world: &World, name: &str) {
    let jobs: Api<Job> = world.of(SYSTEM);
    let of_bundle = ListParams::default().labels(&labels(name));
    let made = jobs.list(&of_bundle).await.unwrap();
    let pods = world.pods().list(&of_bundle).await.unwrap();
    world.delete(name).await;
    for job in made {
        wait::gone(jobs.clone(), &job.name_any()).await;
    }
    for pod in pods {
        wait::gone(world.pods(), &pod.name_any()).await;
    }
}

/// What finds the Job of a Bundle, and its pods.
fn labels(bundle: &str) -> String {
    format!("core.rukpak.io/owner-kind=Bundle,core.rukpak.io/owner-name={bundle}")
}

async fn job_of(world: &World, bundle: &str) -> Job {
    let of_bundle = ListParams::default().labels(&labels(bundle));
    let jobs = world.of::<Job>(SYSTEM).list(&of_bundle).await.unwrap();
    assert_eq!(jobs.items.len(), 1, "{jobs:#?}");
    jobs.items.into_iter().next().unwrap()
}

fn digest(bundle: &Bundle) -> Option<String> {
    bundle.status.as_ref()?.content_digest.clone()
}

fn reference(bundle: &Bundle) -> String {
    let resolved = bundle.status.as_ref().unwrap().resolved_source.clone();
    resolved.unwrap().image.unwrap().reference
}

/// Waits until the pod of a Bundle's Job has ended well.
async fn succeeded(world: &World, name: &str) -> PodSpec {
    let pod = wait::pod(world.pods(), &labels(name), "done", |pod| {
        let status = pod.status.as_ref();
        status.and_then(|status| status.phase.as_deref()) == Some("Succeeded")
    })
    .await;
    pod.spec.unwrap()
}

#[tokio::test]
async fn a_node_hands_over_what_the_provisioner_would_have_pulled() {
    let world = world().await;
    let _flags = CORE_POD.read().await;
    let image = world.image("by-node:v1.0.0");
    Operator::new("bynode", "1.0.0").push(&image, &[]);
    let mut source = pulled(&image);
    source["image"]["pull"] = "Registry".into();
    world.bundle("by-registry", source).await;
    world.bundle("by-node", pulled(&image)).await;
    let by_registry = world.unpacked("by-registry").await;
    let by_node = world.unpacked("by-node").await;
    assert_eq!(digest(&by_node), digest(&by_registry));
    assert_eq!(reference(&by_node), reference(&by_registry));
    assert!(reference(&by_node).contains("@sha256:"));

    // Nothing of the image has run.
    let pod = succeeded(world, "by-node").await;
    let volumes = pod.volumes.iter().flatten();
    let mounted = volumes.filter_map(|volume| volume.image.as_ref()?.reference.as_deref());
    assert_eq!(mounted.collect::<Vec<_>>(), [reference(&by_node)]);
    assert_eq!(
        pod.containers.len() + pod.init_containers.unwrap_or_default().len(),
        1
    );
    assert!(
        !pod.containers[0]
            .image
            .as_ref()
            .unwrap()
            .contains("by-node")
    );
    world.delete("by-registry").await;
    delete(world, "by-node").await;
}

#[tokio::test]
async fn a_private_image_is_pulled_by_the_node_with_the_pull_secret() {
    let world = world().await;
    let _flags = CORE_POD.read().await;
    let registry = Registry::start(Auth::Basic, None);
    cluster::worker::trust(registry.host()).unwrap();
    let image = registry.image("by-node:v1.0.0");
    let login = tempfile::tempdir().unwrap();
    let login = login.path().join("config.json");
    fs::write(&login, registry.docker_config(OWNER)).unwrap();
    Operator::new("bynodeprivate", "1.0.0").push(&image, &["--authfile", login.to_str().unwrap()]);
    // Without the Secret neither the provisioner nor the node may see it.
    world.bundle("by-node-stranger", pulled(&image)).await;
    told(world, "by-node-stranger", "False UnpackPending", &image).await;
    delete(world, "by-node-stranger").await;

    world
        .apply(json!({
            "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/dockerconfigjson",
            "metadata": {"name": "by-node", "namespace": SYSTEM},
            "stringData": {".dockerconfigjson": registry.docker_config(TENANT)},
        }))
        .await;
    let mut source = pulled(&image);
    source["image"]["pullSecret"] = "by-node".into();
    world.bundle("by-node-private", source).await;
    world.unpacked("by-node-private").await;
    delete(world, "by-node-private").await;
}

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
        "make a new Bundle",
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
    let words = "FileUnreadable: \"/bundle/manifests/csv.yaml\" may not be read by user 65532; make it readable";
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
    kubectl(
        world.cluster,
        &[
            "delete",
            kinds,
            "--field-selector",
            "metadata.name=by-no-node",
        ],
    );
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
    let end = Instant::now() + PATIENCE;
    // The apiserver's own watch brings the policy, and nothing tells when.
    while world
        .of::<Pod>("default")
        .create(&dry, &pod)
        .await
        .unwrap()
        .spec
        .unwrap()
        .node_selector
        .is_none()
    {
        assert!(
            Instant::now() < end,
            "the policy is not in force after {PATIENCE:?}"
        );
        sleep(Duration::from_millis(100)).await;
    }
}

/// The provisioner is started anew for it.
#[tokio::test]
async fn flags_say_who_pulls_how_where_there_are_no_image_volumes_and_for_how_long() {
    let world = world().await;
    let _alone = CORE_POD.write().await;
    let (image, missing) = (
        world.image("by-copy:v1.0.0"),
        world.image("by-copy-missing:v1.0.0"),
    );
    Operator::new("bycopy", "1.0.0").push(&image, &[]);
    let before = flags(&world.of::<Deployment>(SYSTEM).get(CORE).await.unwrap());
    let others = [
        "--image-pull=job",
        "--unpack-mode=init-container",
        "--unpack-deadline=40s",
    ];
    let forced = [&before[..], &others.map(str::to_owned)].concat();
    // Whatever comes of it, the other tests count on the usual ones.
    let checked = AssertUnwindSafe(with_flags(world, &forced, &image, &missing)).catch_unwind();
    let checked = checked.await;
    start(world, &before).await;
    if let Err(panic) = checked {
        resume_unwind(panic);
    }
    delete(world, "by-copy").await;
    delete(world, "by-copy-missing").await;
}

async fn with_flags(world: &World, flags: &[String], image: &str, missing: &str) {
    start(world, flags).await;
    let mut unsaid = pulled(image);
    unsaid["image"].as_object_mut().unwrap().remove("pull");
    world.bundle("by-copy", unsaid).await;
    world.bundle("by-copy-missing", pulled(missing)).await;

    let bundle = world.unpacked("by-copy").await;
    assert!(reference(&bundle).contains("@sha256:"));
    let pod = succeeded(world, "by-copy").await;
    assert!(
        pod.volumes
            .iter()
            .flatten()
            .all(|volume| volume.image.is_none())
    );
    assert_eq!(pod.init_containers.unwrap().len(), 1);
    assert_eq!(pod.containers[0].image, Some(reference(&bundle)));

    let late = told(
        world,
        "by-copy-missing",
        "False UnpackFailed",
        "not done within 40 s",
    )
    .await;
    // It was about to try again, or had just done so.
    let conditions = late.status.unwrap().conditions;
    let told = message(&conditions, "Unpacked");
    assert!(told.contains("pull") && told.contains(missing), "{told}");
}

fn flags(deployment: &Deployment) -> Vec<String> {
    let pod = deployment.spec.as_ref().unwrap().template.spec.as_ref();
    pod.unwrap().containers[0].args.clone().unwrap()
}

/// Starts the provisioner with these flags, and waits until it leads.
async fn start(world: &World, args: &[String]) {
    let patch =
        json!([{"op": "replace", "path": "/spec/template/spec/containers/0/args", "value": args}]);
    let patch = Patch::<()>::Json(serde_json::from_value(patch).unwrap());
    let params = PatchParams::default();
    world
        .of::<Deployment>(SYSTEM)
        .patch(CORE, &params, &patch)
        .await
        .unwrap();
    world.provisioner().await;
    wait::pod(world.pods(), LEADER_LABELS, "of these flags", |pod| {
        let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
        containers
            .into_iter()
            .any(|it| it.args.as_deref() == Some(args))
    })
    .await;
}
