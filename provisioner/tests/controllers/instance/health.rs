//! Health of the installed objects.

use super::*;

// parity: rukpak-42, rukpak-34
#[tokio::test]
async fn unhealthy_upgrades_are_reported_and_keep_the_old_bundle() {
    let (world, name, space) = start("unwell").await;
    // The stand-in node runs no pods but reports them Ready.
    world.cluster.stand_in_node().await.unwrap();
    let of = |version, fate| [deployment(space.name(), "web", 1, version, fate)];
    let first = install(world, &name, &of("v1", "works")).await;
    let first = first.status.unwrap().installed_bundle_name;

    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "a", "namespace": space.name(), "annotations": {"cluster-tests/fate": "fails"}},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": "example.com/a:v1"}],
        },
    });
    let [web] = of("v2", "fails");
    upgrade(world, &name, "v2", &[web, pod]).await;
    let object = format!("(apps/v1, Kind=Deployment)({space}/web): ");
    let failing = becomes(world, &name, "replaced and unwell", |status| {
        let healthy = condition(&status.conditions, "Healthy")?;
        let is_reported = healthy.reason == "Unhealthy" && healthy.message.contains(&object);
        (is_reported && status.installed_bundle_name != first).then_some(())
    })
    .await;
    assert_eq!(line(&failing, "Installed"), "True InstallationSucceeded");
    assert_eq!(failing.status.as_ref().unwrap().previous_bundle_name, first);
    assert_eq!(bundles(world, &name).await.len(), 2);
    // A failing pod is named as well.
    let pod = format!("(v1, Kind=Pod)({space}/a): ");
    let named = says(world, &name, "Healthy", &[&pod, "CrashLoopBackOff"]).await;
    assert!(line(&named, "Healthy").starts_with("False "), "{named:?}");
    // The old Bundle also stays after the progress deadline of the Deployment.
    let failed = says(world, &name, "Healthy", &["ProgressDeadlineExceeded"]).await;
    assert_eq!(failed.status.as_ref().unwrap().previous_bundle_name, first);
    assert_eq!(bundles(world, &name).await.len(), 2);

    upgrade(world, &name, "v3", &of("v3", "works")).await;
    let well = world.wait_instance(&name, "Healthy", "True").await;
    support::wait_deleted::<Bundle>(world.api(), &first.unwrap()).await;
    becomes(world, &name, "settled", |status| {
        let is_other = status.installed_bundle_name != well.status.as_ref()?.previous_bundle_name;
        (is_other && status.previous_bundle_name.is_none()).then_some(())
    })
    .await;
    // The pod is pruned.
    let settled = wait_reason(world, &name, "Progressing", "UpToDate").await;
    assert_eq!(line(&settled, "Progressing"), "False UpToDate");
    delete(world, &name).await;
}
