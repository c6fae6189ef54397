//! The way back, for those who ask for it.

use super::*;

/// Installs the first bundle, with a way back.
async fn install(world: &World, name: &str, objects: &[Value]) -> BundleInstance {
    let source = publish(world, &format!("{name}:v1"), objects).await;
    let mut instance = support::instance(name, "plain", source);
    instance.spec.rollback = manifests::api::instance::Rollback::OnFailure;
    world.create(&instance).await;
    world.wait_instance(name, "Installed", "True").await
}

fn installed(instance: &BundleInstance) -> &str {
    let status = instance.status.as_ref().unwrap();
    status.installed_bundle_name.as_deref().unwrap()
}

// parity: rukpak-42, complaint-8
#[tokio::test]
async fn what_does_not_become_healthy_in_time_is_taken_back_once() {
    let world = running().await;
    world.cluster.stand_in_node().await.unwrap();
    let (name, space) = (
        unique("back"),
        world.cluster.temp_namespace("back").await.unwrap(),
    );
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
    assert!(
        message(&back, "Installed").contains("/web)"),
        "{}",
        message(&back, "Installed")
    );
    has_value(world, space.name(), "v", "v", "v1").await;
    support::wait_for(world.api(), &name, "well again", |it: &BundleInstance| {
        let conditions = &it.status.as_ref()?.conditions;
        support::has(conditions, "Healthy", "True").then_some(())
    })
    .await;

    // Looked at again, and repaired, it is not tried again.
    for _ in 0..2 {
        maps(world, space.name())
            .delete("v", &kube::api::DeleteParams::default())
            .await
            .unwrap();
        has_value(world, space.name(), "v", "v", "v1").await;
    }
    let still = read(world, &name).await;
    assert_eq!(line(&still, "Installed"), "True RolledBack");
    assert_eq!(installed(&still), installed(&first));
    assert!(
        still
            .status
            .as_ref()
            .unwrap()
            .failed_template_hash
            .is_some()
    );

    upgrade(world, &name, "v3", &of("v3", "works")).await;
    let third = support::wait_for(world.api(), &name, "v3", |it: &BundleInstance| {
        let status = it.status.as_ref()?;
        (status.installed_bundle_name.as_deref()? != installed(&first)
            && support::has(&status.conditions, "Healthy", "True"))
        .then_some(())
    })
    .await;
    assert_eq!(line(&third, "Installed"), "True InstallationSucceeded");
    assert_eq!(third.status.unwrap().failed_template_hash, None);
    delete(world, &name).await;
}

/// A definition with `v1`, and with `v2` as well, which objects are then stored in.
fn definition(group: &str, two: bool) -> Value {
    let mut definition = support::crd(group, "Widget");
    if two {
        let versions = definition["spec"]["versions"].as_array_mut().unwrap();
        let mut second = versions[0].clone();
        second["name"] = json!("v2");
        versions[0]["storage"] = json!(false);
        versions.push(second);
    }
    definition
}

/// An object that the apiserver refuses, which it can only say once the definition is there.
fn refused(group: &str, namespace: &str) -> Value {
    json!({
        "apiVersion": format!("{group}/v1"), "kind": "Widget",
        "metadata": {"name": "bad", "namespace": namespace}, "spec": {"size": "large"},
    })
}

#[tokio::test]
async fn what_cannot_be_applied_in_full_is_taken_back_save_for_definitions_with_moved_versions() {
    let world = running().await;
    for moved in [false, true] {
        let (name, space) = (
            unique("half"),
            world.cluster.temp_namespace("half").await.unwrap(),
        );
        let group = format!("{name}.example.com");
        let v1 = [
            definition(&group, false),
            map(space.name(), "v", &[("v", "1")]),
        ];
        let first = install(world, &name, &v1).await;
        let v2 = [
            definition(&group, moved),
            map(space.name(), "v", &[("v", "2")]),
            map(space.name(), "new", &[]),
            refused(&group, space.name()),
        ];
        upgrade(world, &name, "v2", &v2).await;
        let back = wait_reason(world, &name, "Installed", "RolledBack").await;
        assert_eq!(installed(&back), installed(&first));
        assert!(
            message(&back, "Installed").contains("bad"),
            "{}",
            message(&back, "Installed")
        );
        has_value(world, space.name(), "v", "v", "1").await;
        support::gone(maps(world, space.name()), "new").await;
        let definitions: Api<k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition> = world.api();
        let definition = definitions.get(&format!("widgets.{group}")).await.unwrap();
        let served: Vec<String> = definition
            .spec
            .versions
            .into_iter()
            .map(|it| it.name)
            .collect();
        if moved {
            assert_eq!(served, ["v1", "v2"]);
        } else {
            assert_eq!(served, ["v1"]);
        }
        delete(world, &name).await;
    }
}

