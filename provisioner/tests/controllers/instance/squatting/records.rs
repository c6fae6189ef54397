//! Replaced Bundles that a rollback uses, or that an older provisioner has not recorded by uid.

use super::*;

#[tokio::test]
async fn a_rollback_does_not_lead_to_a_squatted_bundle() {
    let world = running().await;
    world.cluster.stand_in_node().await.unwrap();
    let working = |space: &str| web(space, "v1", "works");
    let (name, space, squatter, observer) = squatted(world, "squatback", working).await;
    let version = |version: &str, fate| web(space.name(), version, fate);

    upgrade(world, &name, "v2", &version("v2", "fails")).await;
    has_value(world, space.name(), "a", "v", "v2").await;
    let previous = becomes(world, &name, "previous", |status| {
        status.previous.as_ref().map(drop)
    });
    let previous = previous.await.status.unwrap().previous.unwrap();
    let all = bundles(world, &name).await;
    let previous = all.iter().find(|bundle| previous.is(bundle)).unwrap();
    let foreign = squatter.replace(previous).await.unwrap();
    world
        .wait_bundle(&foreign.name_any(), "Unpacked", "True")
        .await;
    says(world, &name, "Healthy", &["/web)"]).await;
    change(world, &name, json!({"spec": {"rollback": "OnFailure"}})).await;
    let stays = observed(world, &name).await;
    assert_eq!(line(&stays, "Installed"), "True InstallationSucceeded");

    upgrade(world, &name, "v3", &version("v3", "works")).await;
    has_value(world, space.name(), "a", "v", "v3").await;
    world.wait_instance(&name, "Healthy", "True").await;
    observer.finish().await;
    delete(world, &name).await;
}

/// Removes the status fields that an older provisioner does not write.
pub(super) async fn forget_records(world: &World, name: &str) {
    let patch = json!({"status": {"installed": null, "previous": null, "bundles": null}});
    let api: Api<BundleInstance> = world.api();
    support::merge_status(&api, name, &patch).await;
}

#[tokio::test]
async fn installation_of_an_older_provisioner_is_adopted() {
    let world = running().await;
    let (name, space, squatter, observer) = squatted(world, "older", only_a).await;
    let before = installed_is_recorded(world, &name).await;

    // The Bundle is the one that was installed.
    forget_records(world, &name).await;
    let adopted = installed_is_recorded(world, &name).await;
    assert_eq!(adopted, before);
    assert_eq!(bundles(world, &name).await.len(), 1);
    support::delete(&maps(world, space.name()), "a").await;
    has_value(world, space.name(), "a", "v", "1").await;

    // The Bundle was replaced before the provisioner recorded it.
    change(world, &name, json!({"spec": {"paused": true}})).await;
    wait_reason(world, &name, "Progressing", "Paused").await;
    squatter.replace_all(world, &name).await;
    forget_records(world, &name).await;
    change(world, &name, json!({"spec": {"paused": false}})).await;
    let other = installed_is_recorded(world, &name).await;
    assert_ne!(other.uid, before.uid);
    assert_eq!(other.content_digest, before.content_digest);
    wait_reason(world, &name, "Installed", "InstallationSucceeded").await;

    // An upgrade was in progress, and no record names the creator of its Bundle.
    let missing = format!("{name}-later");
    let objects = [a(space.name(), "2"), map(&missing, "b", &[])];
    upgrade(world, &name, "v2", &objects).await;
    wait_reason(world, &name, "Installed", "UpgradeFailed").await;
    forget_records(world, &name).await;
    world.apply(&support::namespace_object(&missing)).await;
    has_value(world, space.name(), "a", "v", "2").await;
    wait_reason(world, &name, "Installed", "InstallationSucceeded").await;
    installed_is_recorded(world, &name).await;
    observer.finish().await;
    delete(world, &name).await;
}
