//! Permissions for uploads: one Bundle, all Bundles, and the deprecated nonResourceURL.

use kube::ResourceExt as _;
use serde_json::{Value, json};

use super::support::{Site, digest, packed, saying};
use super::uploads::{self, clear, maps};

/// Returns the rule for the content of one Bundle.
fn content_of(bundle: &str, verbs: &[&str]) -> Value {
    json!([{
        "apiGroups": ["core.rukpak.io"],
        "resources": ["bundles/content"],
        "resourceNames": [bundle],
        "verbs": verbs,
    }])
}

// parity: b19-2
#[tokio::test]
async fn uploads_need_a_permission_and_an_unchanged_bundle() {
    let site = Site::new().await;
    roles_with_resource_names_allow_those_bundles(&site).await;
    the_permission_on_the_url_is_deprecated(&site).await;
    clear(&site).await;
    uploads::content_client_uploads_only_declared_content(&site).await;
    clear(&site).await;
    let token = site.token(&["bundle-uploader"]).await;
    uploads::changes_during_uploads_leave_nothing(&site, &token).await;
}

async fn roles_with_resource_names_allow_those_bundles(site: &Site) {
    let content = saying("mine");
    let [mine, other] = [
        site.expecting(&digest(&content)).await.name_any(),
        site.expecting(&digest(&content)).await.name_any(),
    ];
    let token = site.token_with(&content_of(&mine, &["update"])).await;
    // The same digest in another Bundle does not extend the permission.
    for other in [other.as_str(), "absent"] {
        let (status, reason, message) = site.put(other, &token, packed(&content)).await.refusal();
        assert_eq!((status, &*reason), (403, "Forbidden"), "{message}");
        let problem =
            format!("is not allowed to update bundles.core.rukpak.io/content of Bundle {other};");
        assert!(message.contains(&problem), "{message}");
        assert!(
            message.contains(&format!("--resource-name={other}")),
            "{message}"
        );
    }
    assert_eq!(maps(site).await, [""; 0]);
    assert!(site.store.digests().unwrap().is_empty());

    let answer = site.put(&mine, &token, packed(&content)).await;
    assert_eq!(answer.status, 201, "{:?}", answer.refusal());
    assert_eq!(answer.header("warning"), "");
    // The verb get allows reading the upload.
    let path = format!("/uploads/{mine}.tgz");
    assert_eq!(site.get(&path, &token).await.status, 403);
    let reader = site.token_with(&content_of(&mine, &["get"])).await;
    assert_eq!(site.get(&path, &reader).await.content(), content);
    assert_eq!(site.put(&mine, &reader, packed(&content)).await.status, 403);
    // The same holds for the roles of the install file: a reader learns that no content exists, and cannot upload.
    let reader = site.token(&["bundle-reader"]).await;
    let (status, _, message) = site.put(&mine, &reader, packed(&content)).await.refusal();
    assert_eq!(status, 403);
    assert!(message.contains("bundle-uploader"), "{message}");
    let path = format!("/bundles/{mine}.tgz");
    assert_eq!(site.get(&path, &reader).await.refusal().1, "NotUnpacked");
    let uploader = site.token(&["bundle-uploader"]).await;
    assert_eq!(site.get(&path, &uploader).await.status, 403);
    assert_eq!(
        site.put(&mine, &uploader, packed(&content)).await.status,
        204
    );
}

async fn the_permission_on_the_url_is_deprecated(site: &Site) {
    let name = site.waiting().await.name_any();
    let rules = json!([{"nonResourceURLs": ["/uploads/*"], "verbs": ["get", "update"]}]);
    let token = site.token_with(&rules).await;
    let answer = site.put(&name, &token, packed(&saying("a"))).await;
    assert_eq!(answer.status, 201, "{:?}", answer.refusal());
    let path = format!("/uploads/{name}.tgz");
    for answer in [answer, site.get(&path, &token).await] {
        let warning = answer.header("warning");
        assert!(warning.starts_with("299 - \""), "{warning}");
        assert!(
            warning.contains("bundles.core.rukpak.io/content"),
            "{warning}"
        );
    }
    let uploader = site.token(&["bundle-uploader"]).await;
    assert_eq!(
        site.get(&path, &uploader).await.header("warning"),
        "",
        "the role of the install file has the permission that stays"
    );
}
