//! Catalogs that the provisioner serves, with the permissions of the install file.

mod quota;
mod registry_pods;
mod restart;
mod scale;
mod support;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Service;
use kube::{ResourceExt as _, api::ListParams};
use manifests::api::labels;
use tests::Registry;

pub(super) use self::support::{BOTH, HERE, Leader, ONE, bundles, stage};
use self::support::{THERE, grpc};
use super::{
    images::{push_documents, push_tide},
    *,
};

// parity: serve-1, serve-2, serve-5, serve-25
#[tokio::test]
async fn catalogs_are_served_behind_services_within_a_share() {
    let shelf = stage().await;
    let registry = Registry::plain();
    a_catalog_is_served_behind_a_service_that_is_kept(&shelf, &registry).await;
    shelf.clear("catalogs").await;
    objects_of_others_are_not_touched(&shelf, &registry).await;
    for namespace in ["catalogs", "more-catalogs"] {
        shelf.clear(namespace).await;
    }
    another_leader_takes_over(&shelf, &registry).await;
    for namespace in ["catalogs", "served"] {
        shelf.clear(namespace).await;
    }
    quota::a_namespace_takes_no_more_than_its_share(&shelf, &registry).await;
}

async fn a_catalog_is_served_behind_a_service_that_is_kept(shelf: &Shelf, registry: &Registry) {
    let image = push_tide(registry, "org/catalog:v1", &["1.0.0"]);
    let leader = Leader::start(&shelf.cluster, HERE);
    shelf.declare("catalogs", "my.tides", grpc(&image)).await;
    let port = shelf.serves("my-tides", &ONE).await;
    let address = "my-tides.catalogs.svc:50051";
    shelf.emits("my.tides", "CatalogServed", address).await;
    let served = r#"{namespace="catalogs",name="my.tides"} 1"#;
    assert_eq!(leader.served(), [served]);
    let reported = json!({
        "message": null,
        "registryService": {
            "serviceName": "my-tides", "serviceNamespace": "catalogs", "port": "50051", "protocol": "grpc", "createdAt": "*",
        },
        "connectionState": {"lastObservedState": "READY", "address": address},
    });
    shelf.reports("my.tides", reported).await;
    let services = shelf.services("catalogs");
    let service = services.get("my-tides").await.unwrap();
    let source = shelf.sources("catalogs").get("my.tides").await.unwrap();
    assert_eq!(service.owner_references()[0].uid, source.uid().unwrap());
    let registry_service = source.status.clone().unwrap().registry_service.unwrap();
    assert_eq!(
        registry_service.created_at,
        service.metadata.creation_timestamp
    );

    // Another image is served at the same port.
    let newer = push_tide(registry, "org/catalog:v2", &["1.0.0", "1.1.0"]);
    shelf.declare("catalogs", "my.tides", grpc(&newer)).await;
    let same = shelf.serves("my-tides", &BOTH).await;
    assert_eq!(port, same);
    let after = services.get("my-tides").await.unwrap();
    assert_eq!(service.uid(), after.uid(), "nothing of it had to change");
    assert_eq!(service.resource_version(), after.resource_version());

    // A missing image does not replace the served one.
    let missing = registry.image("org/catalog:none");
    shelf.declare("catalogs", "my.tides", grpc(&missing)).await;
    let none = "org/catalog:none";
    shelf.emits("my.tides", "CatalogUnavailable", none).await;
    assert_eq!(bundles(port).await.unwrap(), BOTH);

    changes_are_reverted(shelf).await;

    let slices = shelf.slices("catalogs");
    let name = list(&slices).await[0].name_any();
    // Once another server provides the catalog, the objects are deleted, and the port is closed.
    let other = json!({"address": "127.0.0.1:1"});
    shelf.declare("catalogs", "my.tides", other).await;
    wait_deleted(services, "my-tides").await;
    wait_deleted(slices, &name).await;
    serves_nothing(port).await;
    assert!(leader.served().is_empty());
    leader.end().await;
}

/// Waits until the port is closed.
async fn serves_nothing(port: u16) {
    let served = async || bundles(port).await.ok();
    until("nobody listens", served, Option::is_none).await;
}

/// Changes of the objects are reverted soon.
async fn changes_are_reverted(shelf: &Shelf) {
    let (services, slices) = (shelf.services("catalogs"), shelf.slices("catalogs"));
    delete(&services, "my-tides").await;
    shelf.serves("my-tides", &BOTH).await;
    let name = list(&slices).await[0].name_any();
    delete(&slices, &name).await;
    shelf.serves("my-tides", &BOTH).await;
    let trap = json!({"spec": {"selector": {"app": "trap"}, "type": "NodePort"}});
    merge(&services, "my-tides", &trap).await;
    let service = async || services.get("my-tides").await.unwrap();
    let is_reverted = |service: &Service| {
        let spec = service.spec.as_ref().unwrap();
        let selector = spec.selector.as_ref();
        selector.is_none_or(BTreeMap::is_empty) && spec.type_.as_deref() == Some("ClusterIP")
    };
    until("the selector is gone", service, is_reverted).await;
    let trap = json!({"endpoints": [{"addresses": ["198.51.100.1"]}]});
    merge(&slices, &name, &trap).await;
    shelf.serves("my-tides", &BOTH).await;
    let stripped = json!({"metadata": {"labels": {labels::CATALOG: null}}});
    merge(&services, "my-tides", &stripped).await;
    let label = async || service().await.labels().get(labels::CATALOG).cloned();
    let is_back = |label: &Option<String>| label.as_deref() == Some("my.tides");
    until("the label is back", label, is_back).await;
}

