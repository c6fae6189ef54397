//! Catalogs that the provisioner serves, with the permissions of the install file.

mod quota;
mod registry_pods;
mod restart;
mod scale;
mod support;

use kube::ResourceExt as _;

pub(super) use self::support::{BOTH, HERE, ONE, bundles, stage};
use self::support::{THERE, apiserver_metric, grpc};
use super::{
    images::{push_documents, push_tide},
    *,
};

/// Returns the Service that OLM creates for a catalog of the first namespace.
pub(super) fn olms_service(catalog: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": catalog, "namespace": "catalogs", "labels": {"olm.managed": "true"}},
        "spec": {"selector": {"olm.catalogSource": catalog}, "ports": [{"name": "grpc", "port": 50051}]},
    })
}

// parity: serve-1, serve-2, serve-25
#[tokio::test]
async fn catalogs_are_served_behind_services_within_a_share() {
    let shelf = stage().await;
    let registry = Registry::plain();
    let image = push_tide(&registry, "org/catalog:v1", &["1.0.0"]);
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
    let created = service.metadata.creation_timestamp.clone();
    assert_eq!(registry_service.created_at, created);

    // Another image is served at the same port.
    let newer = push_tide(&registry, "org/catalog:v2", &["1.0.0", "1.1.0"]);
    shelf.declare("catalogs", "my.tides", grpc(&newer)).await;
    assert_eq!(port, shelf.serves("my-tides", &BOTH).await);
    let after = services.get("my-tides").await.unwrap();
    assert_eq!(service.uid(), after.uid(), "no field had to change");
    assert_eq!(service.resource_version(), after.resource_version());

    // A missing image does not replace the served one.
    let missing = registry.image("org/catalog:none");
    shelf.declare("catalogs", "my.tides", grpc(&missing)).await;
    let none = "org/catalog:none";
    shelf.emits("my.tides", "CatalogUnavailable", none).await;
    assert_eq!(bundles(port).await.unwrap(), BOTH);

    changes_are_reverted(&shelf).await;
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

    // Objects of others are not touched.
    shelf.clear("catalogs").await;
    shelf.apply(&olms_service("mine")).await;
    let services = shelf.services("catalogs");
    let before = services.get("mine").await.unwrap();
    let leader = Leader::start(&shelf.cluster, HERE);
    shelf.declare("catalogs", "mine", grpc(&image)).await;
    let theirs = "is not managed by the provisioner";
    shelf.emits("mine", "CatalogNotServed", theirs).await;
    let served = r#"{namespace="catalogs",name="mine"} 0"#;
    assert_eq!(leader.served(), [served]);
    tests::assert_rows!(before.resource_version() => services.get("mine").await.unwrap().resource_version());
    assert_eq!(list(&shelf.slices("catalogs")).await, []);
    // Platform operators choose from the catalog all the same.
    let states = leader.ctx.catalogs.states();
    let read = states
        .iter()
        .map(|state| (state.catalog.to_string(), state.is_read));
    assert_eq!(
        read.collect::<Vec<_>>(),
        [("catalogs/mine".to_owned(), true)]
    );
    let reported = json!({
        "reason": "RegistryServerError", "message": "*is not managed by the provisioner*", "registryService": null,
    });
    shelf.reports("mine", reported).await;

    // In namespaces that are not served, no Service is created.
    shelf.declare("more-catalogs", "quiet", grpc(&image)).await;
    let read = ("CatalogRead", "read from image");
    shelf.emits("more-catalogs/quiet", read.0, read.1).await;
    assert_eq!(list(&shelf.services("more-catalogs")).await, []);

    // Once the foreign Service is deleted, that of the catalog is created.
    delete(&services, "mine").await;
    shelf.serves("mine", &ONE).await;
    let reported = json!({"message": null, "registryService": {}});
    shelf.reports("mine", reported).await;
    leader.end().await;
    for namespace in ["catalogs", "more-catalogs"] {
        shelf.clear(namespace).await;
    }
    quota::a_namespace_takes_no_more_than_its_share(&shelf, &registry).await;
}

async fn serves_nothing(port: u16) {
    let served = async || bundles(port).await.ok();
    until("the port is closed", served, Option::is_none).await;
}

async fn changes_are_reverted(shelf: &Shelf) {
    let (services, slices) = (shelf.services("catalogs"), shelf.slices("catalogs"));
    let name = list(&slices).await[0].name_any();
    delete(&services, "my-tides").await;
    delete(&slices, &name).await;
    shelf.serves("my-tides", &BOTH).await;
    let trap = json!({"spec": {"selector": {"app": "trap"}, "type": "NodePort"}});
    merge(&services, "my-tides", &trap).await;
    let reverted = json!({"spec": {"selector": null, "type": "ClusterIP"}});
    wait_part(services, "my-tides", reverted).await;
    let trap = json!({"endpoints": [{"addresses": ["198.51.100.1"]}]});
    merge(&slices, &name, &trap).await;
    shelf.serves("my-tides", &BOTH).await;
}
