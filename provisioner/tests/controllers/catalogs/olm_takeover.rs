//! OLM is installed into a cluster where the provisioner serves catalogs.

use std::{sync::Mutex, time::Duration};

use futures::StreamExt as _;
use k8s_openapi::api::{
    core::v1::{Pod, Service, ServiceAccount},
    discovery::v1::EndpointSlice,
};
use kube::{
    ResourceExt as _,
    runtime::watcher::{self, Event},
};

use super::{
    images::push_tide,
    serving::{HERE, ONE, bundles, olms_service, stage},
    *,
};
use crate::cluster_operator::define;

/// Records the changes of the Services of a namespace from now on.
fn recorded(services: Api<Service>) -> Arc<Mutex<Vec<String>>> {
    let record = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&record);
    tokio::spawn(async move {
        let mut events = watcher::watcher(services, watcher::Config::default()).boxed();
        while let Some(event) = events.next().await {
            let (service, change) = match event {
                Ok(Event::Delete(service)) => (service, "is deleted"),
                Ok(Event::Apply(service) | Event::InitApply(service)) => {
                    let has = |label: &str| service.labels().contains_key(label);
                    let is_own = has(labels::CATALOG) || has(labels::CATALOG_POD);
                    (service, if is_own { "is own" } else { "is foreign" })
                }
                _ => continue,
            };
            let mut log = log.lock().unwrap();
            log.push(format!("{} {change}", service.name_any()));
            log.dedup();
        }
    });
    record
}

// parity: serve-10
#[tokio::test]
async fn new_olm_takes_over_all_served_catalogs() {
    let shelf = stage().await;
    shelf.allow_pods().await;
    let services = shelf.services("catalogs");
    let registry = Registry::plain();
    let image = push_tide(&registry, "org/catalog:v1", &["1.0.0"]);
    let leader = Leader::start(&shelf.cluster, HERE);
    let served_by_olm = || metric(&leader.ctx, "rukpak_catalogs_served_by_olm ");
    let plain = json!({"image": image});
    shelf.declare("catalogs", "tides", plain.clone()).await;
    shelf.serves("tides", &ONE).await;
    let own = json!({"image": image, "grpcPodConfig": {"memoryTarget": "1Gi"}});
    shelf.declare("catalogs", "own", own).await;
    let our_pods = async || shelf.own::<Pod>(labels::CATALOG_POD).await;
    until("a pod", our_pods, |found| found.len() == 1).await;
    shelf.declare("catalogs", "changed", plain.clone()).await;
    let changed = shelf.serves("changed", &ONE).await;
    let service = services.get("tides").await.unwrap();
    let record = recorded(services.clone());

    // OLM is installed and not yet available: without the provisioner, the catalogs would not be served.
    shelf.olm(0).await;
    define(&shelf.cluster, "clusterserviceversions").await;
    let port = shelf.serves("tides", &ONE).await;
    assert_eq!(served_by_olm().as_deref(), Some("0"));

    // OLM is available: no object of the provisioner blocks it.
    shelf.olm(1).await;
    wait_deleted(services.clone(), "changed").await;
    // OLM writes into the CatalogSource while the provisioner withdraws the catalog.
    let olms = json!({"status": {"connectionState": {"lastObservedState": "CONNECTING"}}});
    merge_status(&shelf.sources("catalogs"), "changed", &olms).await;
    for port in [port, changed] {
        let until_closed = async { while bundles(port).await.is_ok() {} };
        let closed = tokio::time::timeout(Duration::from_secs(180), until_closed).await;
        closed.expect("the port is closed");
    }
    // Clients that are still connected get answers.
    assert_eq!(shelf.endpoint_of("catalogs", "tides").await, None);
    wait_deleted(services.clone(), "tides").await;
    wait_deleted(services.clone(), "own").await;
    wait_deleted(shelf.api::<ServiceAccount>("catalogs"), "own").await;
    until("no pod", our_pods, Vec::is_empty).await;
    assert_eq!(served_by_olm().as_deref(), Some("1"));
    shelf.apply(&olms_service("tides")).await;
    let theirs = services.get("tides").await.unwrap();
    assert_ne!(theirs.uid(), service.uid());

    // OLM restarts. A catalog that is created then also belongs to OLM.
    shelf.olm(0).await;
    shelf.declare("catalogs", "late", plain.clone()).await;
    shelf.olm(1).await;
    shelf.declare("catalogs", "later", plain).await;
    for name in ["changed", "late", "later"] {
        let waits = "OLM does not serve the catalog yet";
        leader.fails_with(name, waits).await;
    }
    let record = record.lock().unwrap().clone();
    for (name, changes) in tests::rows![
        "tides " => &["is own", "is deleted", "is foreign"][..];
        "own " => &["is own", "is deleted"];
        "changed " => &["is own", "is deleted"];
    ] {
        let found = record.iter().filter_map(|entry| entry.strip_prefix(name));
        assert_eq!(found.collect::<Vec<_>>(), changes, "{record:?}");
    }
    assert_eq!(record.len(), 7, "{record:?}");
    tests::assert_rows!(services.get("tides").await.unwrap().resource_version() => theirs.resource_version());
    assert_eq!(shelf.own::<EndpointSlice>(labels::CATALOG).await, []);
}
