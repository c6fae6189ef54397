//! Whoever has a say in what is applied: webhooks that deny, change or do not answer, and quotas.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, ResourceQuota};
use kube::{Api, api::DeleteParams};
use manifests::api::instance::BundleInstance;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::{
    hook::{Hook, Say},
    stage::{Stage, stage},
};
use crate::support::{
    Options, condition, config_map, gone, image, merge, namespace_object, plain, unique, wait_for,
};

/// How long is looked whether anything happens that has no reason.
const WHILE: Duration = Duration::from_secs(6);
/// How many ConfigMaps the instances here have.
const MAPS: usize = 10;

/// A namespace, whose name is also that of the instance.
async fn space(stage: &Stage, prefix: &str) -> String {
    let name = unique(prefix);
    stage.world.apply(&namespace_object(&name)).await;
    name
}

async fn install(stage: &Stage, name: &str) {
    let world = &stage.world;
    let objects: Vec<_> = (0..MAPS)
        .map(|n| config_map(name, &format!("map-{n}"), "1"))
        .collect();
    let pushed = world.push(&format!("{name}:v1"), &plain(&objects)).await;
    world.instance(name, "plain", image(&pushed)).await;
}

async fn remove(stage: &Stage, name: &str) {
    let api: Api<BundleInstance> = stage.world.api();
    api.delete(name, &DeleteParams::default()).await.unwrap();
    gone(api, name).await;
}

/// Waits until a condition says something, and returns all it says.
async fn says(stage: &Stage, name: &str, type_: &str, words: &[&str]) -> String {
    let what = format!("{type_}: {words:?}");
    let it = wait_for(stage.world.api(), name, &what, |it: &BundleInstance| {
        let said = &condition(&it.status.as_ref()?.conditions, type_)?.message;
        words.iter().all(|word| said.contains(word)).then_some(())
    })
    .await;
    let conditions = it.status.unwrap().conditions;
    condition(&conditions, type_).unwrap().message.clone()
}

fn maps(stage: &Stage, namespace: &str) -> Api<ConfigMap> {
    Api::namespaced(stage.world.client(), namespace)
}

/// A denial is quoted, and the provisioner tries again from time to time.
async fn denial_is_quoted_and_retried(stage: &Stage) {
    let name = space(stage, "denied").await;
    let hook = Hook::new(&stage.world, &name, Say::No("not on Fridays")).await;
    let mark = stage.audit.mark();
    install(stage, &name).await;
    let told = says(stage, &name, "Installed", &["not on Fridays", "ConfigMap"]).await;
    assert!(told.contains("the policy that denies it"), "{told}");
    sleep(WHILE).await;
    stage.audit.since(&mark).at_most(100, "denied");

    hook.remove(&stage.world).await;
    let allowed = Instant::now();
    stage.world.wait_instance(&name, "Healthy", "True").await;
    eprintln!(
        "installed {:.1} s after it was allowed",
        allowed.elapsed().as_secs_f64()
    );
    remove(stage, &name).await;
}

/// A webhook that does not answer is named and waited for.
async fn unavailable_webhook_is_waited_for(stage: &Stage) {
    let name = space(stage, "mute").await;
    let hook = Hook::dead(&stage.world, &name).await;
    let mark = stage.audit.mark();
    install(stage, &name).await;
    says(
        stage,
        &name,
        "Installed",
        &["failed calling webhook", "again"],
    )
    .await;
    sleep(WHILE).await;
    stage
        .audit
        .since(&mark)
        .at_most(200, "a webhook that is dead");

    hook.remove(&stage.world).await;
    let again = Instant::now();
    stage.world.wait_instance(&name, "Healthy", "True").await;
    eprintln!(
        "installed {:.1} s after the webhook was gone",
        again.elapsed().as_secs_f64()
    );
    remove(stage, &name).await;
}

/// Fields that a webhook changes are not applied repeatedly.
async fn mutation_is_no_drift(stage: &Stage) {
    let name = space(stage, "mutated").await;
    let change = json!([{"op": "replace", "path": "/data/text", "value": "changed"},
        {"op": "add", "path": "/data/more", "value": "from the webhook"}]);
    let hook = Hook::new(&stage.world, &name, Say::Change(change)).await;
    install(stage, &name).await;
    stage.world.wait_instance(&name, "Healthy", "True").await;
    let mark = stage.audit.mark();
    sleep(WHILE).await;
    stage.audit.since(&mark).at_most(20, "changed by a webhook");
    let map = maps(stage, &name).get("map-0").await.unwrap();
    assert_eq!(map.data.unwrap()["text"], "changed");

    // Where the webhook is gone, what is declared is applied with the next version at the latest.
    hook.remove(&stage.world).await;
    let again =
        json!({"spec": {"config": null, "template": {"metadata": {"labels": {"again": "yes"}}}}});
    let instances: Api<BundleInstance> = stage.world.api();
    merge(&instances, &name, &again).await;
    remove(stage, &name).await;
}

/// A quota is reported, and the objects are applied once the quota allows them.
async fn quota_is_reported_and_waited_for(stage: &Stage) {
    let name = space(stage, "quota").await;
    let quotas: Api<ResourceQuota> = Api::namespaced(stage.world.client(), &name);
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few", "namespace": name},
        "spec": {"hard": {"count/configmaps": "5"}}});
    stage.world.apply(&quota).await;
    wait_for(quotas.clone(), "few", "counted", |it: &ResourceQuota| {
        it.status.as_ref()?.used.as_ref().map(drop)
    })
    .await;
    let mark = stage.audit.mark();
    install(stage, &name).await;
    let told = says(stage, &name, "Installed", &["exceeded quota", "few"]).await;
    assert!(told.contains("raise the quota"), "{told}");
    sleep(WHILE).await;
    stage.audit.since(&mark).at_most(100, "a quota");

    let more = json!({"spec": {"hard": {"count/configmaps": "50"}}});
    merge(&quotas, "few", &more).await;
    let raised = Instant::now();
    stage.world.wait_instance(&name, "Healthy", "True").await;
    eprintln!(
        "installed {:.1} s after the quota was raised",
        raised.elapsed().as_secs_f64()
    );
    remove(stage, &name).await;
}

#[tokio::test]
async fn admission_is_reported_and_never_pressed() {
    let stage = stage(Options::default()).await;
    quota_is_reported_and_waited_for(&stage).await;
    denial_is_quoted_and_retried(&stage).await;
    unavailable_webhook_is_waited_for(&stage).await;
    mutation_is_no_drift(&stage).await;
}
