//! Installations, and the Bundles that an instance creates.

use k8s_openapi::api::rbac::v1::ClusterRole;
use provisioner::controllers::bundle_instance::template;

use super::*;

/// The longest name that the API server accepts for an instance.
const MAX_NAME: usize = 45;

/// Checks the conditions of a new installation. Returns its only Bundle.
async fn is_reported(world: &World, instance: &BundleInstance, objects: i64) -> Bundle {
    assert_eq!(line(instance, "Installed"), "True InstallationSucceeded");
    assert_message(instance, "Installed", &["instantiated bundle"]);
    assert_eq!(line(instance, "HasValidBundle"), "True UnpackSuccessful");
    assert_eq!(line(instance, "Progressing"), "False UpToDate");
    let status = instance.status.as_ref().unwrap();
    assert_eq!(status.observed_generation, instance.metadata.generation);
    assert_eq!(status.inventory.as_ref().unwrap().count, objects);
    let bundles = bundles(world, &instance.name_any()).await;
    assert_eq!(bundles.len(), 1);
    assert_eq!(status.installed_bundle_name, Some(bundles[0].name_any()));
    bundles.into_iter().next().unwrap()
}

/// Row I5: a changed template leads to a new Bundle, and the old one is removed.
async fn changed_template_replaces_the_bundle(world: &World, name: &str, old: &Bundle) {
    let labeled = json!({"spec": {"template": {"metadata": {"labels": {"a": "b"}}}}});
    change(world, name, labeled).await;
    support::wait_deleted::<Bundle>(world.api(), &old.name_any()).await;
    let bundles = bundles(world, name).await;
    assert_eq!(bundles.len(), 1);
    assert_eq!(bundles[0].labels()["a"], "b");
    let after = read(world, name).await;
    assert_eq!(
        after.status.unwrap().installed_bundle_name,
        Some(bundles[0].name_any())
    );
}

/// Row G3: a deleted Bundle is created again.
async fn deleted_bundle_is_recreated(world: &World, name: &str) {
    let first = bundles(world, name).await.remove(0);
    let api: Api<Bundle> = world.api();
    support::delete(&api, &first.name_any()).await;
    bundles_become(world, name, "another Bundle is unpacked", |bundles| {
        let is_unpacked = |bundle: &Bundle| {
            let status = bundle.status.as_ref();
            bundle.uid() != first.uid() && status.is_some_and(|status| status.content_url.is_some())
        };
        bundles.iter().any(is_unpacked)
    })
    .await;
    let after = read(world, name).await;
    assert_eq!(line(&after, "Installed"), "True InstallationSucceeded");
}

// parity: i1, rukpak-28, rukpak-26, i5, i13, g3
#[tokio::test]
async fn i1_i5_g3_plain_bundles_are_installed_and_followed() {
    let world = running().await;
    let mut name = format!("{}-", unique("i1"));
    while name.len() < MAX_NAME {
        name.push('x');
    }
    let space = world.cluster.temp_namespace("i1").await.unwrap();
    // Names of roles may contain characters that a URL has to encode.
    let role = format!("{} all? #powerful", unique("strange"));
    let greeting = |text: &str| map(space.name(), "greeting", &[("text", text)]);
    let old = [
        greeting("hello {{ .Values.nobody }}"),
        map(space.name(), "leaves", &[]),
        cluster_role(&role),
    ];
    let instance = install(world, &name, &old).await;
    let bundle = is_reported(world, &instance, 3).await;
    let length = bundle.name_any().len();
    assert!(length <= template::MAX_NAME_LEN, "{length}");
    // Braces are not evaluated.
    let installed = maps(world, space.name()).get("greeting").await.unwrap();
    assert_eq!(
        installed.data.unwrap()["text"],
        "hello {{ .Values.nobody }}"
    );
    let roles: Api<ClusterRole> = world.api();
    let has_role = async || {
        let all = roles.list(&ListParams::default()).await.unwrap();
        let mut names = all.items.iter().map(ClusterRole::name_any);
        names.any(|name| name == role)
    };
    assert!(has_role().await);

    changed_template_replaces_the_bundle(world, &name, &bundle).await;
    deleted_bundle_is_recreated(world, &name).await;

    // An upgrade changes, adds and removes objects.
    let api = maps(world, space.name());
    let uid = api.get("greeting").await.unwrap().uid();
    let new = [greeting("bye"), map(space.name(), "comes", &[])];
    upgrade(world, &name, "v2", &new).await;
    support::wait_deleted(api.clone(), "leaves").await;
    let greeting = api.get("greeting").await.unwrap();
    assert_eq!(
        (greeting.uid(), greeting.data.unwrap()["text"].as_str()),
        (uid, "bye")
    );
    api.get("comes").await.unwrap();
    support::until("the role is deleted", has_role, |has_role| !*has_role).await;

    delete(world, &name).await;
    support::wait_deleted(api, "greeting").await;
}

