//! What stays when it leaves a bundle, or when its instance goes.

use manifests::api::instance::CrdDeletionPolicy;

use super::*;

fn widgets(world: &World, group: &str, namespace: &str) -> Api<DynamicObject> {
    custom_resources(world, namespace, [group, "v1", "Widget"])
}

/// A custom resource that somebody has made, and its uid.
async fn use_definition(world: &World, group: &str, namespace: &str) -> String {
    world.apply(&widget(group, namespace, "theirs", 1)).await;
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
    let (world, name, space) = start("i12").await;
    let group = format!("{name}.example.com");
    let of = |object: &str| {
        [
            support::crd(&group, "Widget"),
            map(space.name(), object, &[]),
        ]
    };
    declare_with(world, &name, &of("old"), |spec| {
        spec.crd_deletion_policy = CrdDeletionPolicy::Delete;
    })
    .await;
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
async fn what_is_to_be_kept_is_let_go_when_it_leaves_the_bundle_and_when_the_instance_goes() {
    let (world, name, space) = start("kept").await;
    let next = unique("kept-next");
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
    install(world, &name, &v1).await;
    let uids = async || {
        let [pruned, removed] = [api.get("pruned").await, api.get("removed").await];
        [pruned.unwrap().uid(), removed.unwrap().uid()]
    };
    let before = uids().await;

    upgrade(world, &name, "v2", &[kept("removed")]).await;
    support::gone(api.clone(), "plain").await;
    let told = becomes(world, &name, "released", |status| {
        (!status.released.is_empty()).then_some(())
    })
    .await;
    let status = told.status.unwrap();
    has_parts(&status.released[0], &["/pruned", labels::KEEP]);
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
    assert_eq!(uids().await, before);

    // Another instance may have both.
    install(world, &next, &[kept("pruned"), kept("removed")]).await;
    let pruned = api.get("pruned").await.unwrap();
    assert_eq!(owner_name(&pruned), Some(next.as_str()));
    assert_eq!(pruned.data.unwrap()["v"], "1");
    delete(world, &next).await;
}
