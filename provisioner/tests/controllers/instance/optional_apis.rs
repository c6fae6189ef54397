//! Objects of optional APIs.

use super::*;

#[tokio::test]
async fn optional_objects_are_deferred_while_their_crd_is_missing() {
    let (world, name, space) = start("optional").await;
    // No other test uses this kind.
    let (group, kind) = ("console.openshift.io", "ConsoleExternalLogLink");
    let mut link = widget(group, space.name(), "logs", 1);
    link["kind"] = kind.into();
    let waiting = install(world, &name, &[link, map(space.name(), "a", &[])]).await;
    let waits = vec![format!("{kind} {group}/v1 {space}/logs")];
    assert_eq!(waiting.status.as_ref().unwrap().waiting, waits);
    assert_eq!(line(&waiting, "Installed"), "True InstallationSucceeded");
    assert_message(&waiting, "Installed", &["1 objects are deferred"]);

    let crd = support::crd(group, kind);
    let full = crd["metadata"]["name"].as_str().unwrap();
    let crds: Api<CustomResourceDefinition> = world.api();
    let links = || custom_resources(world, space.name(), [group, "v1", kind]);
    let waits_for = async |description: &str, expected: &Vec<String>| {
        becomes(world, &name, description, |status| {
            let is_healthy = support::has(&status.conditions, "Healthy", "True");
            (is_healthy && status.waiting == *expected).then_some(())
        })
        .await;
    };
    for _ in 0..2 {
        world.apply(&crd).await;
        support::eventually("applied when its API is served", async || {
            links().get("logs").await.map_err(|error| error.to_string())
        })
        .await;
        waits_for("nothing waits", &vec![]).await;
        support::delete(&crds, full).await;
        waits_for("waiting again", &waits).await;
        support::wait_deleted(crds.clone(), full).await;
    }
    let after = read(world, &name).await;
    assert_eq!(line(&after, "Installed"), "True InstallationSucceeded");
    delete(world, &name).await;
}
