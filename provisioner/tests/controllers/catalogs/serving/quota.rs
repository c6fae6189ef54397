//! Limits of namespaces that are only served, and metrics of their requests.

use super::*;

pub(super) async fn a_namespace_takes_no_more_than_its_share(shelf: &Shelf, registry: &Registry) {
    let image = push_tide(registry, "org/catalog:v1", &["1.0.0"]);
    let share = NamespaceQuota {
        catalogs: 1,
        bytes: 1 << 20,
    };
    let store = tempfile::tempdir().unwrap();
    let leader = Leader::with(&shelf.cluster, HERE, store, share);
    shelf.declare("served", "first", grpc(&image)).await;
    let port = shelf.hands_out(HERE, "served/first", &ONE).await;
    shelf.declare("served", "second", grpc(&image)).await;
    let message =
        "namespace served reached the limit of 1 served catalogs (--catalogs-per-namespace)";
    let reason = "CatalogNotServed";
    shelf.emits("served/second", reason, message).await;
    let message = format!("*{message}*");
    let reported = json!({"reason": "RegistryServerError", "message": message});
    shelf.reports("served/second", reported).await;
    // Nothing is fetched for that: the missing image is not noticed.
    let missing = registry.image("org/catalog:missing");
    shelf.declare("served", "third", grpc(&missing)).await;
    let reported = json!({"message": message});
    shelf.reports("served/third", reported).await;
    // The admin's namespaces are not counted.
    for name in ["a", "b"] {
        shelf.declare("catalogs", name, grpc(&image)).await;
        let service = format!("catalogs/{name}");
        shelf.hands_out(HERE, &service, &ONE).await;
    }

    // A catalog that becomes too large keeps its content, and so does an image without a catalog; the problem is
    // reported until it is solved, regardless of repairs.
    let mut large = tide(&["1.1.0"]);
    let big = json!({"type": "big", "value": "x".repeat(2 << 20)});
    large[2]["properties"].as_array_mut().unwrap().push(big);
    let large = push_documents(registry, "org/catalog:large", &large, None);
    let none = [json!({"schema": "example.charts", "package": "", "name": "none"})];
    let none = push_documents(registry, "org/catalog:none", &none, None);
    let gauge = |value: u8| format!("{{namespace=\"served\",name=\"first\"}} {value}");
    for (image, problem) in [
        (&large, "but --catalog-size-per-namespace allows 1048576"),
        (&none, "the catalog contains no package that can be served"),
    ] {
        shelf.declare("served", "first", grpc(image)).await;
        let is_bad = || json!({"message": format!("*{problem}*")});
        shelf.reports("served/first", is_bad()).await;
        delete(&shelf.services("served"), "first").await;
        shelf.hands_out(HERE, "served/first", &ONE).await;
        shelf.reports("served/first", is_bad()).await;
        assert!(leader.served().contains(&gauge(0)), "{:?}", leader.served());
        assert_eq!(bundles(port).await.unwrap(), ONE);
    }
    shelf.declare("served", "first", grpc(&image)).await;
    let good = json!({"message": null});
    shelf.reports("served/first", good).await;
    let served = async || leader.served();
    until("it is well", served, |served| served.contains(&gauge(1))).await;

    // The namespace has room again.
    delete(&shelf.sources("served"), "first").await;
    shelf.hands_out(HERE, "served/second", &ONE).await;

    // Requests are counted by method and code, without the name of a catalog.
    for begin in [
        "rukpak_catalog_requests_total{rpc=\"ListBundles\",code=\"OK\"} ",
        "rukpak_catalog_request_duration_seconds_count{rpc=\"ListBundles\"} ",
    ] {
        let count: u64 = metric(&leader.ctx, begin).unwrap().parse().unwrap();
        assert!(count >= 5, "{begin}{count}");
    }
}
