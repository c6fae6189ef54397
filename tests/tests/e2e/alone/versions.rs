//! CatalogSources of the version v1, with the webhook that an admin installs for it, and the way back.

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
    restart::kill,
    wait::{self, LONG, PATIENCE, available, container, eventually, ready},
    world::{SYSTEM, World, kubectl, world},
};

const WEBHOOK: &str = "rukpak-catalogsource-conversion";
const LABELS: &str = "app.kubernetes.io/component=rukpak-catalogsource-conversion";

/// CatalogSources as v1 shows them.
fn shown(world: &World) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("operators.coreos.com", "v1", "CatalogSource");
    Api::namespaced_with(world.client(), SYSTEM, &ApiResource::from_gvk(&kind))
}

/// Asks for an object in v1, so that somebody has to convert it. Who is cut off may ask again, as all clients do.
async fn asks(world: &World) -> Result<Value, String> {
    let new = shown(world);
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
    pods.retain(|it| it.metadata.deletion_timestamp.is_none());
    pods
}

// parity: source-15
#[tokio::test]
async fn the_version_v1_is_there_while_an_admin_wants_it_whatever_becomes_of_a_webhook() {
    let _alone = ALONE.lock().await;
    let world = world().await;
    let image = publish("shutter:v1", "shutter", &["1.0.0"]);
    let legacy = json!({"sourceType": "grpc", "image": image, "priority": -10});
    world.apply(source(SYSTEM, "before", &legacy)).await;
    run(
        world.cluster,
        &commands("catalogsource.md", "## The version v1", 0),
    );
    let renewed = json!({"catalogImageSource": {"catalogImage": image}, "priority": -10});
    eventually("v1", PATIENCE, async || {
        let seen = asks(world).await?;
        (seen == renewed).then_some(()).ok_or(seen.to_string())
    })
    .await;
    // What is written in v1 is served, and who knows v1alpha1 alone can read it.
    let mut written = source(SYSTEM, "after", &renewed);
    written["apiVersion"] = "operators.coreos.com/v1".into();
    world.apply(written).await;
    world
        .served_at(SYSTEM, "after", "after.rukpak-system.svc:50051")
        .await;
    world.lists(SYSTEM, "after", &["shutter.v1.0.0"]).await;
    let stored = world.sources(SYSTEM).get("after").await.unwrap();
    assert_eq!(serde_json::to_value(stored.spec).unwrap(), legacy);

    one_of_two_is_enough(world).await;
    // What goes with a namespace is asked for in the newest version.
    let namespaces: Api<Namespace> = Api::all(world.client());
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shutters"}});
    world.apply(namespace).await;
    world.apply(source("shutters", "mine", &legacy)).await;
    namespaces
        .delete("shutters", &DeleteParams::default())
        .await
        .unwrap();
    wait::gone(namespaces, "shutters").await;

    // The way back.
    run(
        world.cluster,
        &commands("catalogsource.md", "## The version v1", 1),
    );
    wait::gone(world.of::<Deployment>(SYSTEM), WEBHOOK).await;
    eventually("v1 is gone", PATIENCE, async || {
        match shown(world).get("after").await {
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

/// One webhook is drained away, then one is killed.
async fn one_of_two_is_enough(world: &World) {
    let deployments = || world.of::<Deployment>(SYSTEM);
    wait::until(deployments(), WEBHOOK, "Available", available).await;
    let pods = webhooks(world).await;
    assert_eq!(pods.len(), 2, "{pods:?}");
    // Nothing takes its place yet.
    kubectl(world.cluster, &["cordon", "worker"]);
    let (leaves, stays) = (pods[0].name_any(), pods[1].uid());
    world
        .pods()
        .delete(&leaves, &DeleteParams::default())
        .await
        .unwrap();
    loop {
        asks(world).await.unwrap();
        if world.pods().get_opt(&leaves).await.unwrap().is_none() {
            break;
        }
    }
    for _ in 0..20 {
        asks(world).await.unwrap();
    }
    let there = webhooks(world).await;
    let serving: Vec<&Pod> = there.iter().filter(|it| ready(it)).collect();
    assert!(
        matches!(serving.as_slice(), [pod] if pod.uid() == stays),
        "{there:?}"
    );
    kubectl(world.cluster, &["uncordon", "worker"]);
    wait::until(deployments(), WEBHOOK, "Available again", available).await;

    let pods = webhooks(world).await;
    kill(container(&pods[0]));
    eventually("v1 after a kill", LONG, async || asks(world).await).await;
    wait::until(deployments(), WEBHOOK, "Available once more", available).await;
}
