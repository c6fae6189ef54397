//! Catalogs in ConfigMaps, read with the rights that an admin gives.

use k8s_openapi::api::{core::v1::ConfigMap, events::v1::Event};
use kube::api::ListParams;
use manifests::api::install;

use super::{
    serving::{HERE, Leader, stage},
    status::{message, reason, status},
    *,
};
use crate::support::{apply, delete};

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

// parity: serve-6, serve-8
#[tokio::test]
async fn a_config_map_is_read_served_and_followed() {
    let shelf = stage().await;
    let secrets = install::catalog_secrets(&install::Options::default(), "catalogs");
    apply(&shelf.cluster, &secrets).await;
    let leader = Leader::start(&shelf.cluster, HERE);
    let source = json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
        "metadata": {"name": "mine", "namespace": "catalogs"},
        "spec": {"sourceType": "internal", "configMap": "tides"},
    });
    apply(&shelf.cluster, &source).await;
    let lacks = shelf
        .becomes("mine", "without its ConfigMap", |it| {
            reason(it) == "ConfigMapError"
        })
        .await;
    let said = message(&lacks);
    let begin = "failed to get catalog config map tides: configmaps \"tides\" not found";
    assert!(said.starts_with(begin), "{said}");

    apply(&shelf.cluster, &map(CSV, "tide.v1.0.0")).await;
    shelf
        .hands_out(HERE, "catalogs/mine", &["tide.v1.0.0"])
        .await;
    let read = shelf
        .becomes("mine", "READY", |it| {
            let state = status(it).connection_state;
            state.is_some_and(|it| it.last_observed_state == "READY") && reason(it).is_empty()
        })
        .await;
    let maps: Api<ConfigMap> = Api::namespaced(shelf.cluster.client().unwrap(), "catalogs");
    let there = maps.get("tides").await.unwrap().metadata;
    let reference = status(&read).config_map_reference.unwrap();
    assert_eq!(reference.uid, there.uid);
    assert_eq!(reference.resource_version, there.resource_version);
    assert_eq!(
        (reference.name.as_str(), reference.namespace.as_str()),
        ("tides", "catalogs")
    );
    assert!(reference.last_update_time.is_some());

    // Of what it becomes, everybody gets the latest.
    let both = map(&format!("{CSV}{NEWER}"), "tide.v1.1.0");
    apply(&shelf.cluster, &both).await;
    shelf
        .hands_out(HERE, "catalogs/mine", &["tide.v1.0.0", "tide.v1.1.0"])
        .await;

    // What it may not become, and that it goes, is told, and what was read last stays.
    let mut damaged = both;
    damaged["data"]["packages"] = "{".into();
    apply(&shelf.cluster, &damaged).await;
    shelf
        .becomes("mine", "damaged", |it| {
            reason(it) == "ConfigMapError"
                && message(it).contains("the text of key packages cannot be read")
        })
        .await;
    delete(&maps, "tides").await;
    shelf
        .becomes("mine", "gone", |it| message(it).contains("not found"))
        .await;
    shelf
        .hands_out(HERE, "catalogs/mine", &["tide.v1.0.0", "tide.v1.1.0"])
        .await;
    // Platform operators choose from it as from any other.
    let offered = leader.offers("tide");
    assert_eq!(offered, ["catalogs/mine: tide.v1.0.0 tide.v1.1.0"]);

    // Another one of its name is another one.
    apply(&shelf.cluster, &map(CSV, "tide.v1.0.0")).await;
    shelf
        .hands_out(HERE, "catalogs/mine", &["tide.v1.0.0"])
        .await;
    let replaced = maps.get("tides").await.unwrap().metadata;
    assert_ne!(replaced.uid, there.uid);
    shelf
        .becomes("mine", "of the other ConfigMap", |it| {
            let reference = status(it).config_map_reference.unwrap_or_default();
            reference.uid == replaced.uid && reason(it).is_empty()
        })
        .await;
    leader.end().await;
}

/// Is told only where it lasts.
#[tokio::test]
async fn an_interruption_of_its_watch_is_no_broken_config_map() {
    let shelf = stage().await;
    let secrets = install::catalog_secrets(&install::Options::default(), "catalogs");
    apply(&shelf.cluster, &secrets).await;
    let (leader, mut line) = Leader::behind_line(&shelf.cluster, HERE).await;
    let source = json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
        "metadata": {"name": "mine", "namespace": "catalogs"},
        "spec": {"sourceType": "internal", "configMap": "tides"},
    });
    let one = map(CSV, "tide.v1.0.0");
    for object in [&one, &source] {
        apply(&shelf.cluster, object).await;
    }
    shelf
        .hands_out(HERE, "catalogs/mine", &["tide.v1.0.0"])
        .await;
    let warnings = async || {
        let events: Api<Event> = Api::namespaced(shelf.cluster.client().unwrap(), "catalogs");
        let all = events.list(&ListParams::default()).await.unwrap().items;
        let of = all
            .into_iter()
            .filter(|it| it.reason.as_deref() == Some("CatalogUnavailable"));
        of.filter_map(|it| it.note).collect::<Vec<_>>()
    };
    let trouble = || leader.ctx.catalogs.states().pop().unwrap().trouble;

    let mut doubts = leader.ctx.versions.changes();
    line.cut();
    for _ in 0..3 {
        // A watch has failed, and so has this one.
        doubts.changed().await.unwrap();
    }
    assert_eq!(trouble(), None);
    line.mend().await;
    let both = map(&format!("{CSV}{NEWER}"), "tide.v1.1.0");
    apply(&shelf.cluster, &both).await;
    shelf
        .hands_out(HERE, "catalogs/mine", &["tide.v1.0.0", "tide.v1.1.0"])
        .await;
    let maps: Api<ConfigMap> = Api::namespaced(shelf.cluster.client().unwrap(), "catalogs");
    let there = maps.get("tides").await.unwrap().metadata;
    shelf
        .becomes("mine", "of what is there now", |it| {
            let reference = status(it).config_map_reference.unwrap_or_default();
            reference.resource_version == there.resource_version && reason(it).is_empty()
        })
        .await;
    assert_eq!(warnings().await, [""; 0]);
    assert_eq!(trouble(), None);

    // One that lasts is told, and what was read stays.
    line.cut();
    eventually("it is told", async || {
        let told = trouble().unwrap_or_default();
        let begin = "failed to get catalog config map tides: ";
        told.starts_with(begin).then_some(()).ok_or(told)
    })
    .await;
    line.mend().await;
    eventually("it is well again", async || {
        let trouble = trouble();
        trouble.map_or(Ok(()), Err)
    })
    .await;
    shelf
        .hands_out(HERE, "catalogs/mine", &["tide.v1.0.0", "tide.v1.1.0"])
        .await;
    leader.end().await;
}
