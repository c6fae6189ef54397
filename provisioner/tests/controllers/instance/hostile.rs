//! Templates that cannot be installed: a condition names the problem, and the installed bundle is not harmed.

use std::time::Duration;

use super::*;

/// Checks that the bundle is installed as before, and that its objects are repaired.
async fn unharmed(world: &World, before: &BundleInstance, namespace: &str) {
    let name = before.name_any();
    let now = read(world, &name).await;
    let installed =
        |instance: &BundleInstance| instance.status.clone().unwrap().installed_bundle_name;
    assert_eq!(installed(&now), installed(before));
    assert_eq!(line(&now, "Healthy"), "True Healthy");
    // Uses a new client each time, because repairs against the same client are delayed more and more.
    let (maps, altered) = (maps(world, namespace), json!({"data": {"v": "altered"}}));
    support::patch_as(&maps, "a", &unique("rival"), &altered).await;
    has_value(world, namespace, "a", "v", "1").await;
}

/// Row I4: a bundle that cannot be unpacked leaves the installed bundle unchanged.
async fn unavailable_bundle_is_reported(world: &World, before: &BundleInstance, namespace: &str) {
    let name = before.name_any();
    let git = json!({"repository": "https://127.0.0.1:1/nothing.git", "ref": {"branch": "main"}});
    let source = serde_json::from_value(json!({"type": "git", "git": git})).unwrap();
    point_at(world, &name, &source).await;
    let failed = wait_reason(world, &name, "HasValidBundle", "UnpackFailed").await;
    assert_message(&failed, "HasValidBundle", &["Failed to unpack"]);
    assert_eq!(line(&failed, "Installed"), "True InstallationSucceeded");
    assert_eq!(bundles(world, &name).await.len(), 2);
    support::delete(&maps(world, namespace), "a").await;
    has_value(world, namespace, "a", "v", "1").await;
    unharmed(world, before, namespace).await;
}

async fn duplicate_is_reported(world: &World, before: &BundleInstance, namespace: &str) {
    let name = before.name_any();
    let twice = ["2", "3"].map(|version| map(namespace, "a", &[("v", version)]));
    let source = publish(world, &format!("{name}:twice"), &twice).await;
    point_at(world, &name, &source).await;
    let (failed, twice) = ("HasValidBundle UnpackFailed", "ConfigMap \"a\" twice");
    says(world, &name, failed, &[twice]).await;
    unharmed(world, before, namespace).await;
}

/// Returns objects that the API server rejects, each with parts of the message.
fn rejected(namespace: &str) -> Vec<(Value, Vec<String>)> {
    let parts = |parts: [&str; 3]| parts.map(str::to_owned).to_vec();
    tests::rows![
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "namespace": namespace},
            "spec": {"ports": [{"port": 70_000}]},
        })
            => parts([&format!("Service {namespace}/s"), "spec.ports[0].port", "correct the object"]);
        map(namespace, "large", &[("text", &"x".repeat(1_100_000))])
            => parts([&format!("ConfigMap {namespace}/large"), "Too long", "correct the object"]);
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": namespace},
            "spec": {"replicas": "many"},
        })
            => parts([&format!("Deployment {namespace}/d"), "replicas", "correct the object"]);
        map("nowhere-at-all", "b", &[]) => parts(["nowhere-at-all", "does not exist", "create"]);
    ]
    .into()
}

async fn rejected_objects_are_named(world: &World, before: &BundleInstance, namespace: &str) {
    let name = before.name_any();
    for (number, (object, parts)) in rejected(namespace).into_iter().enumerate() {
        let objects = [map(namespace, "a", &[("v", "2")]), object];
        let source = publish(world, &format!("{name}:rejected-{number}"), &objects).await;
        point_at(world, &name, &source).await;
        let failed = says(world, &name, "Installed UpgradeFailed", &[&parts[0]]).await;
        for part in parts
            .iter()
            .map(String::as_str)
            .chain(["is still installed"])
        {
            assert_message(&failed, "Installed", &[part]);
        }
        unharmed(world, before, namespace).await;
    }
}

// parity: i4
#[tokio::test]
async fn i4_rejected_templates_leave_the_installation_unharmed() {
    let (world, name, space) = start("hostile").await;
    let objects = [map(space.name(), "a", &[("v", "1")])];
    let before = install(world, &name, &objects).await;
    unavailable_bundle_is_reported(world, &before, space.name()).await;
    duplicate_is_reported(world, &before, space.name()).await;
    rejected_objects_are_named(world, &before, space.name()).await;
    delete(world, &name).await;
}

