//! Changes that admission makes to Jobs and pods must neither break them nor cause repeated creation.

use std::{pin::pin, time::Duration};

use futures::StreamExt as _;
use kube::runtime::{WatchStreamExt as _, watcher};
use kubelet::{container, ended};
use tokio::time::{Instant, timeout_at};

use super::*;
use crate::catalogs::api_errors::{allow, deny_unless};

/// The group and the resource of a policy.
type Resource = (&'static str, &'static str);

const JOBS: Resource = ("batch", "jobs");
const PODS: Resource = ("", "pods");
/// The CEL expression of the Bundle that a Job or pod belongs to.
const OWNER: &str = "object.metadata.?labels[?'core.rukpak.io/owner-name'].orValue('')";

/// Sends a Job or pod of a Bundle as a dry run.
async fn attempt(world: &World, bundle: &str, resource: Resource) -> kube::Result<Value> {
    let metadata = json!({"name": unique("try"), "labels": {"core.rukpak.io/owner-name": bundle}});
    let pod = json!({"restartPolicy": "Never", "containers": [{"name": "unpack", "image": "a"}]});
    let template = json!({"template": {"spec": pod}});
    let (api, version, kind, spec) = match resource {
        JOBS => ("apis", "batch/v1", "Job", template),
        _ => ("api", "v1", "Pod", pod),
    };
    let object = json!({"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec});
    let (_, plural) = resource;
    let path = format!("/{api}/{version}/namespaces/{SYSTEM}/{plural}?dryRun=All");
    let request = http::Request::post(path).header("content-type", "application/json");
    let request = request.body(object.to_string().into_bytes()).unwrap();
    world.client().request(request).await
}

/// Creates a policy that changes the Jobs or pods of a Bundle, and waits until a field has its new value.
async fn mutate(
    world: &World,
    bundle: &str,
    resource: Resource,
    mutation: Value,
    (field, value): (&str, Value),
) {
    let (name, (group, plural)) = (unique("policy"), resource);
    let is_owned = format!("{OWNER} == '{bundle}'");
    let spec = json!({
        "failurePolicy": "Fail", "reinvocationPolicy": "Never", "mutations": [mutation],
        "matchConditions": [{"name": "bundle", "expression": is_owned}],
        "matchConstraints": {"resourceRules": [{
            "apiGroups": [group], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": [plural],
        }]},
    });
    for (suffix, spec) in [("", spec), ("Binding", json!({"policyName": name}))] {
        let object = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": format!("MutatingAdmissionPolicy{suffix}"),
            "metadata": {"name": name}, "spec": spec,
        });
        world.apply(&object).await;
    }
    let tried = async || attempt(world, bundle, resource).await;
    let _ = until("the policy is in force", tried, |answer| {
        let object = answer.as_ref().ok();
        object.and_then(|object| object.pointer(field)) == Some(&value)
    })
    .await;
}

fn json_patch(expression: &str) -> Value {
    json!({"patchType": "JSONPatch", "jsonPatch": {"expression": expression}})
}

// parity: rukpak-13
#[tokio::test]
async fn jobs_and_pods_that_policies_change_are_kept() {
    let world = place().await;
    let name = unique("mutated");
    let sidecar = json_patch(
        "[JSONPatch{op: 'add', path: '/spec/containers/0', value: Object.spec.containers{name: 'proxy', image: 'proxy'}}]",
    );
    let proxy = ("/spec/containers/0/name", json!("proxy"));
    mutate(world, &name, PODS, sidecar, proxy).await;
    let defaults = json!({
        "patchType": "ApplyConfiguration",
        "applyConfiguration": {"expression": "Object{metadata: Object.metadata{annotations: {'example.com/cost-center': 'x'}}, spec: Object.spec{ttlSecondsAfterFinished: 60, template: Object.spec.template{spec: Object.spec.template.spec{priority: 0, terminationGracePeriodSeconds: 1}}}}"},
    });
    let ttl = ("/spec/ttlSecondsAfterFinished", json!(60));
    mutate(world, &name, JOBS, defaults, ttl).await;
    world.bundle(&name, "plain", nowhere(&name)).await;
    let node = node(world).await;
    let (pod, job) = (node.pod(&name).await, node.job(&name).await);
    tests::assert_rows!(job.spec.as_ref().unwrap().ttl_seconds_after_finished => Some(60));
    let containers = &pod.spec.as_ref().unwrap().containers;
    let containers: Vec<_> = containers.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(containers, ["proxy", "unpack"]);
    // The controller reconciles the Bundle several times.
    for number in 0..3 {
        let reason = format!("try {number}");
        let waits = kubelet::waits("ErrImagePull", &reason);
        node.report(&pod, "Pending", &waits).await;
        condition_is(world, &name, "UnpackPending", &reason).await;
    }
    assert_eq!(node.job(&name).await.uid(), job.uid());
    node.send(&pod, &small(&name)).await.unwrap();
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
    let stripped = json_patch(
        "has(object.metadata.annotations) ? [JSONPatch{op: 'remove', path: '/metadata/annotations'}] \
         : [JSONPatch{op: 'add', path: '/metadata/labels/stripped', value: 'yes'}]",
    );
    let label = ("/metadata/labels/stripped", json!("yes"));
    mutate(world, &name, JOBS, stripped, label).await;
    world.bundle(&name, "plain", nowhere(&name)).await;
    let remedy = "exempt the system namespace from the policy";
    condition_is(world, &name, "UnpackFailed", remedy).await;
    let node = node(world).await;
    let job = async || node.find_job(&name).await;
    until("no Job", job, Option::is_none).await;
    condition_persists(world, &name, "exempt the system namespace").await;
}

/// Makes sure that the condition does not change while the Bundle is reconciled more than once.
async fn condition_persists(world: &World, name: &str, text: &str) {
    let api: Api<Bundle> = world.api();
    let end = Instant::now() + Duration::from_secs(4);
    let fields = format!("metadata.name={name}");
    let changes = watcher(api, watcher::Config::default().fields(&fields)).applied_objects();
    let mut changes = pin!(changes);
    while let Ok(Some(changed)) = timeout_at(end, changes.next()).await {
        assert_has(message(&changed.unwrap()), text);
    }
}

async fn deny(world: &World, bundle: &str, resource: Resource) {
    let is_other = format!("{OWNER} != '{bundle}'");
    let tried = async || attempt(world, bundle, resource).await;
    deny_unless(&is_other, world.cluster, "CREATE", resource, tried).await;
}

#[tokio::test]
async fn denied_jobs_and_pods_are_reported_until_allowed() {
    let world = place().await;
    let name = unique("denied");
    let denial = |policy: &str| format!("'{policy}' denied request: nothing is done here");
    let (no_jobs, no_pods) = (denial("jobs"), denial("pods"));
    deny(world, &name, JOBS).await;
    world.bundle(&name, "plain", nowhere(&name)).await;
    condition_is(world, &name, "UnpackFailed", &no_jobs).await;
    condition_persists(world, &name, &no_jobs).await;
    deny(world, &name, PODS).await;
    allow(world.cluster, "jobs").await;
    let node = node(world).await;
    node.job(&name).await;

    let bundle = condition_is(world, &name, "UnpackPending", &no_pods).await;
    assert_has(message(&bundle), "cannot create its pod");
    assert_eq!(bundle.status.unwrap().phase, Some(Phase::Pending));
    allow(world.cluster, "pods").await;
    node.pod(&name).await;
}
