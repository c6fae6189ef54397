//! What namespaces may take that are only served, and what is told of those who ask.

use manifests::api::catalog_source::CatalogSourceStatus;

use super::*;
use crate::support::{delete, until};

// parity: serve-25
#[tokio::test]
async fn a_namespace_takes_no_more_than_its_share_and_what_is_bad_is_told_until_it_is_good() {
    let shelf = stage().await;
    let registry = Registry::plain();
    let image = push_tide(&registry, "org/catalog:v1", &["1.0.0"]);
    let share = Share {
        catalogs: 1,
        bytes: 1 << 20,
    };
    let store = tempfile::tempdir().unwrap();
    let leader = Leader::with(&shelf.cluster, HERE, store, share);
    let tide_is = ["tide.v1.0.0"];
    shelf.declare("served", "first", grpc(&image)).await;
    let port = shelf.hands_out(HERE, "served/first", &tide_is).await;
    shelf.declare("served", "second", grpc(&image)).await;
    let words = "namespace served has 1 catalogs served already, and --catalogs-per-namespace allows no more";
    shelf
        .is_told("served", "second", "CatalogNotServed", words)
        .await;
    shelf
        .status_in("served", "second", |it| {
            let says = it.message.as_deref().unwrap_or_default();
            it.reason.as_deref() == Some("RegistryServerError") && says.contains(words)
        })
        .await;
    // Nothing is fetched for that: nobody finds out that there is none.
    let missing = registry.image("org/catalog:missing");
    shelf.declare("served", "third", grpc(&missing)).await;
    shelf
        .status_in("served", "third", |it| {
            it.message.as_deref().is_some_and(|it| it.contains(words))
        })
        .await;
    // An admin's own namespaces are not counted.
    for name in ["a", "b"] {
        shelf.declare("catalogs", name, grpc(&image)).await;
        let service = format!("catalogs/{name}");
        shelf.hands_out(HERE, &service, &tide_is).await;
    }

    // One that becomes too large stays what it was, and so does one that is none any more; that is told until it is good,
    // whatever is repaired meanwhile.
    let mut large = tide(&["1.1.0"]);
    let big = json!({"type": "big", "value": "x".repeat(2 << 20)});
    large[2]["properties"].as_array_mut().unwrap().push(big);
    let large = push_documents(&registry, "org/catalog:large", &large, None);
    let none = [json!({"schema": "example.charts", "package": "", "name": "none"})];
    let none = push_documents(&registry, "org/catalog:none", &none, None);
    let gauge = |value: u8| format!("{{namespace=\"served\",name=\"first\"}} {value}");
    for (image, words) in [
        (&large, "and --catalog-size-per-namespace allows 1048576"),
        (&none, "there is no package in it that can be served"),
    ] {
        shelf.declare("served", "first", grpc(image)).await;
        let is_bad = |it: &CatalogSourceStatus| {
            let says = it.message.as_deref().unwrap_or_default();
            says.contains(words)
        };
        shelf.status_in("served", "first", is_bad).await;
        let services = shelf.services("served");
        let params = DeleteParams::default();
        services.delete("first", &params).await.unwrap();
        shelf.hands_out(HERE, "served/first", &tide_is).await;
        shelf.status_in("served", "first", is_bad).await;
        assert!(leader.served().contains(&gauge(0)), "{:?}", leader.served());
        assert_eq!(bundles(port).await.unwrap(), tide_is);
    }
    shelf.declare("served", "first", grpc(&image)).await;
    shelf
        .status_in("served", "first", |it| it.message.is_none())
        .await;
    until(
        "it is well",
        async || leader.served(),
        |served| served.contains(&gauge(1)),
    )
    .await;

    // There is room again.
    let sources = shelf.sources("served");
    delete(&sources, "first").await;
    shelf.hands_out(HERE, "served/second", &tide_is).await;

    // Whoever has asked is counted, by what was asked for and how that ended; no catalog is named.
    let metrics = leader.ctx.metrics.render();
    for begin in [
        "rukpak_catalog_requests_total{rpc=\"ListBundles\",code=\"OK\"} ",
        "rukpak_catalog_request_duration_seconds_count{rpc=\"ListBundles\"} ",
    ] {
        let found = metrics.lines().find_map(|it| it.strip_prefix(begin));
        let count: u64 = found.unwrap_or_default().parse().unwrap();
        assert!(count >= 5, "{begin}{count}");
    }
}
