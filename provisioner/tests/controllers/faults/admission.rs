//! Admission: webhooks that deny, change or do not answer, and quotas.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::support::{Stage, install_maps, stage, took};
use super::webhook::{Hook, Say};
use crate::support::{Options, merge, quota};

/// Time in which a test watches for writes without a reason.
const WHILE: Duration = Duration::from_secs(6);
const MAPS: usize = 10;

/// Installs objects that admission denies: the condition Installed contains these texts, and at most this number of
/// requests is sent. The installation succeeds once the obstacle is removed.
async fn is_waited_for(
    stage: &Stage,
    name: &str,
    (texts, max_requests): (&[&str], usize),
    remove: impl Future<Output = ()>,
) {
    let mark = stage.audit.mark();
    install_maps(&stage.world, name, MAPS).await;
    stage.world.wait_message(name, "Installed", texts).await;
    sleep(WHILE).await;
    stage.audit.since(&mark).at_most(max_requests, name);
    remove.await;
    let allowed = Instant::now();
    stage.world.wait_instance(name, "Healthy", "True").await;
    took(&format!("{name}, since the permission"), allowed);
    stage.world.uninstall(name).await;
}

#[tokio::test]
async fn admission_is_reported_and_never_pressed() {
    let stage = stage(Options::default()).await;
    let world = &stage.world;
    let name = world.namespace("quota").await;
    let few = json!({"count/configmaps": "5"});
    let quotas = quota(world, &name, "few", &few).await;
    let raise = async {
        let more = json!({"spec": {"hard": {"count/configmaps": "50"}}});
        merge(&quotas, "few", &more).await;
    };
    let texts: &[&str] = &["exceeded quota", "few", "raise the quota"];
    is_waited_for(&stage, &name, (texts, 100), raise).await;

    let name = world.namespace("denied").await;
    let hook = Hook::new(world, &name, Say::No("not on Fridays")).await;
    let texts: &[&str] = &["not on Fridays", "ConfigMap", "the policy that denies it"];
    is_waited_for(&stage, &name, (texts, 100), Box::pin(hook.remove(world))).await;

    let name = world.namespace("mute").await;
    let hook = Hook::dead(world, &name).await;
    let texts: &[&str] = &["failed calling webhook", "retrying"];
    is_waited_for(&stage, &name, (texts, 200), Box::pin(hook.remove(world))).await;

    // Fields that a webhook changes are not applied repeatedly.
    let name = world.namespace("mutated").await;
    let change = json!([{"op": "replace", "path": "/data/text", "value": "changed"},
        {"op": "add", "path": "/data/more", "value": "from the webhook"}]);
    let hook = Hook::new(world, &name, Say::Change(change)).await;
    install_maps(world, &name, MAPS).await;
    world.wait_instance(&name, "Healthy", "True").await;
    let mark = stage.audit.mark();
    sleep(WHILE).await;
    stage.audit.since(&mark).at_most(20, "changed by a webhook");
    let maps: Api<ConfigMap> = Api::namespaced(world.client(), &name);
    tests::assert_rows!(maps.get("map-0").await.unwrap().data.unwrap()["text"] => "changed");

    hook.remove(world).await;
    world.uninstall(&name).await;
}
