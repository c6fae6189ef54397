//! What stays when it leaves a bundle, or when its instance goes.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use manifests::api::instance::CrdDeletionPolicy;

use super::*;

fn widgets(world: &World, group: &str, namespace: &str) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", "Widget"));
    Api::namespaced_with(world.client(), namespace, &resource)
}

/// A custom resource that somebody has made, and its uid.
async fn use_definition(world: &World, group: &str, namespace: &str) -> String {
    let widget = json!({
        "apiVersion": format!("{group}/v1"), "kind": "Widget",
        "metadata": {"name": "theirs", "namespace": namespace}, "spec": {"size": 1},
    });
    world.apply(&widget).await;
    uid_of_widget(world, group, namespace).await
}

async fn uid_of_widget(world: &World, group: &str, namespace: &str) -> String {
    let api = widgets(world, group, namespace);
    api.get("theirs").await.unwrap().uid().unwrap()
}

/// Who has a definition.
async fn has_definition(world: &World, group: &str, instance: &str) {
    let api: Api<CustomResourceDefinition> = world.api();
    let name = format!("widgets.{group}");
    support::wait_for(api, &name, instance, |it| {
        (it.labels().get(labels::OWNER_NAME)? == instance).then_some(())
    })
    .await;
}

// parity: i12
#[tokio::test]
async fn i12_custom_resources_survive_a_pivot_between_bundles_that_share_their_definition() {
    let world = running().await;
    let (name, space) = (
        unique("i12"),
        world.cluster.temp_namespace("i12").await.unwrap(),
    );
    let group = format!("{name}.example.com");
    let of = |object: &str| {
        [
            support::crd(&group, "Widget"),
            map(space.name(), object, &[]),
        ]
    };
    let source = publish(world, &format!("{name}:v1"), &of("old")).await;
    let mut instance = support::instance(&name, "plain", source);
    instance.spec.crd_deletion_policy = CrdDeletionPolicy::Delete;
    world.create(&instance).await;
    world.wait_instance(&name, "Healthy", "True").await;
    let uid = use_definition(world, &group, space.name()).await;

    upgrade(world, &name, "v2", &of("new")).await;
    support::gone(maps(world, space.name()), "old").await;
    wait_reason(world, &name, "Progressing", "UpToDate").await;
    assert_eq!(uid_of_widget(world, &group, space.name()).await, uid);
    has_definition(world, &group, &name).await;
    delete(world, &name).await;
}

#[tokio::test]
async fn a_definition_that_was_retained_belongs_to_whoever_comes_next() {
    let world = running().await;
    let (name, other) = (unique("retain"), unique("retain-other"));
    let space = world.cluster.temp_namespace("retain").await.unwrap();
    let group = format!("{name}.example.com");
    let source = publish(
        world,
        &format!("{name}:v1"),
        &[support::crd(&group, "Widget")],
    )
    .await;
    let api: Api<CustomResourceDefinition> = world.api();
    let definition = format!("widgets.{group}");
    let mut uids = None;
    // The same name twice, then another one.
    for name in [&name, &name, &other] {
        let mut instance = support::instance(name, "plain", source.clone());
        instance.spec.crd_deletion_policy = CrdDeletionPolicy::Retain;
        world.create(&instance).await;
        world.wait_instance(name, "Healthy", "True").await;
        has_definition(world, &group, name).await;
        if uids.is_none() {
            let widget = use_definition(world, &group, space.name()).await;
            uids = Some((api.get(&definition).await.unwrap().uid(), widget));
        }
        delete(world, name).await;
        let left = api.get(&definition).await.unwrap();
        assert!(!left.labels().contains_key(labels::OWNER_NAME), "{left:?}");
        let found = (left.uid(), uid_of_widget(world, &group, space.name()).await);
        assert_eq!(Some(found), uids);
    }
}

#[tokio::test]
async fn what_is_to_be_kept_is_let_go_when_it_leaves_the_bundle_and_when_the_instance_goes() {
    let world = running().await;
    let (name, next) = (unique("kept"), unique("kept-next"));
    let space = world.cluster.temp_namespace("kept").await.unwrap();
    let api = maps(world, space.name());
    let kept = |object: &str| {
        let mut value = map(space.name(), object, &[("v", "1")]);
        value["metadata"]["annotations"] = json!({labels::KEEP: "true"});
        value
    };
    let v1 = [
        kept("pruned"),
        kept("removed"),
        map(space.name(), "plain", &[]),
    ];
    let source = publish(world, &format!("{name}:v1"), &v1).await;
    world.instance(&name, "plain", source).await;
    world.wait_instance(&name, "Healthy", "True").await;
    let uids = [
        api.get("pruned").await.unwrap().uid(),
        api.get("removed").await.unwrap().uid(),
    ];

    upgrade(world, &name, "v2", &[kept("removed")]).await;
    support::gone(api.clone(), "plain").await;
    let told = support::wait_for(world.api(), &name, "released", |it: &BundleInstance| {
        (!it.status.as_ref()?.released.is_empty()).then_some(())
    })
    .await;
    let status = told.status.unwrap();
    assert!(
        status.released[0].contains("/pruned") && status.released[0].contains(labels::KEEP),
        "{:?}",
        status.released
    );
    assert_eq!(status.inventory.unwrap().count, 1);
    let free = |it: &ConfigMap| {
        assert_eq!(owner_name(it), None, "{it:?}");
        assert!(it.owner_references().is_empty(), "{it:?}");
    };
    let pruned = api.get("pruned").await.unwrap();
    free(&pruned);
    // It is nobody's: changes are left alone. Those of the other, made later, are not.
    meddle(&api, "pruned", json!({"data": {"v": "2"}})).await;
    meddle(&api, "removed", json!({"data": {"v": "2"}})).await;
    has_value(world, space.name(), "removed", "v", "1").await;
    assert_eq!(api.get("pruned").await.unwrap().data.unwrap()["v"], "2");

    delete(world, &name).await;
    free(&api.get("removed").await.unwrap());
    let left = [
        api.get("pruned").await.unwrap().uid(),
        api.get("removed").await.unwrap().uid(),
    ];
    assert_eq!(left, uids);

    // Another instance may have both.
    let source = publish(
        world,
        &format!("{next}:v1"),
        &[kept("pruned"), kept("removed")],
    )
    .await;
    world.instance(&next, "plain", source).await;
    world.wait_instance(&next, "Healthy", "True").await;
    assert_eq!(
        owner_name(&api.get("pruned").await.unwrap()),
        Some(next.as_str())
    );
    assert_eq!(api.get("pruned").await.unwrap().data.unwrap()["v"], "1");
    delete(world, &next).await;
}