async fn objects_of_others_are_not_touched(shelf: &Shelf, registry: &Registry) {
    let image = push_tide(registry, "org/catalog:v1", &["1.0.0"]);
    let foreign = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "mine", "namespace": "catalogs", "labels": {"olm.managed": "true"}},
        "spec": {"selector": {"olm.catalogSource": "mine"}, "ports": [{"name": "grpc", "port": 50051}]},
    });
    apply(&shelf.cluster, &foreign).await;
    let services = shelf.services("catalogs");
    let before = services.get("mine").await.unwrap();
    let leader = Leader::start(&shelf.cluster, HERE);
    shelf.declare("catalogs", "mine", grpc(&image)).await;
    let theirs = "is not managed by the provisioner";
    shelf.emits("mine", "CatalogNotServed", theirs).await;
    let served = r#"{namespace="catalogs",name="mine"} 0"#;
    assert_eq!(leader.served(), [served]);
    let after = services.get("mine").await.unwrap();
    assert_eq!(before.resource_version(), after.resource_version());
    assert_eq!(list(&shelf.slices("catalogs")).await, []);
    // Platform operators choose from the catalog all the same.
    let states = leader.ctx.catalogs.states();
    assert!(states.iter().all(|state| state.is_read), "{states:?}");
    let reported = json!({
        "reason": "RegistryServerError", "message": "*is not managed by the provisioner*", "registryService": null,
    });
    shelf.reports("mine", reported).await;

    // Two CatalogSource names that map to one Service name.
    shelf.declare("catalogs", "a-b", grpc(&image)).await;
    shelf.serves("a-b", &ONE).await;
    shelf.declare("catalogs", "a.b", grpc(&image)).await;
    let taken = "belongs to CatalogSource a-b";
    shelf.emits("a.b", "CatalogNotServed", taken).await;
    let (long, problem) = ("long".repeat(16), "has 64 characters");
    shelf.declare("catalogs", &long, grpc(&image)).await;
    shelf.emits(&long, "CatalogNotServed", problem).await;
    // A missing permission is reported; in namespaces that are not served, nothing happens.
    shelf.declare("more-catalogs", "quiet", grpc(&image)).await;
    shelf
        .emits_in("more-catalogs", "quiet", "CatalogRead", "read from image")
        .await;
    assert_eq!(list(&shelf.services("more-catalogs")).await, []);

    // Once the foreign Service is deleted, that of the catalog is created.
    delete(&services, "mine").await;
    shelf.serves("mine", &ONE).await;
    let reported = json!({"message": null, "registryService": {}});
    shelf.reports("mine", reported).await;
    // All catalogs have one image, and are served from one file.
    let files = leader.store.path().join("registries");
    assert_eq!(std::fs::read_dir(files).unwrap().count(), 1);
    leader.end().await;
}

async fn another_leader_takes_over(shelf: &Shelf, registry: &Registry) {
    let image = push_tide(registry, "org/catalog:v1", &["1.0.0"]);
    let first = Leader::start(&shelf.cluster, HERE);
    shelf.declare("catalogs", "mine", grpc(&image)).await;
    shelf.declare("served", "tenants", grpc(&image)).await;
    let port = shelf.serves("mine", &ONE).await;
    let tenants = shelf.hands_out(HERE, "served/tenants", &ONE).await;
    assert_ne!(port, tenants);
    // Choices do not use catalogs of namespaces that are only served.
    let offers = first.ctx.catalogs.offers("tide", None);
    let names: Vec<&str> = offers.list().iter().map(|offer| offer.catalog).collect();
    assert_eq!(names, ["catalogs/mine"]);

    let service = shelf.services("catalogs").get("mine").await.unwrap();
    first.end().await;
    serves_nothing(port).await;
    let second = Leader::start(&shelf.cluster, THERE);
    shelf.hands_out(THERE, "catalogs/mine", &ONE).await;
    shelf.hands_out(THERE, "served/tenants", &ONE).await;
    let after = shelf.services("catalogs").get("mine").await.unwrap();
    assert_eq!(service.resource_version(), after.resource_version());
    assert_eq!(second.served().len(), 2);
    // An address of the other family replaces this one.
    second.end().await;
    let third = Leader::start(&shelf.cluster, "2001:db8::1");
    shelf.hands_out("2001:db8::1", "catalogs/mine", &ONE).await;
    third.end().await;
}
