//! Ownership of objects: foreign objects are not taken, and kept objects are released and can be adopted.

use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use tokio::time::Instant;

use super::*;

/// Waits until the first installation is rejected because of ownership.
async fn refused(world: &World, name: &str) -> BundleInstance {
    let refused = wait_reason(world, name, "Installed", "InstallFailed").await;
    assert_eq!(line(&refused, "Installed"), "False InstallFailed");
    assert_eq!(refused.status.as_ref().unwrap().installed_bundle_name, None);
    refused
}

fn owner_name(map: &ConfigMap) -> Option<&str> {
    map.labels().get(labels::OWNER_NAME).map(String::as_str)
}

// parity: platform-30, i11
#[tokio::test]
async fn i11_simultaneous_installations_have_exactly_one_owner() {
    const PAIRS: usize = 4;
    let (world, name, space) = start("race").await;
    let group = format!("{name}.example.com");
    // All instances wait for the same API, and start when the API is served.
    let awaited = |name: &str| widget(&group, space.name(), name, 1);
    let pairs: Vec<[String; 2]> = (0..PAIRS)
        .map(|_| [unique("race-a"), unique("race-b")])
        .collect();
    for pair in &pairs {
        for name in pair {
            let objects = [
                awaited(name),
                map(space.name(), &pair[0], &[("v", name)]),
                map(space.name(), &format!("{name}-own"), &[]),
            ];
            declare(world, name, &objects).await;
        }
    }
    for name in pairs.iter().flatten() {
        refused(world, name).await;
    }
    world.apply(&support::crd(&group, "Widget")).await;

    let api = maps(world, space.name());
    for pair in &pairs {
        let object = &pair[0];
        let applied = |config_map: &ConfigMap| owner_name(config_map).map(drop);
        let found = support::wait_for(api.clone(), object, "applied", applied).await;
        let winner = owner_name(&found).unwrap().to_owned();
        let loser = pair.iter().find(|name| **name != winner).unwrap();
        let well = world.wait_instance(&winner, "Healthy", "True").await;
        assert_eq!(line(&well, "Installed"), "True InstallationSucceeded");
        let part = format!("is owned by BundleInstance {winner}");
        let refused = wait_message(world, loser, "Installed", &[&part]).await;
        assert_eq!(line(&refused, "Installed"), "False InstallFailed");
        assert_eq!(refused.status.unwrap().installed_bundle_name, None);
        let found = api.get(object).await.unwrap();
        assert_eq!(found.data.as_ref().unwrap()["v"], winner);
        assert_eq!(found.metadata.generation, None);
        // Only the winner has applied it, once.
        let entries = found.metadata.managed_fields.unwrap();
        assert_eq!(entries.len(), 1, "{entries:?}");
        let own = api.get_opt(&format!("{loser}-own")).await.unwrap();
        assert_eq!(own, None);

        delete(world, &winner).await;
        let deleted = Instant::now();
        has_value(world, space.name(), object, "v", loser).await;
        world.wait_instance(loser, "Healthy", "True").await;
        // The instance does not wait for the next attempt, 15 seconds after the last one.
        let elapsed = deleted.elapsed();
        assert!(elapsed < Duration::from_secs(5), "{elapsed:?}");
        delete(world, loser).await;
    }
}

// parity: rukpak-43
#[tokio::test]
async fn existing_objects_are_adopted_only_if_annotated() {
    let (world, name, space) = start("adopt").await;
    let api = maps(world, space.name());
    let olm = json!({"olm.owner": "etcd.v1", "olm.owner.kind": "ClusterServiceVersion", "olm.owner.namespace": "operators"});
    let helm = json!({"meta.helm.sh/release-name": "etcd", "meta.helm.sh/release-namespace": "db"});
    let mut before = BTreeMap::new();
    for (object, field, value) in tests::rows![
        "plain", "labels" => json!({});
        "olm", "labels" => olm;
        "helm", "annotations" => helm;
    ] {
        let mut existing = map(space.name(), object, &[("v", "theirs"), ("more", "theirs")]);
        existing["metadata"][field] = value;
        world.apply(&existing).await;
        before.insert(object, api.get(object).await.unwrap());
    }
    let desired = |object: &&str| map(space.name(), object, &[("v", "ours")]);
    let objects: Vec<Value> = before.keys().map(desired).collect();
    declare(world, &name, &objects).await;
    let instance = refused(world, &name).await;
    let parts = [
        "/plain already exists and is not managed by a BundleInstance: ",
        "/olm already exists and is managed by OLM (ClusterServiceVersion operators/etcd.v1): ",
        "/helm already exists and is managed by the Helm release db/etcd: ",
        &format!("core.rukpak.io/adopt={name}"),
    ];
    assert_message(&instance, "Installed", &parts);
    for (object, before) in &before {
        let after = api.get(object).await.unwrap();
        assert_eq!(after.resource_version(), before.resource_version());
    }

    // An annotation that names another instance permits no adoption.
    let adopt = |to: &str| json!({"metadata": {"annotations": {labels::ADOPT: to}}});
    for (object, to) in [("olm", "another"), ("plain", &*name), ("helm", &*name)] {
        patch_as_other(&api, object, adopt(to)).await;
    }
    let policy = |policy: &str| json!({"spec": {"crdDeletionPolicy": policy}});
    change(world, &name, policy("Delete")).await;
    becomes(world, &name, "only one left", |status| {
        let text = &condition(&status.conditions, "Installed")?.message;
        let is_free = !text.contains("/plain") && !text.contains("/helm");
        (is_free && text.contains("/olm already exists")).then_some(())
    })
    .await;
    patch_as_other(&api, "olm", adopt(&name)).await;
    change(world, &name, policy("Retain")).await;
    world.wait_instance(&name, "Healthy", "True").await;
    for (object, before) in &before {
        let after = api.get(object).await.unwrap();
        assert_eq!(after.uid(), before.uid());
        assert_eq!(owner_name(&after), Some(name.as_str()));
        assert_eq!(after.owner_references()[0].name, name);
        let data = after.data.unwrap();
        assert_eq!([&data["v"], &data["more"]], ["ours", "theirs"]);
    }
    delete(world, &name).await;
    for object in before.keys() {
        support::wait_deleted(api.clone(), object).await;
    }
}

