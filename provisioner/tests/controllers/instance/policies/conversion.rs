//! Definitions of two versions, whose custom resources nobody can convert.

use super::*;

/// A definition whose conversion webhook does not exist.
fn definition(group: &str, stored: &str) -> Value {
    let mut definition = super::definition(group, true);
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
    /// With a custom resource in a version that is not stored any more.
    async fn old_version(prefix: &str, policy: CrdDeletionPolicy) -> Self {
        let scene = Self::prepare(prefix).await;
        let group = scene.group();
        scene
            .install(policy, definition(&group, "v1"), |spec| {
                // Whether the new version is safe cannot be told for the same reason.
                let off = json!({"crdUpgradeSafety": "Off"});
                spec.preflight = Some(serde_json::from_value(off).unwrap());
            })
            .await;
        scene.widget("v1", "old", &[]).await;
        let objects = [definition(&group, "v2"), scene.operator()];
        upgrade(scene.world, &scene.name, "v2", &objects).await;
        support::wait_for(scene.definitions(), &scene.definition(), "stored", |it| {
            let stored = it.spec.versions.iter().find(|version| version.storage)?;
            (stored.name == "v2").then_some(())
        })
        .await;
        scene
    }

    /// Makes the custom resources readable, so that the definition can go.
    async fn repair(&self) {
        let patch = json!({"spec": {"conversion": {"strategy": "None", "webhook": null}}});
        meddle(&self.definitions(), &self.definition(), patch).await;
    }
}

#[tokio::test]
async fn what_is_stored_in_the_current_version_needs_no_conversion() {
    let scene = Scene::prepare("stored").await;
    let definition = definition(&scene.group(), "v2");
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
async fn custom_resources_that_cannot_be_read_keep_their_definition() {
    let policy = CrdDeletionPolicy::DeleteIfUnused;
    let scene = Scene::old_version("unreadable", policy).await;
    delete(scene.world, &scene.name).await;
    scene.is_gone().await;
    let parts = [
        "custom resources are left but cannot be read",
        "conversion webhook for ",
        "repair the conversion webhook",
    ];
    has_parts(&scene.released().await, &parts);
    scene.repair().await;
    scene.is_kept().await;
}

#[tokio::test]
async fn custom_resources_that_cannot_be_deleted_are_waited_for_with_the_remedy() {
    let scene = Scene::old_version("undeletable", CrdDeletionPolicy::Delete).await;
    scene.ask().await;
    let parts = [
        &scene.definition(),
        "make sure that the conversion webhook of its CRD is running",
        "set spec.crdDeletionPolicy to Retain",
    ];
    has_parts(&scene.says("conversion webhook").await, &parts);
    // Whoever might convert them is still there.
    let operators = deployments(scene.world, scene.space.name());
    assert!(operators.get_opt("operator").await.unwrap().is_some());
    scene.set_policy("Retain").await;
    scene.is_gone().await;
    scene.repair().await;
    scene.is_kept().await;
}
