//! Objects of kinds that a cluster may lack.

use super::*;

#[tokio::test]
async fn optional_objects_wait_for_their_definition_and_wait_again_when_it_goes() {
    let (world, name, space) = start("optional").await;
    // No other test has this kind.
    let (group, kind) = ("console.openshift.io", "ConsoleExternalLogLink");
    let mut link = widget(group, space.name(), "logs", 1);
    link["kind"] = kind.into();
    let waiting = install(world, &name, &[link, map(space.name(), "a", &[])]).await;
    let waits = vec![format!("{kind} {group}/v1 {space}/logs")];
    assert_eq!(waiting.status.as_ref().unwrap().waiting, waits);
    assert_eq!(line(&waiting, "Installed"), "True InstallationSucceeded");
    tells(&waiting, "Installed", &["1 objects are deferred"]);

    let definition = support::crd(group, kind);
    let full = definition["metadata"]["name"].as_str().unwrap();
    let definitions: Api<CustomResourceDefinition> = world.api();
    let links = || custom_resources(world, space.name(), [group, "v1", kind]);
    let waits_for = async |what: &str, expected: &Vec<String>| {
        becomes(world, &name, what, |status| {
            let is_healthy = support::has(&status.conditions, "Healthy", "True");
            (is_healthy && status.waiting == *expected).then_some(())
        })
        .await;
    };
    for _ in 0..2 {
        world.apply(&definition).await;
        support::eventually("applied when its API is served", async || {
            links().get("logs").await.map_err(|error| error.to_string())
        })
        .await;
        waits_for("nothing waits", &vec![]).await;
        support::delete(&definitions, full).await;
        waits_for("waiting again", &waits).await;
        support::gone(definitions.clone(), full).await;
    }
    let after = read(world, &name).await;
    assert_eq!(line(&after, "Installed"), "True InstallationSucceeded");
    delete(world, &name).await;
}
