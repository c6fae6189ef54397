//! Changes that admission makes to Jobs and pods must neither break them nor cause repeated creation.

use std::{pin::pin, time::Duration};

use futures::StreamExt as _;
use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicyBinding;
use kube::runtime::{WatchStreamExt as _, watcher};
use kubelet::{container, ended};
use tokio::time::{Instant, timeout_at};

use super::*;

const ADMISSION: &str = "admissionregistration.k8s.io/v1";

/// Creates a policy for the objects of one Bundle, and returns its name.
async fn policy(
    world: &World,
    bundle: &str,
    kind: &str,
    resource: (&str, &str),
    spec: serde_json::Value,
) -> String {
    let name = unique("policy");
    let (group, resource) = resource;
    let mut policy = json!({
        "apiVersion": ADMISSION,
        "kind": format!("{kind}Policy"),
        "metadata": {"name": name},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [{
                "apiGroups": [group], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": [resource],
            }]},
            "matchConditions": [{
                "name": "bundle",
                "expression": format!("object.metadata.?labels[?'core.rukpak.io/owner-name'].orValue('') == '{bundle}'"),
            }],
        },
    });
    for (key, value) in spec.as_object().unwrap() {
        policy["spec"][key] = value.clone();
    }
    world.apply(&policy).await;
    let mut binding = json!({
        "apiVersion": ADMISSION,
        "kind": format!("{kind}PolicyBinding"),
        "metadata": {"name": name},
        "spec": {"policyName": name},
    });
    if kind == "ValidatingAdmission" {
        binding["spec"]["validationActions"] = json!(["Deny"]);
    }
    world.apply(&binding).await;
    name
}

/// Waits until the result of a dry run of a Bundle's pod or Job matches.
async fn in_force(
    world: &World,
    bundle: &str,
    job: bool,
    is_so: impl Fn(&kube::Result<serde_json::Value>) -> bool,
) {
    let labels = json!({"core.rukpak.io/owner-name": bundle});
    let pod = json!({"restartPolicy": "Never", "containers": [{"name": "unpack", "image": "a"}]});
    let (path, object) = if job {
        (
            format!("/apis/batch/v1/namespaces/{SYSTEM}/jobs?dryRun=All"),
            json!({
                "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": unique("try"), "labels": labels},
                "spec": {"template": {"spec": pod}},
            }),
        )
    } else {
        (
            format!("/api/v1/namespaces/{SYSTEM}/pods?dryRun=All"),
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": unique("try"), "labels": labels}, "spec": pod}),
        )
    };
    let tried = async || {
        let request = http::Request::post(&path).header("content-type", "application/json");
        let request = request.body(object.to_string().into_bytes()).unwrap();
        world.client().request(request).await
    };
    let _ = until("the policy is in force", tried, is_so).await;
}

/// Waits until a dry run of a Bundle's pod or Job has a value at this path.
async fn makes(world: &World, bundle: &str, is_job: bool, place: &str, value: serde_json::Value) {
    in_force(world, bundle, is_job, |answer| {
        let found = answer
            .as_ref()
            .ok()
            .and_then(|object| object.pointer(place));
        found == Some(&value)
    })
    .await;
}

/// Creates policies that add a container to the pods of a Bundle, and change fields of its Jobs.
async fn mutate(world: &World, name: &str) {
    let sidecar = json!({
        "reinvocationPolicy": "Never",
        "mutations": [{
            "patchType": "JSONPatch",
            "jsonPatch": {"expression": "[JSONPatch{op: 'add', path: '/spec/containers/0', value: Object.spec.containers{name: 'proxy', image: 'proxy'}}]"},
        }],
    });
    policy(world, name, "MutatingAdmission", ("", "pods"), sidecar).await;
    let defaults = json!({
        "reinvocationPolicy": "Never",
        "mutations": [{
            "patchType": "ApplyConfiguration",
            "applyConfiguration": {"expression": "Object{metadata: Object.metadata{annotations: {'example.com/cost-center': 'x'}}, spec: Object.spec{ttlSecondsAfterFinished: 60, template: Object.spec.template{spec: Object.spec.template.spec{priority: 0, terminationGracePeriodSeconds: 1}}}}"},
        }],
    });
    let jobs = ("batch", "jobs");
    policy(world, name, "MutatingAdmission", jobs, defaults).await;
    makes(
        world,
        name,
        false,
        "/spec/containers/0/name",
        "proxy".into(),
    )
    .await;
    makes(
        world,
        name,
        true,
        "/spec/ttlSecondsAfterFinished",
        60.into(),
    )
    .await;
}

// parity: rukpak-13
#[tokio::test]
async fn jobs_and_pods_that_policies_change_are_kept() {
    let world = place().await;
    let name = unique("mutated");
    mutate(world, &name).await;
    let content = small(&name);
    world.bundle(&name, "plain", nowhere(&name)).await;
    let node = node(world).await;
    let (pod, job) = (node.pod(&name).await, node.job(&name).await);
    let ttl = job.spec.as_ref().unwrap().ttl_seconds_after_finished;
    assert_eq!(ttl, Some(60));
    let containers = &pod.spec.as_ref().unwrap().containers;
    let containers: Vec<_> = containers.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(containers, ["proxy", "unpack"]);
    // The controller reconciles the Bundle several times.
    for number in 0..3 {
        let reason = format!("try {number}");
        node.report(&pod, "Pending", &kubelet::waits("ErrImagePull", &reason))
            .await;
        condition_is(world, &name, "UnpackPending", &reason).await;
    }
    assert_eq!(node.job(&name).await.uid(), job.uid());
    node.send(&pod, &content).await.unwrap();
    world.wait_bundle(&name, "Unpacked", "True").await;
    assert_eq!(node.job(&name).await.uid(), job.uid());

    // The program has ended; the other container would run until the deadline of the Job.
    let status = json!({"phase": "Running", "containerStatuses": [
        container("proxy", &json!({"running": {}})),
        container("unpack", &ended(0, "Completed", "")),
    ]});
    node.status(&pod, status).await;
    wait_deleted::<Job>(node.jobs(), &job.name_any()).await;
    wait_deleted::<Pod>(node.pods(), &pod.name_any()).await;
    world.wait_bundle(&name, "Unpacked", "True").await;
}

