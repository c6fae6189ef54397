//! CatalogSources of the version v1: an admin installs the conversion webhook and removes it again.

use k8s_openapi::api::apps::v1::Deployment;
use kube::{
    Api, ResourceExt as _,
    api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind},
};
use serde_json::{Value, json};

use super::ALONE;
use crate::e2e::{
    catalogs::{publish, source},
    documents::{commands, run},
    environment::{SYSTEM, World, kubectl, world},
    restart::{kill, process},
    wait::{self, container, eventually, ready},
};

const WEBHOOK: &str = "rukpak-catalogsource-conversion";
const LABELS: &str = "app.kubernetes.io/component=rukpak-catalogsource-conversion";

fn v1_sources(world: &World) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("operators.coreos.com", "v1", "CatalogSource");
    Api::namespaced_with(world.client(), SYSTEM, &ApiResource::from_gvk(&kind))
}

/// Reads an object in v1, so that the webhook has to convert it. Retries once, as clients do after a broken connection.
async fn read_v1(world: &World) -> kube::Result<Value> {
    let new = v1_sources(world);
    let answer = match new.get("before").await {
        Ok(answer) => answer,
        Err(_) => new.get("before").await?,
    };
    Ok(answer.data["spec"].clone())
}

// parity: source-15
#[tokio::test]
async fn v1_is_served_until_an_admin_removes_the_webhook() {
    let _alone = ALONE.lock().await;
    let world = world().await;
    let image = publish("shutter:v1", "shutter", &["1.0.0"]);
    let legacy = json!({"sourceType": "grpc", "image": image, "priority": -10});
    world.apply(source(SYSTEM, "before", &legacy)).await;
    let documented = |number| commands("catalogsource.md", "## The version v1", number);
    run(world.cluster, &documented(0));
    let v1_spec = json!({"catalogImageSource": {"catalogImage": image}, "priority": -10});
    wait::equal(v1_spec.clone(), async || read_v1(world).await).await;
    // A source that was written in v1 is served, and clients of v1alpha1 can read it.
    let mut written = source(SYSTEM, "after", &v1_spec);
    written["apiVersion"] = "operators.coreos.com/v1".into();
    world.apply(written).await;
    let address = "after.rukpak-system.svc:50051";
    world.served_at(SYSTEM, "after", address).await;
    world.lists(SYSTEM, "after", &["shutter.v1.0.0"]).await;
    let stored = world.sources(SYSTEM).get("after").await.unwrap();
    assert_eq!(serde_json::to_value(stored.spec).unwrap(), legacy);

    assert_one_replica_is_enough(world).await;
    // The namespace controller deletes objects in the newest version.
    kubectl(world.cluster, "create namespace shutters");
    world.apply(source("shutters", "mine", &legacy)).await;
    kubectl(world.cluster, "delete namespace shutters --timeout=4m");

    // Back to v1alpha1 alone.
    run(world.cluster, &documented(1));
    wait::deleted(world.api::<Deployment>(SYSTEM), WEBHOOK).await;
    eventually("without v1", async || {
        match v1_sources(world).get("after").await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    for name in ["before", "after"] {
        let stored = world.sources(SYSTEM).get(name).await.unwrap();
        assert_eq!(serde_json::to_value(stored.spec).unwrap(), legacy, "{name}");
        world.lists(SYSTEM, name, &["shutter.v1.0.0"]).await;
        world.remove_source(SYSTEM, name).await;
    }
}

/// Asserts that conversions succeed while one webhook pod is deleted, and recover after one is killed.
async fn assert_one_replica_is_enough(world: &World) {
    let webhooks = async || {
        world.runs(SYSTEM, WEBHOOK).await;
        wait::present(&world.pods(), LABELS).await
    };
    let pods = webhooks().await;
    assert_eq!(pods.len(), 2, "{pods:?}");
    // No node takes the replacement pod yet.
    kubectl(world.cluster, &["cordon", "worker"]);
    let (drained, remaining) = (pods[0].name_any(), pods[1].uid());
    let params = DeleteParams::default();
    world.pods().delete(&drained, &params).await.unwrap();
    loop {
        read_v1(world).await.unwrap();
        if world.pods().get_opt(&drained).await.unwrap().is_none() {
            break;
        }
    }
    for _ in 0..20 {
        read_v1(world).await.unwrap();
    }
    let pods = wait::present(&world.pods(), LABELS).await;
    let serving = pods.iter().filter(|pod| ready(pod));
    let serving: Vec<_> = serving.map(|pod| &pod.metadata.uid).collect();
    assert_eq!(serving, [&remaining], "{pods:?}");
    kubectl(world.cluster, &["uncordon", "worker"]);

    kill(process(container(&webhooks().await[0])));
    eventually("v1 after a kill", async || read_v1(world).await).await;
    world.runs(SYSTEM, WEBHOOK).await;
}