/// Waits until the metrics count the installation and the queues are empty.
async fn are_counted(world: &World) {
    let metrics = format!("{}/metrics", world.provisioner().await.url("metrics"));
    support::eventually("everything is counted", async || {
        let text = reqwest::get(&metrics).await.unwrap().text().await.unwrap();
        let value = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|value| value.trim().parse::<u64>().ok())
        };
        let are_counted = value("rukpak_objects_applied_total") > Some(0)
            && value("rukpak_unpacked_bytes_total") > Some(0)
            && value("rukpak_reconciles_total{controller=\"Bundle\"}") > Some(0)
            && value("rukpak_reconciles_total{controller=\"Instance\"}") > Some(0)
            && value("rukpak_queue_length{controller=\"Bundle\"}") == Some(0)
            && value("rukpak_queue_length{controller=\"Instance\"}") == Some(0);
        are_counted.then_some(()).ok_or(text)
    })
    .await;
}

// parity: platform-14, platform-15, i14, r1
#[tokio::test]
async fn r1_registry_bundles_are_installed_and_become_ready() {
    let world = running().await;
    world.cluster.stand_in_node().await.unwrap();
    let name = unique("r1");
    let content = support::operator(&name, "1.0.0", &[]);
    let source = image(&world.push(&format!("{name}:v1"), &content).await);
    // The converter of document 004 is the registry class.
    let mut declared = support::instance(&name, "plain", source);
    let class = "core.rukpak.io/converter";
    declared.spec.template.spec.provisioner_class_name = Some(class.to_owned());
    world.create(&declared).await;
    let instance = world.wait_instance(&name, "Healthy", "True").await;
    let bundle = bundles(world, &name).await.remove(0);
    assert_eq!(bundle.spec.provisioner_class_name, class);
    assert!(bundle.status.unwrap().facts.conversion.unwrap().objects > 0);
    let status = instance.status.as_ref().unwrap();
    assert_eq!(status.facts.package.as_deref(), Some(name.as_str()));
    assert_eq!(status.facts.version.as_deref(), Some("1.0.0"));
    let namespace = status.install_namespace.clone().unwrap();
    assert_eq!(namespace, format!("{name}-system"));
    let (operators, operator) = (deployments(world, &namespace), format!("{name}-operator"));
    let deployment = operators.get(&operator).await.unwrap();
    assert_eq!(deployment.status.unwrap().ready_replicas, Some(1));
    are_counted(world).await;
    delete(world, &name).await;
    support::wait_deleted(operators, &operator).await;
}

// parity: i6, i15, i7, complaint-11
#[tokio::test]
async fn i6_i7_i8_missing_apis_are_listed_until_they_are_served() {
    let world = running().await;
    let (user, provider) = (unique("i8-user"), unique("i8-provider"));
    let group = format!("{provider}.example.com");
    let of = |kind: &str, version: &str| json!({"apiVersion": format!("{group}/{version}"), "kind": kind, "metadata": {"name": "a", "namespace": "default"}});
    let objects = [of("Widget", "v1alpha1"), of("Gadget", "v1")];
    declare(world, &user, &objects).await;
    let refused = wait_reason(world, &user, "Installed", "InstallFailed").await;
    let parts = [
        "required resource not found: ",
        &format!("no matches for kind \"Widget\" in version \"{group}/v1alpha1\""),
        &format!("no matches for kind \"Gadget\" in version \"{group}/v1\""),
    ];
    assert_message(&refused, "Installed", &parts);
    assert_eq!(line(&refused, "Healthy"), "False InstallationStatusFalse");

    let mut widgets = support::crd(&group, "Widget");
    widgets["spec"]["versions"][0]["name"] = "v1alpha1".into();
    let crds = [widgets, support::crd(&group, "Gadget")];
    declare(world, &provider, &crds).await;
    world.wait_instance(&provider, "Installed", "True").await;
    world.wait_instance(&user, "Installed", "True").await;
    delete(world, &user).await;
    delete(world, &provider).await;
}
