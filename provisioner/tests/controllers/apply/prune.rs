//! Pruning.

use apply::{
    inventory::Inventory,
    plan::DefinitionPolicy::{self, Delete, DeleteIfUnused, Retain},
    ssa::{FailureKind, PruneReport},
};
use k8s_openapi::{
    api::core::v1::{ConfigMap, Namespace},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use manifests::api::labels;
use serde_json::{Value, json};

use super::{Scene, deployment, widget};
use crate::support::{config_map, crd, unique, wait_deleted};

impl Scene {
    async fn prune(&self, inventory: &Inventory, policy: DefinitionPolicy) -> PruneReport {
        let plan = self.plan(&[], inventory).await;
        let apply = self.apply(&self.client);
        apply.prune(&plan.leaving, &self.owner, policy).await
    }

    async fn patch(&self, name: &str, patch: Value) {
        let api: Api<ConfigMap> = self.namespaced();
        api.patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap();
    }
}

fn names<'a>(
    identities: impl IntoIterator<Item = &'a manifests::object::Identity>,
) -> Vec<&'a str> {
    let names = identities.into_iter();
    names.map(|identity| identity.name.as_str()).collect()
}

#[tokio::test]
async fn only_owned_objects_are_deleted() {
    let scene = Scene::new("prune").await;
    let own = unique("kept");
    let inventory = scene
        .install(&[
            scene.text("gone", "text"),
            scene.text("gone-already", "text"),
            scene.text("given-away", "text"),
            scene.text("held", "text"),
            scene.text("kept", "text"),
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": own}}),
        ])
        .await;
    let api: Api<ConfigMap> = scene.namespaced();
    api.delete("gone-already", &DeleteParams::default())
        .await
        .unwrap();
    scene
        .patch(
            "given-away",
            json!({"metadata": {"labels": {labels::OWNER_NAME: "another"}}}),
        )
        .await;
    scene
        .patch(
            "kept",
            json!({"metadata": {"annotations": {labels::KEEP: "true"}}}),
        )
        .await;
    scene
        .patch(
            "held",
            json!({"metadata": {"finalizers": ["example.com/hold"]}}),
        )
        .await;

    let pruned = scene.prune(&inventory, DeleteIfUnused).await;
    assert_eq!(pruned.failed, []);
    assert_eq!(names(&pruned.terminating), ["held"]);
    assert!(pruned.waiting_for[&pruned.terminating[0]].contains("example.com/hold"));
    let mut deleted = names(&pruned.deleted);
    deleted.sort_unstable();
    assert_eq!(deleted, ["gone", "gone-already"]);
    let mut released = names(pruned.released.keys());
    released.sort_unstable();
    let mut expected = ["given-away", "kept", own.as_str()];
    expected.sort_unstable();
    assert_eq!(released, expected);

    let given = api.get("given-away").await.unwrap();
    assert_eq!(given.labels()[labels::OWNER_NAME], "another");
    let config_map = api.get("kept").await.unwrap();
    assert!(config_map.owner_references().is_empty());
    assert!(!config_map.labels().contains_key(labels::OWNER_NAME));
    assert_eq!(config_map.annotations()[labels::ADOPT], scene.owner.name);
    assert_eq!(config_map.data.unwrap()["text"], "text");
    assert_eq!(api.get_opt("gone").await.unwrap(), None);
    let everywhere: Api<Namespace> = Api::all(scene.client.clone());
    let left = everywhere.get(&own).await.unwrap();
    assert!(!left.labels().contains_key(labels::OWNER_NAME));
    assert_eq!(left.metadata.deletion_timestamp, None);

    // Reconciled again, and once more after the deletion.
    assert_eq!(
        names(&scene.prune(&inventory, DeleteIfUnused).await.terminating),
        ["held"]
    );
    scene
        .patch("held", json!({"metadata": {"finalizers": null}}))
        .await;
    wait_deleted(api, "held").await;
    assert!(
        scene
            .prune(&inventory, DeleteIfUnused)
            .await
            .terminating
            .is_empty()
    );
    everywhere
        .delete(&own, &DeleteParams::default())
        .await
        .unwrap();
    scene.end().await;
}

/// Returns the CRD of Widgets in the group of a scene.
fn scene_crd(scene: &Scene) -> (Api<CustomResourceDefinition>, String) {
    let name = format!("widgets.{}.example.com", scene.owner.name);
    (Api::all(scene.client.clone()), name)
}

/// Creates a Widget that is not in any bundle.
async fn create(scene: &Scene, name: &str, metadata: Value) {
    let group = format!("{}.example.com", scene.owner.name);
    let mut widget = widget(&group, name);
    for (field, value) in metadata.as_object().unwrap() {
        widget["metadata"][field] = value.clone();
    }
    let widget = serde_json::from_value(widget).unwrap();
    let widgets = scene.custom(&group, "Widget");
    widgets
        .create(&PostParams::default(), &widget)
        .await
        .unwrap();
}

async fn left(scene: &Scene) -> Vec<String> {
    let group = format!("{}.example.com", scene.owner.name);
    let widgets = scene.custom(&group, "Widget");
    let left = widgets.list(&ListParams::default()).await.unwrap();
    left.iter().map(ResourceExt::name_any).collect()
}

