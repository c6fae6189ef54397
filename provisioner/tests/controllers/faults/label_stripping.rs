//! A webhook that removes the ownership labels of objects: they are repaired with growing delays, and the conflict is
//! reported.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, ResourceExt as _, api::ListParams};
use manifests::api::labels;
use serde_json::json;
use tokio::time::sleep;

use super::support::{install_maps, stage};
use super::webhook::{Hook, Say};
use crate::support::{Options, until};

const MAPS: usize = 10;
/// Longer than the first delays of a conflict.
const WHILE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn webhook_that_removes_labels_is_reported_and_not_fought() {
    let stage = stage(Options::default()).await;
    let world = &stage.world;
    let name = world.namespace("stripped").await;
    let change = json!([{"op": "remove", "path": "/metadata/labels"}]);
    let hook = Hook::new(world, &name, Say::Change(change)).await;
    let mark = stage.audit.mark();
    install_maps(world, &name, MAPS).await;
    let parts = ["repeatedly"];
    world.wait_message(&name, "Progressing", &parts).await;
    sleep(WHILE).await;
    stage.audit.since(&mark).at_most(300, "labels taken away");

    hook.remove(world).await;
    let maps: Api<ConfigMap> = Api::namespaced(world.client(), &name);
    // The next repair is up to 80 seconds later.
    let labeled = async || {
        let found = maps.list(&ListParams::default()).await.unwrap();
        let is_ours = |map: &&ConfigMap| map.labels().contains_key(labels::OWNER_NAME);
        found.iter().filter(is_ours).count()
    };
    until("labels are back", labeled, |count| *count == MAPS).await;
    world.uninstall(&name).await;
}
