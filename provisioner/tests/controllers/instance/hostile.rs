//! Templates that cannot be installed: a condition names the problem, and the installed bundle is not harmed.

use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use manifests::api::bundle::{Authorization, GitRef, GitSource, SecretName};

use super::*;

/// Waits until a condition with this reason says something.
async fn says(world: &World, name: &str, type_: &str, reason: &str, words: &str) -> BundleInstance {
    let what = format!("{type_} {reason} {words:?}");
    support::wait_for(world.api(), name, &what, |it: &BundleInstance| {
        let found = condition(&it.status.as_ref()?.conditions, type_)?;
        (found.reason == reason && found.message.contains(words)).then_some(())
    })
    .await
}

/// An instance whose first bundle has a ConfigMap `a` with `v` = `1`.
async fn good(world: &World, name: &str, namespace: &str) -> BundleInstance {
    let source = publish(
        world,
        &format!("{name}:good"),
        &[map(namespace, "a", &[("v", "1")])],
    )
    .await;
    world.instance(name, "plain", source).await;
    world.wait_instance(name, "Healthy", "True").await
}

/// Checks that the bundle is installed as before, and that its objects are repaired.
async fn unharmed(world: &World, before: &BundleInstance, namespace: &str) {
    let name = before.name_any();
    let now = read(world, &name).await;
    let installed = |it: &BundleInstance| it.status.clone().unwrap().installed_bundle_name;
    assert_eq!(installed(&now), installed(before));
    assert_eq!(line(&now, "Healthy"), "True Healthy");
    // Each time another client: repairs against one client are delayed more and more.
    let params = kube::api::PatchParams {
        field_manager: Some(unique("rival")),
        ..kube::api::PatchParams::default()
    };
    let altered = kube::api::Patch::Merge(json!({"data": {"v": "altered"}}));
    let maps = maps(world, namespace);
    maps.patch("a", &params, &altered).await.unwrap();
    has_value(world, namespace, "a", "v", "1").await;
}

/// Points an instance at a source of any type.
async fn point_at(world: &World, name: &str, source: &BundleSource) {
    let mut source = serde_json::to_value(source).unwrap();
    for member in ["image", "git"] {
        if source.get(member).is_none() {
            source[member] = Value::Null;
        }
    }
    let patch = json!({"spec": {"template": {"spec": {"source": source}}}});
    change(world, name, patch).await;
}

/// A repository that nothing serves.
fn repository(secret: Option<&str>) -> BundleSource {
    BundleSource {
        type_: "git".to_owned(),
        git: Some(GitSource {
            repository: "https://127.0.0.1:1/nothing.git".to_owned(),
            directory: None,
            reference: GitRef {
                branch: Some("main".to_owned()),
                ..GitRef::default()
            },
            auth: secret.map(|secret| Authorization {
                secret: Some(SecretName {
                    name: secret.to_owned(),
                }),
                ..Authorization::default()
            }),
        }),
        ..BundleSource::default()
    }
}

/// Row I4: a bundle that cannot be unpacked leaves the installed bundle unchanged.
async fn unavailable_bundle_is_reported(world: &World, before: &BundleInstance, namespace: &str) {
    let name = before.name_any();
    point_at(world, &name, &repository(None)).await;
    let failed = wait_reason(world, &name, "HasValidBundle", "UnpackFailed").await;
    assert!(message(&failed, "HasValidBundle").contains("Failed to unpack"));
    assert_eq!(line(&failed, "Installed"), "True InstallationSucceeded");
    assert_eq!(bundles(world, &name).await.len(), 2);
    let api = maps(world, namespace);
    api.delete("a", &kube::api::DeleteParams::default())
        .await
        .unwrap();
    has_value(world, namespace, "a", "v", "1").await;
    unharmed(world, before, namespace).await;
}

async fn wrong_secret_is_reported(world: &World, before: &BundleInstance, namespace: &str) {
    let name = before.name_any();
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": name, "namespace": support::SYSTEM},
        "type": "kubernetes.io/dockerconfigjson",
        "stringData": {".dockerconfigjson": r#"{"auths": {"example.com": {"auth": "aHVzaC1odXNo"}}}"#},
    });
    world.apply(&secret).await;
    point_at(world, &name, &repository(Some(&name))).await;
    let type_ = "kubernetes.io/dockerconfigjson";
    let failed = says(world, &name, "HasValidBundle", "UnpackFailed", type_).await;
    let problem = message(&failed, "HasValidBundle");
    assert!(problem.contains(&name), "{problem}");
    assert!(problem.contains("kubernetes.io/basic-auth"), "{problem}");
    assert!(!problem.contains("aHVzaC1odXNo"), "{problem}");
    unharmed(world, before, namespace).await;
    let secrets = Api::<Secret>::namespaced(world.client(), support::SYSTEM);
    secrets
        .delete(&name, &kube::api::DeleteParams::default())
        .await
        .unwrap();
}

