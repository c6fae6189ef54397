//! Namespaces and objects that are terminating when a bundle is installed.

use k8s_openapi::api::core::v1::Namespace;

use super::*;

/// Returns a ConfigMap that exists until its finalizer is removed.
fn held(namespace: &str, name: &str) -> Value {
    let mut held = map(namespace, name, &[("v", "old")]);
    held["metadata"]["finalizers"] = json!(["example.com/rival"]);
    held
}

#[tokio::test]
async fn terminating_namespaces_and_objects_are_waited_for() {
    let (world, name, space) = start("terminating").await;
    let namespace = support::namespace_object(&name);
    world.apply(&namespace).await;
    world.apply(&held(&name, "held")).await;
    world.apply(&held(space.name(), "a")).await;
    let namespaces: Api<Namespace> = world.api();
    support::delete(&namespaces, &name).await;
    let api = maps(world, space.name());
    support::delete(&api, "a").await;

    let objects = [
        namespace,
        map(&name, "a", &[]),
        map(space.name(), "a", &[("v", "new")]),
    ];
    declare(world, &name, &objects).await;
    let refused = wait_reason(world, &name, "Installed", "InstallFailed").await;
    assert_eq!(line(&refused, "Installed"), "False InstallFailed");
    assert_eq!(refused.status.as_ref().unwrap().installed_bundle_name, None);
    let parts = [
        &format!("namespace {name:?} is being deleted"),
        "the installation continues automatically after the deletion",
        &format!("ConfigMap {space}/a exists and is being deleted"),
    ];
    assert_message(&refused, "Installed", &parts);
    assert_eq!(line(&refused, "Progressing"), "True Retrying");

    let released = json!({"metadata": {"finalizers": null}});
    patch_as_other(&maps(world, &name), "held", released.clone()).await;
    patch_as_other(&api, "a", released).await;
    world.wait_instance(&name, "Healthy", "True").await;
    assert_eq!(api.get("a").await.unwrap().data.unwrap()["v"], "new");
    let maps = maps(world, &name);
    assert!(maps.get_opt("a").await.unwrap().is_some());
    assert_eq!(maps.get_opt("held").await.unwrap(), None);
    delete(world, &name).await;
    support::delete(&namespaces, &name).await;
}