#[tokio::test]
async fn policy_that_strips_jobs_is_reported_and_not_fought() {
    let world = place().await;
    let name = unique("stripped");
    let stripped = json!({
        "reinvocationPolicy": "Never",
        "mutations": [{
            "patchType": "JSONPatch",
            "jsonPatch": {"expression": "has(object.metadata.annotations) ? [JSONPatch{op: 'remove', path: '/metadata/annotations'}] : [JSONPatch{op: 'add', path: '/metadata/labels/stripped', value: 'yes'}]"},
        }],
    });
    let jobs = ("batch", "jobs");
    policy(world, &name, "MutatingAdmission", jobs, stripped).await;
    makes(
        world,
        &name,
        true,
        "/metadata/labels/stripped",
        "yes".into(),
    )
    .await;
    world.bundle(&name, "plain", nowhere(&name)).await;
    let remedy = "exempt the system namespace from the policy";
    condition_is(world, &name, "UnpackFailed", remedy).await;
    let node = node(world).await;
    let job = async || node.find_job(&name).await;
    until("no Job", job, Option::is_none).await;
    condition_persists(world, &name, "exempt the system namespace").await;
}

#[tokio::test]
async fn policy_that_changes_pod_labels_is_reported_and_harmless() {
    let world = place().await;
    let name = unique("bare");
    let bare = json!({
        "reinvocationPolicy": "Never",
        "mutations": [{
            "patchType": "JSONPatch",
            "jsonPatch": {"expression": "[JSONPatch{op: 'replace', path: '/metadata/labels/core.rukpak.io~1owner-name', value: 'nobody'}]"},
        }],
    });
    policy(world, &name, "MutatingAdmission", ("", "pods"), bare).await;
    makes(
        world,
        &name,
        false,
        "/metadata/labels/core.rukpak.io~1owner-name",
        "nobody".into(),
    )
    .await;
    world.bundle(&name, "plain", nowhere(&name)).await;
    condition_is(world, &name, "UnpackPending", "removed its labels").await;
    let node = node(world).await;
    let job = node.job(&name).await;
    let its = |pod: &Pod| {
        let mut owners = pod.owner_references().iter();
        owners.any(|owner| Some(&owner.uid) == job.uid().as_ref())
    };
    let pod = list(&node.pods()).await.into_iter().find(its).unwrap();
    node.run(&pod, &small(&name)).await.unwrap();
    world.wait_bundle(&name, "Unpacked", "True").await;
}

/// Makes sure that the condition stays while the Bundle is reconciled more than once.
async fn condition_persists(world: &World, name: &str, text: &str) {
    let api: Api<Bundle> = world.api();
    let end = Instant::now() + Duration::from_secs(4);
    let fields = format!("metadata.name={name}");
    let changes = watcher(api, watcher::Config::default().fields(&fields)).applied_objects();
    let mut changes = pin!(changes);
    while let Ok(Some(changed)) = timeout_at(end, changes.next()).await {
        let changed = changed.unwrap();
        let reported = message(&changed);
        assert!(reported.contains(text), "{reported}");
    }
}

/// Denies the Jobs or pods of a Bundle. Returns the name of the policy.
async fn deny(world: &World, bundle: &str, is_job: bool, message: &str) -> String {
    let resource = if is_job {
        ("batch", "jobs")
    } else {
        ("", "pods")
    };
    let spec = json!({"validations": [{"expression": "false", "message": message}]});
    let name = policy(world, bundle, "ValidatingAdmission", resource, spec).await;
    in_force(world, bundle, is_job, Result::is_err).await;
    name
}

/// Removes a policy of [`deny`].
async fn allow(world: &World, policy: &str) {
    let bindings: Api<ValidatingAdmissionPolicyBinding> = world.api();
    delete(&bindings, policy).await;
}

#[tokio::test]
async fn denied_jobs_and_pods_are_reported_until_allowed() {
    let world = place().await;
    let name = unique("denied");
    let jobs = deny(world, &name, true, "no jobs on Sundays").await;
    world.bundle(&name, "plain", nowhere(&name)).await;
    condition_is(world, &name, "UnpackFailed", "no jobs on Sundays").await;
    condition_persists(world, &name, "no jobs on Sundays").await;
    let pods = deny(world, &name, false, "no pods on Sundays").await;
    allow(world, &jobs).await;
    let node = node(world).await;
    node.job(&name).await;

    let bundle = condition_is(world, &name, "UnpackPending", "no pods on Sundays").await;
    let reason = message(&bundle);
    assert!(reason.contains("cannot create its pod"), "{reason}");
    assert_eq!(bundle.status.unwrap().phase, Some(Phase::Pending));
    allow(world, &pods).await;
    node.pod(&name).await;
}
