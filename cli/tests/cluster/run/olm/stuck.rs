//! What never goes on is told at once, with what has it go on.

use std::{
    io::{BufRead as _, BufReader, Read as _},
    time::Duration,
};

use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, ResourceExt as _,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{Operator, SPACE, Scene};
use crate::world::{Run, eventually, unique};

/// Another namespace, with a catalog in it.
const ELSEWHERE: &str = "elsewhere";

async fn patch(scene: &Scene, namespace: &str, (kind, name): (&str, &str), change: Value) {
    let (params, patch) = (PatchParams::default(), Patch::Merge(&change));
    let api = scene.within(namespace, kind);
    let changed = if change.get("status").is_some() {
        api.patch_status(name, &params, &patch).await
    } else {
        api.patch(name, &params, &patch).await
    };
    changed.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_is_too_free_for_its_namespace_can_be_hardened() {
    let scene = Scene::new().await;
    let labels = json!({"pod-security.kubernetes.io/enforce": "restricted"});
    let metadata = json!({"name": SPACE, "labels": labels});
    scene
        .apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}))
        .await;
    let operator = Operator::new(&unique("free"));
    let image = operator.publish("0.0.1");
    let args = ["run", "bundle", &image, "--use-http", "--engine=olm"];
    let run = scene
        .run(&args)
        .exits(1)
        .says("error: Failed to run bundle: create catalog: failed to create Pod ")
        .says("violates PodSecurity \"restricted:latest\"")
        .says("; run the same command again with --security-context-config=restricted");
    assert!(!run.err.contains("administrator"), "{run:?}");
    let more = ["--security-context-config=restricted", "--timeout=10s"];
    scene
        .run(&[&args[..], &more].concat())
        .exits(1)
        .says("did not become ready within 10s");
}

/// What OLM says of a version that is installed, by what it has gone through.
fn phases(past: &[(&str, &str)]) -> Value {
    let conditions = past
        .iter()
        .map(|(phase, reason)| json!({"phase": phase, "reason": reason, "message": "not yet"}));
    let conditions: Vec<Value> = conditions.collect();
    let (phase, reason) = past.last().unwrap();
    json!({"status": {
        "phase": phase, "reason": reason, "message": "not yet", "conditions": conditions,
    }})
}

/// A version that has been installed from a catalog elsewhere, and the OperatorGroup that it has.
async fn installed(scene: &Scene, operator: &Operator) {
    let name = operator.name.as_str();
    let version = format!("{name}.v0.0.1");
    let of_olm = |version: &str, kind: &str, (namespace, name): (&str, &str), spec: Value| {
        json!({
            "apiVersion": format!("operators.coreos.com/{version}"), "kind": kind,
            "metadata": {"name": name, "namespace": namespace}, "spec": spec,
        })
    };
    for object in [
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": ELSEWHERE}}),
        of_olm("v1", "OperatorGroup", (SPACE, "og"), json!({})),
        of_olm(
            "v1alpha1",
            "CatalogSource",
            (ELSEWHERE, "index"),
            json!({"sourceType": "grpc", "image": operator.publish_index(&["0.0.1"])}),
        ),
        of_olm(
            "v1alpha1",
            "Subscription",
            (SPACE, name),
            json!({"name": name, "source": "index", "sourceNamespace": ELSEWHERE, "installPlanApproval": "Manual"}),
        ),
        of_olm(
            "v1alpha1",
            "ClusterServiceVersion",
            (SPACE, &version),
            json!({"displayName": "Tide", "install": {"strategy": "deployment", "spec": {"deployments": []}}}),
        ),
        of_olm(
            "v1alpha1",
            "InstallPlan",
            (SPACE, "install-2"),
            json!({
                "approval": "Manual", "approved": false, "clusterServiceVersionNames": [format!("{name}.v0.0.2")],
            }),
        ),
        json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": "denied", "namespace": ELSEWHERE},
            "involvedObject": {"kind": "Job", "name": "unpack", "namespace": ELSEWHERE},
            "type": "Warning", "reason": "Failed", "message": "nobody may pull it",
        }),
    ] {
        scene.apply(&object).await;
    }
    let status = json!({"status": {
        "lastUpdated": "2026-01-01T00:00:00Z", "state": "AtLatestKnown", "installedCSV": version, "currentCSV": version,
    }});
    patch(scene, SPACE, ("Subscription", name), status).await;
    let status = json!({"status": {"phase": "RequiresApproval", "catalogSources": []}});
    patch(scene, SPACE, ("InstallPlan", "install-2"), status).await;
}

