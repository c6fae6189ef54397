//! Bundles and templates that mean no good: each is answered in a condition, and what was installed is not harmed.

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

/// Still installed as before, and looked after: what is changed by others is repaired.
async fn unharmed(world: &World, before: &BundleInstance, namespace: &str) {
    let name = before.name_any();
    let now = read(world, &name).await;
    let installed = |it: &BundleInstance| it.status.clone().unwrap().installed_bundle_name;
    assert_eq!(installed(&now), installed(before));
    assert_eq!(line(&now, "Healthy"), "True Healthy");
    meddle(
        &maps(world, namespace),
        "a",
        json!({"data": {"v": "meddled"}}),
    )
    .await;
    has_value(world, namespace, "a", "v", "1").await;
}

#[tokio::test]
async fn what_the_apiserver_does_not_take_leaves_the_old_installation_as_it_was() {
    let world = running().await;
    let (name, space) = (
        unique("invalid"),
        world.cluster.temp_namespace("invalid").await.unwrap(),
    );
    let before = good(world, &name, space.name()).await;
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "namespace": space.name()},
        "spec": {"ports": [{"port": 70_000}]},
    });
    let large = map(space.name(), "large", &[("text", &"x".repeat(1_100_000))]);
    let wrong = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": space.name()},
        "spec": {"replicas": "many"},
    });
    let nowhere = map("nowhere-at-all", "b", &[]);
    for (tag, object, words) in [
        (
            "service",
            &service,
            [
                &format!("Service {space}/s"),
                "spec.ports[0].port",
                "correct the object",
            ],
        ),
        (
            "large",
            &large,
            [
                &format!("ConfigMap {space}/large"),
                "Too long",
                "correct the object",
            ],
        ),
        (
            "wrong",
            &wrong,
            [
                &format!("Deployment {space}/d"),
                "replicas",
                "correct the object",
            ],
        ),
        (
            "nowhere",
            &nowhere,
            ["nowhere-at-all", "does not exist", "create"],
        ),
    ] {
        let a = map(space.name(), "a", &[("v", "2")]);
        upgrade(world, &name, tag, &[a, object.clone()]).await;
        let told = says(world, &name, "Installed", "UpgradeFailed", words[0]).await;
        let said = message(&told, "Installed");
        for part in words {
            assert!(said.contains(part), "{tag}: {part} is not in: {said}");
        }
        assert!(said.contains("stays installed"), "{said}");
        unharmed(world, &before, space.name()).await;
    }
    delete(world, &name).await;
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

#[tokio::test]
async fn one_object_twice_in_a_bundle_is_refused() {
    let world = running().await;
    let (name, space) = (
        unique("twice"),
        world.cluster.temp_namespace("twice").await.unwrap(),
    );
    let before = good(world, &name, space.name()).await;
    let twice = [
        map(space.name(), "a", &[("v", "2")]),
        map(space.name(), "a", &[("v", "3")]),
    ];
    upgrade(world, &name, "twice", &twice).await;
    let told = wait_reason(world, &name, "HasValidBundle", "UnpackFailed").await;
    let said = message(&told, "HasValidBundle");
    assert!(said.contains("ConfigMap \"a\" twice"), "{said}");
    unharmed(world, &before, space.name()).await;
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
    let settled = support::wait_for(world.api(), &name, "two objects", |it: &BundleInstance| {
        let status = it.status.as_ref()?;
        let is_healthy = support::has(&status.conditions, "Healthy", "True");
        (is_healthy && status.inventory.as_ref()?.count == 2).then_some(())
    })
    .await;
    assert_eq!(line(&settled, "Installed"), "True InstallationSucceeded");
    assert_ne!(
        settled.status.as_ref().unwrap().installed_bundle_name,
        before.status.unwrap().installed_bundle_name
    );
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
async fn a_secret_of_the_wrong_type_is_told_and_the_old_installation_stays() {
    let world = running().await;
    let (name, space) = (
        unique("secret"),
        world.cluster.temp_namespace("secret").await.unwrap(),
    );
    let before = good(world, &name, space.name()).await;
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": name, "namespace": support::SYSTEM},
        "type": "kubernetes.io/dockerconfigjson",
        "stringData": {".dockerconfigjson": r#"{"auths": {"example.com": {"auth": "aHVzaC1odXNo"}}}"#},
    });
    world.apply(&secret).await;
    let git = BundleSource {
        type_: "git".to_owned(),
        git: Some(GitSource {
            repository: "https://127.0.0.1:1/nothing.git".to_owned(),
            directory: None,
            reference: GitRef {
                branch: Some("main".to_owned()),
                ..GitRef::default()
            },
            auth: Some(Authorization {
                secret: Some(SecretName { name: name.clone() }),
                ..Authorization::default()
            }),
        }),
        ..BundleSource::default()
    };
    let mut source = serde_json::to_value(&git).unwrap();
    source["image"] = Value::Null;
    change(
        world,
        &name,
        json!({"spec": {"template": {"spec": {"source": source}}}}),
    )
    .await;
    let told = says(world, &name, "HasValidBundle", "UnpackFailed", &name).await;
    let said = message(&told, "HasValidBundle");
    assert!(said.contains("kubernetes.io/dockerconfigjson"), "{said}");
    assert!(said.contains("kubernetes.io/basic-auth"), "{said}");
    assert!(!said.contains("aHVzaC1odXNo"), "{said}");
    unharmed(world, &before, space.name()).await;
    delete(world, &name).await;
    let secrets = Api::<Secret>::namespaced(world.client(), support::SYSTEM);
    secrets
        .delete(&name, &kube::api::DeleteParams::default())
        .await
        .unwrap();
}

