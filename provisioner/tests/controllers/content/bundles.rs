//! `/bundles/<name>.tgz`.

use kube::ResourceExt;
use reqwest::Method;
use serde_json::json;

use super::site::{Answer, Site, digest, files, image, saying};

#[tokio::test]
async fn plain_content_is_served_as_it_came_and_missing_content_explained() {
    let site = Site::new().await;
    let token = site.token(&["bundle-reader"]).await;
    missing_content_is_explained(&site, &token).await;
    let content = saying("hello");
    let bundle = site.bundle("plain", image()).await;
    site.unpacked(&bundle, &site.stored(&content)).await;
    let path = format!("/bundles/{}.tgz", bundle.name_any());

    let answer = site.get(&path, &token).await;
    assert_eq!(answer.content(), content);
    assert_eq!(answer.header("content-type"), "application/gzip");
    let tag = format!("\"{}\"", digest(&content));
    assert_eq!(answer.header("etag"), tag);

    let again = site.request(Method::GET, &path, &token).await;
    let again = Answer::of(again.header("If-None-Match", &tag)).await;
    assert_eq!((again.status.as_u16(), again.body.len()), (304, 0));

    let head = Answer::of(site.request(Method::HEAD, &path, &token).await).await;
    assert_eq!((head.status.as_u16(), head.body.len()), (200, 0));
    assert_eq!(head.header("etag"), tag);

    let odd = site.get(&format!("{path}?content=odd"), &token).await;
    assert_eq!(odd.refusal().1, "UnknownQuery");
}

#[tokio::test]
async fn registry_content_is_served_as_plain_objects_and_on_request_as_it_came() {
    let site = Site::new().await;
    let token = site.token(&["bundle-reader"]).await;
    let csv = json!({
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": {"name": "etcd.v1.0.0"},
        "spec": {
            "version": "1.0.0",
            "installModes": [{"type": "AllNamespaces", "supported": true}],
            "install": {"strategy": "deployment", "spec": {"deployments": [{"name": "etcd-operator", "spec": {
                "selector": {"matchLabels": {"app": "etcd"}},
                "template": {
                    "metadata": {"labels": {"app": "etcd"}},
                    "spec": {"containers": [{"name": "operator", "image": "example.com/etcd:v1"}]},
                },
            }}]}},
        },
    });
    let annotations =
        json!({"annotations": {"operators.operatorframework.io.bundle.package.v1": "etcd"}});
    let content = files(&tests::rows![
        "manifests/csv.yaml" => csv.to_string().as_bytes();
        "metadata/annotations.yaml" => annotations.to_string().as_bytes();
    ]);
    let bundle = site.bundle("registry", image()).await;
    site.unpacked(&bundle, &site.stored(&content)).await;
    let path = format!("/bundles/{}.tgz", bundle.name_any());

    let answer = site.get(&path, &token).await;
    let plain = answer.content();
    let text = plain.read("manifests/manifest.yaml").unwrap();
    let text = std::str::from_utf8(text).unwrap();
    assert!(text.contains("kind: Deployment\n"), "{text}");
    assert!(!text.contains("ClusterServiceVersion"), "{text}");
    assert_eq!(answer.header("etag"), format!("\"{}\"", digest(&plain)));

    let again = site.get(&format!("{path}?content=plain"), &token).await;
    assert_eq!(again.body, answer.body);
    let original = site.get(&format!("{path}?content=original"), &token).await;
    assert_eq!(original.content(), content);
}

async fn missing_content_is_explained(site: &Site, token: &str) {
    let absent = site.get("/bundles/absent.tgz", token).await.refusal();
    assert_eq!(
        absent,
        (
            404,
            "NotFound".to_owned(),
            "there is no Bundle absent".to_owned()
        )
    );

    let bundle = site.bundle("plain", image()).await;
    let name = bundle.name_any();
    let path = format!("/bundles/{name}.tgz");
    let (status, reason, message) = site.get(&path, token).await.refusal();
    assert_eq!((status, reason.as_str()), (404, "NotUnpacked"));
    assert_eq!(message, format!("Bundle {name} has no content yet"));

    let condition = json!({
        "type": "Unpacked", "status": "False", "reason": "UnpackFailed", "message": "no such image",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    site.patch(
        &bundle,
        &json!({"status": {"phase": "Failing", "conditions": [condition]}}),
    )
    .await;
    let (_, _, message) = site.get(&path, token).await.refusal();
    assert_eq!(
        message,
        format!("Bundle {name} has no content yet: no such image")
    );

    // The store was lost, and the controller is about to fetch it again.
    site.unpacked(&bundle, &digest(&saying("lost"))).await;
    let lost = site.get(&path, token).await;
    assert_eq!(
        (lost.status.as_u16(), lost.header("retry-after")),
        (503, "5")
    );
}