/// OLM and a node have a catalog served, and OLM plans the version.
async fn plan(scene: &Scene, subscription: &str) {
    let pods: Api<Pod> = Api::namespaced(scene.cluster.client().unwrap(), ELSEWHERE);
    let pod = eventually("a pod", async || {
        let found = pods.list(&ListParams::default()).await.unwrap();
        found
            .items
            .first()
            .map(kube::ResourceExt::name_any)
            .ok_or("none".to_owned())
    })
    .await;
    let ready = json!({"status": {
        "phase": "Running", "podIP": "10.0.0.9", "podIPs": [{"ip": "10.0.0.9"}],
        "conditions": [{"type": "Ready", "status": "True"}],
    }});
    let params = PatchParams::default();
    pods.patch_status(&pod, &params, &Patch::Merge(ready))
        .await
        .unwrap();
    let state = json!({"status": {
        "connectionState": {"address": "10.0.0.9:50051", "lastObservedState": "READY"},
    }});
    patch(scene, ELSEWHERE, ("CatalogSource", "index"), state).await;
    let planned = json!({"status": {
        "installPlanRef": {"kind": "InstallPlan", "namespace": SPACE, "name": "install-2"},
    }});
    patch(scene, SPACE, ("Subscription", subscription), planned).await;
}

/// Otherwise the next version would wait for good, and every later one behind it.
#[tokio::test(flavor = "multi_thread")]
async fn with_olm_nothing_is_begun_behind_a_version_that_never_succeeds() {
    let scene = Scene::new().await;
    let operator = Operator::new(&unique("stuck"));
    let name = operator.name.as_str();
    let image = operator.publish("0.0.2");
    let version = format!("{name}.v0.0.1");
    installed(&scene, &operator).await;
    let upgrade = [
        "run",
        "bundle-upgrade",
        &image,
        "--use-http",
        "--engine=olm",
    ];
    let is_in = |past: Vec<(&'static str, &'static str)>| {
        patch(
            &scene,
            SPACE,
            ("ClusterServiceVersion", &version),
            phases(&past),
        )
    };
    let sources = scene.within(ELSEWHERE, "CatalogSource");
    let failed = ("Failed", "InstallCheckFailed");
    let waits = ("Installing", "InstallWaiting");

    let before = sources.get("index").await.unwrap().resource_version();
    for past in [
        vec![waits, failed],
        vec![waits, failed, ("Pending", "NeedsReinstall"), waits],
    ] {
        let (phase, reason) = *past.last().unwrap();
        is_in(past).await;
        scene
            .run(&upgrade)
            .exits(1)
            .says(&format!(
                "error: Failed to run bundle upgrade: {version}, which is to be replaced, has failed, and is in phase {phase}: \
                 {reason}: not yet; "
            ))
            .says("with: kubectl patch operatorgroups.operators.coreos.com og --namespace tides ")
            .says("nothing was changed");
        assert_eq!(
            sources.get("index").await.unwrap().resource_version(),
            before
        );
    }

    // It may succeed yet, and so it is waited for; until it does not.
    is_in(vec![waits]).await;
    let more = ["--timeout=90s"];
    let mut child = scene.spawn(&[&upgrade[..], &more].concat());
    plan(&scene, name).await;
    let mut err = String::new();
    let mut lines = BufReader::new(child.stderr.take().unwrap());
    while !err.contains("Waiting for ClusterServiceVersion") {
        assert_ne!(lines.read_line(&mut err).unwrap(), 0, "{err}");
    }
    // As long as the approval of what may be approved takes.
    sleep(Duration::from_secs(2)).await;
    is_in(vec![waits, failed]).await;
    lines.read_to_string(&mut err).unwrap();
    let run: Run = child.wait_with_output().unwrap().into();
    let run = Run { err, ..run };
    run.exits(1)
        .says("nobody may pull it")
        .says("run the same command again to wait for OLM, and to have it approved")
        .says(&format!(
            "error: Failed to run bundle upgrade: error waiting for CSV to install: {version}, which is to be replaced, has failed, "
        ));
    let is_approved = async || {
        let plan = scene.of("InstallPlan").get("install-2").await.unwrap();
        plan.data["spec"]["approved"] == true
    };
    assert!(!is_approved().await);

    // The way on that is told.
    let strategy = json!({"spec": {"upgradeStrategy": "TechPreviewUnsafeFailForward"}});
    patch(&scene, SPACE, ("OperatorGroup", "og"), strategy).await;
    let mut child = scene.spawn(&[&upgrade[..], &more].concat());
    eventually("approved", async || {
        is_approved()
            .await
            .then_some(())
            .ok_or("not yet".to_owned())
    })
    .await;
    child.kill().unwrap();
    child.wait().unwrap();
}
