//! An upgrade that is killed at two of its steps.

use std::io::Read as _;

use flate2::read::MultiGzDecoder;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::{
    Api, ResourceExt as _,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use super::{
    super::{INJECTED, scene::Operator},
    scene::{SPACE, Scene},
};
use crate::world::{eventually, unique};

#[expect(clippy::too_many_lines, reason = "one story, step by step")]
// parity: sdk-8, sdk-12, sdk-30
#[tokio::test(flavor = "multi_thread")]
async fn killed_upgrades_with_olm_are_continued() {
    let scene = Scene::new().await;
    let operator = Operator::new(&unique("olm"));
    let name = operator.name.as_str();
    let index = operator.publish_index(name, "0.0.1");
    let image = operator.publish("0.0.2");
    let csv = |version: &str| format!("{name}.v{version}");
    let template = json!({"olm.catalogImageTemplate": "a.io/index:v{kube_major_version}"});
    let uid = scene
        .catalog("index", &template, &json!({"image": index}))
        .await;
    // It names no channel: OLM takes the default one.
    scene.subscribe(SPACE, name, "index").await;
    let reference = |plan: &str| json!({"installPlanRef": {"kind": "InstallPlan", "namespace": SPACE, "name": plan}});
    let mut status = reference("install-1");
    status["lastUpdated"] = "2026-01-01T00:00:00Z".into();
    status["installedCSV"] = csv("0.0.1").into();
    status["currentCSV"] = csv("0.0.2").into();
    status["state"] = "UpgradePending".into();
    scene.status("Subscription", name, &status).await;
    let plan = async |plan: &str, approved: bool, csvs: &[&str], status: Value| {
        scene
            .apply(&json!({
                "apiVersion": "operators.coreos.com/v1alpha1", "kind": "InstallPlan",
                "metadata": {"name": plan, "namespace": SPACE},
                "spec": {"approval": "Manual", "approved": approved, "clusterServiceVersionNames": csvs},
            }))
            .await;
        scene.status("InstallPlan", plan, &status).await;
    };
    let failed = json!({"phase": "Failed", "catalogSources": [], "message": "quota exceeded"});
    plan("install-1", true, &["other.v1"], failed).await;
    let upgrade = [
        "run",
        "bundle-upgrade",
        &image,
        "--use-http",
        "--engine=olm",
    ];

    // OLM does not make another plan. The patch of the message has OLM plan again.
    let run = scene
        .run(&upgrade)
        .exits(1)
        .says("InstallPlan install-1 failed: quota exceeded; OLM does not try it again")
        .says("nothing was changed");
    let patch = run.err.split_once("--patch '").unwrap().1;
    let patch: Value = serde_json::from_str(patch.split_once('\'').unwrap().0).unwrap();
    scene.status("Subscription", name, &patch["status"]).await;

    let sources = scene.of("CatalogSource");
    let before = sources.get("index").await.unwrap();

    // An earlier catalog in three parts, and a bundle that OLM has unpacked.
    let client = scene.cluster.client().unwrap();
    let (maps, pods): (Api<ConfigMap>, Api<Pod>) = (
        Api::namespaced(client.clone(), SPACE),
        Api::namespaced(client, SPACE),
    );
    let owner = json!([{
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource", "name": "index", "uid": uid,
    }]);
    for number in 0..=3 {
        let name = match number {
            0 => "0a1b2c".to_owned(),
            number => format!("index-configmap-partition-{number}"),
        };
        scene
            .apply(&json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": name, "namespace": SPACE, "ownerReferences": owner},
            }))
            .await;
    }
    let former = async || {
        let found = maps.list(&ListParams::default()).await.unwrap();
        let names = found.items.iter().map(kube::ResourceExt::name_any);
        names
            .filter(|name| name != "kube-root-ca.crt")
            .collect::<Vec<_>>()
    };
    let registry = async || {
        let found = pods.list(&ListParams::default()).await.unwrap();
        match found.items.as_slice() {
            [pod] => Ok(pod.name_any()),
            other => Err(format!("{} pods", other.len())),
        }
    };

    // Killed when the pod exists: OLM has the former catalog.
    let mut child = scene.spawn(&upgrade);
    let pod = eventually("a pod", registry).await;
    child.kill().unwrap();
    child.wait().unwrap();
    let after = sources.get("index").await.unwrap();
    assert_eq!(after.resource_version(), before.resource_version());
    let all = former().await;
    assert_eq!(all.len(), 5, "{all:?}");
    let part = all
        .iter()
        .find(|name| name.len() > "index-configmap-partition-1".len())
        .unwrap();
    let data = maps.get(part).await.unwrap().binary_data.unwrap();
    let mut text = String::new();
    MultiGzDecoder::new(data["extraFBC"].0.as_slice())
        .read_to_string(&mut text)
        .unwrap();
    assert!(
        text.contains(&format!("replaces: {}\nname: stable\n", csv("0.0.1"))),
        "{text}"
    );

    // Killed when OLM has the new catalog: nothing of the one before is left after the next run, and the pod is the same.
    let ready = json!({"status": {
        "phase": "Running", "podIP": "10.0.0.9", "podIPs": [{"ip": "10.0.0.9"}],
        "conditions": [{"type": "Ready", "status": "True"}],
    }});
    let params = PatchParams::default();
    pods.patch_status(&pod, &params, &Patch::Merge(ready))
        .await
        .unwrap();
    let mut child = scene.spawn(&upgrade);
    let pointed = async || {
        let found = sources.get("index").await.unwrap();
        match found.data["spec"]["address"].as_str() {
            Some("10.0.0.9:50051") => Ok(found),
            other => Err(format!("{other:?}")),
        }
    };
    let after = eventually("pointed", pointed).await;
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(after.data["spec"]["image"], Value::Null);
    assert_eq!(after.annotations().get("olm.catalogImageTemplate"), None);
    assert!(
        after.annotations()[INJECTED].contains("@sha256:"),
        "{after:?}"
    );
    let state =
        json!({"connectionState": {"address": "10.0.0.9:50051", "lastObservedState": "READY"}});
    scene.status("CatalogSource", "index", &state).await;

    // OLM makes a plan that includes the operator of another Subscription.
    scene.subscribe(SPACE, "coral", "other").await;
    let current = json!({"currentCSV": "coral.v1", "lastUpdated": "2026-01-01T00:00:00Z"});
    scene.status("Subscription", "coral", &current).await;
    let wanted = csv("0.0.2");
    let waits = json!({"phase": "RequiresApproval", "catalogSources": []});
    plan("install-2", false, &[&wanted, "coral.v1"], waits).await;
    scene
        .status("Subscription", name, &reference("install-2"))
        .await;
    scene
        .run(&upgrade)
        .exits(1)
        .says("InstallPlan install-2 would install coral.v1 (Subscription coral) as well")
        .says("kubectl patch installplan install-2 --namespace tides");
    let plan = scene.of("InstallPlan").get("install-2").await.unwrap();
    assert_eq!(plan.data["spec"]["approved"], false);
    assert_eq!(eventually("one pod", registry).await, pod);
    let left = former().await;
    assert_eq!(left, ["0a1b2c".to_owned(), part.clone()]);
    let history = sources.get("index").await.unwrap().annotations()[INJECTED].clone();
    assert_eq!(history, after.annotations()[INJECTED]);
}