/// The labels of a Namespace protect the workloads in the namespace.
// parity: rukpak-40
#[tokio::test]
async fn existing_namespace_is_unchanged_unless_adopted() {
    let world = running().await;
    let name = unique("space");
    let theirs = json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": name, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}},
    });
    world.apply(&theirs).await;
    let mut desired = theirs.clone();
    desired["metadata"]["labels"] = json!({"pod-security.kubernetes.io/enforce": "privileged"});
    declare(world, &name, &[desired, map(&name, "a", &[])]).await;
    let installed = world.wait_instance(&name, "Installed", "True").await;
    assert_message(&installed, "Installed", &["used unchanged"]);
    let spaces: Api<Namespace> = world.api();
    let labels = spaces.get(&name).await.unwrap().metadata.labels.unwrap();
    assert_eq!(labels["pod-security.kubernetes.io/enforce"], "restricted");
    assert!(!labels.contains_key(labels::OWNER_NAME));

    let adopt = json!({"metadata": {"annotations": {labels::ADOPT: name}}});
    patch_as_other(&spaces, &name, adopt).await;
    upgrade(world, &name, "v2", &[theirs, map(&name, "b", &[])]).await;
    let is_owned =
        |found: &Namespace| (found.labels().get(labels::OWNER_NAME)? == &name).then_some(());
    support::wait_for(spaces, &name, "adopted", is_owned).await;
    delete(world, &name).await;
}

/// Objects that are kept when they leave the bundle or when the instance is deleted.
#[tokio::test]
async fn kept_objects_are_released_on_prune_and_on_uninstall() {
    let (world, name, space) = start("kept").await;
    let next = unique("kept-next");
    let api = maps(world, space.name());
    let retained = |object: &str| {
        let mut value = map(space.name(), object, &[("v", "1")]);
        value["metadata"]["annotations"] = json!({labels::KEEP: "true"});
        value
    };
    let v1 = [
        retained("pruned"),
        retained("removed"),
        map(space.name(), "plain", &[]),
    ];
    install(world, &name, &v1).await;
    let uids = async || {
        let [pruned, removed] = [api.get("pruned").await, api.get("removed").await];
        [pruned.unwrap().uid(), removed.unwrap().uid()]
    };
    let before = uids().await;

    upgrade(world, &name, "v2", &[retained("removed")]).await;
    support::wait_deleted(api.clone(), "plain").await;
    let instance = becomes(world, &name, "released", |status| {
        (!status.released.is_empty()).then_some(())
    })
    .await;
    let status = instance.status.unwrap();
    has_parts(&status.released[0], &["/pruned", labels::KEEP]);
    assert_eq!(status.inventory.unwrap().count, 1);
    let assert_released = |config_map: &ConfigMap| {
        assert_eq!(owner_name(config_map), None, "{config_map:?}");
        assert!(config_map.owner_references().is_empty(), "{config_map:?}");
    };
    let pruned = api.get("pruned").await.unwrap();
    assert_released(&pruned);
    // The released object has no owner, so it is not repaired. The owned object, which was changed later, is repaired.
    patch_as_other(&api, "pruned", json!({"data": {"v": "2"}})).await;
    patch_as_other(&api, "removed", json!({"data": {"v": "2"}})).await;
    has_value(world, space.name(), "removed", "v", "1").await;
    assert_eq!(api.get("pruned").await.unwrap().data.unwrap()["v"], "2");

    delete(world, &name).await;
    assert_released(&api.get("removed").await.unwrap());
    assert_eq!(uids().await, before);

    // Another instance can adopt both.
    install(world, &next, &[retained("pruned"), retained("removed")]).await;
    let pruned = api.get("pruned").await.unwrap();
    assert_eq!(owner_name(&pruned), Some(next.as_str()));
    assert_eq!(pruned.data.unwrap()["v"], "1");
    delete(world, &next).await;
}