/// The new version has changed something that cannot be changed back.
#[tokio::test]
async fn a_way_back_that_is_refused_is_told_with_both_reasons_and_not_tried_all_the_time() {
    let world = running().await;
    let (name, space) = (
        unique("stuck"),
        world.cluster.temp_namespace("stuck").await.unwrap(),
    );
    let group = format!("{name}.example.com");
    let v1 = [
        definition(&group, false),
        map(space.name(), "v", &[("v", "1")]),
    ];
    install(world, &name, &v1).await;
    let mut fixed = map(space.name(), "v", &[("v", "2")]);
    fixed["immutable"] = json!(true);
    let v2 = [
        definition(&group, false),
        fixed,
        refused(&group, space.name()),
    ];
    upgrade(world, &name, "v2", &v2).await;
    let stuck = support::wait_for(world.api(), &name, "stuck", |it: &BundleInstance| {
        let told = &condition(&it.status.as_ref()?.conditions, "Installed")?.message;
        (told.contains("immutable") && told.contains("bad")).then_some(())
    })
    .await;
    assert!(stuck.status.unwrap().failed_template_hash.is_some());

    // Looked at again, it says the same, save how often.
    let before = read(world, &name).await;
    let label = json!({"metadata": {"labels": {"looked": "at"}}});
    change(world, &name, label).await;
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    let after = read(world, &name).await;
    assert_eq!(line(&after, "Installed"), line(&before, "Installed"));
    let versions = |it: &BundleInstance| it.resource_version().unwrap().parse::<u64>().unwrap();
    let written = |it: &BundleInstance| {
        let status = it.managed_fields().iter();
        let ours = status.filter(|entry| entry.subresource.as_deref() == Some("status"));
        ours.filter_map(|entry| entry.time.clone()).max()
    };
    assert!(versions(&after) > versions(&before));
    assert_eq!(
        written(&after),
        written(&before),
        "it is tried again and again"
    );

    // As soon as it can be changed, it is.
    maps(world, space.name())
        .delete("v", &kube::api::DeleteParams::default())
        .await
        .unwrap();
    let back = json!({"spec": {"crdDeletionPolicy": "Retain"}});
    change(world, &name, back).await;
    let back = wait_reason(world, &name, "Installed", "RolledBack").await;
    assert!(message(&back, "Installed").contains("bad"));
    has_value(world, space.name(), "v", "v", "1").await;
    delete(world, &name).await;
}

#[tokio::test]
async fn what_was_begun_is_told_of_until_it_is_over_and_can_be_taken_back_later() {
    let world = running().await;
    let (name, space) = (
        unique("begun"),
        world.cluster.temp_namespace("begun").await.unwrap(),
    );
    let v1 = [map(space.name(), "v", &[("v", "1")])];
    let source = publish(world, &format!("{name}:v1"), &v1).await;
    world.instance(&name, "plain", source).await;
    world.wait_instance(&name, "Installed", "True").await;
    // A Namespace of the bundle is not there when all of it is tried, so that the rest is begun.
    let v2 = [
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}),
        map(space.name(), "v", &[("v", "2")]),
        map(&name, "bad", &[("not a key!", "1")]),
    ];
    upgrade(world, &name, "v2", &v2).await;
    let first = wait_reason(world, &name, "Installed", "UpgradeFailed").await;
    has_value(world, space.name(), "v", "v", "2").await;
    assert!(message(&first, "Installed").contains("was being replaced"));

    // The second try changes nothing, as the Namespace is there by now.
    change(world, &name, json!({"spec": {"rollback": "OnFailure"}})).await;
    wait_reason(world, &name, "Installed", "RolledBack").await;
    has_value(world, space.name(), "v", "v", "1").await;
    delete(world, &name).await;
}
