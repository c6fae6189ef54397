//! CatalogSources that cannot be parsed, and those next to them.

use super::external_servers::Server;
use super::*;

/// Creates the CRD without a schema, as other projects may have it.
async fn define(shelf: &Shelf) {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let name = "catalogsources.operators.coreos.com";
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": name},
        "spec": {
            "group": "operators.coreos.com", "scope": "Namespaced",
            "names": {"plural": "catalogsources", "singular": "catalogsource", "kind": "CatalogSource", "listKind": "CatalogSourceList"},
            "versions": [{
                "name": "v1alpha1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": open},
            }],
        },
    });
    super::define(&shelf.cluster, &crd).await;
}

/// Creates a CatalogSource with any spec, and does not parse it.
async fn put(shelf: &Shelf, name: &str, spec: &Value) {
    let source = catalog_source("catalogs", name, spec);
    let request = http::Request::post(
        "/apis/operators.coreos.com/v1alpha1/namespaces/catalogs/catalogsources",
    )
    .header("content-type", "application/json")
    .body(serde_json::to_vec(&source).unwrap());
    let client = shelf.cluster.client().unwrap();
    client.request_text(request.unwrap()).await.unwrap();
}

/// An invalid object is reported and does not affect others: neither when it is created, nor when all objects are
/// listed.
#[tokio::test]
async fn unreadable_source_does_not_hide_the_others() {
    let shelf = Shelf::bare().await;
    // Without the CRD, the list is empty and complete.
    let are_listed = async || shelf.ctx.catalogs.is_synced();
    until("there are none", are_listed, |listed| *listed).await;
    assert!(shelf.offers("tide").is_empty());
    external_servers::want(&shelf, &["tide"]);
    define(&shelf).await;
    let server = Server::start(None, &["1.0.0"]).await;
    let good = json!({"sourceType": "grpc", "address": server.address.to_string()});
    let mut deep = good.clone();
    deep["later"] = (0..200).fold(json!(1), |inner, _| json!({"a": inner}));
    put(&shelf, "first", &good).await;
    let offer = |name: &str| format!("catalogs/{name}: tide.v1.0.0");
    shelf.offers_become("tide", &[&offer("first")]).await;
    put(&shelf, "deep", &deep).await;
    put(&shelf, "typed", &json!({"sourceType": "grpc", "image": 5})).await;
    put(&shelf, "z-last", &good).await;
    let offers = [
        &offer("deep"),
        &offer("first"),
        "catalogs/typed: unknown: …",
        &offer("z-last"),
    ];
    shelf.offers_become("tide", &offers).await;
    shelf
        .catalog_fails_with("catalogs/typed", &["failed to read spec: ", "integer `5`"])
        .await;
    // A managedFields entry can also be nested deeply and permanently; the status is written all the same.
    let of = |name: &str| {
        let path = format!(
            "/apis/operators.coreos.com/v1alpha1/namespaces/catalogs/catalogsources/{name}"
        );
        http::Request::get(path).body(Vec::new()).unwrap()
    };
    let client = shelf.cluster.client().unwrap();
    for (name, expected) in [
        ("deep", "\"lastObservedState\":\"READY\""),
        ("typed", "\"reason\":\"SpecInvalidError\""),
    ] {
        let text = async || client.request_text(of(name)).await.unwrap();
        until(name, text, |text| text.contains(expected)).await;
    }

    // A new provisioner finds all objects in its first list.
    let dir = tempfile::tempdir().unwrap();
    let settings = Settings {
        catalog_namespaces: NAMESPACES.map(str::to_owned).to_vec(),
        ..settings()
    };
    let config = shelf.cluster.config().clone();
    let ctx = context(config, dir.path(), None, settings);
    ctx.catalogs.track_candidates(["tide".to_owned()].into());
    let tasks = run(&ctx, &shelf.stop);
    let theirs = async || offers_of(&ctx, "tide");
    let is_ours = |theirs: &Vec<String>| *theirs == shelf.offers("tide");
    until("the next one has the same", theirs, is_ours).await;
    shelf.stop.cancel();
    tasks.iter().for_each(JoinHandle::abort);
    server.stop().await;
}