async fn duplicate_is_reported(world: &World, before: &BundleInstance, namespace: &str) {
    let name = before.name_any();
    let twice = ["2", "3"].map(|version| map(namespace, "a", &[("v", version)]));
    let source = publish(world, &format!("{name}:twice"), &twice).await;
    point_at(world, &name, &source).await;
    let problem = "ConfigMap \"a\" twice";
    says(world, &name, "HasValidBundle", "UnpackFailed", problem).await;
    unharmed(world, before, namespace).await;
}

/// Objects that the API server rejects, each with parts of the message.
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
        let failed = says(world, &name, "Installed", "UpgradeFailed", &parts[0]).await;
        let problem = message(&failed, "Installed");
        for part in &parts {
            assert!(problem.contains(part), "{part} is not in: {problem}");
        }
        assert!(problem.contains("stays installed"), "{problem}");
        unharmed(world, before, namespace).await;
    }
}

/// Objects of the provisioner, and the instance itself.
fn own_objects(name: &str, namespace: &str) -> [Value; 6] {
    let spec = json!({"provisionerClassName": "core-rukpak-io-plain", "source": image("a/b")});
    let own = |kind: &str, name: &str, spec: Value| json!({"apiVersion": "core.rukpak.io/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec});
    let mut definition = support::crd("core.rukpak.io", "Bundle");
    definition["spec"]["scope"] = "Cluster".into();
    definition["spec"]["versions"][0]["name"] = "v1alpha1".into();
    let instance =
        json!({"provisionerClassName": "core-rukpak-io-plain", "template": {"spec": spec}});
    [
        map(namespace, "a", &[("v", "2")]),
        own("BundleInstance", name, instance),
        own("Bundle", "some", spec),
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": support::SYSTEM}}),
        deployment(support::SYSTEM, "core", 0, "v1", "ready"),
        definition,
    ]
}

async fn own_objects_are_out_of_reach(world: &World, before: &BundleInstance, namespace: &str) {
    let name = before.name_any();
    let definitions: Api<k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition> = world.api();
    let was = definitions.get("bundles.core.rukpak.io").await.unwrap();
    let source = publish(
        world,
        &format!("{name}:own"),
        &own_objects(&name, namespace),
    )
    .await;
    point_at(world, &name, &source).await;
    let parts = [
        &format!("BundleInstance {name} is the BundleInstance that installs this bundle"),
        "Bundle some is made by a BundleInstance",
        "Namespace rukpak-system is where the provisioner itself lives",
        "Deployment rukpak-system/core would live among the provisioner's own objects",
        "CustomResourceDefinition bundles.core.rukpak.io is the provisioner's own",
    ];
    let failed = says(world, &name, "Installed", "UpgradeFailed", parts[0]).await;
    let problem = message(&failed, "Installed");
    for part in parts {
        assert!(problem.contains(part), "{part} is not in: {problem}");
    }
    assert!(!problem.contains(labels::ADOPT), "{problem}");
    unharmed(world, before, namespace).await;
    let is = definitions.get("bundles.core.rukpak.io").await.unwrap();
    assert_eq!(is.metadata.generation, was.metadata.generation);
}

#[tokio::test]
async fn an_object_that_is_larger_than_the_cluster_can_store_is_told() {
    let world = running().await;
    let name = unique("large");
    let rules: Vec<Value> = (0..12_000)
        .map(|n| json!({"apiGroups": [format!("group-{n}.{}.example.com", "x".repeat(50))], "resources": [format!("resource-{}", "y".repeat(60))], "verbs": ["get"]}))
        .collect();
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": name}, "rules": rules,
    });
    let source = publish(world, &format!("{name}:v1"), &[role]).await;
    world.instance(&name, "plain", source).await;
    let told = says(
        world,
        &name,
        "Installed",
        "InstallFailed",
        "larger than the cluster can store",
    )
    .await;
    assert!(
        message(&told, "Installed").contains(&format!("ClusterRole {name}")),
        "{told:?}"
    );
    assert_eq!(line(&told, "Progressing"), "False Blocked");
    delete(world, &name).await;
}

