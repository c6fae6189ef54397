//! CatalogSources that nobody can read, and those beside them.

use super::{served::Server, *};

/// The definition as others may have it, which takes anything.
async fn define(shelf: &Shelf) {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let name = "catalogsources.operators.coreos.com";
    let definition = json!({
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
    super::define(&shelf.cluster, &definition).await;
}

/// Creates a CatalogSource, whatever it says, and does not read it.
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

/// One object that cannot be read is told, and takes nothing from the others: neither when it comes, nor when all are
/// listed.
#[tokio::test]
async fn one_that_cannot_be_read_hides_no_other() {
    let shelf = Shelf::bare().await;
    // Without the definition there are none, and that is known.
    let are_listed = async || shelf.ctx.catalogs.are_listed();
    until("there are none", are_listed, |listed| *listed).await;
    assert!(shelf.offers("tide").is_empty());
    served::want(&shelf, &["tide"]);
    define(&shelf).await;
    let server = Server::start(None, &["1.0.0"]).await;
    let good = json!({"sourceType": "grpc", "address": server.address.to_string()});
    let mut deep = good.clone();
    deep["later"] = (0..200).fold(json!(1), |inner, _| json!({"a": inner}));
    put(&shelf, "first", &good).await;
    let known = |name: &str| format!("catalogs/{name}: tide.v1.0.0");
    shelf.offers_become("tide", &[&known("first")]).await;
    put(&shelf, "deep", &deep).await;
    put(&shelf, "typed", &json!({"sourceType": "grpc", "image": 5})).await;
    put(&shelf, "z-last", &good).await;
    let offers = [
        &known("deep"),
        &known("first"),
        "catalogs/typed: unknown: …",
        &known("z-last"),
    ];
    shelf.offers_become("tide", &offers).await;
    shelf
        .is_in_trouble("catalogs/typed", &["failed to read spec: ", "integer `5`"])
        .await;
    // What is nested deep may be in what is told of an object, too, for ever; and its status is written all the same.
    let of = |name: &str| {
        let path = format!(
            "/apis/operators.coreos.com/v1alpha1/namespaces/catalogs/catalogsources/{name}"
        );
        http::Request::get(path).body(Vec::new()).unwrap()
    };
    let client = shelf.cluster.client().unwrap();
    for (name, said) in [
        ("deep", "\"lastObservedState\":\"READY\""),
        ("typed", "\"reason\":\"SpecInvalidError\""),
    ] {
        let text = async || client.request_text(of(name)).await.unwrap();
        until(name, text, |text| text.contains(said)).await;
    }

    // Whoever begins anew finds all of them at once.
    let folder = tempfile::tempdir().unwrap();
    let settings = Settings {
        catalog_namespaces: NAMESPACES.map(str::to_owned).to_vec(),
        ..settings()
    };
    let config = shelf.cluster.config().clone();
    let ctx = context(config, folder.path(), None, settings);
    ctx.catalogs.want(["tide".to_owned()].into());
    let tasks = run(&ctx, &shelf.stop);
    let theirs = async || offers_of(&ctx, "tide");
    let is_ours = |theirs: &Vec<String>| *theirs == shelf.offers("tide");
    until("the next one has the same", theirs, is_ours).await;
    shelf.stop.cancel();
    tasks.iter().for_each(JoinHandle::abort);
    server.stop().await;
}
