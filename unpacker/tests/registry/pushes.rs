//! What is sent to a registry, and where to.

use std::sync::atomic::{AtomicUsize, Ordering};

use unpacker::{Digest, registry::BundleImage};

use crate::{
    images::{Registry, Store},
    real::{bundle, pushed},
    server::Answer,
};

/// A registry that wants uploads to be sent there, and has nothing yet.
async fn wanting(location: &'static str) -> Registry {
    Registry::start(
        move |seen| match (seen.method.as_str(), seen.target.as_str()) {
            ("POST", _) => Answer::new("202 Accepted", &[("Location", location)], b""),
            ("PUT", _) => Answer::new("201 Created", &[], b""),
            _ => Answer::new("404 Not Found", &[], b""),
        },
    )
    .await
}

#[tokio::test]
async fn blobs_are_sent_once_and_the_manifest_last() {
    let registry = wanting("/upload?state=1").await;
    let digest = pushed(&registry.image("org/bundle:v1"), &registry.access())
        .await
        .unwrap();
    let image = BundleImage::new(&bundle()).unwrap();
    assert_eq!(image.digest().to_string(), digest);
    let puts: Vec<_> = registry
        .server
        .seen()
        .into_iter()
        .filter(|seen| seen.method == "PUT")
        .collect();
    assert_eq!(puts.len(), 3);
    for put in &puts[..2] {
        let digest = Digest::of(&put.body).to_string().replace(':', "%3A");
        assert_eq!(put.target, format!("/upload?state=1&digest={digest}"));
    }
    assert_eq!(puts[2].target, "/v2/org/bundle/manifests/v1");
    assert_eq!(Digest::of(&puts[2].body).to_string(), digest);

    let config = String::from_utf8_lossy(&puts[1].body).into_owned();
    assert!(
        config.contains("\"operators.operatorframework.io.bundle.manifests.v1\":\"manifests/\""),
        "{config}"
    );
    let mut store = Store::default();
    for put in &puts[..2] {
        store.blob(put.body.clone(), "");
    }
    let knowing = Registry::but(store, |seen| {
        (seen.method == "PUT").then(|| Answer::new("201 Created", &[], b""))
    })
    .await;
    pushed(&knowing.image("org/bundle:v1"), &knowing.access())
        .await
        .unwrap();
    assert!(
        knowing
            .server
            .seen()
            .iter()
            .all(|seen| seen.method != "POST"),
        "the registry has the blobs"
    );
}

#[tokio::test]
async fn uploads_go_nowhere_unencrypted() {
    for (location, problem) in [
        ("http://127.0.0.1:1/upload", "not encrypted"),
        ("file:///tmp/x", "not encrypted"),
        ("https://:::", "names no URL"),
    ] {
        let registry = wanting(location).await;
        let error = pushed(&registry.image("org/bundle:v1"), &registry.access())
            .await
            .unwrap_err();
        assert!(error.contains(problem), "{location}: {error}");
    }
}

#[tokio::test]
async fn an_upload_that_a_busy_registry_did_not_begin_is_begun_again() {
    let posts = AtomicUsize::new(0);
    let registry = Registry::start(move |seen| match seen.method.as_str() {
        "POST" if posts.fetch_add(1, Ordering::Relaxed) < 2 => {
            Answer::new("429 Too Many Requests", &[("Retry-After", "0")], b"")
        }
        "POST" => Answer::new("202 Accepted", &[("Location", "/upload")], b""),
        "PUT" => Answer::new("201 Created", &[], b""),
        _ => Answer::new("404 Not Found", &[], b""),
    })
    .await;
    pushed(&registry.image("org/bundle:v1"), &registry.access())
        .await
        .unwrap();
    let seen = registry.server.seen();
    let posts = seen.iter().filter(|seen| seen.method == "POST").count();
    // Two blobs, the first one in three tries.
    assert_eq!(posts, 4);
}

#[tokio::test]
async fn a_registry_that_takes_nothing_is_quoted() {
    let registry = Registry::start(|_| {
        Answer::new(
            "507 Insufficient Storage",
            &[],
            b"{\"errors\": \"the disk is full\"}",
        )
    })
    .await;
    let error = pushed(&registry.image("org/bundle:v1"), &registry.access())
        .await
        .unwrap_err();
    assert!(
        error.contains("push to") && error.contains("the disk is full"),
        "{error}"
    );
}

#[tokio::test]
async fn what_is_pinned_to_something_else_is_not_pushed() {
    let registry = wanting("/upload").await;
    let other = registry.image(&format!("org/bundle@sha256:{}", "0".repeat(64)));
    let error = pushed(&other, &registry.access()).await.unwrap_err();
    assert!(error.contains("name a tag instead"), "{error}");
    assert!(registry.server.seen().is_empty());
}
