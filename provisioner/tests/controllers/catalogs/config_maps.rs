//! Catalogs in ConfigMaps, read with permissions that an admin grants.

use k8s_openapi::api::core::v1::ConfigMap;
use manifests::api::install;

use super::{
    serving::{BOTH, HERE, Leader, ONE, stage},
    *,
};
use crate::support::Line;

const CSV: &str = "
- metadata: {name: tide.v1.0.0}
  spec: {version: 1.0.0}
";
const NEWER: &str = "
- metadata: {name: tide.v1.1.0}
  spec: {version: 1.1.0, replaces: tide.v1.0.0}
";

fn map(csvs: &str, head: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "tides", "namespace": "catalogs"},
        "data": {
            "customResourceDefinitions": "",
            "clusterServiceVersions": csvs,
            "packages": format!(
                "- packageName: tide\n  defaultChannel: stable\n  channels: [{{name: stable, currentCSV: {head}}}]\n"
            ),
        },
    })
}

fn source() -> Value {
    let spec = json!({"sourceType": "internal", "configMap": "tides"});
    catalog_source("catalogs", "mine", &spec)
}

// parity: serve-6, serve-8
#[tokio::test]
async fn config_maps_are_served_and_followed() {
    let shelf = stage().await;
    let secrets = install::catalog_secrets(&install::Options::default(), "catalogs");
    apply(&shelf.cluster, &secrets).await;
    let (leader, mut line) = Leader::behind_line(&shelf.cluster, HERE).await;
    interruptions_of_a_watch_are_no_problem(&shelf, &leader, &mut line).await;
    delete(&shelf.api::<ConfigMap>("catalogs"), "tides").await;
    delete(&shelf.sources("catalogs"), "mine").await;
    until("no catalog", async || leader.offers("tide"), Vec::is_empty).await;
    shelf.clear("catalogs").await;
    a_config_map_is_followed(&shelf, &leader).await;
    leader.end().await;
}

async fn a_config_map_is_followed(shelf: &Shelf, leader: &Leader) {
    apply(&shelf.cluster, &source()).await;
    let message = "failed to get catalog config map tides: configmaps \"tides\" not found*";
    let lacks = json!({"reason": "ConfigMapError", "message": message});
    shelf.reports("mine", lacks).await;

    apply(&shelf.cluster, &map(CSV, "tide.v1.0.0")).await;
    shelf.serves("mine", &ONE).await;
    let maps = shelf.api::<ConfigMap>("catalogs");
    let metadata = maps.get("tides").await.unwrap().metadata;
    let reference = json!({
        "uid": metadata.uid, "resourceVersion": metadata.resource_version, "name": "tides", "namespace": "catalogs",
        "lastUpdateTime": "*",
    });
    let ready = json!({"lastObservedState": "READY"});
    let read = json!({"reason": null, "connectionState": ready, "configMapReference": reference});
    shelf.reports("mine", read).await;

    // Of several changes, every client gets the latest.
    let both = map(&format!("{CSV}{NEWER}"), "tide.v1.1.0");
    apply(&shelf.cluster, &both).await;
    shelf.serves("mine", &BOTH).await;

    // An invalid ConfigMap and a deleted one are reported, and the last content stays.
    let mut damaged = both;
    damaged["data"]["packages"] = "{".into();
    apply(&shelf.cluster, &damaged).await;
    let message = "*failed to parse the value of key packages*";
    let unread = json!({"reason": "ConfigMapError", "message": message});
    shelf.reports("mine", unread).await;
    delete(&maps, "tides").await;
    let gone = json!({"message": "*not found*"});
    shelf.reports("mine", gone).await;
    shelf.serves("mine", &BOTH).await;
    // Platform operators can choose from it.
    let offered = leader.offers("tide");
    assert_eq!(offered, ["catalogs/mine: tide.v1.0.0 tide.v1.1.0"]);

    // A new ConfigMap of the same name has another uid.
    apply(&shelf.cluster, &map(CSV, "tide.v1.0.0")).await;
    shelf.serves("mine", &ONE).await;
    let replaced = maps.get("tides").await.unwrap().metadata;
    assert_ne!(replaced.uid, metadata.uid);
    let other = json!({"reason": null, "configMapReference": {"uid": replaced.uid}});
    shelf.reports("mine", other).await;
}

/// An interruption of the watch is reported only if it lasts.
async fn interruptions_of_a_watch_are_no_problem(shelf: &Shelf, leader: &Leader, line: &mut Line) {
    let one = map(CSV, "tide.v1.0.0");
    for object in [&one, &source()] {
        apply(&shelf.cluster, object).await;
    }
    shelf.serves("mine", &ONE).await;
    let error = || leader.ctx.catalogs.states().pop().unwrap().trouble;

    let mut doubts = leader.ctx.versions.changes();
    line.cut();
    for _ in 0..3 {
        // One watch has failed, and then another.
        doubts.changed().await.unwrap();
    }
    assert_eq!(error(), None);
    line.mend().await;
    let both = map(&format!("{CSV}{NEWER}"), "tide.v1.1.0");
    apply(&shelf.cluster, &both).await;
    shelf.serves("mine", &BOTH).await;
    let maps = shelf.api::<ConfigMap>("catalogs");
    let metadata = maps.get("tides").await.unwrap().metadata;
    let version = json!({"resourceVersion": metadata.resource_version});
    let current = json!({"reason": null, "configMapReference": version});
    shelf.reports("mine", current).await;
    let client = shelf.client();
    let warnings = notes_about(&client, "catalogs", "mine", "CatalogUnavailable").await;
    assert_eq!(warnings, [""; 0]);
    assert_eq!(error(), None);

    // A lasting interruption is reported, and the last content stays.
    line.cut();
    let text = async || error().unwrap_or_default();
    let is_away = |text: &String| text.starts_with("failed to get catalog config map tides: ");
    until("it is told", text, is_away).await;
    line.mend().await;
    until("it is well again", async || error(), Option::is_none).await;
    shelf.serves("mine", &BOTH).await;
}
