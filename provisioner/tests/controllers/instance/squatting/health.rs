//! Bundles that are replaced when they are applied but not healthy, and after a rollback.

use super::*;

/// Replaces the installed Bundle, and waits until the foreign content is unpacked. Returns the record of the Bundle.
async fn replace_installed(world: &World, name: &str, squatter: &Squatter) -> InstalledBundle {
    let recorded = installed_is_recorded(world, name).await;
    let all = bundles(world, name).await;
    let installed = all.iter().find(|bundle| recorded.is(bundle)).unwrap();
    let foreign = squatter.replace(installed).await.unwrap();
    bundles_become(world, name, "without pending foreign content", |bundles| {
        let mut foreign = bundles
            .iter()
            .filter(|bundle| bundle.uid() == foreign.uid());
        foreign.all(|bundle| {
            let status = bundle.status.as_ref();
            status.is_some_and(|status| status.content_digest.is_some())
        })
    })
    .await;
    recorded
}

#[tokio::test]
async fn unhealthy_and_rolled_back_bundles_are_not_replaced() {
    let world = running().await;
    world.cluster.stand_in_node().await.unwrap();
    let working = |space: &str| web(space, "v1", "works");
    let (name, space, squatter, observer) = squatted(world, "unwell", working).await;
    let version = |version: &str, fate| web(space.name(), version, fate);
    let maps = maps(world, space.name());

    // Applied, and not healthy.
    upgrade(world, &name, "v2", &version("v2", "fails")).await;
    has_value(world, space.name(), "a", "v", "v2").await;
    says(world, &name, "Healthy", &["/web)"]).await;
    let replaced = replace_installed(world, &name, &squatter).await;
    let again = installed_is_recorded(world, &name).await;
    assert_ne!(again.uid, replaced.uid);
    assert_eq!(again.content_digest, replaced.content_digest);
    support::delete(&maps, "a").await;
    has_value(world, space.name(), "a", "v", "v2").await;

    // Rolled back: spec.template is not installed again, and repairs use no foreign Bundle.
    change(world, &name, json!({"spec": {"rollback": "OnFailure"}})).await;
    wait_reason(world, &name, "Installed", "RolledBack").await;
    has_value(world, space.name(), "a", "v", "v1").await;
    replace_installed(world, &name, &squatter).await;
    support::delete(&maps, "a").await;
    let reported = says(world, &name, "Installed", &["was replaced"]).await;
    assert_eq!(line(&reported, "Installed"), "True InstalledBundleReplaced");

    upgrade(world, &name, "v3", &version("v3", "works")).await;
    has_value(world, space.name(), "a", "v", "v3").await;
    world.wait_instance(&name, "Healthy", "True").await;
    wait_reason(world, &name, "Installed", "InstallationSucceeded").await;
    observer.finish().await;
    delete(world, &name).await;
}
