//! Namespaces and objects that are being deleted when a bundle is installed.

use k8s_openapi::api::core::v1::Namespace;
use kube::api::DeleteParams;

use super::*;

/// A ConfigMap that stays until its finalizer is removed.
fn held(namespace: &str, name: &str) -> Value {
    let mut held = map(namespace, name, &[("v", "old")]);
    held["metadata"]["finalizers"] = json!(["example.com/rival"]);
    held
}

#[tokio::test]
async fn terminating_namespaces_and_objects_are_waited_for() {
    let world = running().await;
    let name = unique("terminating");
    let space = world.cluster.temp_namespace("going").await.unwrap();
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    world.apply(&namespace).await;
    world.apply(&held(&name, "held")).await;
    world.apply(&held(space.name(), "a")).await;
    let namespaces: Api<Namespace> = world.api();
    let params = DeleteParams::default();
    namespaces.delete(&name, &params).await.unwrap();
    let api = maps(world, space.name());
    api.delete("a", &params).await.unwrap();

    let objects = [
        namespace,
        map(&name, "a", &[]),
        map(space.name(), "a", &[("v", "new")]),
    ];
    let source = publish(world, &format!("{name}:v1"), &objects).await;
    world.instance(&name, "plain", source).await;
    let refused = wait_reason(world, &name, "Installed", "InstallFailed").await;
    assert_eq!(line(&refused, "Installed"), "False InstallFailed");
    assert_eq!(refused.status.as_ref().unwrap().installed_bundle_name, None);
    let problems = message(&refused, "Installed");
    for part in [
        &format!("namespace {name:?} is being deleted"),
        "once it is gone, the installation goes on by itself",
        &format!("ConfigMap {}/a exists and is being deleted", space.name()),
    ] {
        assert!(problems.contains(part), "{part} is missing: {problems}");
    }
    assert_eq!(line(&refused, "Progressing"), "True Retrying");

    let released = json!({"metadata": {"finalizers": null}});
    meddle(&maps(world, &name), "held", released.clone()).await;
    meddle(&api, "a", released).await;
    world.wait_instance(&name, "Healthy", "True").await;
    assert_eq!(api.get("a").await.unwrap().data.unwrap()["v"], "new");
    let maps = maps(world, &name);
    assert!(maps.get_opt("a").await.unwrap().is_some());
    assert_eq!(maps.get_opt("held").await.unwrap(), None);
    delete(world, &name).await;
    namespaces.delete(&name, &params).await.unwrap();
}
