//! A webhook that takes away what objects are known by: they are put back ever more seldom, and people are told.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, ResourceExt as _, api::ListParams};
use manifests::api::{instance::BundleInstance, labels};
use serde_json::json;
use tokio::time::sleep;

use super::{
    hook::{Hook, Say},
    stage::stage,
};
use crate::support::{
    Options, condition, config_map, delete, eventually, gone, image, plain, unique, wait_for,
};

const MAPS: usize = 10;
/// Longer than the first pauses of a fight.
const WHILE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn who_takes_our_labels_away_is_told_and_not_fought_for_ever() {
    let stage = stage(Options::default()).await;
    let world = &stage.world;
    let name = unique("stripped");
    world
        .apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}))
        .await;
    let change = json!([{"op": "remove", "path": "/metadata/labels"}]);
    let hook = Hook::new(world, &name, Say::Change(change)).await;
    let objects: Vec<_> = (0..MAPS)
        .map(|n| config_map(&name, &format!("map-{n}"), "1"))
        .collect();
    let pushed = world.push(&format!("{name}:v1"), &plain(&objects)).await;
    let mark = stage.audit.mark();
    world.instance(&name, "plain", image(&pushed)).await;
    wait_for(world.api(), &name, "told", |it: &BundleInstance| {
        let said = &condition(&it.status.as_ref()?.conditions, "Progressing")?.message;
        said.contains("again and again").then_some(())
    })
    .await;
    sleep(WHILE).await;
    stage.audit.since(&mark).at_most(300, "labels taken away");

    hook.remove(world).await;
    let maps: Api<ConfigMap> = Api::namespaced(world.client(), &name);
    // The next repair is up to 80 seconds away.
    eventually("labels are back", async || {
        let found = maps.list(&ListParams::default()).await.unwrap();
        let is_ours = |map: &&ConfigMap| map.labels().contains_key(labels::OWNER_NAME);
        let count = found.iter().filter(is_ours).count();
        (count == MAPS)
            .then_some(())
            .ok_or_else(|| format!("{count} of {MAPS}"))
    })
    .await;
    let instances: Api<BundleInstance> = world.api();
    delete(&instances, &name).await;
    gone(instances, &name).await;
}
