//! Operators that another command installed, and the versions that follow them.

use kube::{ResourceExt as _, api::DeleteParams};
use manifests::api::platform::PlatformOperator;
use serde_json::{Value, json};

use super::{INJECTED, get, history, installed, scene::Operator};
use crate::world::{World, unique, world};

// parity: run-4, run-7, run-16, sdk-32, sdk-33
#[tokio::test(flavor = "multi_thread")]
async fn story_2_operators_installed_otherwise_are_upgraded() {
    let world = world().await;
    let operator = Operator::new(&unique("other"));
    let name = &operator.name;
    let images = ["0.0.1", "0.0.2", "0.0.3"].map(|version| operator.publish(version));
    // The instance has another name than the package.
    let own = unique("by-hand");
    world.ok(&["install", &own, &images[0], "--tls-verify=false"]);
    world
        .upgrade_bundle(&images[1], &[])
        .exits(0)
        .says(&format!(
            "{own} was not installed by \"run bundle\"; \"{name}.v0.0.1\" is upgraded from"
        ));
    let line = history(&get(&own).await);
    assert_eq!(line.len(), 2);
    world.upgrade_bundle(&images[2], &[]).exits(0);
    let instance = get(&own).await;
    assert_eq!(installed(&instance), format!("{name}.v0.0.3"));
    assert_eq!(history(&instance)[..2], line);

    only_newer_versions_follow(world, &operator, &images);
    history_must_be_true(world, &operator, &own, &images[0]).await;
    platform_operators_decide_about_versions(world, &operator, &own).await;
    world.ok(&format!("cleanup {name}"));
    assert_eq!(world.instances().get_opt(&own).await.unwrap(), None);
}

fn only_newer_versions_follow(world: &World, operator: &Operator, images: &[String]) {
    world
        .upgrade_bundle(&images[1], &[])
        .exits(1)
        .says("version 0.0.2 is not newer than 0.0.3, which is installed");
    // A rebuild has another digest.
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("{}-more", operator.name)},
    });
    let rebuilt = operator.publish_with("0.0.3", &[map]);
    world
        .upgrade_bundle(&rebuilt, &[])
        .exits(1)
        .says("version 0.0.3 is not newer than 0.0.3");
    world.upgrade_bundle(&rebuilt, &["--force"]).exits(0);
}

async fn history_must_be_true(world: &World, operator: &Operator, own: &str, first: &str) {
    let next = operator.publish("0.0.4");
    let annotate = async |text: Option<&str>| {
        let patch = json!({"metadata": {"annotations": {INJECTED: text}}});
        world.patch(own, patch).await;
    };
    let truth = get(own).await.annotations()[INJECTED].clone();
    for (text, expected) in tests::rows![
        "[{" => "injected-bundles is damaged: it is no list of bundles";
        &*format!("[{{\"imageTag\":\"{first}\"}}]")
            => "which is installed; its annotation operators.operatorframework.io/injected-bundles names";
        &truth.replace(operator.name.as_str(), "nobody") => "cannot be had; remove its annotation";
    ] {
        annotate(Some(text)).await;
        let before = get(own).await;
        world.upgrade_bundle(&next, &[]).exits(1).says(expected);
        assert_eq!(get(own).await.spec, before.spec);
    }
    // Without the annotation, the history starts with the installed version.
    annotate(None).await;
    world.upgrade_bundle(&next, &[]).exits(0);
    assert_eq!(history(&get(own).await).len(), 2);
}

async fn platform_operators_decide_about_versions(world: &World, operator: &Operator, own: &str) {
    let name = &operator.name;
    let [operators, _] = manifests::api::definitions::foreign();
    world
        .apply(&serde_json::to_value(&operators).unwrap())
        .await;
    let definition = operators.metadata.name.unwrap();
    world.cluster.wait_established(&definition).await.unwrap();
    world
        .apply(&json!({
            "apiVersion": "platform.openshift.io/v1alpha1", "kind": "PlatformOperator",
            "metadata": {"name": name}, "spec": {"package": {"name": name}},
        }))
        .await;
    let api = kube::Api::<PlatformOperator>::all(world.cluster.client().unwrap());
    let uid = api.get(name).await.unwrap().metadata.uid;
    let owner = json!({
        "apiVersion": "platform.openshift.io/v1alpha1", "kind": "PlatformOperator", "name": name, "uid": uid,
    });
    let owned_by = async |owners: &[Value]| {
        let patch = json!({"metadata": {"ownerReferences": owners}});
        world.patch(own, patch).await;
    };
    owned_by(&[owner]).await;
    let next = operator.publish("0.0.5");
    world.upgrade_bundle(&next, &[]).exits(1).says(&format!(
        "belongs to PlatformOperator {name}, which would change it back; nothing was changed"
    ));
    world.run_bundle(&next, &[]).exits(1).says(&format!(
        "belongs to PlatformOperator {name}, which decides about its version"
    ));
    world
        .fail(&format!("cleanup {name}"))
        .says("Cleanup operator: ")
        .says("which would make it anew; nothing was deleted");
    world
        .fail(&format!("uninstall {own}"))
        .says("which would make it anew; nothing was deleted")
        .says(&format!("kubectl delete platformoperator {name}"));
    assert_eq!(get(own).await.metadata.deletion_timestamp, None);
    owned_by(&[]).await;
    api.delete(name, &DeleteParams::default()).await.unwrap();
}
