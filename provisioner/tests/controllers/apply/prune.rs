//! Pruning.

use apply::{
    plan::DefinitionPolicy::{self, Delete, DeleteIfUnused},
    ssa::PruneReport,
};

use super::*;
use crate::support::create;

impl Scene {
    async fn prune(&self, inventory: &Inventory, policy: DefinitionPolicy) -> PruneReport {
        let plan = self.plan(&[], inventory).await;
        let apply = self.apply(&self.client);
        apply.prune(&plan.leaving, &self.owner, policy).await
    }

    /// Creates a Widget that is not in any bundle.
    async fn create_widget(&self, name: &str, metadata: Value) {
        let mut widget = self.widget(name);
        for (field, value) in metadata.as_object().unwrap() {
            widget["metadata"][field] = value.clone();
        }
        create(&self.widgets(), &serde_json::from_value(widget).unwrap()).await;
    }

    /// Removes the finalizers of a Widget, as its operator does.
    async fn finalize_widget(&self, name: &str) {
        let finalized = json!({"metadata": {"finalizers": null}});
        merge(&self.widgets(), name, &finalized).await;
    }
}

#[tokio::test]
async fn only_owned_objects_are_deleted() {
    let scene = Scene::new("prune").await;
    let texts = ["deleted", "missing", "given-away", "held", "kept"];
    let objects = texts.map(|name| scene.text(name, "text"));
    let inventory = scene.install(&objects).await;
    let api: Api<ConfigMap> = scene.namespaced();
    delete(&api, "missing").await;
    for (name, metadata) in tests::rows![
        "given-away" => json!({"labels": {labels::OWNER_NAME: "another"}});
        "kept" => json!({"annotations": {labels::KEEP: "true"}});
        "held" => json!({"finalizers": ["example.com/hold"]});
    ] {
        merge(&api, name, &json!({"metadata": metadata})).await;
    }

    let pruned = scene.prune(&inventory, DeleteIfUnused).await;
    assert_eq!(pruned.failed, []);
    assert_eq!(names(&pruned.terminating), ["held"]);
    let held = &pruned.waiting_for[&pruned.terminating[0]];
    assert_has(held, "example.com/hold");
    let mut deleted = names(&pruned.deleted);
    deleted.sort_unstable();
    assert_eq!(deleted, ["deleted", "missing"]);
    tests::assert_rows!(names(pruned.released.keys()) => ["given-away", "kept"]);

    tests::assert_rows!(api.get("given-away").await.unwrap().labels()[labels::OWNER_NAME] => "another");
    let kept = api.get("kept").await.unwrap();
    assert!(kept.owner_references().is_empty());
    assert!(!kept.labels().contains_key(labels::OWNER_NAME));
    assert_eq!(kept.annotations()[labels::ADOPT], scene.owner.name);
    assert_eq!(kept.data.unwrap()["text"], "text");
    assert_eq!(api.get_opt("deleted").await.unwrap(), None);

    // Reconciled again, and once more after the deletion.
    tests::assert_rows!(names(&scene.prune(&inventory, DeleteIfUnused).await.terminating) => ["held"]);
    merge(&api, "held", &json!({"metadata": {"finalizers": null}})).await;
    wait_deleted(api, "held").await;
    tests::assert_rows!(scene.prune(&inventory, DeleteIfUnused).await.terminating => []);
    scene.end().await;
}

/// The operator is kept until its custom resources are finalized.
async fn operator_finalizes_its_custom_resources(scene: &Scene) {
    let inventory = scene.install(&[scene.crd(), deployment("operator")]).await;
    let finalizers = json!({"finalizers": ["example.com/operator"]});
    scene.create_widget("held", finalizers).await;
    for _ in 0..2 {
        let pruned = scene.prune(&inventory, Delete).await;
        assert_eq!(names(&pruned.terminating), [scene.crd_name()]);
        let expected = format!(
            "1 custom resource is being deleted ({}/held [finalizers: example.com/operator]); make sure that the \
             controllers of their finalizers run, or remove the finalizers; or set spec.crdDeletionPolicy to Retain to \
             keep the CRD with its custom resources",
            scene.namespace
        );
        assert_eq!(pruned.waiting_for[&pruned.terminating[0]], expected);
        assert_eq!(pruned.deleted, []);
    }
    scene.finalize_widget("held").await;
    let pruned = scene.prune(&inventory, Delete).await;
    tests::assert_rows!(names(&pruned.deleted) => [scene.crd_name(), "operator".to_owned()], "{pruned:?}");
}

/// The operator finalizes the other custom resources before the CRD is kept for an annotated one. A custom resource that
/// its user has deleted is finalized, too.
async fn operator_finalizes_before_the_crd_is_released(scene: &Scene) {
    let keep = json!({"annotations": {labels::KEEP: "true"}});
    let finalizers = json!({"finalizers": ["example.com/operator"]});
    let both = json!({"annotations": keep["annotations"], "finalizers": finalizers["finalizers"]});
    for (policy, finalized, is_deleted) in [
        (Delete, &finalizers, false),
        (Delete, &both, true),
        (DeleteIfUnused, &finalizers, true),
    ] {
        let inventory = scene.install(&[scene.crd(), deployment("operator")]).await;
        scene.create_widget("retained", keep.clone()).await;
        scene.create_widget("finalized", finalized.clone()).await;
        if is_deleted {
            delete(&scene.widgets(), "finalized").await;
        }
        let pruned = scene.prune(&inventory, policy).await;
        assert_eq!(names(&pruned.terminating), [scene.crd_name()], "{pruned:?}");
        assert_eq!(pruned.deleted, []);
        scene.finalize_widget("finalized").await;
        let pruned = scene.prune(&inventory, policy).await;
        tests::assert_rows!(names(pruned.released.keys()) => [scene.crd_name()], "{pruned:?}");
        assert_eq!(names(&pruned.deleted), ["operator"]);
        delete(&scene.widgets(), "retained").await;
    }
}

// parity: platform-19, g4
#[tokio::test]
async fn crds_are_pruned_by_policy_and_use() {
    let scene = Scene::new("policy").await;
    operator_finalizes_its_custom_resources(&scene).await;
    operator_finalizes_before_the_crd_is_released(&scene).await;

    // A used CRD is released at once if its operator was pruned before, as in uninstalls.
    let inventory = scene.install(&[scene.crd()]).await;
    scene.create_widget("used", json!({})).await;
    let finalizers = json!({"finalizers": ["example.com/operator"]});
    scene.create_widget("finalized", finalizers).await;
    delete(&scene.widgets(), "finalized").await;
    let pruned = scene.prune(&inventory, DeleteIfUnused).await;
    tests::assert_rows!(names(pruned.released.keys()) => [scene.crd_name()], "{pruned:?}");
    scene.finalize_widget("finalized").await;
    delete(&scene.widgets(), "used").await;

    // A CRD is kept with the custom resources that an annotation keeps.
    let inventory = scene.install(&[scene.crd()]).await;
    scene.create_widget("unmarked", json!({})).await;
    let keep = json!({"annotations": {labels::KEEP: "true"}});
    scene.create_widget("marked", keep).await;
    let pruned = scene.prune(&inventory, Delete).await;
    assert_eq!(pruned.released.len(), 1, "{pruned:?}");
    tests::assert_rows!(list(&scene.widgets()).await.iter().map(ResourceExt::name_any).collect::<Vec<_>>() => ["marked"]);
    delete(&scene.crds(), &scene.crd_name()).await;
    scene.end().await;
}
