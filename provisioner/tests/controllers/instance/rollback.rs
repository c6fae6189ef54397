//! Unhealthy and rejected upgrades, and their rollbacks with `rollback: OnFailure`.

use super::*;

// parity: rukpak-34, rukpak-42, complaint-8
#[tokio::test]
async fn unhealthy_upgrade_is_reported_and_rolled_back_once() {
    let (world, name, space) = start("back").await;
    // The stand-in node runs no pods but reports them Ready.
    world.cluster.stand_in_node().await.unwrap();
    let of = |version: &str, fate| {
        let web = deployment(space.name(), "web", 1, version, fate);
        [web, map(space.name(), "v", &[("v", version)])]
    };
    let first = install(world, &name, &of("v1", "works")).await;
    upgrade(world, &name, "v2", &of("v2", "fails")).await;
    let object = format!("(apps/v1, Kind=Deployment)({space}/web): ");
    let failing = becomes(world, &name, "replaced and unhealthy", |status| {
        let healthy = condition(&status.conditions, "Healthy")?;
        let is_reported = healthy.reason == "Unhealthy" && healthy.message.contains(&object);
        let is_replaced = status.installed_bundle_name.as_deref() != installed(&first);
        (is_reported && is_replaced).then_some(())
    })
    .await;
    assert_eq!(line(&failing, "Installed"), "True InstallationSucceeded");
    // The old Bundle is also kept after the progress deadline of the Deployment.
    let failed = wait_message(world, &name, "Healthy", &["ProgressDeadlineExceeded"]).await;
    for instance in [failing, failed] {
        tests::assert_rows!(instance.status.unwrap().previous_bundle_name.as_deref() => installed(&first));
    }
    assert_eq!(bundles(world, &name).await.len(), 2);

    change(world, &name, json!({"spec": {"rollback": "OnFailure"}})).await;
    let back = wait_reason(world, &name, "Installed", "RolledBack").await;
    assert_eq!(installed(&back), installed(&first));
    assert_message(&back, "Installed", &["/web)"]);
    has_value(world, space.name(), "v", "v", "v1").await;
    world.wait_instance(&name, "Healthy", "True").await;

    // Further reconciles and repairs do not attempt the upgrade again.
    for _ in 0..2 {
        support::delete(&maps(world, space.name()), "v").await;
        has_value(world, space.name(), "v", "v", "v1").await;
    }
    let still = read(world, &name).await;
    assert_eq!(line(&still, "Installed"), "True RolledBack");
    assert_eq!(installed(&still), installed(&first));
    assert!(still.status.unwrap().failed_template_hash.is_some());

    upgrade(world, &name, "v3", &of("v3", "works")).await;
    let third = becomes(world, &name, "v3", |status| {
        let is_other = status.installed_bundle_name.as_deref() != installed(&first);
        (is_other && support::has(&status.conditions, "Healthy", "True")).then_some(())
    })
    .await;
    assert_eq!(line(&third, "Installed"), "True InstallationSucceeded");
    assert_eq!(third.status.unwrap().failed_template_hash, None);
    wait_deleted::<Bundle>(world.api(), installed(&first).unwrap()).await;
    let part = json!({"status": {"previousBundleName": null}});
    support::wait_part::<BundleInstance>(world.api(), &name, part).await;
    tests::assert_rows!(line(&wait_reason(world, &name, "Progressing", "UpToDate").await, "Progressing") => "False UpToDate");
    world.uninstall(&name).await;
}

