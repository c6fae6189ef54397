//! An OLM that comes to a cluster where catalogs are served already.

use std::{sync::Mutex, time::Duration};

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{Pod, Service, ServiceAccount};
use kube::{
    ResourceExt as _,
    api::ListParams,
    runtime::watcher::{self, Event},
};
use manifests::api::{install, labels};
use tests::Registry;

use super::{
    images::push_tide,
    serving::{HERE, Leader, ONE, bundles, stage},
    *,
};
use crate::aggregator::define;

/// What becomes of the Services of a namespace from now on, in words.
fn recorded(services: Api<Service>) -> Arc<Mutex<Vec<String>>> {
    let record = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&record);
    tokio::spawn(async move {
        let mut events = watcher::watcher(services, watcher::Config::default()).boxed();
        while let Some(event) = events.next().await {
            let words = match event {
                Ok(Event::Delete(it)) => format!("{} goes", it.name_any()),
                Ok(Event::Apply(it) | Event::InitApply(it)) => {
                    let is_ours = it.labels().contains_key(labels::CATALOG)
                        || it.labels().contains_key(labels::CATALOG_POD);
                    let whose = if is_ours { "ours" } else { "theirs" };
                    format!("{} is {whose}", it.name_any())
                }
                _ => continue,
            };
            let mut told = told.lock().unwrap();
            if told.last() != Some(&words) {
                told.push(words);
            }
        }
    });
    record
}

fn serves(leader: &Leader) -> Option<String> {
    metric(&leader.ctx, "rukpak_catalogs_served_by_olm ")
}

// parity: serve-10
#[tokio::test]
async fn an_olm_that_comes_takes_over_all_that_was_served() {
    let shelf = stage().await;
    let binding = install::catalog_pods(&install::Options::default(), "catalogs");
    apply(&shelf.cluster, &binding).await;
    let services = shelf.api::<Service>("catalogs");
    let pods = shelf.api::<Pod>("catalogs");
    let registry = Registry::plain();
    let image = push_tide(&registry, "org/catalog:v1", &["1.0.0"]);
    let leader = Leader::start(&shelf.cluster, HERE);
    let plain = json!({"image": image});
    shelf.declare("catalogs", "tides", plain.clone()).await;
    shelf.serves("tides", &ONE).await;
    let own = json!({"image": image, "grpcPodConfig": {"memoryTarget": "1Gi"}});
    shelf.declare("catalogs", "own", own).await;
    let ours = ListParams::default().labels(labels::CATALOG_POD);
    let our_pods = async || pods.list(&ours).await.unwrap().items;
    until("a pod", our_pods, |found| found.len() == 1).await;
    shelf.declare("catalogs", "changed", plain.clone()).await;
    let changed = shelf.serves("changed", &ONE).await;
    let service = services.get("tides").await.unwrap();
    let record = recorded(services.clone());

    // It is installed, and on its way: nobody else would serve meanwhile.
    shelf.olm(0).await;
    define(&shelf.cluster, "clusterserviceversions").await;
    let port = shelf.serves("tides", &ONE).await;
    assert_eq!(serves(&leader).as_deref(), Some("0"));

    // It runs: nothing of ours is in its way any more.
    shelf.olm(1).await;
    gone(services.clone(), "changed").await;
    // OLM writes into the CatalogSource while the provisioner withdraws the catalog.
    let olms = json!({"status": {"connectionState": {"lastObservedState": "CONNECTING"}}});
    merge_status(&shelf.sources("catalogs"), "changed", &olms).await;
    for port in [port, changed] {
        let until_closed = async { while bundles(port).await.is_ok() {} };
        let closed = tokio::time::timeout(Duration::from_secs(180), until_closed).await;
        closed.expect("nobody listens any more");
    }
    // Whoever is still led there is answered.
    assert_eq!(shelf.leads_to("catalogs", "tides").await, None);
    gone(services.clone(), "tides").await;
    gone(services.clone(), "own").await;
    gone(shelf.api::<ServiceAccount>("catalogs"), "own").await;
    until("no pod", our_pods, Vec::is_empty).await;
    assert_eq!(serves(&leader).as_deref(), Some("1"));
    let theirs = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "tides", "namespace": "catalogs", "labels": {"olm.managed": "true"}},
        "spec": {"selector": {"olm.catalogSource": "tides"}, "ports": [{"name": "grpc", "port": 50051}]},
    });
    apply(&shelf.cluster, &theirs).await;
    let theirs = services.get("tides").await.unwrap();
    assert_ne!(theirs.uid(), service.uid());

    // It restarts. Another catalog that comes then is its own, too.
    shelf.olm(0).await;
    shelf.declare("catalogs", "late", plain.clone()).await;
    shelf.olm(1).await;
    shelf.declare("catalogs", "later", plain).await;
    eventually("those that changed or came late wait for OLM", async || {
        let states = leader.ctx.catalogs.states();
        let waits = |name: &str| {
            let mut of = states.iter().filter(|it| it.catalog.name == name);
            let trouble = of.next().and_then(|it| it.trouble.clone());
            trouble.is_some_and(|it| it.starts_with("OLM does not serve it yet"))
        };
        (waits("changed") && waits("late") && waits("later"))
            .then_some(())
            .ok_or(format!("{states:?}"))
    })
    .await;
    let record = record.lock().unwrap().clone();
    let of = |name: &str| -> Vec<&str> {
        let words = record.iter().filter_map(|it| it.strip_prefix(name));
        words.collect()
    };
    assert_eq!(of("tides "), ["is ours", "goes", "is theirs"], "{record:?}");
    for name in ["own ", "changed "] {
        assert_eq!(of(name), ["is ours", "goes"], "{record:?}");
    }
    assert_eq!(record.len(), 7, "{record:?}");
    let after = services.get("tides").await.unwrap();
    assert_eq!(after.resource_version(), theirs.resource_version());
    let slices = shelf.slices("catalogs");
    let ours = ListParams::default().labels(labels::CATALOG);
    let left = slices.list(&ours).await.unwrap().items;
    assert!(left.is_empty(), "{left:?}");
    leader.end().await;
}
