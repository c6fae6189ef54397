//! CatalogSources that cannot be parsed, and those next to them.

use super::external_servers::Server;
use super::*;
use crate::support::crd;

const PATH: &str = "/apis/operators.coreos.com/v1alpha1/namespaces/catalogs/catalogsources";

/// Creates a CatalogSource with any spec, and does not parse it.
async fn put(shelf: &Shelf, name: &str, spec: &Value) {
    let request = http::Request::post(PATH)
        .header("content-type", "application/json")
        .body(serde_json::to_vec(&catalog_source("catalogs", name, spec)).unwrap());
    shelf.client().request_text(request.unwrap()).await.unwrap();
}

/// An invalid object is reported and does not affect others. The tests of `tolerant` cover lists.
#[tokio::test]
async fn unreadable_source_does_not_hide_the_others() {
    let shelf = Shelf::bare().await;
    // Without the CRD, the list is empty and complete.
    let are_listed = async || shelf.reader.ctx.catalogs.is_synced();
    until("an empty list was read", are_listed, |listed| *listed).await;
    assert!(shelf.offers("tide").is_empty());
    external_servers::track(&shelf, &["tide"]);
    // The CRD has no schema, as other projects may have it.
    let mut crd = crd("operators.coreos.com", "CatalogSource");
    let version = &mut crd["spec"]["versions"][0];
    version["name"] = "v1alpha1".into();
    version["schema"]["openAPIV3Schema"] =
        json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    define(&shelf.cluster, &crd).await;
    let server = Server::start(None, &["1.0.0"]).await;
    let good = json!({"sourceType": "grpc", "address": server.address.to_string()});
    let mut deep = good.clone();
    deep["later"] = (0..200).fold(json!(1), |inner, _| json!({"a": inner}));
    put(&shelf, "first", &good).await;
    let offer = |name: &str| format!("catalogs/{name}: tide.v1.0.0");
    shelf.offers_become(&[&offer("first")]).await;
    put(&shelf, "deep", &deep).await;
    put(&shelf, "typed", &json!({"sourceType": "grpc", "image": 5})).await;
    put(&shelf, "z-last", &good).await;
    let [deep, first, last] = ["deep", "first", "z-last"].map(offer);
    let offers = [&*deep, &first, "catalogs/typed: unknown: *", &last];
    shelf.offers_become(&offers).await;
    for text in ["failed to read spec: ", "integer `5`"] {
        shelf.fails_with("typed", text).await;
    }
    // A managedFields entry can also be nested deeply and permanently; the status is written all the same.
    let client = shelf.client();
    for (name, expected) in [
        ("deep", "\"lastObservedState\":\"READY\""),
        ("typed", "\"reason\":\"SpecInvalidError\""),
    ] {
        let text = async || {
            let request = http::Request::get(format!("{PATH}/{name}"));
            let request = request.body(Vec::new()).unwrap();
            client.request_text(request).await.unwrap()
        };
        until(name, text, |text| text.contains(expected)).await;
    }
}