#[tokio::test]
async fn a_bundle_does_not_get_at_the_provisioner_or_at_itself() {
    let world = running().await;
    let (name, space) = (
        unique("ouroboros"),
        world.cluster.temp_namespace("ouroboros").await.unwrap(),
    );
    let before = good(world, &name, space.name()).await;
    let spec = json!({"provisionerClassName": "core-rukpak-io-plain", "source": image("a/b")});
    let ours = |kind: &str, name: &str, spec: Value| json!({"apiVersion": "core.rukpak.io/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec});
    let mut definition = support::crd("core.rukpak.io", "Bundle");
    definition["spec"]["scope"] = "Cluster".into();
    definition["spec"]["versions"][0]["name"] = "v1alpha1".into();
    let objects = [
        map(space.name(), "a", &[("v", "2")]),
        ours(
            "BundleInstance",
            &name,
            json!({"provisionerClassName": "core-rukpak-io-plain", "template": {"spec": spec}}),
        ),
        ours("Bundle", "some", spec),
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": support::SYSTEM}}),
        deployment(support::SYSTEM, "core", 0, "v1", "ready"),
        definition,
    ];
    let definitions = || {
        Api::<k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition>::all(world.client())
    };
    let was = definitions().get("bundles.core.rukpak.io").await.unwrap();
    upgrade(world, &name, "ours", &objects).await;
    let told = wait_reason(world, &name, "Installed", "UpgradeFailed").await;
    let said = message(&told, "Installed");
    for part in [
        &format!("BundleInstance {name} is the BundleInstance that installs this bundle"),
        "Bundle some is made by a BundleInstance",
        "Namespace rukpak-system is where the provisioner itself lives",
        "Deployment rukpak-system/core would live among the provisioner's own objects",
        "CustomResourceDefinition bundles.core.rukpak.io is the provisioner's own",
    ] {
        assert!(said.contains(part), "{part} is not in: {said}");
    }
    assert!(!said.contains(labels::ADOPT), "{said}");
    unharmed(world, &before, space.name()).await;
    let is = definitions().get("bundles.core.rukpak.io").await.unwrap();
    assert_eq!(is.metadata.generation, was.metadata.generation);
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

/// Names of roles may hold nearly anything; in a URL they have to be written otherwise.
#[tokio::test]
async fn a_role_with_a_strange_name_is_installed_kept_and_removed() {
    use k8s_openapi::api::rbac::v1::ClusterRole;
    let world = running().await;
    let (name, space) = (
        unique("strange"),
        world.cluster.temp_namespace("strange").await.unwrap(),
    );
    let role = format!("{name} all? #powerful");
    let object = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": role}, "rules": [],
    });
    let objects = [object, map(space.name(), "a", &[])];
    let source = publish(world, &format!("{name}:v1"), &objects).await;
    world.instance(&name, "plain", source).await;
    world.wait_instance(&name, "Healthy", "True").await;
    let roles: Api<ClusterRole> = world.api();
    let there = async || {
        let all = roles.list(&ListParams::default()).await.unwrap();
        all.items
            .iter()
            .any(|it| it.metadata.name.as_ref() == Some(&role))
    };
    assert!(there().await);

    upgrade(world, &name, "v2", &objects[1..]).await;
    support::eventually("it is gone", async || {
        let there = there().await;
        (!there).then_some(()).ok_or("it is there".to_owned())
    })
    .await;
    delete(world, &name).await;
}
