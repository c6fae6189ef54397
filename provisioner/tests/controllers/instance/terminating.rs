//! Namespaces that are going while something is to be installed into them.

use k8s_openapi::api::core::v1::Namespace;
use kube::api::DeleteParams;

use super::*;

#[tokio::test]
async fn a_namespace_that_is_going_is_told_and_the_installation_goes_on_when_it_is_gone() {
    let world = running().await;
    let name = unique("terminating");
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    world.apply(&namespace).await;
    let mut held = map(&name, "held", &[]);
    held["metadata"]["finalizers"] = json!(["example.com/rival"]);
    world.apply(&held).await;
    let namespaces: Api<Namespace> = world.api();
    namespaces
        .delete(&name, &DeleteParams::default())
        .await
        .unwrap();

    let objects = [namespace, map(&name, "a", &[])];
    let source = publish(world, &format!("{name}:v1"), &objects).await;
    world.instance(&name, "plain", source).await;
    let refused = wait_reason(world, &name, "Installed", "InstallFailed").await;
    let told = message(&refused, "Installed");
    for part in [
        &format!("namespace {name:?} is being deleted"),
        "once it is gone, the installation goes on by itself",
    ] {
        assert!(told.contains(part), "{part} is missing: {told}");
    }
    assert_eq!(line(&refused, "Progressing"), "True Retrying");

    let api = maps(world, &name);
    meddle(&api, "held", json!({"metadata": {"finalizers": null}})).await;
    world.wait_instance(&name, "Installed", "True").await;
    assert!(api.get_opt("a").await.unwrap().is_some());
    assert_eq!(api.get_opt("held").await.unwrap(), None);
    delete(world, &name).await;
    namespaces
        .delete(&name, &DeleteParams::default())
        .await
        .unwrap();
}
