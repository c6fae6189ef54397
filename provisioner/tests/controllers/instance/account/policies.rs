//! The admission policies of the install file, next to the provisioner and the garbage collector.

use kube::api::{DeleteParams, PostParams};

use super::*;

#[tokio::test]
async fn policies_permit_garbage_collection_and_deny_squatting() {
    let world = modest().await;
    for cascade in ["orphan", "background", "foreground"] {
        let (name, space) = fresh(world, "upkeep").await;
        let installer = installer(world, space.name()).await;
        let objects = [map(space.name(), "a", &[("v", "1")])];
        install(world, &name, &installer, &objects).await;
        grant(world, &name).await;
        world.wait_instance(&name, "Healthy", "True").await;

        let bundle = bundles(world, &name).await.remove(0);
        let squatter = squatting::squatter(world, &name).await;
        let (bundle_name, params) = (bundle.name_any(), DeleteParams::default());
        let deleted = squatter.delete(&bundle_name, &params).await;
        assert_has(deleted.unwrap_err(), "bundle-deletion");
        let mut copy = Bundle::new(&format!("{name}-copy"), bundle.spec.clone());
        copy.metadata.labels = bundle.metadata.labels.clone();
        copy.metadata.owner_references = bundle.metadata.owner_references.clone();
        let created = squatter.create(&PostParams::default(), &copy).await;
        assert_has(created.unwrap_err(), "bundle-ownership");

        upgrade(world, &name, "v2", &[map(space.name(), "a", &[("v", "2")])]).await;
        has_value(world, space.name(), "a", "v", "2").await;
        world.wait_instance(&name, "Healthy", "True").await;
        let deletion = format!("delete bundleinstance {name} --cascade={cascade}");
        kubectl(world.cluster, &deletion, "").await;
        support::wait_deleted::<BundleInstance>(world.api(), &name).await;
        no_bundles(world, &name).await;
        let left = maps(world, space.name()).get_opt("a").await.unwrap();
        assert_eq!(left.is_some(), cascade == "orphan", "{cascade}: {left:?}");
    }
}
