//! Installing.

use super::*;

// parity: i1, rukpak-28
#[tokio::test]
async fn i1_i2_i3_a_plain_bundle_is_installed_and_its_bundle_is_marked() {
    let world = running().await;
    let (name, space) = (
        unique("i1"),
        world.cluster.temp_namespace("i1").await.unwrap(),
    );
    let objects = [map(
        space.name(),
        "greeting",
        &[("text", "hello {{ .Values.nobody }}")],
    )];
    let source = publish(world, &format!("{name}:v1"), &objects).await;
    world.instance(&name, "plain", source).await;
    let instance = world.wait_instance(&name, "Healthy", "True").await;

    assert_eq!(line(&instance, "Installed"), "True InstallationSucceeded");
    assert!(message(&instance, "Installed").contains("instantiated bundle"));
    assert_eq!(line(&instance, "HasValidBundle"), "True UnpackSuccessful");
    assert_eq!(line(&instance, "Progressing"), "False UpToDate");
    let status = instance.status.as_ref().unwrap();
    assert_eq!(status.observed_generation, instance.metadata.generation);
    assert_eq!(status.inventory.as_ref().unwrap().count, 1);

    let bundles = bundles(world, &name).await;
    assert_eq!(bundles.len(), 1);
    let bundle = &bundles[0];
    assert_eq!(status.installed_bundle_name, Some(bundle.name_any()));
    let owner = &bundle.owner_references()[0];
    assert_eq!(
        (owner.uid.clone(), owner.controller),
        (instance.uid().unwrap(), Some(true))
    );
    assert_eq!(bundle.labels()[labels::OWNER_KIND], "BundleInstance");
    assert_eq!(bundle.labels()[labels::OWNER_NAME], name);
    assert!(bundle.labels().contains_key(labels::TEMPLATE_HASH));

    // Braces are no templates.
    let greeting = maps(world, space.name()).get("greeting").await.unwrap();
    assert_eq!(greeting.data.unwrap()["text"], "hello {{ .Values.nobody }}");
    assert_eq!(greeting.metadata.labels.unwrap()[labels::OWNER_NAME], name);
    let owner = &greeting.metadata.owner_references.unwrap()[0];
    assert_eq!(
        (owner.uid.as_str(), owner.block_owner_deletion),
        (instance.uid().unwrap().as_str(), None)
    );
    delete(world, &name).await;
    support::gone(maps(world, space.name()), "greeting").await;
}

// parity: platform-14, i14, r1
#[tokio::test]
async fn r1_a_registry_bundle_is_installed_and_its_pods_become_ready() {
    let world = running().await;
    world.cluster.stand_in_node().await.unwrap();
    let name = unique("r1");
    let content = support::operator(&name, "1.0.0", &[]);
    let source = image(&world.push(&format!("{name}:v1"), &content).await);
    world.instance(&name, "registry", source).await;
    let instance = world.wait_instance(&name, "Healthy", "True").await;
    let status = instance.status.as_ref().unwrap();
    assert_eq!(status.facts.package.as_deref(), Some(name.as_str()));
    assert_eq!(status.facts.version.as_deref(), Some("1.0.0"));
    let namespace = status.install_namespace.clone().unwrap();
    assert_eq!(namespace, format!("{name}-system"));
    let deployment = deployments(world, &namespace)
        .get(&format!("{name}-operator"))
        .await
        .unwrap();
    assert_eq!(deployment.status.unwrap().ready_replicas, Some(1));
    delete(world, &name).await;
    support::gone(deployments(world, &namespace), &format!("{name}-operator")).await;
}

