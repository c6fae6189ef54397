//! Changes that admission makes to Jobs and pods must neither break them nor cause repeated creation.

use std::{pin::pin, time::Duration};

use futures::StreamExt as _;
use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicyBinding;
use kube::runtime::{WatchStreamExt as _, watcher};
use kubelet::{container, ended};
use tokio::time::{Instant, timeout_at};

use super::*;

/// Creates a policy for the Jobs or pods of one Bundle, and returns its name.
async fn policy(world: &World, bundle: &str, is_job: bool, kind: &str, mut spec: Value) -> String {
    let name = unique("policy");
    let (group, resource) = if is_job {
        ("batch", "jobs")
    } else {
        ("", "pods")
    };
    let label = "object.metadata.?labels[?'core.rukpak.io/owner-name']";
    spec["failurePolicy"] = json!("Fail");
    spec["matchConstraints"] = json!({"resourceRules": [{
        "apiGroups": [group], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": [resource],
    }]});
    let matches = format!("{label}.orValue('') == '{bundle}'");
    spec["matchConditions"] = json!([{"name": "bundle", "expression": matches}]);
    let mut binding = json!({"policyName": name});
    if kind == "ValidatingAdmission" {
        binding["validationActions"] = json!(["Deny"]);
    }
    for (suffix, spec) in [("Policy", spec), ("PolicyBinding", binding)] {
        let object = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": format!("{kind}{suffix}"),
            "metadata": {"name": name}, "spec": spec,
        });
        world.apply(&object).await;
    }
    name
}

/// Waits until the result of a dry run of a Bundle's pod or Job matches.
async fn in_force(
    world: &World,
    bundle: &str,
    is_job: bool,
    is_so: impl Fn(&kube::Result<Value>) -> bool,
) {
    let metadata = json!({"name": unique("try"), "labels": {"core.rukpak.io/owner-name": bundle}});
    let pod = json!({"restartPolicy": "Never", "containers": [{"name": "unpack", "image": "a"}]});
    let (api, version, kind, spec) = if is_job {
        let template = json!({"template": {"spec": pod}});
        ("apis", "batch/v1", "Job", template)
    } else {
        ("api", "v1", "Pod", pod)
    };
    let object = json!({"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec});
    let plural = format!("{}s", kind.to_lowercase());
    let path = format!("/{api}/{version}/namespaces/{SYSTEM}/{plural}?dryRun=All");
    let tried = async || {
        let request = http::Request::post(&path).header("content-type", "application/json");
        let request = request.body(object.to_string().into_bytes()).unwrap();
        world.client().request(request).await
    };
    let _ = until("the policy is in force", tried, is_so).await;
}

/// Creates a policy that changes the Jobs or pods of a Bundle, and waits until a field has its new value.
async fn mutate(
    world: &World,
    bundle: &str,
    is_job: bool,
    mutation: Value,
    (field, value): (&str, Value),
) {
    let spec = json!({"reinvocationPolicy": "Never", "mutations": [mutation]});
    policy(world, bundle, is_job, "MutatingAdmission", spec).await;
    in_force(world, bundle, is_job, |answer| {
        let object = answer.as_ref().ok();
        object.and_then(|object| object.pointer(field)) == Some(&value)
    })
    .await;
}

/// Returns the mutation of a policy by operations of JSON Patch.
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
    mutate(world, &name, false, sidecar, proxy).await;
    let defaults = json!({
        "patchType": "ApplyConfiguration",
        "applyConfiguration": {"expression": "Object{metadata: Object.metadata{annotations: {'example.com/cost-center': 'x'}}, spec: Object.spec{ttlSecondsAfterFinished: 60, template: Object.spec.template{spec: Object.spec.template.spec{priority: 0, terminationGracePeriodSeconds: 1}}}}"},
    });
    let ttl = ("/spec/ttlSecondsAfterFinished", json!(60));
    mutate(world, &name, true, defaults, ttl).await;
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
    mutate(world, &name, true, stripped, label).await;
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

/// Denies the Jobs or pods of a Bundle. Returns the name of the policy.
async fn deny(world: &World, bundle: &str, is_job: bool, message: &str) -> String {
    let spec = json!({"validations": [{"expression": "false", "message": message}]});
    let name = policy(world, bundle, is_job, "ValidatingAdmission", spec).await;
    in_force(world, bundle, is_job, Result::is_err).await;
    name
}

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
    assert_has(message(&bundle), "cannot create its pod");
    assert_eq!(bundle.status.unwrap().phase, Some(Phase::Pending));
    allow(world, &pods).await;
    node.pod(&name).await;
}
