//! Who may do what.

use reqwest::Method;

use super::site::{Answer, Site};

#[tokio::test]
async fn missing_and_forged_tokens_and_unknown_routes_are_rejected() {
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

    let token = site.token(&["bundle-reader", "bundle-uploader"]).await;
    // The payload of a real token with the signature of nobody.
    let mut parts: Vec<_> = token.split('.').collect();
    parts[2] = "c2lnbmF0dXJl";
    let forged = parts.join(".");
    for bad in [forged.as_str(), "nonsense", "a.b.c"] {
        let (status, reason, message) = site.get("/bundles/a.tgz", bad).await.refusal();
        assert_eq!((status, reason.as_str()), (401, "Unauthorized"));
        assert!(message.contains("not valid for this cluster"), "{message}");
        assert!(!message.contains(bad), "{message}");
        let large = site.put("a", bad, vec![0; 8 << 20]).await;
        assert_eq!(large.status, 401);
    }

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
