//! Pushes to registries, and the locations of uploads.

use crate::*;

#[tokio::test]
async fn blobs_are_pushed_once_and_the_manifest_last() {
    let registry = Registry::start("POST => 202; Location: /upload?state=1 && PUT => 201");
    let image = registry.image("org/bundle:v1");
    let digest = pushed(&image, &Registry::access()).await.unwrap();
    assert_rows!(BundleImage::new(&bundle()).unwrap().digest().to_string() => digest);
    let mut puts = registry.0.seen();
    puts.retain(|request| request.method == "PUT");
    let [layer, config, manifest] = &puts[..] else {
        panic!("{puts:?}")
    };
    for put in [layer, config] {
        let digest = Digest::sha256(&put.body).to_string().replace(':', "%3A");
        assert_eq!(put.target, format!("/upload?state=1&digest={digest}"));
    }
    assert_rows!((&*manifest.target, Digest::sha256(&manifest.body).to_string()) => ("/v2/org/bundle/manifests/v1", digest));
    let label = "\"operators.operatorframework.io.bundle.manifests.v1\":\"manifests/\"";
    assert_has(String::from_utf8_lossy(&config.body), label);

    let mut store = Store::default();
    for put in [layer, config] {
        store.blob(put.body.clone(), "");
    }
    let knowing = Registry::with_rules(store, "PUT => 201", &Values::default());
    let image = knowing.image("org/bundle:v1");
    pushed(&image, &Registry::access()).await.unwrap();
    assert_rows!(knowing.request_count("POST", "") => 0, "the registry has the blobs");
}

#[tokio::test]
async fn uploads_are_encrypted_retried_and_explained() {
    let rows = r#"
        # rules of the registry, image, number of requests of POST and outcome
        plain HTTP  | POST => 202; Location: http://127.0.0.1:1/upload && 404 | org/bundle:v1 | 1 of 2: *unencrypted*
        file        | POST => 202; Location: file:///tmp/x && 404 | org/bundle:v1 | 1 of 2: *unencrypted*
        no URL      | POST => 202; Location: https://::: && 404 | org/bundle:v1 | 1 of 2: *invalid upload URL*
        # Two blobs, the first one in three attempts.
        busy        | POST => 2 x 429; Retry-After: 0 then 202; Location: /upload && PUT => 201 && 404 | org/bundle:v1 | 4 of *: sha256:*
        full        | 507 << {"errors": "the disk is full"} | org/bundle:v1 | *: *push to*the disk is full*
        other digest | POST => 202; Location: /upload && PUT => 201 && 404 | org/bundle@sha256:{zero*64} | 0 of 0: *use a tag instead*
    "#;
    let values = Values::default().with("zero", "0");
    table::check(rows, &values, async |[rules, image]: &[Cell; 2]| {
        let registry = Registry::start(rules.raw());
        let pushed = pushed(&registry.image(&image.text()), &Registry::access()).await;
        let (posts, all) = (registry.request_count("POST", ""), registry.0.seen().len());
        format!("{posts} of {all}: {}", pushed.unwrap_or_else(|error| error))
    })
    .await;
}
