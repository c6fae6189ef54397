//! Health of the installed objects.

use super::*;

// parity: rukpak-42, rukpak-34
#[tokio::test]
async fn unhealthy_upgrades_are_reported_and_keep_the_old_bundle() {
    let world = running().await;
    // No pod runs: the stand-in node reports them Ready.
    world.cluster.stand_in_node().await.unwrap();
    let (name, space) = (
        unique("unwell"),
        world.cluster.temp_namespace("unwell").await.unwrap(),
    );
    let of = |version, fate| [deployment(space.name(), "web", 1, version, fate)];
    let source = publish(world, &format!("{name}:v1"), &of("v1", "works")).await;
    world.instance(&name, "plain", source).await;
    let first = world.wait_instance(&name, "Healthy", "True").await;
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
    let object = format!("(apps/v1, Kind=Deployment)({}/web): ", space.name());
    let failing = support::wait_for(
        world.api(),
        &name,
        "replaced and unwell",
        |it: &BundleInstance| {
            let status = it.status.as_ref()?;
            let healthy = condition(&status.conditions, "Healthy")?;
            let is_reported = healthy.reason == "Unhealthy" && healthy.message.contains(&object);
            (is_reported && status.installed_bundle_name != first).then_some(())
        },
    )
    .await;
    assert_eq!(line(&failing, "Installed"), "True InstallationSucceeded");
    assert_eq!(failing.status.as_ref().unwrap().previous_bundle_name, first);
    assert_eq!(bundles(world, &name).await.len(), 2);
    // A pod that fails is named as well.
    let pod = format!("(v1, Kind=Pod)({}/a): ", space.name());
    support::wait_for(world.api(), &name, "named", |instance: &BundleInstance| {
        let healthy = condition(&instance.status.as_ref()?.conditions, "Healthy")?;
        (healthy.status == "False"
            && healthy.message.contains(&pod)
            && healthy.message.contains("CrashLoopBackOff"))
        .then_some(())
    })
    .await;
    // The old Bundle stays after the deadline of the Deployment as well.
    let failed = support::wait_for(world.api(), &name, "given up", |it: &BundleInstance| {
        let told = &condition(&it.status.as_ref()?.conditions, "Healthy")?.message;
        told.contains("ProgressDeadlineExceeded").then_some(())
    })
    .await;
    assert_eq!(failed.status.as_ref().unwrap().previous_bundle_name, first);
    assert_eq!(bundles(world, &name).await.len(), 2);

    upgrade(world, &name, "v3", &of("v3", "works")).await;
    let well = world.wait_instance(&name, "Healthy", "True").await;
    support::gone::<Bundle>(world.api(), &first.unwrap()).await;
    support::wait_for(
        world.api(),
        &name,
        "settled",
        |instance: &BundleInstance| {
            let status = instance.status.as_ref()?;
            (status.previous_bundle_name.is_none()
                && status.installed_bundle_name != well.status.as_ref()?.previous_bundle_name)
                .then_some(())
        },
    )
    .await;
    // The pod is pruned.
    let settled = wait_reason(world, &name, "Progressing", "UpToDate").await;
    assert_eq!(line(&settled, "Progressing"), "False UpToDate");
    delete(world, &name).await;
}
