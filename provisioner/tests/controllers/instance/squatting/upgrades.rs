//! Bundles that are replaced during upgrades.

use super::*;

// parity: rukpak-11
#[tokio::test]
async fn foreign_content_is_never_applied_during_an_upgrade() {
    let world = running().await;
    let (name, space, squatter, observer) = squatted(world, "moments", only_a).await;
    let a = |version: &str| a(space.name(), version);

    // The name is taken before the Bundle of the template is created. A paused instance deletes no Bundles.
    squatter.replace_all(world, &name).await;
    change(world, &name, json!({"spec": {"paused": true}})).await;
    wait_reason(world, &name, "Progressing", "Paused").await;
    let source = publish(world, &format!("{name}:v2"), &[a("2")]).await;
    let taken = squatter.take_name(world, &name, &source).await;
    world
        .wait_bundle(&taken.name_any(), "Unpacked", "True")
        .await;
    point_at(world, &name, &source).await;
    change(world, &name, json!({"spec": {"paused": false}})).await;
    has_value(world, space.name(), "a", "v", "2").await;
    let recorded = installed_is_recorded(world, &name).await;
    // The name is free again if the provisioner has deleted the Bundle because the instance had too many.
    assert_ne!(Some(recorded.uid), taken.uid());

    // Created, and not unpacked.
    point_at(world, &name, &stored_in(&name)).await;
    wait_reason(world, &name, "HasValidBundle", "UnpackFailed").await;
    squatter.replace_all(world, &name).await;
    store(world, &name, &[a("3")]).await;
    has_value(world, space.name(), "a", "v", "3").await;
    installed_is_recorded(world, &name).await;

    // Unpacked, and not applied: a namespace is missing.
    let missing = format!("{name}-later");
    let objects = [a("4"), map(&missing, "b", &[])];
    let source = publish(world, &format!("{name}:v4"), &objects).await;
    point_at(world, &name, &source).await;
    wait_reason(world, &name, "Installed", "UpgradeFailed").await;
    squatter.replace_all(world, &name).await;
    world.apply(&support::namespace_object(&missing)).await;
    has_value(world, space.name(), "a", "v", "4").await;
    wait_reason(world, &name, "Installed", "InstallationSucceeded").await;
    installed_is_recorded(world, &name).await;

    // Applied in part: the API server rejects an object of a new kind.
    let group = format!("{name}.example.com");
    let refused = widget(&group, space.name(), "bad", "large");
    let objects = [support::crd(&group, "Widget"), a("5"), refused];
    upgrade(world, &name, "v5", &objects).await;
    has_value(world, space.name(), "a", "v", "5").await;
    wait_reason(world, &name, "Installed", "UpgradeFailed").await;
    squatter.replace_all(world, &name).await;
    let retry = json!({"metadata": {"annotations": {"core.rukpak.io/retry": "now"}}});
    change(world, &name, retry).await;
    bundles_become(world, &name, "unpacked for the template again", |all| {
        let is_ours = |bundle: &Bundle| {
            let status = bundle.status.as_ref();
            bundle.spec.source != squatter.content
                && status.is_some_and(|status| status.content_digest.is_some())
        };
        all.iter().any(is_ours)
    })
    .await;

    // Applied.
    upgrade(world, &name, "v6", &[a("6")]).await;
    has_value(world, space.name(), "a", "v", "6").await;
    wait_reason(world, &name, "Installed", "InstallationSucceeded").await;
    let before = installed_is_recorded(world, &name).await;
    squatter.replace_all(world, &name).await;
    let after = installed_is_recorded(world, &name).await;
    assert_ne!(before.uid, after.uid);
    assert_eq!(before.content_digest, after.content_digest);
    support::delete(&maps(world, space.name()), "a").await;
    has_value(world, space.name(), "a", "v", "6").await;

    let entries = observer.finish().await;
    for version in ["a=2", "a=3", "a=4", "a=5", "a=6"] {
        assert!(entries.contains(version), "{version} of {entries:?}");
    }
    delete(world, &name).await;
    delete_stored(world, &name).await;
}

/// The number of Bundles that the restless squatter creates during each upgrade.
const REPLACEMENTS: usize = 15;

/// Replaces every Bundle of an instance on each of its events, until the limit is reached.
async fn replace_restlessly(squatter: &Squatter, world: &World, name: &str) {
    let selector = format!("{}={name}", labels::OWNER_NAME);
    let api: Api<Bundle> = world.api();
    let params = WatchParams::default().labels(&selector).timeout(290);
    let mut replaced = 0;
    while replaced < REPLACEMENTS {
        let mut events = api.watch(&params, "0").await.unwrap().boxed();
        while let Some(Ok(event)) = events.next().await {
            if let WatchEvent::Added(bundle) | WatchEvent::Modified(bundle) = event
                && bundle.spec.source != squatter.content
                && squatter.replace(&bundle).await.is_some()
            {
                replaced += 1;
                if replaced == REPLACEMENTS {
                    break;
                }
            }
        }
    }
}

#[tokio::test]
async fn restless_squatter_gets_nothing_installed() {
    let world = running().await;
    let (name, space, squatter, observer) = squatted(world, "restless", only_a).await;
    let a = |version: &str| a(space.name(), version);

    for version in ["2", "3", "4"] {
        let objects = [a(version)];
        let upgrading = upgrade(world, &name, version, &objects);
        futures::join!(replace_restlessly(&squatter, world, &name), upgrading);
    }
    // Finally the remaining Bundles of the squatter are removed, and the template is installed.
    upgrade(world, &name, "v5", &[a("5")]).await;
    has_value(world, space.name(), "a", "v", "5").await;
    wait_reason(world, &name, "Installed", "InstallationSucceeded").await;
    installed_is_recorded(world, &name).await;
    observer.finish().await;
    delete(world, &name).await;
}
