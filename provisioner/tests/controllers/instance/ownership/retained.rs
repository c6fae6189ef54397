//! Objects that are kept when they leave the bundle or when the instance is deleted.

use manifests::api::bundle_instance::CrdDeletionPolicy;

use super::*;

fn widgets(world: &World, group: &str, namespace: &str) -> Api<DynamicObject> {
    custom_resources(world, namespace, [group, "v1", "Widget"])
}

/// Creates a custom resource as a user, and returns its uid.
async fn use_definition(world: &World, group: &str, namespace: &str) -> String {
    world.apply(&widget(group, namespace, "theirs", 1)).await;
    uid_of_widget(world, group, namespace).await
}

async fn uid_of_widget(world: &World, group: &str, namespace: &str) -> String {
    let api = widgets(world, group, namespace);
    api.get("theirs").await.unwrap().uid().unwrap()
}

/// Waits until this instance owns the CRD.
async fn has_definition(world: &World, group: &str, instance: &str) {
    let api: Api<CustomResourceDefinition> = world.api();
    let name = format!("widgets.{group}");
    support::wait_for(api, &name, instance, |crd| {
        (crd.labels().get(labels::OWNER_NAME)? == instance).then_some(())
    })
    .await;
}

// parity: i12
#[tokio::test]
async fn i12_upgrade_with_a_shared_crd_keeps_custom_resources() {
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
    support::wait_deleted(maps(world, space.name()), "old").await;
    wait_reason(world, &name, "Progressing", "UpToDate").await;
    assert_eq!(uid_of_widget(world, &group, space.name()).await, uid);
    has_definition(world, &group, &name).await;
    delete(world, &name).await;
}

#[tokio::test]
async fn kept_objects_are_released_on_prune_and_on_uninstall() {
    let (world, name, space) = start("kept").await;
    let next = unique("kept-next");
    let api = maps(world, space.name());
    let retained = |object: &str| {
        let mut value = map(space.name(), object, &[("v", "1")]);
        value["metadata"]["annotations"] = json!({labels::KEEP: "true"});
        value
    };
    let v1 = [
        retained("pruned"),
        retained("removed"),
        map(space.name(), "plain", &[]),
    ];
    install(world, &name, &v1).await;
    let uids = async || {
        let [pruned, removed] = [api.get("pruned").await, api.get("removed").await];
        [pruned.unwrap().uid(), removed.unwrap().uid()]
    };
    let before = uids().await;

    upgrade(world, &name, "v2", &[retained("removed")]).await;
    support::wait_deleted(api.clone(), "plain").await;
    let instance = becomes(world, &name, "released", |status| {
        (!status.released.is_empty()).then_some(())
    })
    .await;
    let status = instance.status.unwrap();
    has_parts(&status.released[0], &["/pruned", labels::KEEP]);
    assert_eq!(status.inventory.unwrap().count, 1);
    let assert_released = |config_map: &ConfigMap| {
        assert_eq!(owner_name(config_map), None, "{config_map:?}");
        assert!(config_map.owner_references().is_empty(), "{config_map:?}");
    };
    let pruned = api.get("pruned").await.unwrap();
    assert_released(&pruned);
    // The released object has no owner, so it is not repaired. The owned object, which was changed later, is repaired.
    patch_as_other(&api, "pruned", json!({"data": {"v": "2"}})).await;
    patch_as_other(&api, "removed", json!({"data": {"v": "2"}})).await;
    has_value(world, space.name(), "removed", "v", "1").await;
    assert_eq!(api.get("pruned").await.unwrap().data.unwrap()["v"], "2");

    delete(world, &name).await;
    assert_released(&api.get("removed").await.unwrap());
    assert_eq!(uids().await, before);

    // Another instance can adopt both.
    install(world, &next, &[retained("pruned"), retained("removed")]).await;
    let pruned = api.get("pruned").await.unwrap();
    assert_eq!(owner_name(&pruned), Some(next.as_str()));
    assert_eq!(pruned.data.unwrap()["v"], "1");
    delete(world, &next).await;
}
