//! CRDs with two versions whose custom resources cannot be converted.

use super::*;

/// Returns a CRD whose conversion webhook does not exist.
fn crd(group: &str, stored: &str) -> Value {
    let mut definition = super::crd(group, true);
    for version in definition["spec"]["versions"].as_array_mut().unwrap() {
        version["storage"] = (version["name"] == stored).into();
    }
    definition["spec"]["conversion"] = json!({
        "strategy": "Webhook",
        "webhook": {
            "conversionReviewVersions": ["v1"],
            "clientConfig": {"service": {"namespace": "default", "name": "nowhere", "path": "/convert"}},
        },
    });
    definition
}

impl Scene {
    /// Returns a scene with a custom resource in a version that is no longer the storage version.
    async fn old_version(prefix: &str, policy: CrdDeletionPolicy) -> Self {
        let scene = Self::prepare(prefix).await;
        let group = scene.group();
        scene
            .install(policy, crd(&group, "v1"), |spec| {
                // The upgrade safety check cannot read the custom resources either.
                let off = json!({"crdUpgradeSafety": "Off"});
                spec.preflight = Some(serde_json::from_value(off).unwrap());
            })
            .await;
        scene.widget("v1", "old", &[]).await;
        let objects = [crd(&group, "v2"), scene.operator()];
        upgrade(scene.world, &scene.name, "v2", &objects).await;
        support::wait_for(scene.crds(), &scene.crd(), "stored", |crd| {
            let stored = crd.spec.versions.iter().find(|version| version.storage)?;
            (stored.name == "v2").then_some(())
        })
        .await;
        scene
    }

    /// Makes the custom resources readable, so that the CRD can be deleted.
    async fn repair(&self) {
        let patch = json!({"spec": {"conversion": {"strategy": "None", "webhook": null}}});
        patch_as_other(&self.crds(), &self.crd(), patch).await;
    }
}

#[tokio::test]
async fn current_storage_version_needs_no_conversion() {
    let scene = Scene::prepare("stored").await;
    let definition = crd(&scene.group(), "v2");
    scene
        .install(CrdDeletionPolicy::DeleteIfUnused, definition, |_| {})
        .await;
    scene.widget("v2", "new", &[]).await;
    delete(scene.world, &scene.name).await;
    assert_has(scene.released().await, "1 custom resource is left");
    scene.repair().await;
    scene.is_kept().await;
}

#[tokio::test]
async fn unreadable_custom_resources_keep_their_crd() {
    let policy = CrdDeletionPolicy::DeleteIfUnused;
    let scene = Scene::old_version("unreadable", policy).await;
    delete(scene.world, &scene.name).await;
    scene.is_gone().await;
    let parts = [
        "failed to read the remaining custom resources",
        "conversion webhook for ",
        "repair the conversion webhook",
    ];
    has_parts(&scene.released().await, &parts);
    scene.repair().await;
    scene.is_kept().await;
}

#[tokio::test]
async fn undeletable_custom_resources_are_reported_with_the_remedy() {
    let scene = Scene::old_version("undeletable", CrdDeletionPolicy::Delete).await;
    scene.request_deletion().await;
    let parts = [
        &scene.crd(),
        "make sure that the conversion webhook of its CRD is running",
        "set spec.crdDeletionPolicy to Retain",
    ];
    has_parts(&scene.says("conversion webhook").await, &parts);
    // The operator that could convert them still exists.
    let operators = deployments(scene.world, scene.space.name());
    assert!(operators.get_opt("operator").await.unwrap().is_some());
    scene.set_policy("Retain").await;
    scene.is_gone().await;
    scene.repair().await;
    scene.is_kept().await;
}
