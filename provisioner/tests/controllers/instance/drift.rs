//! Installed objects keep their desired state, and an idle provisioner sends no requests.

mod idle;

use super::*;

// parity: rukpak-48
#[tokio::test]
async fn drift_is_repaired_within_a_second() {
    let (world, name, space) = start("drift").await;
    let kinds = ["changed", "removed", "deleted", "labels"].into_iter();
    let names = kinds.flat_map(|kind| (0..3).map(move |number| format!("{kind}-{number}")));
    let objects = names.map(|object| map(space.name(), &object, &[("v", "1")]));
    install(world, &name, &objects.collect::<Vec<_>>()).await;

    let api = maps(world, space.name());
    for (kind, patch) in tests::rows![
        "changed" => Some(json!({"data": {"v": "2"}}));
        "removed" => Some(json!({"data": {"v": null}}));
        "labels" => Some(json!({"metadata": {"labels": {labels::OWNER_NAME: null, labels::OWNER_KIND: null}}}));
        "deleted" => None;
    ] {
        let took = quickest(0..3, async |number| {
            let object = format!("{kind}-{number}");
            match &patch {
                Some(patch) => patch_as_other(&api, &object, patch.clone()).await,
                None => support::delete(&api, &object).await,
            }
            let repaired =
                json!({"metadata": {"labels": {labels::OWNER_NAME: name}}, "data": {"v": "1"}});
            support::wait_part(api.clone(), &object, repaired).await;
        })
        .await;
        assert!(took < Duration::from_secs(1), "{kind}: {took:?}");
    }
    world.uninstall(&name).await;
}

#[tokio::test]
async fn replicas_that_were_scaled_are_left_to_the_scaler() {
    let (world, name, space) = start("scaled").await;
    let of = |version| [deployment(space.name(), "web", 1, version, "works")];
    declare(world, &name, &of("v1")).await;
    world.wait_instance(&name, "Installed", "True").await;

    let api = deployments(world, space.name());
    let params = tests::with!(PatchParams, field_manager: Some("autoscaler".to_owned()));
    let is_scaled = async |version: &str, replicas: i32| {
        let part = json!({"metadata": {"labels": {"version": version}}});
        let found = support::wait_part(api.clone(), "web", part).await;
        assert_eq!(found.spec.unwrap().replicas, Some(replicas), "{version}");
    };
    for replicas in [3, 5] {
        // The order of these two matters: once the label is repaired, the controller has observed the replicas as well.
        let scaled = Patch::Merge(json!({"spec": {"replicas": replicas}}));
        api.patch_scale("web", &params, &scaled).await.unwrap();
        let label = json!({"metadata": {"labels": {"version": "meddled"}}});
        patch_as_other(&api, "web", label).await;
        is_scaled("v1", replicas).await;
    }

    upgrade(world, &name, "v2", &of("v2")).await;
    is_scaled("v2", 5).await;
    assert!(!message(&read(world, &name).await, "Progressing").contains("repeatedly"));
    world.uninstall(&name).await;
}

#[tokio::test]
async fn paused_instance_is_not_reconciled_and_can_be_deleted() {
    let world = running().await;
    let (paused, other) = (unique("paused"), unique("unpaused"));
    let space = world.cluster.temp_namespace("paused").await.unwrap();
    for (name, object) in [(&paused, "a"), (&other, "b")] {
        install(world, name, &[map(space.name(), object, &[("v", "1")])]).await;
    }
    change(world, &paused, json!({"spec": {"paused": true}})).await;
    let instance = wait_reason(world, &paused, "Progressing", "Paused").await;
    assert_eq!(line(&instance, "Installed"), "True InstallationSucceeded");

    let api = maps(world, space.name());
    for object in ["a", "b"] {
        patch_as_other(&api, object, json!({"data": {"v": "2"}})).await;
    }
    // The object of the other instance was changed later.
    has_value(world, space.name(), "b", "v", "1").await;
    assert_eq!(api.get("a").await.unwrap().data.unwrap()["v"], "2");

    upgrade(world, &paused, "v2", &[a(space.name(), "3")]).await;
    tests::assert_rows!(line(&observed(world, &paused).await, "Progressing") => "False Paused");
    assert_eq!(bundles(world, &paused).await.len(), 1);
    assert_eq!(api.get("a").await.unwrap().data.unwrap()["v"], "2");

    // Continuing repairs and upgrades both.
    change(world, &paused, json!({"spec": {"paused": false}})).await;
    has_value(world, space.name(), "a", "v", "3").await;
    change(world, &paused, json!({"spec": {"paused": true}})).await;
    wait_reason(world, &paused, "Progressing", "Paused").await;
    world.uninstall(&paused).await;
    wait_deleted(maps(world, space.name()), "a").await;
    world.uninstall(&other).await;
}
