//! Definitions that another version of the bundle does not bring any more.

use super::*;

impl Scene {
    /// Takes the definition out of the bundle.
    async fn leave(&self) {
        upgrade(self.world, &self.name, "v2", &[self.operator()]).await;
    }

    /// Waits until the instance has nothing but its workload.
    async fn has_left(&self) -> BundleInstance {
        support::wait_for(
            self.world.api(),
            &self.name,
            "settled without its definition",
            |it: &BundleInstance| {
                let status = it.status.as_ref()?;
                let settled = condition(&status.conditions, "Progressing")?.status == "False";
                (settled && status.inventory.as_ref()?.count == 1).then_some(())
            },
        )
        .await
    }
}

#[tokio::test]
async fn a_definition_that_leaves_goes_when_nobody_uses_it() {
    let scene = Scene::new("leaves", CrdDeletionPolicy::DeleteIfUnused).await;
    scene.leave().await;
    support::gone(scene.definitions(), &scene.definition()).await;
    let settled = scene.has_left().await;
    assert_eq!(settled.status.unwrap().released, [""; 0]);
    delete(scene.world, &scene.name).await;
}

#[tokio::test]
async fn a_definition_that_leaves_stays_while_it_is_used_or_to_be_retained() {
    for (policy, why) in [
        (
            CrdDeletionPolicy::DeleteIfUnused,
            "1 custom resource is left",
        ),
        // The policy is for the removal of the instance: no upgrade deletes custom resources.
        (CrdDeletionPolicy::Delete, "1 custom resource is left"),
        (
            CrdDeletionPolicy::Retain,
            "is kept by spec.crdDeletionPolicy Retain",
        ),
    ] {
        let scene = Scene::new("stays", policy).await;
        scene.widget("v1", "precious", &[]).await;
        scene.leave().await;
        let settled = scene.has_left().await;
        let released = settled.status.unwrap().released;
        let [told] = released.as_slice() else {
            panic!("{released:?}");
        };
        assert!(told.contains(&scene.definition()), "{told}");
        assert!(told.contains(why), "{told}");
        scene.widgets("v1").get("precious").await.unwrap();
        // Nobody's any more: the removal of the instance is no removal of it.
        scene.set_policy("Delete").await;
        delete(scene.world, &scene.name).await;
        scene.widgets("v1").get("precious").await.unwrap();
        scene.is_kept().await;
    }
}
