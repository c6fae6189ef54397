//! The number of Bundles of an instance, and unknown classes.

use super::*;

/// A source that can never be unpacked.
fn absent(world: &World, tag: &str) -> Value {
    let source = image(&world.registry.image(&format!("absent-{tag}:v1")));
    json!({"spec": {"template": {"spec": {"source": source}}}})
}

// parity: rukpak-25
#[tokio::test]
async fn failing_templates_keep_the_installed_bundle_and_few_others() {
    let world = running().await;
    let (name, space) = (
        unique("reverted"),
        world.cluster.temp_namespace("reverted").await.unwrap(),
    );
    let source = publish(world, &format!("{name}:v1"), &[map(space.name(), "a", &[])]).await;
    world.instance(&name, "plain", source.clone()).await;
    world.wait_instance(&name, "Healthy", "True").await;
    let before = bundles(world, &name).await.remove(0);
    change(world, &name, absent(world, &name)).await;
    wait_reason(world, &name, "HasValidBundle", "UnpackFailed").await;
    change(
        world,
        &name,
        json!({"spec": {"template": {"spec": {"source": source}}}}),
    )
    .await;
    world.wait_instance(&name, "HasValidBundle", "True").await;
    support::eventually("the other Bundle is gone", async || {
        let left = bundles(world, &name).await;
        let ids: Vec<_> = left.iter().map(Bundle::uid).collect();
        (ids == [before.uid()])
            .then_some(())
            .ok_or_else(|| format!("{ids:?}"))
    })
    .await;
    let instance = read(world, &name).await;
    assert_eq!(line(&instance, "Installed"), "True InstallationSucceeded");
    failing_bundles_are_bounded(world, &instance).await;
    delete(world, &name).await;
    support::eventually("no Bundle is left", async || {
        let left = bundles(world, &name).await.len();
        (left == 0).then_some(()).ok_or_else(|| left.to_string())
    })
    .await;
}

/// Bundles of failing templates do not accumulate.
async fn failing_bundles_are_bounded(world: &World, before: &BundleInstance) {
    let name = before.name_any();
    for n in 0..7 {
        let tag = format!("{name}-{n}");
        change(world, &name, absent(world, &tag)).await;
        let told = support::wait_for(world.api(), &name, &tag, |it: &BundleInstance| {
            let found = condition(&it.status.as_ref()?.conditions, "HasValidBundle")?;
            (found.reason == "UnpackFailed" && found.message.contains(&tag)).then_some(())
        })
        .await;
        let installed = told.status.unwrap().installed_bundle_name;
        assert_eq!(
            installed,
            before.status.as_ref().unwrap().installed_bundle_name
        );
        // The installed and the wanted one, and two others.
        let all = bundles(world, &name).await;
        assert!(all.len() <= 4, "{} Bundles", all.len());
        assert!(
            all.iter()
                .any(|bundle| Some(bundle.name_any()) == installed)
        );
    }
    let now = read(world, &name).await;
    assert_eq!(line(&now, "Installed"), "True InstallationSucceeded");
}

// parity: b1
#[tokio::test]
async fn a_class_that_nobody_serves_is_answered_outside_and_in_the_template() {
    let world = running().await;
    let (name, space) = (
        unique("class"),
        world.cluster.temp_namespace("class").await.unwrap(),
    );
    let source = publish(world, &format!("{name}:v1"), &[map(space.name(), "a", &[])]).await;
    let mut instance = support::instance(&name, "plain", source);
    instance.spec.provisioner_class_name = "core-rukpak-io-helm".to_owned();
    world.create(&instance).await;
    let told = wait_reason(world, &name, "HasValidBundle", "UnknownProvisionerClass").await;
    let said = message(&told, "HasValidBundle");
    for part in [
        "core-rukpak-io-helm",
        "spec.provisionerClassName",
        "core-rukpak-io-plain",
    ] {
        assert!(said.contains(part), "{part} is not in: {said}");
    }
    assert_eq!(line(&told, "Installed"), "False NotInstalled");
    assert_eq!(bundles(world, &name).await, []);
    // Nobody is in the way of its end.
    assert_eq!(told.finalizers(), &[] as &[String]);

    let class = json!({"spec": {
        "provisionerClassName": "core-rukpak-io-plain",
        "template": {"spec": {"provisionerClassName": "core-rukpak-io-helm"}},
    }});
    change(world, &name, class).await;
    let told = support::wait_for(world.api(), &name, "told", |it: &BundleInstance| {
        let found = condition(&it.status.as_ref()?.conditions, "HasValidBundle")?;
        (found.reason == "UnpackFailed" && found.message.contains("core-rukpak-io-helm"))
            .then_some(())
    })
    .await;
    assert_eq!(line(&told, "Installed"), "False NotInstalled");

    // Both spellings of a class are one class.
    let class = json!({"spec": {
        "provisionerClassName": "core.rukpak.io/registry",
        "template": {"spec": {"provisionerClassName": "core.rukpak.io/plain"}},
    }});
    change(world, &name, class).await;
    world.wait_instance(&name, "Healthy", "True").await;
    delete(world, &name).await;
}
