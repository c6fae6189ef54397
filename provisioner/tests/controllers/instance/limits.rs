//! The number of Bundles of an instance, and unknown classes.

use super::*;

// parity: rukpak-25
#[tokio::test]
async fn failing_templates_keep_the_installed_bundle_and_few_others() {
    let (world, name, space) = start("reverted").await;
    let source = declare(world, &name, &[map(space.name(), "a", &[])]).await;
    world.wait_instance(&name, "Healthy", "True").await;
    let before = bundles(world, &name).await.remove(0);
    for n in 0..7 {
        // This image can never be pulled.
        let absent = format!("absent-{name}-{n}");
        let image = image(&world.registry.image(&format!("{absent}:v1")));
        point_at(world, &name, &image).await;
        let live = says(world, &name, "HasValidBundle UnpackFailed", &[&absent]).await;
        let installed = live.status.unwrap().installed_bundle_name;
        assert_eq!(installed, Some(before.name_any()));
        // The installed and the desired Bundle, and two others.
        let all = bundles(world, &name).await;
        assert!(all.len() <= 4, "{} Bundles", all.len());
        assert!(all.iter().any(|bundle| bundle.uid() == before.uid()));
    }
    point_at(world, &name, &source).await;
    world.wait_instance(&name, "HasValidBundle", "True").await;
    bundles_become(world, &name, "the first alone", |left| {
        left.iter().map(Bundle::uid).eq([before.uid()])
    })
    .await;
    let instance = read(world, &name).await;
    assert_eq!(line(&instance, "Installed"), "True InstallationSucceeded");
    delete(world, &name).await;
    no_bundles(world, &name).await;
}

// parity: b1
#[tokio::test]
async fn unknown_class_is_reported_for_instance_and_template() {
    let (world, name, space) = start("class").await;
    let unknown = "core-rukpak-io-helm";
    let source = publish(world, &format!("{name}:v1"), &[map(space.name(), "a", &[])]).await;
    let mut instance = support::instance(&name, "plain", source);
    instance.spec.provisioner_class_name = unknown.to_owned();
    world.create(&instance).await;
    let live = wait_reason(world, &name, "HasValidBundle", "UnknownProvisionerClass").await;
    let parts = [unknown, "spec.provisionerClassName", "core-rukpak-io-plain"];
    assert_message(&live, "HasValidBundle", &parts);
    assert_eq!(line(&live, "Installed"), "False NotInstalled");
    assert_eq!(bundles(world, &name).await, []);
    // No finalizer blocks the deletion.
    assert_eq!(live.finalizers(), &[] as &[String]);

    let class = json!({"spec": {
        "provisionerClassName": "core-rukpak-io-plain",
        "template": {"spec": {"provisionerClassName": unknown}},
    }});
    change(world, &name, class).await;
    let live = says(world, &name, "HasValidBundle UnpackFailed", &[unknown]).await;
    assert_eq!(line(&live, "Installed"), "False NotInstalled");

    // Both spellings of a class are one class, and the converter of document 004 is the registry class.
    let class = json!({"spec": {
        "provisionerClassName": "core.rukpak.io/converter",
        "template": {"spec": {"provisionerClassName": "core.rukpak.io/plain"}},
    }});
    change(world, &name, class).await;
    world.wait_instance(&name, "Healthy", "True").await;
    delete(world, &name).await;
}
