//! Catalogs that are served after a restart while the registry is unavailable.

use super::*;
use crate::support::node_object;

// parity: serve-5, switch-6, switch-13
#[tokio::test]
async fn restarts_keep_catalogs_while_the_registry_is_away() {
    let shelf = stage().await;
    let registry = Registry::plain();
    let image = push_tide(&registry, "org/catalog:v1", &["1.0.0"]);
    // The next leader has an address of the other family.
    let six = "2001:db8::1";
    let first = Leader::start(&shelf.cluster, six);
    shelf.declare("catalogs", "mine", grpc(&image)).await;
    shelf.declare("served", "tenants", grpc(&image)).await;
    let port = shelf.hands_out(six, "catalogs/mine", &ONE).await;
    let tenants = shelf.hands_out(six, "served/tenants", &ONE).await;
    assert_ne!(port, tenants);
    // Choices do not use catalogs of namespaces that are only served.
    assert_eq!(first.offers("tide"), ["catalogs/mine: tide.v1.0.0"]);
    let service = shelf.services("catalogs").get("mine").await.unwrap();
    // A CatalogSource whose template names an image that does not exist until the provisioner has restarted.
    shelf.apply(&node_object("a", "amd64")).await;
    push_tide(&registry, "org/catalog:x86_64", &["1.0.0"]);
    let template = registry.image("org/catalog:{platform_architecture}");
    shelf.declare("served", "dynamic", grpc(&template)).await;
    shelf.hands_out(six, "served/dynamic", &ONE).await;
    shelf.declare("served", "ended", grpc(&image)).await;
    // Only then does the store have the record of each image.
    let ready = json!({"connectionState": {"lastObservedState": "READY"}});
    let names = "catalogs/mine served/tenants served/dynamic served/ended";
    for name in names.split(' ') {
        shelf.reports(name, ready.clone()).await;
    }
    let store = first.end().await;
    serves_nothing(port).await;
    // The image of that pod is unknown.
    let mut ended = grpc(&registry.image("org/catalog:v{ocp_minor_version}"));
    ended["grpcPodConfig"] = json!({"nodeSelector": {"a": "b"}});
    shelf.declare("served", "ended", ended).await;
    shelf.apply(&node_object("a", "arm64")).await;
    let away = format!("failed to reach the registry {}", registry.host());
    drop(registry);

    let second = Leader::with(&shelf.cluster, THERE, store, NamespaceQuota::default());
    shelf.hands_out(THERE, "catalogs/mine", &ONE).await;
    shelf.hands_out(THERE, "served/tenants", &ONE).await;
    shelf.hands_out(THERE, "served/dynamic", &ONE).await;
    tests::assert_rows!(service.resource_version() => shelf.services("catalogs").get("mine").await.unwrap().resource_version());
    let are_served =
        |served: &Vec<String>| served.iter().filter(|line| line.ends_with(" 1")).count() == 3;
    until("three are served", async || second.served(), are_served).await;
    // The status names no server that ended.
    let reported =
        json!({"message": "*ocp_minor_version*", "connectionState": null, "registryService": null});
    shelf.reports("served/ended", reported).await;
    let resolved =
        json!({"type": "resolved_image", "status": "True", "message": "*org/catalog:aarch64"});
    let reported = json!({"message": format!("*{away}*"), "conditions": [resolved]});
    shelf.reports("served/dynamic", reported).await;
    assert_eq!(second.offers("tide"), ["catalogs/mine: tide.v1.0.0"]);
    let reported = json!({
        "connectionState": {"lastObservedState": "READY"}, "reason": "RegistryServerError",
        "message": format!("*couldn't ensure registry server*{away}*"),
    });
    for name in ["catalogs/mine", "served/tenants"] {
        shelf.reports(name, reported.clone()).await;
    }
    // Cached content is not served for a CatalogSource that has never pulled it: another one with the same image, or a
    // recreated one with the same name.
    shelf.declare("catalogs", "other", grpc(&image)).await;
    delete(&shelf.sources("served"), "tenants").await;
    shelf.declare("served", "tenants", grpc(&image)).await;
    let reported = json!({"reason": "RegistryServerError", "registryService": null});
    for name in ["catalogs/other", "served/tenants"] {
        shelf.reports(name, reported.clone()).await;
    }
    let offers = second.offers("tide");
    let mut offers = offers.iter();
    assert!(offers.any(|offer| offer.starts_with("catalogs/other: unknown: ")));
    second.end().await;

    // A provisioner with an empty disk directs no client to a pod that has ended.
    let slices = shelf.slices("catalogs");
    let addresses = async || -> Vec<String> {
        let slice = slices.get("mine-catalog").await.unwrap();
        let endpoints = slice.endpoints.into_iter().flatten();
        endpoints.flat_map(|endpoint| endpoint.addresses).collect()
    };
    assert_eq!(addresses().await, [THERE]);
    let third = Leader::start(&shelf.cluster, "192.0.2.3");
    until("no endpoint", addresses, Vec::is_empty).await;
    tests::assert_rows!(shelf.services("catalogs").get_opt("mine").await.unwrap().is_some() => true, "the Service keeps its address");
    third.end().await;

    for namespace in ["catalogs", "served"] {
        shelf.clear(namespace).await;
    }
    an_edited_spec_keeps_the_last_image_of_its_template(&shelf).await;
}

/// The tests of `digest_cache` cover the record of another template, and the record after a restart.
async fn an_edited_spec_keeps_the_last_image_of_its_template(shelf: &Shelf) {
    let registry = Registry::plain();
    let image = push_tide(&registry, "org/catalog:x86_64", &["1.0.0"]);
    shelf.apply(&node_object("a", "amd64")).await;
    let first = Leader::start(&shelf.cluster, HERE);
    let template = registry.image("org/catalog:{platform_architecture}");
    shelf.declare("catalogs", "mine", grpc(&template)).await;
    shelf.serves("mine", &ONE).await;
    shelf.apply(&node_object("b", "arm64")).await;
    let edit = json!({"spec": {"priority": 5}});
    let edited = merge(&shelf.sources("catalogs"), "mine", &edit).await;
    let kept = json!({"conditions": [{
        "type": "resolved_image", "reason": "LastResolved", "message": image,
        "observedGeneration": edited.metadata.generation,
    }]});
    shelf.reports("mine", kept).await;
    let states = first.ctx.catalogs.states();
    let error = states[0].trouble.clone().unwrap_or_default();
    assert!(error.ends_with("; the nodes are amd64, arm64"), "{error}");
    assert_eq!(first.offers("tide"), ["catalogs/mine: tide.v1.0.0"]);
    first.end().await;
}
