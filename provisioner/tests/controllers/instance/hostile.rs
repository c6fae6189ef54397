//! Templates that cannot be installed: a condition names the problem, and the installed bundle is not harmed.

use super::*;

/// Checks that the bundle is installed as before, and that its objects are repaired.
async fn unharmed(world: &World, before: &BundleInstance, namespace: &str) {
    let name = before.name_any();
    let now = read(world, &name).await;
    assert_eq!(installed(&now), installed(before));
    assert_eq!(line(&now, "Healthy"), "True Healthy");
    // Uses a new client each time, because repairs against the same client are delayed more and more.
    let (maps, altered) = (maps(world, namespace), json!({"data": {"v": "altered"}}));
    support::patch_as(&maps, "a", &unique("rival"), &altered).await;
    has_value(world, namespace, "a", "v", "1").await;
}

#[tokio::test]
async fn rejected_objects_are_named_and_do_no_harm() {
    const FAILED: &str = "Installed UpgradeFailed";
    let (world, name, space) = start("hostile").await;
    let namespace = space.name();
    let before = install(world, &name, &[a(namespace, "1")]).await;
    let of = |api_version: &str, kind: &str, spec: Value| {
        let metadata = json!({"name": "o", "namespace": namespace});
        json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec})
    };
    let remedy = "correct the object";
    for (object, kind, parts) in tests::rows![
        a(namespace, "3"), "HasValidBundle UnpackFailed" => &["ConfigMap \"a\" twice"][..];
        of("v1", "Service", json!({"ports": [{"port": 70_000}]})), FAILED => &["Service */o", "spec.ports[0].port", remedy];
        of("apps/v1", "Deployment", json!({"replicas": "many"})), FAILED => &["Deployment */o", "replicas", remedy];
        map(namespace, "o", &[("text", &"x".repeat(1_100_000))]), FAILED => &["ConfigMap */o", "Too long", remedy];
    ] {
        let still = (kind == FAILED).then_some("is still installed");
        let parts = parts.iter().copied().chain(still);
        let parts: Vec<String> = parts.map(|part| part.replace('*', namespace)).collect();
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let objects = [a(namespace, "2"), object];
        let source = publish(world, &format!("{name}:{}", unique("rejected")), &objects).await;
        point_at(world, &name, &source).await;
        wait_message(world, &name, kind, &parts).await;
        unharmed(world, &before, namespace).await;
    }
    world.uninstall(&name).await;
}

#[tokio::test]
async fn last_of_rapidly_changing_templates_is_installed() {
    const TIMES: usize = 25;
    let (world, name, space) = start("restless").await;
    install(world, &name, &[a(space.name(), "1")]).await;
    let uid = maps(world, space.name()).get("a").await.unwrap().uid();
    let mut sources = Vec::new();
    for n in 0..TIMES {
        let only = map(space.name(), &format!("only-{n}"), &[]);
        let objects = [a(space.name(), &n.to_string()), only];
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
    let [last]: [Bundle; 1] = bundles(world, &name).await.try_into().unwrap();
    tests::assert_rows!(installed(&read(world, &name).await) => Some(&*last.name_any()));
    // Objects of intermediate bundles are pruned a moment later.
    let settled = becomes(world, &name, "two objects", |status| {
        let is_healthy = support::has(&status.conditions, "Healthy", "True");
        (is_healthy && status.inventory.as_ref()?.count == 2).then_some(())
    })
    .await;
    assert_eq!(line(&settled, "Installed"), "True InstallationSucceeded");
    // The installed, the previous and the desired Bundle, two others, and those that are terminating. A busy machine has
    // more, but always fewer than the number of templates.
    assert!(max_bundles <= 12, "{max_bundles} Bundles");
    let owned = owned_by(&name);
    let names = async || {
        let left = maps(world, space.name()).list(&owned).await.unwrap();
        left.iter().map(ConfigMap::name_any).collect::<Vec<_>>()
    };
    let expected = ["a".to_owned(), format!("only-{}", TIMES - 1)];
    support::until("the last objects", names, |names| *names == expected).await;
    assert_eq!(maps(world, space.name()).get("a").await.unwrap().uid(), uid);
    world.uninstall(&name).await;
}

// parity: i4, rukpak-25
#[tokio::test]
async fn i4_failing_templates_keep_the_installed_and_few_bundles() {
    let (world, name, space) = start("reverted").await;
    let source = declare(world, &name, &[a(space.name(), "1")]).await;
    let installed = world.wait_instance(&name, "Healthy", "True").await;
    let before = bundles(world, &name).await.remove(0);
    for n in 0..7 {
        // This image can never be pulled.
        let absent = format!("absent-{name}-{n}");
        let image = image(&world.registry.image(&format!("{absent}:v1")));
        point_at(world, &name, &image).await;
        let parts = [&*absent, "Failed to unpack"];
        let live = wait_message(world, &name, "HasValidBundle UnpackFailed", &parts).await;
        assert_eq!(line(&live, "Installed"), "True InstallationSucceeded");
        // The installed and the desired Bundle, and two others.
        let all = bundles(world, &name).await;
        assert!(all.len() <= 4, "{} Bundles", all.len());
        assert!(all.iter().any(|bundle| bundle.uid() == before.uid()));
    }
    support::delete(&maps(world, space.name()), "a").await;
    has_value(world, space.name(), "a", "v", "1").await;
    unharmed(world, &installed, space.name()).await;
    point_at(world, &name, &source).await;
    world.wait_instance(&name, "HasValidBundle", "True").await;
    let is_first = |left: &Vec<Bundle>| left.iter().map(Bundle::uid).eq([before.uid()]);
    bundles_become(world, &name, "the first alone", is_first).await;
    tests::assert_rows!(line(&read(world, &name).await, "Installed") => "True InstallationSucceeded");
    world.uninstall(&name).await;
    no_bundles(world, &name).await;
}

#[tokio::test]
async fn nested_instance_cannot_install_its_parent() {
    let (world, child, space) = start("child").await;
    let parent = unique("parent");
    let nested = |name: &str, source: BundleSource| {
        let object = json!(support::instance(name, "plain", source));
        tests::with!(object => |object| object["metadata"] = json!({"name": name}))
    };
    let inner = publish(world, &format!("{child}:v1"), &[a(space.name(), "1")]).await;
    let outer = declare(world, &parent, &[nested(&child, inner)]).await;
    let before = world.wait_instance(&child, "Healthy", "True").await;
    world.wait_instance(&parent, "Installed", "True").await;

    // The child's bundle is changed directly, so the parent is paused: it would repair the child.
    change(world, &parent, json!({"spec": {"paused": true}})).await;
    wait_reason(world, &parent, "Progressing", "Paused").await;
    upgrade(world, &child, "circle", &[nested(&parent, outer)]).await;
    let circle = format!("BundleInstance {parent} installs BundleInstance {child}");
    wait_message(world, &child, "Installed UpgradeFailed", &[&circle]).await;
    unharmed(world, &before, space.name()).await;

    change(world, &parent, json!({"spec": {"paused": false}})).await;
    world.uninstall(&parent).await;
    wait_deleted::<BundleInstance>(world.api(), &child).await;
    wait_deleted(maps(world, space.name()), "a").await;
}
