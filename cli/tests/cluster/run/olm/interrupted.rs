//! An upgrade that is killed at two of its steps.

use std::{io::Read as _, process::Child};

use flate2::read::MultiGzDecoder;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::{
    Api, ResourceExt,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use super::super::INJECTED;
use super::super::support::Operator;
use super::support::{SPACE, Scene};
use crate::environment::{Rukpak as _, eventually, unique};

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
    let spec = json!({"image": index});
    let uid = scene.catalog("index", &json!({}), &spec).await;
    // Without a channel, OLM uses the default one.
    scene.subscribe(SPACE, name, "index").await;
    let first = csv("0.0.1");
    let status = json!({
        "installedCSV": first, "currentCSV": first, "state": "AtLatestKnown", "lastUpdated": "2026-01-01T00:00:00Z",
    });
    scene.status("Subscription", name, &status).await;
    let upgrade = format!("run bundle-upgrade {image} --use-http --engine=olm");
    let sources = scene.api_of_kind("CatalogSource");
    let before = sources.get("index").await.unwrap();

    // An earlier catalog in two parts, and a bundle that OLM has unpacked.
    let client = scene.cluster.client().unwrap();
    let (maps, pods): (Api<ConfigMap>, Api<Pod>) = (
        Api::namespaced(client.clone(), SPACE),
        Api::namespaced(client, SPACE),
    );
    let owner = json!([{
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource", "name": "index", "uid": uid,
    }]);
    for name in [
        "0a1b2c",
        "index-configmap-partition-1",
        "index-configmap-partition-2",
    ] {
        let metadata = json!({"name": name, "namespace": SPACE, "ownerReferences": owner});
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
        scene.apply(&map).await;
    }
    let former = async || {
        let found = maps.list(&ListParams::default()).await.unwrap();
        let names = found.items.iter().map(ResourceExt::name_any);
        let names = names.filter(|name| name != "kube-root-ca.crt");
        names.collect::<Vec<_>>()
    };
    let registry = async || {
        let found = pods.list(&ListParams::default()).await.unwrap();
        match found.items.as_slice() {
            [pod] => Ok(pod.name_any()),
            other => Err(format!("{} pods", other.len())),
        }
    };

    // Killed when the pod exists: OLM still uses the former catalog.
    let child = scene.spawn(&upgrade);
    let pod = eventually("a pod", registry).await;
    kill(child);
    let after = sources.get("index").await.unwrap();
    assert_eq!(after.resource_version(), before.resource_version());
    let all = former().await;
    assert_eq!(all.len(), 4, "{all:?}");
    let is_new = |name: &&String| name.len() > "index-configmap-partition-1".len();
    let part = all.iter().find(is_new).unwrap();
    let data = maps.get(part).await.unwrap().binary_data.unwrap();
    let mut text = String::new();
    let mut unzipped = MultiGzDecoder::new(data["extraFBC"].0.as_slice());
    unzipped.read_to_string(&mut text).unwrap();
    tests::assert_has(text, &format!("replaces: {first}\nname: stable\n"));

    // Killed when OLM uses the new catalog: the next run deletes the former parts and keeps the pod.
    let ready = json!({"status": {
        "phase": "Running", "podIP": "10.0.0.9", "podIPs": [{"ip": "10.0.0.9"}],
        "conditions": [{"type": "Ready", "status": "True"}],
    }});
    let (params, ready) = (PatchParams::default(), Patch::Merge(ready));
    pods.patch_status(&pod, &params, &ready).await.unwrap();
    let child = scene.spawn(&upgrade);
    let pointed = async || {
        let found = sources.get("index").await.unwrap();
        match found.data["spec"]["address"].as_str() {
            Some("10.0.0.9:50051") => Ok(found),
            other => Err(format!("{other:?}")),
        }
    };
    let after = eventually("pointed", pointed).await;
    kill(child);
    assert_eq!(after.data["spec"]["image"], Value::Null);
    let injected = &after.annotations()[INJECTED];
    tests::assert_has(injected, "@sha256:");
    let state =
        json!({"connectionState": {"address": "10.0.0.9:50051", "lastObservedState": "READY"}});
    scene.status("CatalogSource", "index", &state).await;

    // OLM makes a plan that includes the operator of another Subscription.
    scene.subscribe(SPACE, "coral", "other").await;
    let current = json!({"currentCSV": "coral.v1", "lastUpdated": "2026-01-01T00:00:00Z"});
    scene.status("Subscription", "coral", &current).await;
    let metadata = json!({"name": "install-2", "namespace": SPACE});
    let names = [csv("0.0.2"), "coral.v1".to_owned()];
    let spec =
        json!({"approval": "Manual", "approved": false, "clusterServiceVersionNames": names});
    scene.object("InstallPlan", &metadata, &spec).await;
    let status = json!({"phase": "RequiresApproval", "catalogSources": []});
    scene.status("InstallPlan", "install-2", &status).await;
    let plan = json!({"kind": "InstallPlan", "namespace": SPACE, "name": "install-2"});
    let status = json!({"installPlanRef": plan});
    scene.status("Subscription", name, &status).await;
    tests::assert_runs! { scene;
        "{upgrade}" => 1, _, "InstallPlan install-2 also installs coral.v1 (Subscription coral)",
            "kubectl patch installplan install-2 --namespace tides";
    }
    let plan = scene
        .api_of_kind("InstallPlan")
        .get("install-2")
        .await
        .unwrap();
    assert_eq!(plan.data["spec"]["approved"], false);
    assert_eq!(eventually("one pod", registry).await, pod);
    let left = former().await;
    assert_eq!(left, ["0a1b2c".to_owned(), part.clone()]);
    let last = sources.get("index").await.unwrap();
    assert_eq!(&last.annotations()[INJECTED], injected);
}

fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}
