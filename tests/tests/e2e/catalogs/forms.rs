//! The new forms of CatalogSources, from the object to the served catalog.

use serde_json::json;

use super::{publish, source};
use crate::e2e::{
    day_0::MARKETPLACE,
    environment::{SYSTEM, world},
};

// parity: source-1, source-7, source-18, serve-1, serve-6
#[tokio::test]
async fn new_catalog_source_forms_work_end_to_end() {
    let world = world().await;
    let image = publish("chest:v1", "chest", &["1.0.0"]);
    let spec = json!({"catalogImageSource": {"catalogImage": image}, "priority": -10});
    world.apply(source(SYSTEM, "chest", &spec)).await;
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "locker", "namespace": SYSTEM},
        "data": {
            "customResourceDefinitions": "",
            "clusterServiceVersions": "- metadata: {name: locker.v3.0.0}\n  spec: {version: 3.0.0}\n",
            "packages":
                "- packageName: locker\n  defaultChannel: stable\n  channels: [{name: stable, currentCSV: locker.v3.0.0}]\n",
        },
    });
    world.apply(map).await;
    let spec = json!({"configMapSource": {"configMap": "locker"}, "priority": -10});
    world.apply(source(SYSTEM, "locker", &spec)).await;
    for (name, bundle) in [("chest", "chest.v1.0.0"), ("locker", "locker.v3.0.0")] {
        let address = format!("{name}.rukpak-system.svc:50051");
        world.served_at(SYSTEM, name, &address).await;
        world.lists(SYSTEM, name, &[bundle]).await;
    }

    // The provisioner's pod resolves the Service of the other catalog by name, and uses the default port.
    let spec = json!({
        "catalogServiceSource": {"address": "chest.rukpak-system.svc"}, "priority": -10,
    });
    world.apply(source(MARKETPLACE, "lid", &spec)).await;
    world
        .served_at(MARKETPLACE, "lid", "chest.rukpak-system.svc:50051")
        .await;
    world.remove_source(MARKETPLACE, "lid").await;
    for name in ["chest", "locker"] {
        world.remove_source(SYSTEM, name).await;
    }
}
