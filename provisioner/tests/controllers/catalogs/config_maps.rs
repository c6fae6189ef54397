//! Catalogs in ConfigMaps, read with permissions that an admin grants.

use k8s_openapi::api::core::v1::ConfigMap;
use manifests::api::install;

use super::{
    serving::{BOTH, HERE, ONE, stage},
    *,
};

const CSV: &str = "
- metadata: {name: tide.v1.0.0}
  spec: {version: 1.0.0}
";
const NEWER: &str = "
- metadata: {name: tide.v1.1.0}
  spec: {version: 1.1.0, replaces: tide.v1.0.0}
";

fn map(csvs: &str, head: &str) -> Value {
    let channels = format!("[{{name: stable, currentCSV: {head}}}]");
    let packages = format!("[{{packageName: tide, defaultChannel: stable, channels: {channels}}}]");
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "tides", "namespace": "catalogs"},
        "data": {"customResourceDefinitions": "", "clusterServiceVersions": csvs, "packages": packages},
    })
}

// parity: serve-6, serve-8
#[tokio::test]
async fn config_maps_are_served_and_followed() {
    let shelf = stage().await;
    let secrets = install::catalog_secrets(&install::Options::default(), "catalogs");
    apply(&shelf.cluster, &secrets).await;
    let (leader, mut line) = Leader::behind_line(&shelf.cluster, HERE).await;
    let spec = json!({"sourceType": "internal", "configMap": "tides"});
    let source = catalog_source("catalogs", "mine", &spec);
    apply(&shelf.cluster, &source).await;
    let message = "failed to get catalog config map tides: configmaps \"tides\" not found*";
    let lacks = json!({"reason": "ConfigMapError", "message": message});
    shelf.reports("mine", lacks).await;

    apply(&shelf.cluster, &map(CSV, "tide.v1.0.0")).await;
    shelf.serves("mine", &ONE).await;
    let maps = shelf.api::<ConfigMap>("catalogs");
    let reference = async || {
        let metadata = maps.get("tides").await.unwrap().metadata;
        json!({
            "uid": metadata.uid, "resourceVersion": metadata.resource_version, "name": "tides", "namespace": "catalogs",
            "lastUpdateTime": "*",
        })
    };
    let first = reference().await;
    let ready = json!({"lastObservedState": "READY"});
    let read = json!({"reason": null, "connectionState": ready, "configMapReference": first});
    shelf.reports("mine", read).await;

    // An interruption of the watch is reported only if it lasts. The last content is kept.
    let error = async || {
        let state = leader.ctx.catalogs.states().pop().unwrap();
        state.trouble.unwrap_or_default()
    };
    let client = shelf.client();
    let warnings = async || notes_about(&client, "catalogs", "mine", "CatalogUnavailable").await;
    let before = (String::new(), warnings().await);
    let mut doubts = leader.ctx.versions.changes();
    line.cut();
    for _ in 0..3 {
        // One watch has failed, and then another.
        doubts.changed().await.unwrap();
    }
    assert_eq!((error().await, warnings().await), before);
    let is_reported = |text: &String| text.starts_with("failed to get catalog config map tides: ");
    until("it is reported", error, is_reported).await;
    shelf.serves("mine", &ONE).await;
    line.restore().await;
    until("no error", error, String::is_empty).await;

    // Of several changes, every client gets the latest.
    let both = map(&format!("{CSV}{NEWER}"), "tide.v1.1.0");
    apply(&shelf.cluster, &both).await;
    shelf.serves("mine", &BOTH).await;
    let current = json!({"reason": null, "configMapReference": reference().await});
    shelf.reports("mine", current).await;

    // An invalid ConfigMap and a deleted one are reported, and the last content is kept.
    let mut damaged = both;
    damaged["data"]["packages"] = "{".into();
    apply(&shelf.cluster, &damaged).await;
    let message = "*failed to parse the value of key packages*";
    let unread = json!({"reason": "ConfigMapError", "message": message});
    shelf.reports("mine", unread).await;
    delete(&maps, "tides").await;
    let deleted = json!({"message": "*not found*"});
    shelf.reports("mine", deleted).await;
    shelf.serves("mine", &BOTH).await;
    // Platform operators can choose from it.
    tests::assert_rows!(leader.offers("tide") => ["catalogs/mine: tide.v1.0.0 tide.v1.1.0"]);

    // A new ConfigMap of the same name has another uid.
    apply(&shelf.cluster, &map(CSV, "tide.v1.0.0")).await;
    shelf.serves("mine", &ONE).await;
    let other = reference().await;
    assert_ne!(other["uid"], first["uid"]);
    let read = json!({"reason": null, "configMapReference": other});
    shelf.reports("mine", read).await;
    leader.end().await;
}
