//! Admission: webhooks that deny, change or do not answer, and quotas.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use manifests::api::bundle_instance::BundleInstance;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::support::{Stage, install_maps, stage, took};
use super::webhook::{Hook, Say};
use crate::support::{Options, merge, message, quota};

/// Time in which a test watches for writes without a reason.
const WHILE: Duration = Duration::from_secs(6);
/// Number of ConfigMaps of each instance.
const MAPS: usize = 10;

async fn install(stage: &Stage, name: &str) {
    install_maps(&stage.world, name, MAPS).await;
}

/// Waits until the message of the condition Installed contains these texts, and returns the message.
async fn says(stage: &Stage, name: &str, texts: &[&str]) -> String {
    let instance = stage.world.says(name, "Installed", texts).await;
    message(&instance, "Installed").to_owned()
}

/// A denial is quoted, and the provisioner retries from time to time.
async fn denial_is_quoted_and_retried(stage: &Stage) {
    let name = stage.world.namespace("denied").await;
    let hook = Hook::new(&stage.world, &name, Say::No("not on Fridays")).await;
    let mark = stage.audit.mark();
    install(stage, &name).await;
    let message = says(stage, &name, &["not on Fridays", "ConfigMap"]).await;
    assert!(message.contains("the policy that denies it"), "{message}");
    sleep(WHILE).await;
    stage.audit.since(&mark).at_most(100, "denied");

    hook.remove(&stage.world).await;
    let allowed = Instant::now();
    stage.world.wait_instance(&name, "Healthy", "True").await;
    took("from the permission to the installation", allowed);
    stage.world.uninstall(&name).await;
}

/// A webhook that does not answer is named and waited for.
async fn unavailable_webhook_is_waited_for(stage: &Stage) {
    let name = stage.world.namespace("mute").await;
    let hook = Hook::dead(&stage.world, &name).await;
    let mark = stage.audit.mark();
    install(stage, &name).await;
    says(stage, &name, &["failed calling webhook", "retrying"]).await;
    sleep(WHILE).await;
    let requests = stage.audit.since(&mark);
    requests.at_most(200, "a webhook that is dead");

    hook.remove(&stage.world).await;
    let again = Instant::now();
    stage.world.wait_instance(&name, "Healthy", "True").await;
    took("from the end of the webhook to the installation", again);
    stage.world.uninstall(&name).await;
}

/// Fields that a webhook changes are not applied repeatedly.
async fn mutation_is_no_drift(stage: &Stage) {
    let name = stage.world.namespace("mutated").await;
    let change = json!([{"op": "replace", "path": "/data/text", "value": "changed"},
        {"op": "add", "path": "/data/more", "value": "from the webhook"}]);
    let hook = Hook::new(&stage.world, &name, Say::Change(change)).await;
    install(stage, &name).await;
    stage.world.wait_instance(&name, "Healthy", "True").await;
    let mark = stage.audit.mark();
    sleep(WHILE).await;
    stage.audit.since(&mark).at_most(20, "changed by a webhook");
    let maps: Api<ConfigMap> = Api::namespaced(stage.world.client(), &name);
    let map = maps.get("map-0").await.unwrap();
    assert_eq!(map.data.unwrap()["text"], "changed");

    // After the removal of the webhook, the declared objects are applied with the next version at the latest.
    hook.remove(&stage.world).await;
    let again =
        json!({"spec": {"config": null, "template": {"metadata": {"labels": {"again": "yes"}}}}});
    let instances: Api<BundleInstance> = stage.world.api();
    merge(&instances, &name, &again).await;
    stage.world.uninstall(&name).await;
}

/// A quota is reported, and the objects are applied once the quota allows them.
async fn quota_is_reported_and_waited_for(stage: &Stage) {
    let name = stage.world.namespace("quota").await;
    let few = json!({"count/configmaps": "5"});
    let quotas = quota(&stage.world, &name, "few", &few).await;
    let mark = stage.audit.mark();
    install(stage, &name).await;
    let message = says(stage, &name, &["exceeded quota", "few"]).await;
    assert!(message.contains("raise the quota"), "{message}");
    sleep(WHILE).await;
    stage.audit.since(&mark).at_most(100, "a quota");

    let more = json!({"spec": {"hard": {"count/configmaps": "50"}}});
    merge(&quotas, "few", &more).await;
    let raised = Instant::now();
    stage.world.wait_instance(&name, "Healthy", "True").await;
    took("from the larger quota to the installation", raised);
    stage.world.uninstall(&name).await;
}

#[tokio::test]
async fn admission_is_reported_and_never_pressed() {
    let stage = stage(Options::default()).await;
    quota_is_reported_and_waited_for(&stage).await;
    denial_is_quoted_and_retried(&stage).await;
    unavailable_webhook_is_waited_for(&stage).await;
    mutation_is_no_drift(&stage).await;
}
