//! Bundles with thousands of objects.

use kube::api::DeleteParams;
use manifests::api::bounds;

use super::*;

/// A bundle of many ConfigMaps, a few of them in each file.
async fn many(world: &World, tag: &str, objects: &[Value]) -> BundleSource {
    let files: Vec<(String, Value)> = objects
        .chunks(500)
        .enumerate()
        .map(|(number, objects)| {
            let texts: Vec<String> = objects.iter().map(ToString::to_string).collect();
            let path = format!("manifests/{number:05}.yaml");
            (path, texts.join("\n---\n").into())
        })
        .collect();
    let mut files: Vec<(&str, Value)> = files
        .iter()
        .map(|(path, text)| (path.as_str(), text.clone()))
        .collect();
    let annotations = plain(&[])
        .read("metadata/annotations.yaml")
        .unwrap()
        .to_vec();
    let annotations = String::from_utf8(annotations).unwrap();
    files.push(("metadata/annotations.yaml", annotations.into()));
    image(&world.push(tag, &support::content(&files)).await)
}

fn numbered(namespace: &str, numbers: std::ops::Range<usize>) -> Vec<Value> {
    numbers
        .map(|number| map(namespace, &format!("m{number:05}"), &[("v", "1")]))
        .collect()
}

/// How many of them there are.
async fn count(world: &World, namespace: &str) -> usize {
    let selector = format!("{}=BundleInstance", labels::OWNER_KIND);
    let params = ListParams::default().labels(&selector);
    let list = maps(world, namespace).list_metadata(&params).await;
    list.unwrap().items.len()
}

/// The number of ConfigMaps that list what the status has no room for: older provisioners wrote these.
async fn overflow(world: &World, name: &str) -> usize {
    let selector = format!("{}={name}", labels::INVENTORY_OF);
    let params = ListParams::default().labels(&selector);
    let list = maps(world, support::SYSTEM).list_metadata(&params).await;
    list.unwrap().items.len()
}

/// Waits until so many objects are installed.
async fn settled(world: &World, name: &str, objects: usize) -> BundleInstance {
    let what = format!("healthy with {objects} objects");
    let found = support::wait_for(world.api(), name, &what, |it: &BundleInstance| {
        let status = it.status.as_ref()?;
        let healthy = support::has(&status.conditions, "Healthy", "True");
        let settled = support::has(&status.conditions, "Progressing", "False");
        let count = status.inventory.as_ref()?.count;
        (healthy && settled && count == i64::try_from(objects).unwrap()).then_some(())
    })
    .await;
    let kinds = &found
        .status
        .as_ref()
        .unwrap()
        .inventory
        .as_ref()
        .unwrap()
        .kinds;
    assert!(kinds.len() <= bounds::INVENTORY_KINDS as usize);
    for kind in kinds {
        assert!(kind.objects.len() <= bounds::INVENTORY_OBJECTS as usize);
    }
    // Objects have to fit into an apiserver's store.
    assert!(serde_json::to_string(&found).unwrap().len() < 256 << 10);
    found
}

// parity: rukpak-31
#[tokio::test]
async fn thousands_of_objects_come_and_go() {
    const MANY: usize = 2000;
    const FEW: usize = 600;
    let world = running().await;
    let (name, space) = (
        unique("large"),
        world.cluster.temp_namespace("large").await.unwrap(),
    );
    let objects = numbered(space.name(), 0..MANY);
    let source = many(world, &format!("{name}:v1"), &objects).await;
    world.instance(&name, "plain", source).await;
    let installed = settled(world, &name, MANY).await;
    assert_eq!(count(world, space.name()).await, MANY);
    let inventory = installed.status.unwrap().inventory.unwrap();
    let listed: usize = inventory.kinds.iter().map(|kind| kind.objects.len()).sum();
    assert_eq!((listed, inventory.more), (500, None));
    assert_eq!(overflow(world, &name).await, 0);

    let objects = numbered(space.name(), MANY - FEW..MANY);
    let source = many(world, &format!("{name}:v2"), &objects).await;
    let patch = json!({"spec": {"template": {"spec": {"source": source}}}});
    change(world, &name, patch).await;
    settled(world, &name, FEW).await;
    assert_eq!(count(world, space.name()).await, FEW);

    // What does not stand in the status is repaired as well.
    let last = format!("m{:05}", MANY - 1);
    let api = maps(world, space.name());
    meddle(&api, &last, json!({"data": {"v": "2"}})).await;
    has_value(world, space.name(), &last, "v", "1").await;

    let objects = numbered(space.name(), 0..1);
    let source = many(world, &format!("{name}:v3"), &objects).await;
    let patch = json!({"spec": {"template": {"spec": {"source": source}}}});
    change(world, &name, patch).await;
    settled(world, &name, 1).await;
    assert_eq!(count(world, space.name()).await, 1);
    delete(world, &name).await;
    assert_eq!(count(world, space.name()).await, 0);
}

// parity: rukpak-31
#[tokio::test]
async fn an_instance_with_a_long_inventory_leaves_nothing() {
    // The status lists 500 objects.
    const MAX_OBJECTS: usize = 520;
    let world = running().await;
    for params in [DeleteParams::background(), DeleteParams::foreground()] {
        let (name, space) = (
            unique("long"),
            world.cluster.temp_namespace("long").await.unwrap(),
        );
        let objects = numbered(space.name(), 0..MAX_OBJECTS);
        let source = many(world, &format!("{name}:v1"), &objects).await;
        world.instance(&name, "plain", source).await;
        settled(world, &name, MAX_OBJECTS).await;
        let api: Api<BundleInstance> = world.api();
        api.delete(&name, &params).await.unwrap();
        support::gone(api, &name).await;
        support::eventually("nothing is left", async || {
            let left = (
                count(world, space.name()).await,
                overflow(world, &name).await,
                bundles(world, &name).await.len(),
            );
            (left == (0, 0, 0))
                .then_some(())
                .ok_or_else(|| format!("{left:?}"))
        })
        .await;
    }
}
