//! CatalogSources of the version v1: an admin installs the conversion webhook and removes it again.

use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Namespace, Pod},
};
use kube::{
    Api, ResourceExt as _,
    api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams},
};
use serde_json::{Value, json};

use super::ALONE;
use crate::e2e::{
    catalogs::{publish, source},
    documents::{commands, run},
    environment::{SYSTEM, World, kubectl, world},
    restart::kill,
    wait::{self, LONG_TIMEOUT, TIMEOUT, available, container, eventually, ready},
};

const WEBHOOK: &str = "rukpak-catalogsource-conversion";
const LABELS: &str = "app.kubernetes.io/component=rukpak-catalogsource-conversion";

/// CatalogSources in version v1.
fn v1_sources(world: &World) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("operators.coreos.com", "v1", "CatalogSource");
    Api::namespaced_with(world.client(), SYSTEM, &ApiResource::from_gvk(&kind))
}

/// Reads an object in v1, so that the webhook has to convert it. Retries once, as clients do after a broken connection.
async fn read_v1(world: &World) -> Result<Value, String> {
    let new = v1_sources(world);
    let answer = match new.get("before").await {
        Ok(answer) => Ok(answer),
        Err(_) => new.get("before").await,
    };
    let answer = answer.map_err(|error| error.to_string())?;
    Ok(answer.data["spec"].clone())
}

async fn webhooks(world: &World) -> Vec<Pod> {
    let params = ListParams::default().labels(LABELS);
    let mut pods = world.pods().list(&params).await.unwrap().items;
    pods.retain(|pod| pod.metadata.deletion_timestamp.is_none());
    pods
}

// parity: source-15
#[tokio::test]
async fn v1_is_served_until_an_admin_removes_the_webhook() {
    let _alone = ALONE.lock().await;
    let world = world().await;
    let image = publish("shutter:v1", "shutter", &["1.0.0"]);
    let legacy = json!({"sourceType": "grpc", "image": image, "priority": -10});
    world.apply(source(SYSTEM, "before", &legacy)).await;
    run(
        world.cluster,
        &commands("catalogsource.md", "## The version v1", 0),
    );
    let v1_spec = json!({"catalogImageSource": {"catalogImage": image}, "priority": -10});
    eventually("v1", TIMEOUT, async || {
        let spec = read_v1(world).await?;
        (spec == v1_spec).then_some(()).ok_or(spec.to_string())
    })
    .await;
    // A source that was written in v1 is served, and clients of v1alpha1 can read it.
    let mut written = source(SYSTEM, "after", &v1_spec);
    written["apiVersion"] = "operators.coreos.com/v1".into();
    world.apply(written).await;
    world
        .served_at(SYSTEM, "after", "after.rukpak-system.svc:50051")
        .await;
    world.lists(SYSTEM, "after", &["shutter.v1.0.0"]).await;
    let stored = world.sources(SYSTEM).get("after").await.unwrap();
    assert_eq!(serde_json::to_value(stored.spec).unwrap(), legacy);

    assert_one_replica_is_enough(world).await;
    // The namespace controller deletes objects in the newest version.
    let namespaces: Api<Namespace> = Api::all(world.client());
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shutters"}});
    world.apply(namespace).await;
    world.apply(source("shutters", "mine", &legacy)).await;
    namespaces
        .delete("shutters", &DeleteParams::default())
        .await
        .unwrap();
    wait::deleted(namespaces, "shutters").await;

    // Back to v1alpha1 alone.
    run(
        world.cluster,
        &commands("catalogsource.md", "## The version v1", 1),
    );
    wait::deleted(world.api::<Deployment>(SYSTEM), WEBHOOK).await;
    eventually("v1 is gone", TIMEOUT, async || {
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
    let deployments = || world.api::<Deployment>(SYSTEM);
    wait::until(deployments(), WEBHOOK, "Available", available).await;
    let pods = webhooks(world).await;
    assert_eq!(pods.len(), 2, "{pods:?}");
    // No node takes the replacement pod yet.
    kubectl(world.cluster, &["cordon", "worker"]);
    let (drained, remaining) = (pods[0].name_any(), pods[1].uid());
    world
        .pods()
        .delete(&drained, &DeleteParams::default())
        .await
        .unwrap();
    loop {
        read_v1(world).await.unwrap();
        if world.pods().get_opt(&drained).await.unwrap().is_none() {
            break;
        }
    }
    for _ in 0..20 {
        read_v1(world).await.unwrap();
    }
    let pods = webhooks(world).await;
    let serving: Vec<&Pod> = pods.iter().filter(|pod| ready(pod)).collect();
    assert!(
        matches!(serving.as_slice(), [pod] if pod.uid() == remaining),
        "{pods:?}"
    );
    kubectl(world.cluster, &["uncordon", "worker"]);
    wait::until(deployments(), WEBHOOK, "Available again", available).await;

    let pods = webhooks(world).await;
    kill(container(&pods[0]));
    eventually("v1 after a kill", LONG_TIMEOUT, async || {
        read_v1(world).await
    })
    .await;
    wait::until(deployments(), WEBHOOK, "Available once more", available).await;
}
