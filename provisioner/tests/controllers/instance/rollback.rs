//! Rollbacks of instances with `rollback: OnFailure`.

use std::time::Duration;

use manifests::api::bundle_instance::Rollback;

use super::*;

/// Installs the first bundle, with `rollback: OnFailure`.
async fn install(world: &World, name: &str, objects: &[Value]) -> BundleInstance {
    declare_with(world, name, objects, |spec| {
        spec.rollback = Rollback::OnFailure;
    })
    .await;
    world.wait_instance(name, "Installed", "True").await
}

fn installed(instance: &BundleInstance) -> &str {
    let status = instance.status.as_ref().unwrap();
    status.installed_bundle_name.as_deref().unwrap()
}

// parity: rukpak-42, complaint-8
#[tokio::test]
async fn unhealthy_upgrade_is_rolled_back_once() {
    let (world, name, space) = start("back").await;
    world.cluster.stand_in_node().await.unwrap();
    let of = |version: &str, fate| {
        [
            deployment(space.name(), "web", 1, version, fate),
            map(space.name(), "v", &[("v", version)]),
        ]
    };
    install(world, &name, &of("v1", "works")).await;
    let first = world.wait_instance(&name, "Healthy", "True").await;

    upgrade(world, &name, "v2", &of("v2", "fails")).await;
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
        let is_other = status.installed_bundle_name.as_deref()? != installed(&first);
        (is_other && support::has(&status.conditions, "Healthy", "True")).then_some(())
    })
    .await;
    assert_eq!(line(&third, "Installed"), "True InstallationSucceeded");
    assert_eq!(third.status.unwrap().failed_template_hash, None);
    delete(world, &name).await;
}

#[tokio::test]
async fn rollback_keeps_crds_whose_stored_versions_moved() {
    let world = running().await;
    for moved in [false, true] {
        let (name, space) = fresh(world, "half").await;
        let group = format!("{name}.example.com");
        let v1 = [crd(&group, false), map(space.name(), "v", &[("v", "1")])];
        let first = install(world, &name, &v1).await;
        let v2 = [
            crd(&group, moved),
            map(space.name(), "v", &[("v", "2")]),
            map(space.name(), "new", &[]),
            widget(&group, space.name(), "bad", "large"),
        ];
        upgrade(world, &name, "v2", &v2).await;
        let back = wait_reason(world, &name, "Installed", "RolledBack").await;
        assert_eq!(installed(&back), installed(&first));
        assert_message(&back, "Installed", &["bad"]);
        has_value(world, space.name(), "v", "v", "1").await;
        support::wait_deleted(maps(world, space.name()), "new").await;
        let expected: &[&str] = if moved { &["v1", "v2"] } else { &["v1"] };
        assert_eq!(served(world, &group).await, expected);
        delete(world, &name).await;
    }
}

/// The new version sets an object immutable, so that the change cannot be reverted.
#[tokio::test]
async fn rejected_rollback_reports_both_reasons_and_is_not_repeated() {
    let (world, name, space) = start("stuck").await;
    let group = format!("{name}.example.com");
    let v1 = [crd(&group, false), map(space.name(), "v", &[("v", "1")])];
    install(world, &name, &v1).await;
    let mut fixed = map(space.name(), "v", &[("v", "2")]);
    fixed["immutable"] = json!(true);
    let v2 = [
        crd(&group, false),
        fixed,
        widget(&group, space.name(), "bad", "large"),
    ];
    upgrade(world, &name, "v2", &v2).await;
    let stuck = says(world, &name, "Installed", &["immutable", "bad"]).await;
    assert!(stuck.status.unwrap().failed_template_hash.is_some());

    // A further reconcile reports the same.
    let before = read(world, &name).await;
    let label = json!({"metadata": {"labels": {"looked": "at"}}});
    change(world, &name, label).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let after = read(world, &name).await;
    assert_eq!(line(&after, "Installed"), line(&before, "Installed"));
    let versions =
        |instance: &BundleInstance| instance.resource_version().unwrap().parse::<u64>().unwrap();
    let written = |instance: &BundleInstance| {
        let status = instance.managed_fields().iter();
        let entries = status.filter(|entry| entry.subresource.as_deref() == Some("status"));
        entries.filter_map(|entry| entry.time.clone()).max()
    };
    assert!(versions(&after) > versions(&before));
    assert_eq!(written(&after), written(&before), "tried again");

    // Once the object can be changed, the rollback completes.
    support::delete(&maps(world, space.name()), "v").await;
    let back = json!({"spec": {"crdDeletionPolicy": "Retain"}});
    change(world, &name, back).await;
    let back = wait_reason(world, &name, "Installed", "RolledBack").await;
    assert_message(&back, "Installed", &["bad"]);
    has_value(world, space.name(), "v", "v", "1").await;
    delete(world, &name).await;
}

#[tokio::test]
async fn partial_upgrade_is_reported_and_can_be_rolled_back_later() {
    let (world, name, space) = start("begun").await;
    declare(world, &name, &[map(space.name(), "v", &[("v", "1")])]).await;
    world.wait_instance(&name, "Installed", "True").await;
    // The Namespace of the bundle is missing during the dry runs, so that the rollout starts.
    let v2 = [
        support::namespace_object(&name),
        map(space.name(), "v", &[("v", "2")]),
        map(&name, "bad", &[("not a key!", "1")]),
    ];
    upgrade(world, &name, "v2", &v2).await;
    let first = wait_reason(world, &name, "Installed", "UpgradeFailed").await;
    has_value(world, space.name(), "v", "v", "2").await;
    assert_message(&first, "Installed", &["is partly replaced"]);

    // The second attempt changes nothing, because the Namespace exists now.
    change(world, &name, json!({"spec": {"rollback": "OnFailure"}})).await;
    wait_reason(world, &name, "Installed", "RolledBack").await;
    has_value(world, space.name(), "v", "v", "1").await;
    delete(world, &name).await;
}