/// If the ReplicaSet exists already, a Deployment keeps the condition of a timeout until the rollout progresses, also after its
/// controller has observed the rollout.
#[tokio::test]
async fn timeout_of_an_earlier_rollout_does_not_lead_to_a_rollback() {
    const TIMED_OUT: &str = "ProgressDeadlineExceeded";
    let (world, name, space) = start("earlier").await;
    world.cluster.stand_in_node().await.unwrap();
    let of = |version: &str, web: &str, fate, deadline: u32| {
        let mut web = deployment(space.name(), "web", 1, web, fate);
        web["spec"]["progressDeadlineSeconds"] = json!(deadline);
        [web, map(space.name(), "v", &[("v", version)])]
    };
    install(world, &name, &of("v1", "v1", "works", 600)).await;
    upgrade(world, &name, "v2", &of("v2", "v2", "fails", 1)).await;
    wait_message(world, &name, "Healthy", &[TIMED_OUT]).await;
    // Once the pod exists, the rollout no longer progresses, so the Deployment keeps the condition.
    let timed_out = json!({"type": "Progressing", "reason": TIMED_OUT});
    let stuck = json!({"status": {"updatedReplicas": 1, "conditions": [timed_out]}});
    support::wait_part(deployments(world, space.name()), "web", stuck).await;

    // The pods are the same, so that the new rollout does not progress either.
    let source = publish(world, &format!("{name}:v3"), &of("v3", "v2", "fails", 15)).await;
    let spec = json!({"rollback": "OnFailure", "template": {"spec": {"source": source}}});
    change(world, &name, json!({ "spec": spec })).await;
    let third = becomes(world, &name, "observed", |status| {
        let newest = status.newest().filter(|newest| newest.number == 3)?;
        let healthy = condition(&status.conditions, "Healthy")?;
        (newest.applied.is_some() && healthy.message.contains(TIMED_OUT)).then_some(())
    })
    .await;
    assert_eq!(line(&third, "Installed"), "True InstallationSucceeded");
    // After the deadline, the timeout counts against this rollout.
    wait_reason(world, &name, "Installed", "RolledBack").await;
    has_value(world, space.name(), "v", "v", "v1").await;
    world.uninstall(&name).await;
}

/// The new version sets an object immutable, so that the change cannot be reverted.
#[tokio::test]
async fn rejected_rollback_reports_both_reasons_and_is_not_repeated() {
    let (world, name, space) = start("stuck").await;
    let group = format!("{name}.example.com");
    let value = map(space.name(), "v", &[("v", "1")]);
    let v1 = [support::crd(&group, "Widget"), value];
    let on_failure = |spec: &mut BundleInstanceSpec| spec.rollback = Rollback::OnFailure;
    declare_with(world, &name, &v1, on_failure).await;
    let first = world.wait_instance(&name, "Installed", "True").await;
    let fixed =
        tests::with!(map(space.name(), "v", &[("v", "2")]) => |map| map["immutable"] = json!(true));
    let new = map(space.name(), "new", &[]);
    let bad = widget(&group, space.name(), "bad", "large");
    upgrade(world, &name, "v2", &[crd_with_v2(&group), fixed, new, bad]).await;
    let stuck = wait_message(world, &name, "Installed", &["immutable", "bad"]).await;
    assert!(stuck.status.unwrap().failed_template_hash.is_some());

    // A further reconcile reports the same.
    let before = read(world, &name).await;
    let label = json!({"metadata": {"labels": {"looked": "at"}}});
    change(world, &name, label).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let after = read(world, &name).await;
    assert_eq!(line(&after, "Installed"), line(&before, "Installed"));
    let written = |instance: &BundleInstance| {
        let status = instance.managed_fields().iter();
        let entries = status.filter(|entry| entry.subresource.as_deref() == Some("status"));
        entries.filter_map(|entry| entry.time.clone()).max()
    };
    assert_ne!(after.resource_version(), before.resource_version());
    assert_eq!(written(&after), written(&before), "tried again");

    // Once the object can be changed, the rollback completes.
    support::delete(&maps(world, space.name()), "v").await;
    let back = json!({"spec": {"crdDeletionPolicy": "Retain"}});
    change(world, &name, back).await;
    let back = wait_reason(world, &name, "Installed", "RolledBack").await;
    assert_eq!(installed(&back), installed(&first));
    assert_message(&back, "Installed", &["bad"]);
    has_value(world, space.name(), "v", "v", "1").await;
    wait_deleted(maps(world, space.name()), "new").await;
    // The CRD keeps its newer form, in which custom resources may be stored.
    assert_eq!(served(world, &group).await, ["v1", "v2"]);
    world.uninstall(&name).await;
}
