//! Objects of kinds that a cluster may lack.

use super::*;

#[tokio::test]
async fn optional_objects_wait_for_their_definition_and_wait_again_when_it_goes() {
    let world = running().await;
    let (name, space) = (
        unique("optional"),
        world.cluster.temp_namespace("optional").await.unwrap(),
    );
    // No other test has this kind.
    let (group, kind) = ("console.openshift.io", "ConsoleExternalLogLink");
    let link = json!({
        "apiVersion": format!("{group}/v1"), "kind": kind,
        "metadata": {"name": "logs", "namespace": space.name()}, "spec": {"size": 1},
    });
    let objects = [link.clone(), map(space.name(), "a", &[])];
    let source = publish(world, &format!("{name}:v1"), &objects).await;
    world.instance(&name, "plain", source).await;
    let waits = vec![format!("{kind} {group}/v1 {}/logs", space.name())];
    let waiting = world.wait_instance(&name, "Healthy", "True").await;
    assert_eq!(waiting.status.as_ref().unwrap().waiting, waits);
    assert_eq!(line(&waiting, "Installed"), "True InstallationSucceeded");
    assert!(message(&waiting, "Installed").contains("1 objects wait for APIs"));

    let definition = support::crd(group, kind);
    let definitions: Api<k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition> = world.api();
    let resource =
        kube::core::ApiResource::from_gvk(&kube::core::GroupVersionKind::gvk(group, "v1", kind));
    let links = || -> Api<kube::core::DynamicObject> {
        Api::namespaced_with(world.client(), space.name(), &resource)
    };
    for _ in 0..2 {
        world.apply(&definition).await;
        support::eventually("applied when its API is served", async || {
            links().get("logs").await.map_err(|error| error.to_string())
        })
        .await;
        support::wait_for(
            world.api(),
            &name,
            "nothing waits",
            |it: &BundleInstance| {
                let status = it.status.as_ref()?;
                (status.waiting.is_empty() && support::has(&status.conditions, "Healthy", "True"))
                    .then_some(())
            },
        )
        .await;

        let full = definition["metadata"]["name"].as_str().unwrap();
        definitions
            .delete(full, &kube::api::DeleteParams::default())
            .await
            .unwrap();
        support::wait_for(
            world.api(),
            &name,
            "waiting again",
            |it: &BundleInstance| {
                let status = it.status.as_ref()?;
                (status.waiting == waits && support::has(&status.conditions, "Healthy", "True"))
                    .then_some(())
            },
        )
        .await;
        support::gone(world.api::<k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition>(), full).await;
    }
    assert_eq!(
        line(&read(world, &name).await, "Installed"),
        "True InstallationSucceeded"
    );
    delete(world, &name).await;
}
