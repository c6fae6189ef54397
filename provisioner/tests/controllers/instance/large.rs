//! Bundles with thousands of objects.

use manifests::api::limits;

use super::*;

async fn many(world: &World, tag: &str, objects: &[Value]) -> BundleSource {
    image(&world.push(tag, &support::large(objects)).await)
}

fn numbered(namespace: &str, numbers: std::ops::Range<usize>) -> Vec<Value> {
    numbers
        .map(|number| map(namespace, &format!("m{number:05}"), &[("v", "1")]))
        .collect()
}

/// Counts the ConfigMaps with a label.
async fn count(world: &World, namespace: &str, label: &str) -> usize {
    let params = ListParams::default().labels(label);
    let list = maps(world, namespace).list_metadata(&params).await;
    list.unwrap().items.len()
}

/// Waits until this number of objects is installed.
async fn settled(world: &World, name: &str, objects: usize) -> BundleInstance {
    let description = format!("healthy with {objects} objects");
    let found = becomes(world, name, &description, |status| {
        let healthy = support::has(&status.conditions, "Healthy", "True");
        let settled = support::has(&status.conditions, "Progressing", "False");
        let count = status.inventory.as_ref()?.count;
        (healthy && settled && count == i64::try_from(objects).unwrap()).then_some(())
    })
    .await;
    let inventory = found.status.as_ref().unwrap().inventory.as_ref();
    let kinds = &inventory.unwrap().kinds;
    assert!(kinds.len() <= limits::INVENTORY_KINDS as usize);
    for kind in kinds {
        assert!(kind.objects.len() <= limits::INVENTORY_OBJECTS as usize);
    }
    // The instance has to fit into etcd.
    assert!(serde_json::to_string(&found).unwrap().len() < 256 << 10);
    found
}

// parity: rukpak-31
#[tokio::test]
async fn thousands_of_objects_are_installed_and_removed() {
    const MANY: usize = 2000;
    const FEW: usize = 600;
    let (world, name, space) = start("large").await;
    let selector = format!("{}=BundleInstance", labels::OWNER_KIND);
    let objects = numbered(space.name(), 0..MANY);
    let source = many(world, &format!("{name}:v1"), &objects).await;
    world.instance(&name, "plain", source).await;
    let installed = settled(world, &name, MANY).await;
    assert_eq!(count(world, space.name(), &selector).await, MANY);
    let inventory = installed.status.unwrap().inventory.unwrap();
    let listed: usize = inventory.kinds.iter().map(|kind| kind.objects.len()).sum();
    assert_eq!((listed, inventory.more), (500, None));
    // Older provisioners stored the part of the inventory that exceeds the status in ConfigMaps.
    let overflow = format!("{}={name}", labels::INVENTORY_OF);
    assert_eq!(count(world, support::SYSTEM, &overflow).await, 0);

    let objects = numbered(space.name(), MANY - FEW..MANY);
    let source = many(world, &format!("{name}:v2"), &objects).await;
    point_at(world, &name, &source).await;
    settled(world, &name, FEW).await;
    assert_eq!(count(world, space.name(), &selector).await, FEW);

    // Objects that the status does not list are repaired as well.
    let last = format!("m{:05}", MANY - 1);
    let api = maps(world, space.name());
    patch_as_other(&api, &last, json!({"data": {"v": "2"}})).await;
    has_value(world, space.name(), &last, "v", "1").await;

    let objects = numbered(space.name(), 0..1);
    let source = many(world, &format!("{name}:v3"), &objects).await;
    point_at(world, &name, &source).await;
    settled(world, &name, 1).await;
    assert_eq!(count(world, space.name(), &selector).await, 1);
    delete(world, &name).await;
    assert_eq!(count(world, space.name(), &selector).await, 0);
}
