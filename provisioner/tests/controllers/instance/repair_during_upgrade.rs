//! Repairs of the installed revision while a newer one is rejected.

use super::*;

/// Deletes objects one after the other. Returns the shortest time until an object existed again.
async fn deleted_and_back(world: &World, namespace: &str, objects: &[&str]) -> Duration {
    quickest(objects, async |object| {
        support::delete(&maps(world, namespace), object).await;
        has_value(world, namespace, object, "v", "1").await;
    })
    .await
}

#[tokio::test]
async fn installed_objects_are_repaired_while_changes_are_rejected() {
    let (world, name, space) = start("keep").await;
    let [a, b, c] = ["a", "b", "c"].map(|object| map(space.name(), object, &[("v", "1")]));
    // This object belongs to the install namespace, which is `default`.
    let unplaced = tests::with!(map("", &name, &[("v", "1")]) => |map| map["metadata"]["namespace"] = Value::Null);
    install(world, &name, &[a, b, c, unplaced]).await;

    // Labels of the template that no Bundle can have.
    let labels = |labels: Value| json!({"spec": {"template": {"metadata": {"labels": labels}}}});
    change(world, &name, labels(json!({"not a label!": "x"}))).await;
    let parts = ["not a label!", "spec.template", "correct"];
    let refused = wait_message(world, &name, "HasValidBundle ReconcileFailed", &parts).await;
    assert_eq!(line(&refused, "HasValidBundle"), "Unknown ReconcileFailed");
    let took = deleted_and_back(world, space.name(), &["a", "b", "c"]).await;
    assert!(took < Duration::from_secs(1), "{took:?}");
    let instance = world.wait_instance(&name, "Healthy", "True").await;
    assert_eq!(line(&instance, "Installed"), "True InstallationSucceeded");
    assert_eq!(line(&instance, "HasValidBundle"), "Unknown ReconcileFailed");
    assert_eq!(bundles(world, &name).await.len(), 1);
    let valid = labels(json!({"not a label!": null, "good": "x"}));
    change(world, &name, valid).await;
    wait_reason(world, &name, "HasValidBundle", "UnpackSuccessful").await;
    let is_correct = |all: &Vec<Bundle>| all.len() == 1 && all[0].labels().contains_key("good");
    bundles_become(world, &name, "as corrected", is_correct).await;

    // The install namespace does not exist. The object is repaired in its old namespace.
    let missing = json!({"spec": {"installNamespace": format!("{name}-nowhere")}});
    change(world, &name, missing).await;
    let part = "-nowhere\" does not exist";
    wait_message(world, &name, "Installed ReconcileFailed", &[part]).await;
    let took = deleted_and_back(world, "default", &[name.as_str(); 3]).await;
    assert!(took < Duration::from_secs(3), "{took:?}");
    tests::assert_rows!(line(&world.wait_instance(&name, "Healthy", "True").await, "Installed") => "True ReconcileFailed");
    world.uninstall(&name).await;
    wait_deleted(maps(world, "default"), &name).await;
}

#[tokio::test]
async fn half_applied_upgrades_are_repaired_and_can_be_undone() {
    let (world, name, space) = start("partly").await;
    let group = format!("{name}.example.com");
    let both = |value: &str| map(space.name(), "both", &[("v", value)]);
    let old = map(space.name(), "old", &[("v", "1")]);
    let v1 = [support::crd(&group, "Widget"), both("1"), old];
    let source = declare(world, &name, &v1).await;
    world.wait_instance(&name, "Healthy", "True").await;
    // The API server rejects the object only once its CRD exists.
    let refused = tests::with!(widget(&group, space.name(), "bad", "large") => |widget| widget["kind"] = "Gadget".into());
    let gadgets = support::crd(&group, "Gadget");
    let v2 = [crd_with_v2(&group), gadgets, both("2"), refused];
    upgrade(world, &name, "v2", &v2).await;
    wait_reason(world, &name, "Installed", "UpgradeFailed").await;
    let api = maps(world, space.name());
    support::delete(&api, "old").await;
    // The new revision does not contain the object and is not active.
    has_value(world, space.name(), "old", "v", "1").await;
    let found = read(world, &name).await;
    assert_eq!(line(&found, "Installed"), "True UpgradeFailed");
    assert_message(&found, "Installed", &["is partly replaced"]);
    assert_eq!(api.get("both").await.unwrap().data.unwrap()["v"], "2");
    let crds: Api<CustomResourceDefinition> = world.api();
    let moved = crds.get(&format!("widgets.{group}")).await.unwrap();
    assert_eq!(moved.status.unwrap().stored_versions.unwrap(), ["v1", "v2"]);

    // The reverted template undoes the changes of the upgrade, except for the storage version of the CRD.
    point_at(world, &name, &source).await;
    has_value(world, space.name(), "both", "v", "1").await;
    wait_reason(world, &name, "Installed", "InstallationSucceeded").await;
    assert_eq!(served(world, &group).await, ["v1", "v2"]);

    // The Namespace of the bundle is missing during the dry runs, so that the rollout starts.
    let bad = map(&name, "bad", &[("not a key!", "1")]);
    let v3 = [support::namespace_object(&name), both("3"), bad];
    upgrade(world, &name, "v3", &v3).await;
    let failed = wait_reason(world, &name, "Installed", "UpgradeFailed").await;
    has_value(world, space.name(), "both", "v", "3").await;
    assert_message(&failed, "Installed", &["is partly replaced"]);
    // The second attempt changes nothing, because the Namespace exists now.
    change(world, &name, json!({"spec": {"rollback": "OnFailure"}})).await;
    wait_reason(world, &name, "Installed", "RolledBack").await;
    has_value(world, space.name(), "both", "v", "1").await;
    world.uninstall(&name).await;
}
