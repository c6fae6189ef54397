//! Replaced Bundles that are not healthy, that a rollback uses, or that an older provisioner has not recorded by uid.

use super::*;

// parity: rukpak-11
#[tokio::test]
async fn unhealthy_and_rolled_back_bundles_are_not_replaced() {
    let world = running().await;
    world.cluster.stand_in_node().await.unwrap();
    let working = |space: &str| web(space, "v1", "works");
    let (name, space, squatter, observer) = squatted(world, "unwell", working).await;
    let version = |version: &str, fate| web(space.name(), version, fate);
    let rollback = |policy: &str| json!({"spec": {"rollback": policy}});
    let maps = maps(world, space.name());

    // The squatter replaces the Bundle before the rollback to it. The revision's record has the objects.
    upgrade(world, &name, "v2", &version("v2", "fails")).await;
    has_value(world, space.name(), "a", "v", "v2").await;
    let has_previous = |status: &BundleInstanceStatus| status.previous.as_ref().map(drop);
    let previous = becomes(world, &name, "previous", has_previous).await;
    let previous = previous.status.unwrap().previous.unwrap();
    let foreign = squatter.replace_recorded(&previous).await;
    support::unpacked(&world.api(), &foreign.name_any()).await;
    wait_message(world, &name, "Healthy", &["/web)"]).await;
    change(world, &name, rollback("OnFailure")).await;
    wait_reason(world, &name, "Installed", "RolledBack").await;
    has_value(world, space.name(), "a", "v", "v1").await;
    upgrade(world, &name, "v3", &version("v3", "works")).await;
    has_value(world, space.name(), "a", "v", "v3").await;
    let is_upgraded =
        |status: &BundleInstanceStatus| (status.active()?.cause == Cause::Upgrade).then_some(());
    becomes(world, &name, "active after the upgrade", is_upgraded).await;

    // Applied, and not healthy.
    change(world, &name, rollback("Never")).await;
    upgrade(world, &name, "v4", &version("v4", "fails")).await;
    has_value(world, space.name(), "a", "v", "v4").await;
    wait_message(world, &name, "Healthy", &["/web)"]).await;
    let replaced = installed_is_recorded(world, &name).await;
    squatter.replace_recorded(&replaced).await;
    let again = installed_is_recorded(world, &name).await;
    assert_ne!(again.uid, replaced.uid);
    assert_eq!(again.content_digest, replaced.content_digest);
    support::delete(&maps, "a").await;
    has_value(world, space.name(), "a", "v", "v4").await;

    // Rolled back: spec.template is not installed again, and repairs use no foreign Bundle.
    change(world, &name, rollback("OnFailure")).await;
    wait_reason(world, &name, "Installed", "RolledBack").await;
    has_value(world, space.name(), "a", "v", "v3").await;
    let installed = installed_is_recorded(world, &name).await;
    let foreign = squatter.replace_recorded(&installed).await;
    support::delete(&maps, "a").await;
    let parts = [
        &format!("Bundle {} was replaced", installed.name),
        "by another client",
        "nothing is applied or repaired from it",
        "delete Bundle",
        "bundles.core.rukpak.io",
    ];
    let reported = wait_message(world, &name, "Installed", &parts).await;
    assert_eq!(line(&reported, "Installed"), "True InstalledBundleReplaced");

    upgrade(world, &name, "v5", &version("v5", "works")).await;
    has_value(world, space.name(), "a", "v", "v5").await;
    world.wait_instance(&name, "Healthy", "True").await;
    wait_reason(world, &name, "Installed", "InstallationSucceeded").await;
    is_deleted(world, &name, &foreign).await;
    observer.finish(&[]).await;
    world.uninstall(&name).await;
}

/// Removes the status fields that an older provisioner does not write.
pub(super) async fn forget_records(world: &World, name: &str) {
    let patch = json!({"status": {"installed": null, "previous": null, "bundles": null}});
    support::merge_status::<BundleInstance>(&world.api(), name, &patch).await;
}

#[tokio::test]
async fn installation_of_an_older_provisioner_is_adopted() {
    let world = running().await;
    let (name, space, squatter, observer) = squatted(world, "older", only_a).await;
    let before = installed_is_recorded(world, &name).await;

    // The Bundle is the one that was installed.
    forget_records(world, &name).await;
    tests::assert_rows!(installed_is_recorded(world, &name).await => before);
    assert_eq!(bundles(world, &name).await.len(), 1);
    support::delete(&maps(world, space.name()), "a").await;
    has_value(world, space.name(), "a", "v", "1").await;

    // The Bundle was replaced before the provisioner recorded it.
    change(world, &name, json!({"spec": {"paused": true}})).await;
    wait_reason(world, &name, "Progressing", "Paused").await;
    squatter.replace_all().await;
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
    is_installed(world, &name, space.name(), "2").await;
    observer.finish(&[]).await;
    world.uninstall(&name).await;
}