// parity: platform-15
#[tokio::test]
async fn the_converter_class_of_document_004_is_the_registry_class() {
    let world = running().await;
    let name = unique("converter");
    let content = support::operator(&name, "1.0.0", &[]);
    // The document's example, with another image: the one it names holds a catalog.
    let example = json!({
        "apiVersion": "core.rukpak.io/v1alpha1",
        "kind": "BundleInstance",
        "metadata": {"name": name},
        "spec": {
            "provisionerClassName": "core.rukpak.io/plain",
            "template": {"spec": {
                "provisionerClassName": "core.rukpak.io/converter",
                "source": image(&world.push(&format!("{name}:v1"), &content).await),
            }},
        },
    });
    world.apply(&example).await;
    let instance = world.wait_instance(&name, "Installed", "True").await;
    let facts = instance.status.unwrap().facts;
    assert_eq!(facts.package.as_deref(), Some(name.as_str()));
    let bundle = bundles(world, &name).await.remove(0);
    assert_eq!(
        bundle.spec.provisioner_class_name,
        "core.rukpak.io/converter"
    );
    let conversion = bundle.status.unwrap().facts.conversion.unwrap();
    assert!(
        conversion.objects > 0,
        "the ClusterServiceVersion is converted"
    );

    // The class of the instance itself is the alias as well.
    let class = json!({"spec": {"provisionerClassName": "core.rukpak.io/converter"}});
    change(world, &name, class).await;
    let generation = read(world, &name).await.metadata.generation;
    let observed = |instance: &BundleInstance| {
        let status = instance.status.as_ref()?;
        (status.observed_generation == generation).then_some(())
    };
    support::wait_for(world.api(), &name, "observed", observed).await;
    let instance = world.wait_instance(&name, "Installed", "True").await;
    assert_eq!(line(&instance, "HasValidBundle"), "True UnpackSuccessful");
    delete(world, &name).await;
}

// parity: i6, i15
#[tokio::test]
async fn i6_all_missing_apis_are_listed_together() {
    let world = running().await;
    let name = unique("i6");
    let of = |kind: &str, version: &str| json!({"apiVersion": format!("nobody.example.com/{version}"), "kind": kind, "metadata": {"name": "a", "namespace": "default"}});
    let objects = [of("CatalogSource", "v1alpha1"), of("OLMConfig", "v1")];
    let source = publish(world, &format!("{name}:v1"), &objects).await;
    world.instance(&name, "plain", source).await;
    let instance = support::wait_for(
        world.api(),
        &name,
        "InstallFailed",
        |it: &BundleInstance| {
            let conditions = &it.status.as_ref()?.conditions;
            (condition(conditions, "Installed")?.reason == "InstallFailed").then_some(())
        },
    )
    .await;
    let message = message(&instance, "Installed");
    for part in [
        "required resource not found: ",
        r#"no matches for kind "CatalogSource" in version "nobody.example.com/v1alpha1""#,
        r#"no matches for kind "OLMConfig" in version "nobody.example.com/v1""#,
    ] {
        assert!(message.contains(part), "{part} is missing: {message}");
    }
    assert_eq!(line(&instance, "Healthy"), "False InstallationStatusFalse");
    delete(world, &name).await;
}

// parity: i7, complaint-11
#[tokio::test]
async fn i7_i8_a_missing_api_heals_when_its_provider_is_installed() {
    let world = running().await;
    let (user, provider) = (unique("i8-user"), unique("i8-provider"));
    let group = format!("{provider}.example.com");
    let widget = json!({"apiVersion": format!("{group}/v1"), "kind": "Widget", "metadata": {"name": "a", "namespace": "default"}});
    let source = publish(world, &format!("{user}:v1"), &[widget]).await;
    world.instance(&user, "plain", source).await;
    support::wait_for(
        world.api(),
        &user,
        "InstallFailed",
        |it: &BundleInstance| {
            let conditions = &it.status.as_ref()?.conditions;
            let found = condition(conditions, "Installed")?;
            (found.reason == "InstallFailed"
                && found.message.contains("required resource not found"))
            .then_some(())
        },
    )
    .await;
    let source = publish(
        world,
        &format!("{provider}:v1"),
        &[support::crd(&group, "Widget")],
    )
    .await;
    world.instance(&provider, "plain", source).await;
    world.wait_instance(&provider, "Installed", "True").await;
    world.wait_instance(&user, "Installed", "True").await;
    delete(world, &user).await;
    delete(world, &provider).await;
}

// parity: i9
#[tokio::test]
async fn i9_definitions_and_their_resources_come_in_one_bundle() {
    let world = running().await;
    let name = unique("i9");
    let group = format!("{name}.example.com");
    let objects = [
        json!({"apiVersion": format!("{group}/v1"), "kind": "Widget", "metadata": {"name": "a", "namespace": "default"}, "spec": {"size": 1}}),
        support::crd(&group, "Widget"),
    ];
    let source = publish(world, &format!("{name}:v1"), &objects).await;
    world.instance(&name, "plain", source).await;
    world.wait_instance(&name, "Installed", "True").await;
    delete(world, &name).await;
}
