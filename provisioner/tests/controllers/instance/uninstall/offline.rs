//! Uninstalls that began while no provisioner was running.

use super::*;
use crate::catalogs::api_errors::{allow, deny_unless};

const RESOURCE: (&str, &str) = ("core.rukpak.io", "bundleinstances");

async fn installed(world: &World, prefix: &str) -> String {
    let name = unique(prefix);
    world.apply(&support::namespace_object(&name)).await;
    let crd = support::crd(&format!("{name}.example.com"), "Widget");
    let objects = [map(&name, "held", &[]), map(&name, "free", &[]), crd];
    install(world, &name, &objects).await;
    name
}

#[tokio::test]
async fn instances_deleted_during_an_outage_are_removed_or_orphaned() {
    let cluster = support::with_controllers().await;
    let world = World::bare(cluster.cluster());
    let instances: Api<BundleInstance> = world.api();
    let first = Provisioner::start(&cluster, Options::default()).await;
    let orphaned = installed(&world, "orphaned").await;
    let deleted = installed(&world, "deleted").await;
    first.kill().await;
    let held_maps = maps(&world, &deleted);
    let crd_of = |name: &str| format!("widgets.{name}.example.com");

    // A later deletion may orphan the objects of an instance that is terminating already (docs/provisioner-upgrade.md).
    let params = DeleteParams::default();
    instances.delete(&orphaned, &params).await.unwrap();
    instances.delete(&orphaned, &orphaning()).await.unwrap();
    let is_released =
        |found: &BundleInstance| (found.finalizers() == [labels::UNINSTALL]).then_some(());
    let description = "released by the garbage collector";
    wait_for(instances.clone(), &orphaned, description, is_released).await;
    let hold = json!({"metadata": {"finalizers": ["example.com/rival"]}});
    patch_as_other(&held_maps, "held", hold).await;
    instances.delete(&deleted, &params).await.unwrap();
    // The provisioner would repair both ConfigMaps of an instance that is not deleted.
    held_maps.delete("free", &params).await.unwrap();
    tests::assert_rows!(instances.get(&deleted).await.unwrap().metadata.deletion_timestamp.is_some() => true);

    // The second process starts both uninstalls, and is killed before they complete.
    let expression = format!(
        "object.metadata.name != '{orphaned}' || '{}' in object.metadata.?finalizers.orValue([])",
        labels::UNINSTALL
    );
    let dry_run = tests::with!(PatchParams, dry_run: true);
    let removal = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    let attempt = async || instances.patch(&orphaned, &dry_run, &removal).await;
    deny_unless(&expression, &cluster, "UPDATE", RESOURCE, attempt).await;
    let second = Provisioner::start(&cluster, Options::default()).await;
    wait_message(&world, &deleted, "Progressing", &["example.com/rival"]).await;
    assert_eq!(held_maps.get_opt("free").await.unwrap(), None);
    // Lists by name, because orphaning removes the labels.
    let left = async || {
        let mut all = support::list(&world.api::<Bundle>()).await;
        all.retain(|bundle| bundle.name_any().starts_with(&orphaned));
        all
    };
    support::until("no Bundle of the orphaned instance", left, Vec::is_empty).await;
    second.kill().await;
    allow(&cluster, RESOURCE.1).await;
    finalize(&held_maps, "held").await;

    let _third = Provisioner::start(&cluster, Options::default()).await;
    wait_deleted(instances.clone(), &deleted).await;
    wait_deleted(held_maps.clone(), "held").await;
    assert_eq!(held_maps.get_opt("free").await.unwrap(), None);
    let crds: Api<CustomResourceDefinition> = world.api();
    wait_deleted(crds.clone(), &crd_of(&deleted)).await;

    wait_deleted(instances.clone(), &orphaned).await;
    for name in ["held", "free"] {
        let left = maps(&world, &orphaned).get(name).await.unwrap();
        assert_eq!(left.metadata.owner_references, None);
        assert_eq!(left.metadata.deletion_timestamp, None);
    }
    tests::assert_rows!(crds.get(&crd_of(&orphaned)).await.unwrap().metadata.deletion_timestamp => None);
    let left = async || support::list(&world.api::<Bundle>()).await;
    support::until("no Bundle", left, Vec::is_empty).await;
}