#[tokio::test]
async fn last_of_rapidly_changing_templates_is_installed() {
    const TIMES: usize = 25;
    let (world, name, space) = start("restless").await;
    let objects = [map(space.name(), "a", &[("v", "1")])];
    let before = install(world, &name, &objects).await;
    let uid = maps(world, space.name()).get("a").await.unwrap().uid();
    let mut sources = Vec::new();
    for n in 0..TIMES {
        let version = n.to_string();
        let objects = [
            map(space.name(), "a", &[("v", &version)]),
            map(space.name(), &format!("only-{n}"), &[]),
        ];
        sources.push(publish(world, &format!("{name}:{n}"), &objects).await);
    }
    // The template changes at a fixed rate, without waiting for installations.
    let mut ticker = tokio::time::interval(Duration::from_millis(100));
    let mut max_bundles = 0;
    for source in sources {
        ticker.tick().await;
        point_at(world, &name, &source).await;
        max_bundles = max_bundles.max(bundles(world, &name).await.len());
    }
    has_value(world, space.name(), "a", "v", &(TIMES - 1).to_string()).await;
    bundles_become(world, &name, "one Bundle is left", |left| left.len() == 1).await;
    // Objects of intermediate bundles are pruned a moment later.
    let installed_before = before.status.unwrap().installed_bundle_name;
    let settled = becomes(world, &name, "two objects", |status| {
        let is_healthy = support::has(&status.conditions, "Healthy", "True");
        // The previous Bundle is deleted before the status names the new one.
        let is_upgraded = status.installed_bundle_name != installed_before;
        (is_healthy && is_upgraded && status.inventory.as_ref()?.count == 2).then_some(())
    })
    .await;
    assert_eq!(line(&settled, "Installed"), "True InstallationSucceeded");
    // The installed, the previous and the desired Bundle, two others, and those that are terminating. A busy machine has
    // more, but always fewer than the number of templates.
    assert!(max_bundles <= 12, "{max_bundles} Bundles");
    let owned = owned_by(&name);
    support::eventually("nothing of the others is left", async || {
        let left = maps(world, space.name()).list(&owned).await.unwrap().items;
        let names: Vec<_> = left.iter().map(ConfigMap::name_any).collect();
        (names == ["a".to_owned(), format!("only-{}", TIMES - 1)])
            .then_some(())
            .ok_or_else(|| format!("{names:?}"))
    })
    .await;
    assert_eq!(maps(world, space.name()).get("a").await.unwrap().uid(), uid);
    delete(world, &name).await;
}

#[tokio::test]
async fn nested_instance_cannot_install_its_parent() {
    let world = running().await;
    let (parent, child) = (unique("parent"), unique("child"));
    let space = world.cluster.temp_namespace("parent").await.unwrap();
    let instance_object = |name: &str, source: &BundleSource| {
        let mut object =
            serde_json::to_value(support::instance(name, "plain", source.clone())).unwrap();
        object["metadata"] = json!({"name": name});
        object
    };
    let objects = [map(space.name(), "a", &[("v", "1")])];
    let source = publish(world, &format!("{child}:v1"), &objects).await;
    let outer = publish(
        world,
        &format!("{parent}:v1"),
        &[instance_object(&child, &source)],
    )
    .await;
    world.instance(&parent, "plain", outer.clone()).await;
    let before = world.wait_instance(&child, "Healthy", "True").await;
    world.wait_instance(&parent, "Installed", "True").await;

    // The child's bundle is changed directly, so the parent is paused: it would repair the child.
    change(world, &parent, json!({"spec": {"paused": true}})).await;
    wait_reason(world, &parent, "Progressing", "Paused").await;
    upgrade(world, &child, "circle", &[instance_object(&parent, &outer)]).await;
    let live = wait_reason(world, &child, "Installed", "UpgradeFailed").await;
    let circle = format!("BundleInstance {parent} installs BundleInstance {child}");
    assert_message(&live, "Installed", &[&circle]);
    unharmed(world, &before, space.name()).await;

    change(world, &parent, json!({"spec": {"paused": false}})).await;
    delete(world, &parent).await;
    support::wait_deleted::<BundleInstance>(world.api(), &child).await;
    support::wait_deleted(maps(world, space.name()), "a").await;
}
