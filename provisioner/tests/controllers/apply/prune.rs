//! What leaves.

use apply::{
    inventory::Inventory,
    ssa::{Cause, Pruned},
};
use k8s_openapi::{
    api::core::v1::{ConfigMap, Namespace},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use manifests::api::{
    instance::CrdDeletionPolicy::{self, Delete, DeleteIfUnused, Retain},
    labels,
};
use serde_json::{Value, json};

use super::{Scene, deployment, widget};
use crate::support::{config_map, crd, gone, unique};

impl Scene {
    async fn prune(&self, inventory: &Inventory, policy: CrdDeletionPolicy) -> Pruned {
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
async fn only_what_is_still_ours_is_deleted() {
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
    assert_eq!(names(&pruned.going), ["held"]);
    assert!(pruned.waiting_for[&pruned.going[0]].contains("example.com/hold"));
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
    let kept = api.get("kept").await.unwrap();
    assert!(kept.owner_references().is_empty());
    assert!(!kept.labels().contains_key(labels::OWNER_NAME));
    assert_eq!(kept.annotations()[labels::ADOPT], scene.owner.name);
    assert_eq!(kept.data.unwrap()["text"], "text");
    assert_eq!(api.get_opt("gone").await.unwrap(), None);
    let everywhere: Api<Namespace> = Api::all(scene.client.clone());
    let left = everywhere.get(&own).await.unwrap();
    assert!(!left.labels().contains_key(labels::OWNER_NAME));
    assert_eq!(left.metadata.deletion_timestamp, None);

    // Looked at again, and again when it is gone.
    assert_eq!(
        names(&scene.prune(&inventory, DeleteIfUnused).await.going),
        ["held"]
    );
    scene
        .patch("held", json!({"metadata": {"finalizers": null}}))
        .await;
    gone(api, "held").await;
    assert!(
        scene
            .prune(&inventory, DeleteIfUnused)
            .await
            .going
            .is_empty()
    );
    everywhere
        .delete(&own, &DeleteParams::default())
        .await
        .unwrap();
    scene.end().await;
}

// parity: platform-19, g4
#[tokio::test]
async fn definitions_stay_while_others_use_them_and_as_the_policy_says() {
    for (policy, used, stays) in [
        (DeleteIfUnused, true, Some("3 custom resources are left")),
        (DeleteIfUnused, false, None),
        (Retain, false, Some("Retain")),
        (Delete, true, None),
    ] {
        let scene = Scene::new("policy").await;
        let group = format!("{}.example.com", scene.owner.name);
        let inventory = scene
            .install(&[
                crd(&group, "Widget"),
                widget(&group, "own"),
                deployment("operator", None),
            ])
            .await;
        let widgets = scene.custom(&group, "Widget");
        let theirs: &[&str] = if used { &["a", "b", "c"] } else { &[] };
        for name in theirs {
            let widget = serde_json::from_value(widget(&group, name)).unwrap();
            widgets
                .create(&PostParams::default(), &widget)
                .await
                .unwrap();
        }
        let pruned = scene.prune(&inventory, policy).await;
        assert_eq!(
            (&pruned.failed, &pruned.going),
            (&vec![], &vec![]),
            "{policy:?}"
        );
        let definitions: Api<CustomResourceDefinition> = Api::all(scene.client.clone());
        let name = format!("widgets.{group}");
        let live = definitions.get_opt(&name).await.unwrap();
        let Some(why) = stays else {
            assert_eq!(live, None, "{policy:?}");
            assert_eq!(pruned.deleted.len(), 3, "{policy:?}");
            scene.end().await;
            continue;
        };
        let live = live.unwrap();
        assert!(!live.labels().contains_key(labels::OWNER_NAME));
        assert_eq!(live.metadata.deletion_timestamp, None);
        assert_eq!(names(pruned.released.keys()), [name.as_str()]);
        let told = pruned.released.values().next().unwrap();
        assert!(told.contains(why), "{told}");
        let left = widgets.list(&ListParams::default()).await.unwrap();
        let left: Vec<_> = left.iter().map(ResourceExt::name_any).collect();
        assert_eq!(left, theirs, "{policy:?}");
        definitions
            .delete(&name, &DeleteParams::default())
            .await
            .unwrap();
        scene.end().await;
    }
}

#[tokio::test]
async fn the_operator_stays_until_its_custom_resources_are_finalised() {
    let scene = Scene::new("finalise").await;
    let group = format!("{}.example.com", scene.owner.name);
    let inventory = scene
        .install(&[crd(&group, "Widget"), deployment("operator", None)])
        .await;
    let widgets = scene.custom(&group, "Widget");
    let mut held = widget(&group, "held");
    held["metadata"]["finalizers"] = json!(["example.com/operator"]);
    let held = serde_json::from_value(held).unwrap();
    widgets.create(&PostParams::default(), &held).await.unwrap();

    for _ in 0..2 {
        let pruned = scene.prune(&inventory, Delete).await;
        assert_eq!(names(&pruned.going), [format!("widgets.{group}")]);
        let what = &pruned.waiting_for[&pruned.going[0]];
        let expected = format!(
            "1 custom resource is being deleted ({}/held [finalizers: example.com/operator]); see to it that whoever \
             acts on their finalizers runs, or remove these; or set spec.crdDeletionPolicy to Retain, so that it stays, \
             with its custom resources",
            scene.namespace
        );
        assert_eq!(what, &expected);
        assert_eq!(pruned.deleted, []);
    }
    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    widgets
        .patch("held", &PatchParams::default(), &free)
        .await
        .unwrap();
    let pruned = scene.prune(&inventory, Delete).await;
    assert_eq!(
        names(&pruned.deleted),
        [format!("widgets.{group}").as_str(), "operator"],
        "{pruned:?}"
    );
    scene.end().await;
}

#[tokio::test]
async fn a_definition_with_custom_resources_to_keep_is_kept() {
    let scene = Scene::new("keep").await;
    let group = format!("{}.example.com", scene.owner.name);
    let inventory = scene.install(&[crd(&group, "Widget")]).await;
    let widgets = scene.custom(&group, "Widget");
    for name in ["goes", "stays"] {
        let mut widget = widget(&group, name);
        if name == "stays" {
            widget["metadata"]["annotations"] = json!({labels::KEEP: "true"});
        }
        let widget = serde_json::from_value(widget).unwrap();
        widgets
            .create(&PostParams::default(), &widget)
            .await
            .unwrap();
    }
    let pruned = scene.prune(&inventory, Delete).await;
    assert_eq!(pruned.released.len(), 1, "{pruned:?}");
    let left = widgets.list(&ListParams::default()).await.unwrap();
    let left: Vec<_> = left.iter().map(ResourceExt::name_any).collect();
    assert_eq!(left, ["stays"]);
    let definitions: Api<CustomResourceDefinition> = Api::all(scene.client.clone());
    let name = format!("widgets.{group}");
    definitions
        .delete(&name, &DeleteParams::default())
        .await
        .unwrap();
    scene.end().await;
}

#[tokio::test]
async fn what_may_not_be_deleted_is_told_and_nothing_else_is_begun() {
    let scene = Scene::new("rights").await;
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
    let nobody = kube::Client::try_from(config).unwrap();
    let apply = scene.apply(&nobody);
    let pruned = apply.prune(&plan.leaving, &scene.owner, Delete).await;
    assert_eq!(pruned.failed.len(), 1, "{pruned:?}");
    assert_eq!(pruned.failed[0].cause, Cause::Forbidden);
    assert_eq!(pruned.failed[0].identity.kind, "CustomResourceDefinition");
    let texts: Api<ConfigMap> = scene.namespaced();
    assert!(texts.get_opt("a").await.unwrap().is_some());
    scene.prune(&inventory, Delete).await;
    scene.end().await;
}
