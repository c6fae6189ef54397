//! How the objects are.

use super::*;

// parity: rukpak-42
#[tokio::test]
async fn an_upgrade_that_does_not_work_is_told_and_the_old_bundle_kept() {
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

    upgrade(world, &name, "v2", &of("v2", "fails")).await;
    let failing = support::wait_for(
        world.api(),
        &name,
        "replaced and unwell",
        |it: &BundleInstance| {
            let status = it.status.as_ref()?;
            let unwell = condition(&status.conditions, "Healthy")?.reason == "Unhealthy";
            (unwell && status.installed_bundle_name != first).then_some(())
        },
    )
    .await;
    let told = message(&failing, "Healthy");
    let object = format!("(apps/v1, Kind=Deployment)({}/web): ", space.name());
    assert!(told.contains(&object), "{told}");
    assert_eq!(line(&failing, "Installed"), "True InstallationSucceeded");
    assert_eq!(failing.status.as_ref().unwrap().previous_bundle_name, first);
    assert_eq!(bundles(world, &name).await.len(), 2);
    // Not even when it has failed for good.
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
    let well = support::wait_for(world.api(), &name, "settled", |it: &BundleInstance| {
        let status = it.status.as_ref()?;
        (status.previous_bundle_name.is_none()
            && status.installed_bundle_name != well.status.as_ref()?.previous_bundle_name)
            .then_some(())
    })
    .await;
    assert_eq!(line(&well, "Progressing"), "False UpToDate");
    delete(world, &name).await;
}

// parity: rukpak-34
#[tokio::test]
async fn a_pod_that_fails_makes_its_instance_unhealthy() {
    let world = running().await;
    world.cluster.stand_in_node().await.unwrap();
    let (name, space) = (
        unique("pod"),
        world.cluster.temp_namespace("pod").await.unwrap(),
    );
    let pod = |fate| {
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "a", "namespace": space.name(), "annotations": {"cluster-tests/fate": fate}},
            "spec": {"containers": [{"name": "main", "image": "example.com/a:v1"}]},
        })
    };
    let source = publish(world, &format!("{name}:v1"), &[pod("fails")]).await;
    world.instance(&name, "plain", source).await;
    let object = format!("(v1, Kind=Pod)({}/a): ", space.name());
    let failing = support::wait_for(world.api(), &name, "named", |it: &BundleInstance| {
        let healthy = condition(&it.status.as_ref()?.conditions, "Healthy")?;
        (healthy.status == "False"
            && healthy.message.contains(&object)
            && healthy.message.contains("CrashLoopBackOff"))
        .then_some(())
    })
    .await;
    assert_eq!(line(&failing, "Installed"), "True InstallationSucceeded");
    delete(world, &name).await;
}
