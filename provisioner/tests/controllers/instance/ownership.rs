//! Ownership of objects: foreign objects are not taken, and kept objects are released and can be adopted.

use super::*;

fn owner_name(map: &ConfigMap) -> Option<&str> {
    map.labels().get(labels::OWNER_NAME).map(String::as_str)
}

// parity: platform-30, i11
#[tokio::test]
async fn i11_simultaneous_installations_have_exactly_one_owner() {
    const PAIRS: usize = 4;
    let (world, name, space) = start("race").await;
    let group = format!("{name}.example.com");
    let pairs = [(); PAIRS].map(|()| [unique("race-a"), unique("race-b")]);
    for pair in &pairs {
        for name in pair {
            let objects = [
                // All instances wait for the same API, and start when the API is served.
                widget(&group, space.name(), name, 1),
                map(space.name(), &pair[0], &[("v", name)]),
                map(space.name(), &format!("{name}-own"), &[]),
            ];
            declare(world, name, &objects).await;
        }
    }
    for name in pairs.iter().flatten() {
        refused(world, name, &[]).await;
    }
    world.apply(&support::crd(&group, "Widget")).await;

    let api = maps(world, space.name());
    let mut times = Vec::new();
    for pair in &pairs {
        let object = &pair[0];
        let applied = |config_map: &ConfigMap| owner_name(config_map).map(drop);
        let found = wait_for(api.clone(), object, "applied", applied).await;
        let winner = owner_name(&found).unwrap().to_owned();
        let loser = pair.iter().find(|name| **name != winner).unwrap();
        let well = world.wait_instance(&winner, "Healthy", "True").await;
        assert_eq!(line(&well, "Installed"), "True InstallationSucceeded");
        let part = format!("is owned by BundleInstance {winner}");
        refused(world, loser, &[&part]).await;
        let found = api.get(object).await.unwrap();
        assert_eq!(found.data.as_ref().unwrap()["v"], winner);
        assert_eq!(found.metadata.generation, None);
        // Only the winner has applied it, once.
        let entries = found.metadata.managed_fields.unwrap();
        assert_eq!(entries.len(), 1, "{entries:?}");
        tests::assert_rows!(api.get_opt(&format!("{loser}-own")).await.unwrap() => None);

        world.uninstall(&winner).await;
        let deleted = Instant::now();
        has_value(world, space.name(), object, "v", loser).await;
        world.wait_instance(loser, "Healthy", "True").await;
        // The instance does not wait for the next attempt, 15 seconds after the last one.
        times.push(deleted.elapsed());
        world.uninstall(loser).await;
    }
    // One pair may be slow on a busy machine.
    times.sort_unstable();
    assert!(times[PAIRS - 2] < Duration::from_secs(5), "{times:?}");
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
        let existing = map(space.name(), object, &[("v", "theirs"), ("more", "theirs")]);
        let existing = tests::with!(existing => |map| map["metadata"][field] = value);
        world.apply(&existing).await;
        before.insert(object, api.get(object).await.unwrap());
    }
    let desired = |object: &&str| map(space.name(), object, &[("v", "ours")]);
    let objects: Vec<Value> = before.keys().map(desired).collect();
    declare(world, &name, &objects).await;
    let parts = [
        "/plain already exists and is not managed by a BundleInstance: ",
        "/olm already exists and is managed by OLM (ClusterServiceVersion operators/etcd.v1): ",
        "/helm already exists and is managed by the Helm release db/etcd: ",
        &format!("core.rukpak.io/adopt={name}"),
    ];
    refused(world, &name, &parts).await;
    for (object, before) in &before {
        tests::assert_rows!(api.get(object).await.unwrap().resource_version() => before.resource_version());
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
    world.uninstall(&name).await;
    for object in before.keys() {
        wait_deleted(api.clone(), object).await;
    }
}

/// The labels of a Namespace protect the workloads in the namespace.
// parity: rukpak-40
#[tokio::test]
async fn existing_namespace_is_unchanged_unless_adopted() {
    let world = running().await;
    let name = unique("space");
    let namespace = |level: &str| {
        let labels = json!({"pod-security.kubernetes.io/enforce": level});
        tests::with!(support::namespace_object(&name) => |object| object["metadata"]["labels"] = labels)
    };
    world.apply(&namespace("restricted")).await;
    let objects = [namespace("privileged"), map(&name, "a", &[])];
    declare(world, &name, &objects).await;
    let installed = world.wait_instance(&name, "Installed", "True").await;
    assert_message(&installed, "Installed", &["used unchanged"]);
    let spaces: Api<Namespace> = world.api();
    let labels = spaces.get(&name).await.unwrap().metadata.labels.unwrap();
    assert_eq!(labels["pod-security.kubernetes.io/enforce"], "restricted");
    assert!(!labels.contains_key(labels::OWNER_NAME));

    let adopt = json!({"metadata": {"annotations": {labels::ADOPT: name}}});
    patch_as_other(&spaces, &name, adopt).await;
    let objects = [namespace("restricted"), map(&name, "b", &[])];
    upgrade(world, &name, "v2", &objects).await;
    wait_owned(spaces, &name, &name).await;
    world.uninstall(&name).await;
}

#[tokio::test]
async fn kept_objects_are_released_on_prune_and_on_uninstall() {
    let (world, name, space) = start("kept").await;
    let next = unique("kept-next");
    let api = maps(world, space.name());
    let retained = |object: &str| {
        let map = map(space.name(), object, &[("v", "1")]);
        tests::with!(map => |map| map["metadata"]["annotations"] = json!({labels::KEEP: "true"}))
    };
    let plain = map(space.name(), "plain", &[]);
    let v1 = [retained("pruned"), retained("removed"), plain];
    install(world, &name, &v1).await;
    let uids = async || {
        let [pruned, removed] = [api.get("pruned").await, api.get("removed").await];
        [pruned.unwrap().uid(), removed.unwrap().uid()]
    };
    let before = uids().await;

    upgrade(world, &name, "v2", &[retained("removed")]).await;
    wait_deleted(api.clone(), "plain").await;
    let has_released = |status: &BundleInstanceStatus| status.released.first().map(drop);
    let instance = becomes(world, &name, "released", has_released).await;
    let status = instance.status.unwrap();
    has_parts(&status.released[0], &["/pruned", labels::KEEP]);
    assert_eq!(status.inventory.unwrap().count, 1);
    let is_released = async |name: &str| {
        let released = api.get(name).await.unwrap();
        assert_eq!(owner_name(&released), None, "{released:?}");
        assert!(released.owner_references().is_empty(), "{released:?}");
    };
    is_released("pruned").await;
    // The released object has no owner, so it is not repaired. The owned object, which was changed later, is repaired.
    patch_as_other(&api, "pruned", json!({"data": {"v": "2"}})).await;
    patch_as_other(&api, "removed", json!({"data": {"v": "2"}})).await;
    has_value(world, space.name(), "removed", "v", "1").await;
    assert_eq!(api.get("pruned").await.unwrap().data.unwrap()["v"], "2");

    world.uninstall(&name).await;
    is_released("removed").await;
    assert_eq!(uids().await, before);

    // Another instance can adopt both.
    install(world, &next, &[retained("pruned"), retained("removed")]).await;
    let pruned = api.get("pruned").await.unwrap();
    assert_eq!(owner_name(&pruned), Some(next.as_str()));
    assert_eq!(pruned.data.unwrap()["v"], "1");
    world.uninstall(&next).await;
}
