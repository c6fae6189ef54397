//! From one bundle to another.

use super::*;

// parity: i4
#[tokio::test]
async fn i4_a_bundle_that_cannot_be_unpacked_leaves_the_old_installation_running() {
    let world = running().await;
    let (name, space) = (
        unique("i4"),
        world.cluster.temp_namespace("i4").await.unwrap(),
    );
    let source = publish(world, &format!("{name}:v1"), &[map(space.name(), "a", &[])]).await;
    world.instance(&name, "plain", source).await;
    let installed = world.wait_instance(&name, "Healthy", "True").await;
    let git = json!({"type": "git", "image": null, "git": {"repository": "http://127.0.0.1:1/nothing.git", "ref": {"branch": "main"}}});
    change(
        world,
        &name,
        json!({"spec": {"template": {"spec": {"source": git}}}}),
    )
    .await;
    let instance = support::wait_for(world.api(), &name, "UnpackFailed", |it: &BundleInstance| {
        let conditions = &it.status.as_ref()?.conditions;
        (condition(conditions, "HasValidBundle")?.reason == "UnpackFailed").then_some(())
    })
    .await;
    assert!(message(&instance, "HasValidBundle").contains("Failed to unpack"));
    assert_eq!(line(&instance, "Installed"), "True InstallationSucceeded");
    assert_eq!(line(&instance, "Healthy"), "True Healthy");
    assert_eq!(
        instance.status.as_ref().unwrap().installed_bundle_name,
        installed.status.as_ref().unwrap().installed_bundle_name
    );
    assert_eq!(bundles(world, &name).await.len(), 2);

    // What is installed is still kept as it was declared.
    maps(world, space.name())
        .delete("a", &kube::api::DeleteParams::default())
        .await
        .unwrap();
    support::eventually("a is back", async || {
        maps(world, space.name())
            .get("a")
            .await
            .map_err(|error| error.to_string())
    })
    .await;
    delete(world, &name).await;
}

// parity: i5
#[tokio::test]
async fn i5_a_changed_template_makes_a_new_bundle_and_removes_the_old_one() {
    let world = running().await;
    let (name, space) = (
        unique("i5"),
        world.cluster.temp_namespace("i5").await.unwrap(),
    );
    let source = publish(world, &format!("{name}:v1"), &[map(space.name(), "a", &[])]).await;
    world.instance(&name, "plain", source).await;
    let before = world.wait_instance(&name, "Healthy", "True").await;
    change(
        world,
        &name,
        json!({"spec": {"template": {"metadata": {"labels": {"a": "b"}}}}}),
    )
    .await;
    let old = before.status.unwrap().installed_bundle_name.unwrap();
    support::gone::<Bundle>(world.api(), &old).await;
    let bundles = bundles(world, &name).await;
    assert_eq!(bundles.len(), 1);
    assert_eq!(bundles[0].labels()["a"], "b");
    let after = read(world, &name).await;
    assert_eq!(
        after.status.unwrap().installed_bundle_name,
        Some(bundles[0].name_any())
    );
    delete(world, &name).await;
}

#[tokio::test]
async fn an_upgrade_changes_adds_and_removes_objects() {
    let world = running().await;
    let (name, space) = (
        unique("upgrade"),
        world.cluster.temp_namespace("upgrade").await.unwrap(),
    );
    let old = [
        map(space.name(), "stays", &[("v", "1")]),
        map(space.name(), "leaves", &[]),
    ];
    let source = publish(world, &format!("{name}:v1"), &old).await;
    world.instance(&name, "plain", source).await;
    world.wait_instance(&name, "Healthy", "True").await;
    let uid = maps(world, space.name()).get("stays").await.unwrap().uid();
    let new = [
        map(space.name(), "stays", &[("v", "2")]),
        map(space.name(), "comes", &[]),
    ];
    let source = publish(world, &format!("{name}:v2"), &new).await;
    change(
        world,
        &name,
        json!({"spec": {"template": {"spec": {"source": source}}}}),
    )
    .await;
    support::gone(maps(world, space.name()), "leaves").await;
    let stays = maps(world, space.name()).get("stays").await.unwrap();
    assert_eq!((stays.uid(), stays.data.unwrap()["v"].as_str()), (uid, "2"));
    maps(world, space.name()).get("comes").await.unwrap();
    delete(world, &name).await;
}

// parity: i13, g3
#[tokio::test]
async fn g3_a_deleted_bundle_is_made_again() {
    let world = running().await;
    let (name, space) = (
        unique("g3"),
        world.cluster.temp_namespace("g3").await.unwrap(),
    );
    let source = publish(world, &format!("{name}:v1"), &[map(space.name(), "a", &[])]).await;
    world.instance(&name, "plain", source).await;
    world.wait_instance(&name, "Healthy", "True").await;
    let first = bundles(world, &name).await.remove(0);
    let api: Api<Bundle> = world.api();
    api.delete(&first.name_any(), &kube::api::DeleteParams::default())
        .await
        .unwrap();
    support::eventually("another Bundle is unpacked", async || {
        let bundles = bundles(world, &name).await;
        let made = bundles.iter().any(|bundle| {
            bundle.uid() != first.uid()
                && bundle
                    .status
                    .as_ref()
                    .is_some_and(|status| status.content_url.is_some())
        });
        made.then_some(()).ok_or_else(|| format!("{bundles:?}"))
    })
    .await;
    assert_eq!(
        line(&read(world, &name).await, "Installed"),
        "True InstallationSucceeded"
    );
    delete(world, &name).await;
}