// parity: i4
#[tokio::test]
async fn i4_refused_templates_leave_the_installation_unharmed() {
    let world = running().await;
    let name = unique("hostile");
    let space = world.cluster.temp_namespace("hostile").await.unwrap();
    let before = good(world, &name, space.name()).await;
    unavailable_bundle_is_reported(world, &before, space.name()).await;
    wrong_secret_is_reported(world, &before, space.name()).await;
    duplicate_is_reported(world, &before, space.name()).await;
    rejected_objects_are_named(world, &before, space.name()).await;
    own_objects_are_out_of_reach(world, &before, space.name()).await;
    delete(world, &name).await;
}

#[tokio::test]
async fn of_a_template_that_changes_all_the_time_the_last_one_is_installed() {
    const TIMES: usize = 25;
    let world = running().await;
    let (name, space) = (
        unique("restless"),
        world.cluster.temp_namespace("restless").await.unwrap(),
    );
    let before = good(world, &name, space.name()).await;
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
    // The pace is what is tried here, and nothing is waited for.
    let mut pace = tokio::time::interval(Duration::from_millis(100));
    let mut most = 0;
    for source in sources {
        pace.tick().await;
        change(
            world,
            &name,
            json!({"spec": {"template": {"spec": {"source": source}}}}),
        )
        .await;
        most = most.max(bundles(world, &name).await.len());
    }
    has_value(world, space.name(), "a", "v", &(TIMES - 1).to_string()).await;
    support::eventually("one Bundle is left", async || {
        let left = bundles(world, &name).await;
        (left.len() == 1)
            .then_some(())
            .ok_or_else(|| format!("{}", left.len()))
    })
    .await;
    // What was installed on the way is removed a moment later.
    let installed_before = before.status.unwrap().installed_bundle_name;
    let settled = support::wait_for(world.api(), &name, "two objects", |it: &BundleInstance| {
        let status = it.status.as_ref()?;
        let is_healthy = support::has(&status.conditions, "Healthy", "True");
        // The Bundle of before is deleted before the status names the new one.
        let is_upgraded = status.installed_bundle_name != installed_before;
        (is_healthy && is_upgraded && status.inventory.as_ref()?.count == 2).then_some(())
    })
    .await;
    assert_eq!(line(&settled, "Installed"), "True InstallationSucceeded");
    // The installed, the previous and the wanted one, two others, and those that are just going: more on a busy machine, but
    // never as many as there were templates.
    assert!(most <= 12, "{most} Bundles");
    let ours = ListParams::default().labels(&format!("{}={name}", labels::OWNER_NAME));
    support::eventually("nothing of the others is left", async || {
        let left = maps(world, space.name()).list(&ours).await.unwrap().items;
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
async fn an_instance_may_bring_another_but_not_the_one_that_brought_it() {
    let world = running().await;
    let (parent, child) = (unique("parent"), unique("child"));
    let space = world.cluster.temp_namespace("parent").await.unwrap();
    let bring = |name: &str, source: &BundleSource| {
        let mut object =
            serde_json::to_value(support::instance(name, "plain", source.clone())).unwrap();
        object["metadata"] = json!({"name": name});
        object
    };
    let source = publish(
        world,
        &format!("{child}:v1"),
        &[map(space.name(), "a", &[("v", "1")])],
    )
    .await;
    let outer = publish(world, &format!("{parent}:v1"), &[bring(&child, &source)]).await;
    world.instance(&parent, "plain", outer.clone()).await;
    let before = world.wait_instance(&child, "Healthy", "True").await;
    world.wait_instance(&parent, "Installed", "True").await;

    // The bundle of the child is changed behind the parent's back, and the parent's repairs are its own affair.
    change(world, &parent, json!({"spec": {"paused": true}})).await;
    wait_reason(world, &parent, "Progressing", "Paused").await;
    upgrade(world, &child, "circle", &[bring(&parent, &outer)]).await;
    let told = wait_reason(world, &child, "Installed", "UpgradeFailed").await;
    let said = message(&told, "Installed");
    assert!(
        said.contains(&format!(
            "BundleInstance {parent} installs BundleInstance {child}"
        )),
        "{said}"
    );
    unharmed(world, &before, space.name()).await;

    change(world, &parent, json!({"spec": {"paused": false}})).await;
    delete(world, &parent).await;
    support::gone::<BundleInstance>(world.api(), &child).await;
    support::gone(maps(world, space.name()), "a").await;
}
