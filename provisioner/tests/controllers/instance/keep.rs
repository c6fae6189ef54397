//! What is installed is kept as it was declared while something newer cannot take its place.

use std::time::Duration;

use tokio::time::Instant;

use super::*;

/// Installs ConfigMaps.
async fn install(world: &World, name: &str, namespace: &str, objects: &[&str]) {
    let objects: Vec<Value> = objects
        .iter()
        .map(|object| map(namespace, object, &[("v", "1")]))
        .collect();
    let source = publish(world, &format!("{name}:v1"), &objects).await;
    world.instance(name, "plain", source).await;
    world.wait_instance(name, "Healthy", "True").await;
}

/// Deletes objects one after the other, and tells how long the quickest took to come back.
async fn deleted_and_back(world: &World, namespace: &str, objects: &[&str]) -> Duration {
    let api = maps(world, namespace);
    let mut best = Duration::MAX;
    for object in objects {
        let began = Instant::now();
        api.delete(object, &kube::api::DeleteParams::default())
            .await
            .unwrap();
        has_value(world, namespace, object, "v", "1").await;
        best = best.min(began.elapsed());
    }
    best
}

#[tokio::test]
async fn what_is_installed_is_repaired_while_the_next_bundle_is_refused() {
    let world = running().await;
    let (name, space) = (
        unique("keep"),
        world.cluster.temp_namespace("keep").await.unwrap(),
    );
    install(world, &name, space.name(), &["a", "b", "c", "d"]).await;
    let group = format!("{name}.example.com");
    let widget = json!({"apiVersion": format!("{group}/v1"), "kind": "Widget", "metadata": {"name": "w", "namespace": space.name()}});
    let v2 = [widget, map(space.name(), "a", &[("v", "2")])];
    upgrade(world, &name, "v2", &v2).await;
    wait_reason(world, &name, "Installed", "UpgradeFailed").await;

    let took = deleted_and_back(world, space.name(), &["a", "b", "c"]).await;
    assert!(took < Duration::from_secs(1), "{took:?}");
    let api = maps(world, space.name());
    meddle(&api, "d", json!({"data": {"v": "9"}})).await;
    has_value(world, space.name(), "d", "v", "1").await;
    let kept = world.wait_instance(&name, "Healthy", "True").await;
    assert_eq!(line(&kept, "Installed"), "True UpgradeFailed");
    assert_eq!(line(&kept, "HasValidBundle"), "True UnpackSuccessful");
    let told = message(&kept, "Installed");
    for part in ["stays installed", r#"no matches for kind "Widget""#, &group] {
        assert!(told.contains(part), "{part} is missing: {told}");
    }

    // The repairs have not made it forget what it waits for.
    world.apply(&support::crd(&group, "Widget")).await;
    has_value(world, space.name(), "a", "v", "2").await;
    for gone in ["b", "c", "d"] {
        support::gone(maps(world, space.name()), gone).await;
    }
    wait_reason(world, &name, "Installed", "InstallationSucceeded").await;
    delete(world, &name).await;
}

#[tokio::test]
async fn what_is_installed_is_repaired_while_another_configuration_is_refused() {
    let world = running().await;
    let name = unique("config");
    let mut objects = [map("", &name, &[("v", "1")])];
    objects[0]["metadata"]["namespace"] = Value::Null;
    let source = publish(world, &format!("{name}:v1"), &objects).await;
    world.instance(&name, "plain", source).await;
    world.wait_instance(&name, "Healthy", "True").await;

    let nowhere = json!({"spec": {"installNamespace": format!("{name}-nowhere")}});
    change(world, &name, nowhere).await;
    let refused = wait_reason(world, &name, "Installed", "ReconcileFailed").await;
    let told = message(&refused, "Installed");
    assert!(told.contains("-nowhere\" does not exist"), "{told}");
    // Where it was, and not where it should go.
    let took = deleted_and_back(world, "default", &[&name]).await;
    assert!(took < Duration::from_secs(3), "{took:?}");
    let kept = world.wait_instance(&name, "Healthy", "True").await;
    assert_eq!(line(&kept, "Installed"), "True ReconcileFailed");
    delete(world, &name).await;
    support::gone(maps(world, "default"), &name).await;
}

#[tokio::test]
async fn half_applied_upgrade_is_repaired_to_both_revisions() {
    let world = running().await;
    let (name, space) = (
        unique("partly"),
        world.cluster.temp_namespace("partly").await.unwrap(),
    );
    install(world, &name, space.name(), &["both", "old"]).await;
    let group = format!("{name}.example.com");
    // The apiserver can refuse it only once its definition is there.
    let refused = json!({
        "apiVersion": format!("{group}/v1"), "kind": "Widget",
        "metadata": {"name": "bad", "namespace": space.name()}, "spec": {"size": "large"},
    });
    let v2 = [
        support::crd(&group, "Widget"),
        map(space.name(), "both", &[("v", "2")]),
        refused,
    ];
    upgrade(world, &name, "v2", &v2).await;
    wait_reason(world, &name, "Installed", "UpgradeFailed").await;
    let api = maps(world, space.name());
    api.delete("old", &kube::api::DeleteParams::default())
        .await
        .unwrap();
    // The new revision does not have it, and is not active.
    has_value(world, space.name(), "old", "v", "1").await;
    let seen = read(world, &name).await;
    assert_eq!(line(&seen, "Installed"), "True UpgradeFailed");
    assert!(message(&seen, "Installed").contains("was being replaced"));
    assert_eq!(api.get("both").await.unwrap().data.unwrap()["v"], "2");
    delete(world, &name).await;
}

#[tokio::test]
async fn what_is_installed_is_repaired_while_no_bundle_can_be_made_of_the_template() {
    let world = running().await;
    let (name, space) = (
        unique("unmade"),
        world.cluster.temp_namespace("unmade").await.unwrap(),
    );
    install(world, &name, space.name(), &["a", "b", "c"]).await;
    let labels = |labels: Value| json!({"spec": {"template": {"metadata": {"labels": labels}}}});
    change(world, &name, labels(json!({"not a label!": "x"}))).await;
    let refused = wait_reason(world, &name, "HasValidBundle", "ReconcileFailed").await;
    assert_eq!(line(&refused, "HasValidBundle"), "Unknown ReconcileFailed");
    let told = message(&refused, "HasValidBundle");
    for part in ["not a label!", "spec.template", "correct"] {
        assert!(told.contains(part), "{part} is missing: {told}");
    }

    let took = deleted_and_back(world, space.name(), &["a", "b", "c"]).await;
    assert!(took < Duration::from_secs(1), "{took:?}");
    let kept = world.wait_instance(&name, "Healthy", "True").await;
    assert_eq!(line(&kept, "Installed"), "True InstallationSucceeded");
    assert_eq!(line(&kept, "HasValidBundle"), "Unknown ReconcileFailed");
    assert_eq!(bundles(world, &name).await.len(), 1);

    change(
        world,
        &name,
        labels(json!({"not a label!": null, "good": "x"})),
    )
    .await;
    wait_reason(world, &name, "HasValidBundle", "UnpackSuccessful").await;
    delete(world, &name).await;
}