/// A CRD is kept while others use it, and as the policy demands.
async fn policy_decides_about_definitions(scene: &Scene) {
    let group = format!("{}.example.com", scene.owner.name);
    let (crds, name) = scene_crd(scene);
    let theirs = ["a", "b", "c"];
    for (policy, is_used, reason) in [
        (DeleteIfUnused, true, Some("3 custom resources are left")),
        (Retain, false, Some("spec.crdDeletionPolicy Retain")),
        (DeleteIfUnused, false, None),
        (Delete, true, None),
    ] {
        let objects = [
            crd(&group, "Widget"),
            widget(&group, "own"),
            deployment("operator", None),
        ];
        let inventory = scene.install(&objects).await;
        if is_used {
            for name in theirs {
                create(scene, name, json!({})).await;
            }
        }
        let pruned = scene.prune(&inventory, policy).await;
        assert_eq!(
            (&pruned.failed, &pruned.terminating),
            (&vec![], &vec![]),
            "{policy:?}"
        );
        let live = crds.get_opt(&name).await.unwrap();
        let Some(reason) = reason else {
            assert_eq!(live, None, "{policy:?}");
            assert_eq!(pruned.deleted.len(), 3, "{policy:?}");
            continue;
        };
        let live = live.unwrap();
        assert!(!live.labels().contains_key(labels::OWNER_NAME));
        assert!(!live.labels().contains_key(labels::OWNER_KIND));
        assert_eq!(live.metadata.deletion_timestamp, None);
        assert_eq!(names(pruned.released.keys()), [name.as_str()]);
        let line = pruned.released.values().next().unwrap();
        assert!(line.contains(reason), "{line}");
        let expected: &[&str] = if is_used { &theirs } else { &[] };
        assert_eq!(left(scene).await, expected, "{policy:?}");
        let widgets = scene.custom(&group, "Widget");
        for name in expected {
            let params = DeleteParams::default();
            widgets.delete(name, &params).await.unwrap();
        }
    }
}

/// The operator stays until its custom resources are finalized.
async fn operator_finalizes_its_custom_resources(scene: &Scene) {
    let group = format!("{}.example.com", scene.owner.name);
    let (_, name) = scene_crd(scene);
    let objects = [crd(&group, "Widget"), deployment("operator", None)];
    let inventory = scene.install(&objects).await;
    create(
        scene,
        "held",
        json!({"finalizers": ["example.com/operator"]}),
    )
    .await;
    for _ in 0..2 {
        let pruned = scene.prune(&inventory, Delete).await;
        assert_eq!(names(&pruned.terminating), [name.as_str()]);
        let line = &pruned.waiting_for[&pruned.terminating[0]];
        let expected = format!(
            "1 custom resource is being deleted ({}/held [finalizers: example.com/operator]); make sure that the \
             controllers of their finalizers run, or remove the finalizers; or set spec.crdDeletionPolicy to Retain to \
             keep the CRD with its custom resources",
            scene.namespace
        );
        assert_eq!(line, &expected);
        assert_eq!(pruned.deleted, []);
    }
    let finalized = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    let widgets = scene.custom(&group, "Widget");
    widgets
        .patch("held", &PatchParams::default(), &finalized)
        .await
        .unwrap();
    let pruned = scene.prune(&inventory, Delete).await;
    assert_eq!(
        names(&pruned.deleted),
        [name.as_str(), "operator"],
        "{pruned:?}"
    );
}

/// A client without permissions deletes nothing, and the CRD is the only failure.
async fn forbidden_deletion_stops_the_others(scene: &Scene) {
    let group = format!("{}.example.com", scene.owner.name);
    let objects = [
        scene.text("a", "text"),
        config_map(scene.namespace.name(), "b", "text"),
        crd(&group, "Widget"),
    ];
    let inventory = scene.install(&objects).await;
    let plan = scene.plan(&[], &inventory).await;
    let mut config = crate::support::world().await.cluster.config().clone();
    config.auth_info.impersonate = Some("system:serviceaccount:default:nobody".to_owned());
    let client = kube::Client::try_from(config).unwrap();
    let apply = scene.apply(&client);
    let pruned = apply.prune(&plan.leaving, &scene.owner, Delete).await;
    assert_eq!(pruned.failed.len(), 1, "{pruned:?}");
    assert_eq!(pruned.failed[0].cause, FailureKind::Forbidden);
    assert_eq!(pruned.failed[0].identity.kind, "CustomResourceDefinition");
    let texts: Api<ConfigMap> = scene.namespaced();
    assert!(texts.get_opt("a").await.unwrap().is_some());
}

/// A CRD is kept with the custom resources that an annotation keeps.
async fn kept_custom_resources_keep_their_definition(scene: &Scene) {
    let group = format!("{}.example.com", scene.owner.name);
    let inventory = scene.install(&[crd(&group, "Widget")]).await;
    create(scene, "goes", json!({})).await;
    let keep = json!({"annotations": {labels::KEEP: "true"}});
    create(scene, "stays", keep).await;
    let pruned = scene.prune(&inventory, Delete).await;
    assert_eq!(pruned.released.len(), 1, "{pruned:?}");
    assert_eq!(left(scene).await, ["stays"]);
}

// parity: platform-19, g4
#[tokio::test]
async fn definitions_are_pruned_by_policy_and_use() {
    let scene = Scene::new("policy").await;
    policy_decides_about_definitions(&scene).await;
    operator_finalizes_its_custom_resources(&scene).await;
    forbidden_deletion_stops_the_others(&scene).await;
    kept_custom_resources_keep_their_definition(&scene).await;
    let (crds, name) = scene_crd(&scene);
    crds.delete(&name, &DeleteParams::default()).await.unwrap();
    scene.end().await;
}
