//! Bundles are replaced that are applied and not healthy, and after a rollback.

use super::*;

/// Waits until the Deployment is reported, which does not become available.
async fn is_unhealthy(world: &World, name: &str) {
    support::wait_for(world.api(), name, "unhealthy", |it: &BundleInstance| {
        let healthy = condition(&it.status.as_ref()?.conditions, "Healthy")?;
        healthy.message.contains("/web)").then_some(())
    })
    .await;
}

/// Replaces the installed Bundle, and waits until the foreign content is unpacked. Returns the record of the Bundle.
async fn replace_installed(world: &World, name: &str, squatter: &Squatter) -> InstalledBundle {
    let recorded = installed_is_recorded(world, name).await;
    let all = bundles(world, name).await;
    let installed = all.iter().find(|bundle| recorded.is(bundle)).unwrap();
    let foreign = squatter.replace(installed).await.unwrap();
    support::eventually("foreign content is unpacked, or deleted", async || {
        let api: Api<Bundle> = world.api();
        let found = api.get_opt(&foreign.name_any()).await.unwrap();
        let is_pending = found.filter(|found| {
            let status = found.status.as_ref();
            found.uid() == foreign.uid()
                && status.is_none_or(|status| status.content_digest.is_none())
        });
        is_pending.map_or(Ok(()), |found| Err(format!("{found:?}")))
    })
    .await;
    recorded
}

#[tokio::test]
async fn unhealthy_and_rolled_back_bundles_are_not_replaced() {
    let world = running().await;
    world.cluster.stand_in_node().await.unwrap();
    let Scene {
        name,
        space,
        squatter,
        observer,
        ..
    } = Scene::with(world, "unwell", |space| web(space, "v1", "works")).await;
    let version = |version: &str, fate| web(space.name(), version, fate);
    let delete_a = async || {
        let api = maps(world, space.name());
        api.delete("a", &DeleteParams::default()).await.unwrap();
    };

    // Applied, and not healthy.
    upgrade(world, &name, "v2", &version("v2", "fails")).await;
    has_value(world, space.name(), "a", "v", "v2").await;
    is_unhealthy(world, &name).await;
    let replaced = replace_installed(world, &name, &squatter).await;
    let again = installed_is_recorded(world, &name).await;
    assert_ne!(again.uid, replaced.uid);
    assert_eq!(again.content_digest, replaced.content_digest);
    delete_a().await;
    has_value(world, space.name(), "a", "v", "v2").await;

    // Rolled back: spec.template is not installed again, and nothing is repaired from a foreign Bundle.
    change(world, &name, json!({"spec": {"rollback": "OnFailure"}})).await;
    wait_reason(world, &name, "Installed", "RolledBack").await;
    has_value(world, space.name(), "a", "v", "v1").await;
    replace_installed(world, &name, &squatter).await;
    delete_a().await;
    let reported = support::wait_for(world.api(), &name, "replaced", |it: &BundleInstance| {
        let installed = condition(&it.status.as_ref()?.conditions, "Installed")?;
        installed.message.contains("was replaced").then_some(())
    })
    .await;
    assert_eq!(line(&reported, "Installed"), "True InstalledBundleReplaced");

    upgrade(world, &name, "v3", &version("v3", "works")).await;
    has_value(world, space.name(), "a", "v", "v3").await;
    world.wait_instance(&name, "Healthy", "True").await;
    wait_reason(world, &name, "Installed", "InstallationSucceeded").await;
    observer.finish().await;
    delete(world, &name).await;
}
