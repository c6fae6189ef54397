//! CRDs that the next version of the bundle does not contain.

use super::*;

impl Scene {
    /// Removes the CRD from the bundle.
    async fn leave(&self) {
        upgrade(self.world, &self.name, "v2", &[self.operator()]).await;
    }

    /// Adds the CRD to the bundle again, and removes it once the CRD has no custom resources.
    async fn leave_unused(&self) {
        let crd = support::crd(&self.group(), "Widget");
        let objects = [crd, self.operator()];
        upgrade(self.world, &self.name, "v3", &objects).await;
        support::wait_for(self.crds(), &self.crd(), "owned", |owned| {
            (owned.labels().get(labels::OWNER_NAME)? == &self.name).then_some(())
        })
        .await;
        support::delete(&self.widgets("v1"), "precious").await;
        upgrade(self.world, &self.name, "v4", &[self.operator()]).await;
        support::wait_deleted(self.crds(), &self.crd()).await;
        let settled = self.has_left().await;
        assert_eq!(settled.status.unwrap().released, [""; 0]);
        delete(self.world, &self.name).await;
    }

    /// Waits until the inventory of the instance contains only the workload.
    async fn has_left(&self) -> BundleInstance {
        becomes(self.world, &self.name, "settled without it", |status| {
            let settled = condition(&status.conditions, "Progressing")?.status == "False";
            (settled && status.inventory.as_ref()?.count == 1).then_some(())
        })
        .await
    }
}

#[tokio::test]
async fn crds_that_leave_a_bundle_are_pruned_if_unused() {
    for (policy, why) in tests::rows![
        CrdDeletionPolicy::DeleteIfUnused => "1 custom resource is left";
        // The policy applies to the uninstall: no upgrade deletes custom resources.
        CrdDeletionPolicy::Delete => "1 custom resource is left";
        CrdDeletionPolicy::Retain => "is kept by spec.crdDeletionPolicy Retain";
    ] {
        let scene = Scene::new("stays", policy).await;
        scene.widget("v1", "precious", &[]).await;
        scene.leave().await;
        let settled = scene.has_left().await;
        let released = settled.status.unwrap().released;
        assert_eq!(released.len(), 1, "{released:?}");
        has_parts(&released[0], &[&scene.crd(), why]);
        let precious = scene.widgets("v1").get("precious").await.unwrap();
        assert_eq!(precious.metadata.deletion_timestamp, None);
        let crd = scene.crds().get(&scene.crd()).await.unwrap();
        assert_eq!(crd.metadata.deletion_timestamp, None);
        if policy == CrdDeletionPolicy::DeleteIfUnused {
            scene.leave_unused().await;
            continue;
        }
        // The CRD is released: it outlives the instance.
        scene.set_policy("Delete").await;
        delete(scene.world, &scene.name).await;
        scene.widgets("v1").get("precious").await.unwrap();
        scene.is_kept().await;
    }
}
