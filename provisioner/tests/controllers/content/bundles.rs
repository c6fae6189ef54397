//! `/bundles/<name>.tgz`: permissions and forms of downloads.

use kube::ResourceExt;
use provisioner::content::Options;
use reqwest::Method;
use serde_json::json;

use super::support::{Answer, Site, digest, image, namespace, noise, saying};
use crate::support::operator;

#[tokio::test]
async fn bundle_content_is_served_to_readers() {
    let site = Site::new().await;
    let browser = site.browser(&site.ca().await);
    for (method, path) in [
        (Method::GET, "/bundles/a.tgz"),
        (Method::HEAD, "/bundles/a.tgz"),
        (Method::GET, "/uploads/a.tgz"),
        (Method::PUT, "/uploads/a.tgz"),
    ] {
        let answer = Answer::from_request(browser.request(method.clone(), site.url(path))).await;
        assert_eq!(answer.status, 401, "{method} {path}");
        assert_eq!(answer.header("www-authenticate"), "Bearer");
        if method != Method::HEAD {
            answer.assert_rejected(401, "Unauthorized", "*Authorization: Bearer <token>*");
        }
    }

    let token = site.token(&["bundle-reader", "bundle-uploader"]).await;
    // The payload of a real token with an invalid signature.
    let mut parts: Vec<_> = token.split('.').collect();
    parts[2] = "c2lnbmF0dXJl";
    for bad in [parts.join(".").as_str(), "nonsense", "a.b.c"] {
        let answer = site.get("/bundles/a.tgz", bad).await;
        answer.assert_rejected(401, "Unauthorized", "*the token is invalid or expired*");
        let message = answer.rejection().2;
        assert!(!message.contains(bad), "{message}");
        assert_eq!(site.put("a", bad, vec![0; 8 << 20]).await.status, 401);
    }

    let unknown = "/ /bundles /bundles/ /bundles/a /bundles/..%2fa.tgz /metrics /bundles/a/b.tgz";
    for path in unknown.split(' ') {
        let (_, reason, _) = site.get(path, &token).await.rejection();
        assert_eq!(reason, "NotFound", "{path}");
    }
    for (method, path) in [
        (Method::PUT, "/bundles/a.tgz"),
        (Method::POST, "/uploads/a.tgz"),
        (Method::DELETE, "/uploads/a.tgz"),
    ] {
        let answer = Answer::from_request(site.request(method.clone(), path, &token).await).await;
        assert_eq!(answer.status, 405, "{method} {path}");
    }

    // Missing content is explained.
    let token = site.token(&["bundle-reader"]).await;
    let absent = site.get("/bundles/absent.tgz", &token).await;
    absent.assert_rejected(404, "NotFound", "Bundle absent not found");

    let bundle = site.bundle("plain", image()).await;
    let name = bundle.name_any();
    let path = format!("/bundles/{name}.tgz");
    let missing = format!("Bundle {name} has no content yet");
    let answer = site.get(&path, &token).await;
    answer.assert_rejected(404, "NotUnpacked", &missing);

    let condition = json!({
        "type": "Unpacked", "status": "False", "reason": "UnpackFailed", "message": "no such image",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let failing = json!({"status": {"phase": "Failing", "conditions": [condition]}});
    site.patch(&bundle, &failing).await;
    let answer = site.get(&path, &token).await;
    answer.assert_rejected(404, "NotUnpacked", &format!("{missing}: no such image"));

    // The store was lost, and the controller is about to fetch the content again.
    site.unpacked(&bundle, &digest(&saying("lost"))).await;
    let lost = site.get(&path, &token).await;
    assert_eq!(lost.status, 503);
    assert_eq!(lost.header("retry-after"), "5");

    // Plain content is served unchanged.
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
    let again = Answer::from_request(again.header("If-None-Match", &tag)).await;
    assert_eq!((again.status.as_u16(), again.body.len()), (304, 0));

    let head = Answer::from_request(site.request(Method::HEAD, &path, &token).await).await;
    assert_eq!((head.status.as_u16(), head.body.len()), (200, 0));
    assert_eq!(head.header("etag"), tag);

    // Registry content is served in both forms.
    let content = operator("etcd", "1.0.0", &[]);
    let bundle = site.bundle("registry", image()).await;
    site.unpacked(&bundle, &site.stored(&content)).await;
    let path = format!("/bundles/{}.tgz", bundle.name_any());
    let answer = site.get(&path, &token).await;
    let plain = answer.content();
    assert!(plain.read("manifests/manifest.yaml").is_some());
    assert_eq!(answer.header("etag"), format!("\"{}\"", digest(&plain)));

    tests::assert_rows!(site.get(&format!("{path}?content=plain"), &token).await.body => answer.body);
    tests::assert_rows!(site.get(&format!("{path}?content=original"), &token).await.content() => content);
}

#[tokio::test]
async fn every_download_takes_a_slot() {
    let options = tests::with!(Options, downloads: 1);
    let mut site = Site::start_with(namespace().await, options, false).await;
    site.until_ready().await;
    let token = site.token(&["bundle-reader", "bundle-uploader"]).await;
    let plain = site.bundle("plain", image()).await;
    // More than the buffers of a connection.
    site.unpacked(&plain, &site.stored(&noise(15 << 20))).await;
    let registry = site.bundle("registry", image()).await;
    let stored = site.stored(&operator("etcd", "1.0.0", &[]));
    site.unpacked(&registry, &stored).await;
    let (uploaded, content) = (site.waiting().await.name_any(), saying("hello"));
    let answer = site.upload(&uploaded, &token, &content).await;
    assert_eq!(answer.status, 201, "{:?}", answer.rejection());

    let converted = format!("/bundles/{}.tgz", registry.name_any());
    let upload = format!("/uploads/{uploaded}.tgz");
    // A client that does not read its response takes the only slot.
    let path = format!("/bundles/{}.tgz", plain.name_any());
    let stalled = site.request(Method::GET, &path, &token).await;
    let stalled = stalled.send().await.unwrap();
    assert_eq!(stalled.status(), 200);
    let refused = tokio::join!(site.get(&converted, &token), site.get(&upload, &token));
    for answer in [refused.0, refused.1] {
        answer.assert_rejected(503, "Unavailable", "too many concurrent downloads; retry");
    }
    // A client that has the upload already needs no slot.
    let request = site.request(Method::GET, &upload, &token).await;
    let tag = format!("\"{}\"", digest(&content));
    tests::assert_rows!(Answer::from_request(request.header("If-None-Match", tag)).await.status => 304);

    drop(stalled);
    assert_eq!(site.get(&upload, &token).await.content(), content);
    assert_eq!(site.get(&converted, &token).await.status, 200);
}
