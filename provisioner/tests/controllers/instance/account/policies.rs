//! The admission policies of the install file, beside the provisioner and the garbage collector.

use super::*;

/// Waits until a Bundle of an instance does not exist.
async fn no_bundles(world: &World, name: &str) {
    support::eventually("no Bundle is left", async || {
        let left = bundles(world, name).await;
        left.is_empty()
            .then_some(())
            .ok_or_else(|| format!("{left:?}"))
    })
    .await;
}

#[tokio::test]
async fn the_policies_allow_upkeep_and_deny_squatting() {
    let world = modest().await;
    for cascade in ["orphan", "background", "foreground"] {
        let name = unique("upkeep");
        let space = world.cluster.temp_namespace("upkeep").await.unwrap();
        let installer = account(world, space.name()).await;
        trust(world, space.name()).await;
        let objects = [map(space.name(), "a", &[("v", "1")])];
        install(world, &name, &installer, &objects).await;
        grant(world, &name).await;
        world.wait_instance(&name, "Healthy", "True").await;

        let bundle = bundles(world, &name).await.remove(0);
        let squatter = squatting::squatter(world, &name).await;
        let said = squatter
            .delete(&bundle.name_any(), &DeleteParams::default())
            .await;
        let said = said.unwrap_err().to_string();
        assert!(said.contains("bundle-deletion"), "{said}");
        let mut copy = Bundle::new(&format!("{name}-copy"), bundle.spec.clone());
        copy.metadata.labels = bundle.metadata.labels.clone();
        copy.metadata.owner_references = bundle.metadata.owner_references.clone();
        let said = squatter.create(&PostParams::default(), &copy).await;
        let said = said.unwrap_err().to_string();
        assert!(said.contains("bundle-ownership"), "{said}");

        upgrade(world, &name, "v2", &[map(space.name(), "a", &[("v", "2")])]).await;
        has_value(world, space.name(), "a", "v", "2").await;
        world.wait_instance(&name, "Healthy", "True").await;
        let cascade_flag = format!("--cascade={cascade}");
        let arguments = ["delete", "bundleinstance", &name, &cascade_flag];
        kubectl(world.cluster, &arguments, "").await.unwrap();
        support::gone::<BundleInstance>(world.api(), &name).await;
        no_bundles(world, &name).await;
        let left = maps(world, space.name()).get_opt("a").await.unwrap();
        assert_eq!(left.is_some(), cascade == "orphan", "{cascade}: {left:?}");
    }
}
