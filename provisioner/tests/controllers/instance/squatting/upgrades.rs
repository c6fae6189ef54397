//! Bundles that are replaced during upgrades.

use kube::runtime::WatchStreamExt as _;

use super::*;

/// Upgrades an instance to versions 3 and 4, and calls a function that replaces its Bundles at three moments.
pub(super) async fn replaced_bundles_are_not_installed(
    world: &World,
    name: &str,
    namespace: &str,
    mut replace: impl AsyncFnMut(),
) {
    // Recorded, and not unpacked.
    point_at(world, name, &stored_in(name)).await;
    wait_reason(world, name, "HasValidBundle", "UnpackFailed").await;
    replace().await;
    store(world, name, &[a(namespace, "3")]).await;
    has_value(world, namespace, "a", "v", "3").await;
    installed_is_recorded(world, name).await;

    // Unpacked, and not applied: a namespace is missing.
    let missing = format!("{name}-later");
    let objects = [a(namespace, "4"), map(&missing, "b", &[])];
    upgrade(world, name, "v4", &objects).await;
    wait_reason(world, name, "Installed", "UpgradeFailed").await;
    replace().await;
    world.apply(&support::namespace_object(&missing)).await;
    let before = is_installed(world, name, namespace, "4").await;

    // Installed.
    replace().await;
    support::delete(&maps(world, namespace), "a").await;
    has_value(world, namespace, "a", "v", "4").await;
    let after = installed_is_recorded(world, name).await;
    assert_ne!(before.uid, after.uid);
    assert_eq!(before.content_digest, after.content_digest);
}

// parity: rukpak-11
#[tokio::test]
async fn foreign_content_is_never_applied_during_an_upgrade() {
    let world = running().await;
    let (name, space, squatter, observer) = squatted(world, "moments", only_a).await;
    let a = |version: &str| a(space.name(), version);

    // The name is taken before the Bundle of the template is created. A paused instance deletes no Bundles.
    squatter.replace_all().await;
    change(world, &name, json!({"spec": {"paused": true}})).await;
    wait_reason(world, &name, "Progressing", "Paused").await;
    let source = publish(world, &format!("{name}:v2"), &[a("2")]).await;
    let taken = squatter.take_name(&source).await;
    support::unpacked(&world.api(), &taken.name_any()).await;
    point_at(world, &name, &source).await;
    change(world, &name, json!({"spec": {"paused": false}})).await;
    has_value(world, space.name(), "a", "v", "2").await;
    let recorded = installed_is_recorded(world, &name).await;
    // The name is free again if the provisioner has deleted the Bundle because the instance had too many.
    assert_ne!(Some(recorded.uid), taken.uid());

    let replace = async || squatter.replace_all().await;
    replaced_bundles_are_not_installed(world, &name, space.name(), replace).await;

    // Applied in part: the API server rejects an object of a new kind.
    let group = format!("{name}.example.com");
    let refused = widget(&group, space.name(), "bad", "large");
    let objects = [support::crd(&group, "Widget"), a("5"), refused];
    upgrade(world, &name, "v5", &objects).await;
    has_value(world, space.name(), "a", "v", "5").await;
    wait_reason(world, &name, "Installed", "UpgradeFailed").await;
    squatter.replace_all().await;
    let retry = json!({"metadata": {"annotations": {"core.rukpak.io/retry": "now"}}});
    change(world, &name, retry).await;
    let is_own = |bundle: &&Bundle| bundle.spec.source != squatter.content;
    let is_again = |all: &Vec<Bundle>| all.iter().filter(is_own).any(is_unpacked);
    bundles_become(world, &name, "unpacked again", is_again).await;

    upgrade(world, &name, "v6", &[a("6")]).await;
    is_installed(world, &name, space.name(), "6").await;
    let versions = ["a=2", "a=3", "a=4", "a=5", "a=6"];
    observer.finish(&versions).await;
    world.uninstall(&name).await;
    delete_stored(world, &name).await;
}

/// The number of Bundles that the restless squatter creates during each upgrade.
const REPLACEMENTS: usize = 15;

/// Replaces every Bundle of an instance on each of its events, until the limit is reached.
async fn replace_restlessly(squatter: &Squatter<'_>) {
    let owner = format!("{}={}", labels::OWNER_NAME, squatter.name);
    let config = watcher::Config::default().labels(&owner);
    let bundles = watcher(squatter.world.api::<Bundle>(), config);
    let mut bundles = bundles.applied_objects().boxed();
    let mut replaced = 0;
    while replaced < REPLACEMENTS {
        if let Some(Ok(bundle)) = bundles.next().await
            && bundle.spec.source != squatter.content
            && squatter.replace(&bundle).await.is_some()
        {
            replaced += 1;
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
        futures::join!(replace_restlessly(&squatter), upgrading);
    }
    // Finally the remaining Bundles of the squatter are removed, and the template is installed.
    upgrade(world, &name, "v5", &[a("5")]).await;
    is_installed(world, &name, space.name(), "5").await;
    observer.finish(&[]).await;
    world.uninstall(&name).await;
}
