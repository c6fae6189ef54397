//! Who may do what.

use reqwest::Method;

use super::site::{Answer, Site, packed, saying};

#[tokio::test]
async fn whoever_does_not_say_who_they_are_is_told_how() {
    let site = Site::new().await;
    let browser = site.browser(&site.authority().await);
    for (method, path) in [
        (Method::GET, "/bundles/a.tgz"),
        (Method::HEAD, "/bundles/a.tgz"),
        (Method::GET, "/uploads/a.tgz"),
        (Method::PUT, "/uploads/a.tgz"),
    ] {
        let answer = Answer::of(browser.request(method.clone(), site.url(path))).await;
        assert_eq!(answer.status, 401, "{method} {path}");
        assert_eq!(answer.header("www-authenticate"), "Bearer");
        if method != Method::HEAD {
            let (_, reason, message) = answer.refusal();
            assert_eq!(reason, "Unauthorized");
            assert!(
                message.contains("Authorization: Bearer <token>"),
                "{message}"
            );
        }
    }
}

#[tokio::test]
async fn forged_tokens_are_refused_however_much_they_send() {
    let site = Site::new().await;
    let good = site.token(&["bundle-reader", "bundle-uploader"]).await;
    // The payload of a real token with the signature of nobody.
    let mut parts: Vec<_> = good.split('.').collect();
    parts[2] = "c2lnbmF0dXJl";
    let forged = parts.join(".");
    for token in [forged.as_str(), "nonsense", "a.b.c"] {
        let (status, reason, message) = site.get("/bundles/a.tgz", token).await.refusal();
        assert_eq!((status, reason.as_str()), (401, "Unauthorized"));
        assert!(message.contains("not valid for this cluster"), "{message}");
        assert!(!message.contains(token), "{message}");
        let large = site.put("a", token, vec![0; 8 << 20]).await;
        assert_eq!(large.status, 401);
    }
}

#[tokio::test]
async fn whoever_may_not_is_told_which_role_would_allow_it() {
    let site = Site::new().await;
    let (nobody, token) = site.account(&[]).await;
    let (status, reason, message) = site.get("/bundles/a.tgz", &token).await.refusal();
    assert_eq!((status, reason.as_str()), (403, "Forbidden"));
    let user = format!("system:serviceaccount:{}:{nobody}", site.namespace);
    assert!(
        message.starts_with(&format!("{user} is not allowed to get /bundles/a.tgz")),
        "{message}"
    );
    let grant = format!(
        "--clusterrole=bundle-reader --serviceaccount={}:{nobody}",
        site.namespace
    );
    assert!(message.contains(&grant), "{message}");
}

#[tokio::test]
async fn readers_may_not_upload_and_uploaders_may_not_read_bundles() {
    let site = Site::new().await;
    let bundle = site.waiting().await;
    let name = bundle.metadata.name.clone().unwrap();
    let reader = site.token(&["bundle-reader"]).await;
    let uploader = site.token(&["bundle-uploader"]).await;
    let body = || packed(&saying("hello"));

    let (status, _, message) = site.put(&name, &reader, body()).await.refusal();
    assert_eq!(status, 403);
    let problem =
        format!("is not allowed to update bundles.core.rukpak.io/content of Bundle {name};");
    assert!(message.contains(&problem), "{message}");
    assert!(message.contains("bundle-uploader"), "{message}");
    let path = format!("/bundles/{name}.tgz");
    assert_eq!(site.get(&path, &uploader).await.status, 403);
    // Both may what they may: the one is told that there is nothing, the other stores something.
    assert_eq!(site.get(&path, &reader).await.refusal().1, "NotUnpacked");
    assert_eq!(site.put(&name, &uploader, body()).await.status, 201);
}

#[tokio::test]
async fn elsewhere_is_nothing_and_other_methods_are_not_possible() {
    let site = Site::new().await;
    let token = site.token(&["bundle-reader", "bundle-uploader"]).await;
    for path in [
        "/",
        "/bundles",
        "/bundles/",
        "/bundles/a",
        "/bundles/..%2fa.tgz",
        "/metrics",
        "/bundles/a/b.tgz",
    ] {
        assert_eq!(
            site.get(path, &token).await.refusal().1,
            "NotFound",
            "{path}"
        );
    }
    for (method, path) in [
        (Method::PUT, "/bundles/a.tgz"),
        (Method::POST, "/uploads/a.tgz"),
        (Method::DELETE, "/uploads/a.tgz"),
    ] {
        let request = site.request(method.clone(), path, &token).await;
        assert_eq!(Answer::of(request).await.status, 405, "{method} {path}");
    }
}
