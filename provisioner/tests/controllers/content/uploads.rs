//! `/uploads/<name>.tgz`: the table of rukpak, failures, and permissions for one Bundle, all Bundles and the deprecated
//! nonResourceURL.

use bytes::Bytes;
use futures::{StreamExt as _, stream};
use kube::ResourceExt;
use manifests::{
    api::{
        bundle::{Bundle, Phase},
        condition::{CONTENT_AVAILABLE, find},
    },
    content::Content,
};
use reqwest::Method;
use serde_json::{Value, json};
use tests::assert_has;
use tokio::{sync::oneshot, task::JoinHandle};

use super::support::{Answer, Site, digest, image, noise, saying};
use super::upload_storage::restored;
use crate::support::{self, archive, create, delete, eventually, list, unique, upload};

pub(super) async fn maps(site: &Site) -> Vec<String> {
    let all = list(&site.config_maps()).await;
    let names = all.iter().map(ResourceExt::name_any);
    names.filter(|name| name.contains("-upload")).collect()
}

/// Removes all uploads from the cluster and the store, so that the next step starts without any.
async fn clear(site: &Site) {
    for name in maps(site).await {
        delete(&site.config_maps(), &name).await;
    }
    for digest in site.store.digests().unwrap() {
        site.store.remove(&digest).unwrap();
    }
}

// parity: b19-2
#[tokio::test]
async fn uploads_are_kept_or_rejected_without_a_trace() {
    let site = Site::new().await;
    let token = site.token(&["bundle-uploader"]).await;
    let bundle = site.waiting().await;
    let name = bundle.name_any();
    let large = noise(9 << 20);
    let answer = site.upload(&name, &token, &large).await;
    answer.assert_rejected(413, "TooLargeForCluster", "*8388608*--persistent-storage*");
    assert_eq!(maps(&site).await, Vec::<String>::new());
    assert!(site.store.hold(&digest(&large)).is_err());
    assert_eq!(site.fresh(&bundle).await.status, None);

    // Rejected uploads take no content.
    let (content, other) = (saying("this"), saying("other"));
    let first = site.expecting(&digest(&content)).await.name_any();
    let second = site.expecting(&digest(&content)).await.name_any();
    let third = site.expecting(&digest(&other)).await.name_any();
    for (name, content, status) in tests::rows![
        &first, &content => 201;
        &second, &content => 201;
        &third, &content => 422;
        &second, &other => 422;
    ] {
        let answer = site.upload(name, &token, content).await;
        assert_eq!(answer.status, status, "{:?}", answer.rejection());
        if status == 422 {
            answer.assert_rejected(422, "DigestMismatch", "*spec.source.upload.digest*");
        }
    }
    assert_eq!(site.store.digests().unwrap(), [digest(&content)]);
    // The Bundle is unpacked from other content, and the uploaded content equals that of the others.
    let fourth = site.waiting().await;
    site.unpacked(&fourth, &digest(&other)).await;
    tests::assert_rows!(site.upload(&fourth.name_any(), &token, &content).await.rejection().1 => "AlreadyUnpacked");
    assert_eq!(site.store.digests().unwrap(), [digest(&content)]);

    clear(&site).await;
    let bundle = site.waiting().await;
    let name = bundle.name_any();
    let content = saying("hello");
    let answer = site.upload(&name, &token, &content).await;
    assert_eq!(answer.status, 201, "{:?}", answer.rejection());
    let accepted: Value = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!(accepted["digest"], digest(&content).to_string());
    tests::assert_rows!(maps(&site).await => ["upload", "upload-0"].map(|suffix| format!("{name}-{suffix}")));

    let status = site.fresh(&bundle).await.status.unwrap();
    assert_eq!(status.phase, Some(Phase::Pending));
    let condition = &status.conditions[0];
    tests::assert_rows!([&condition.type_, &condition.status, &condition.reason] => ["Unpacked", "False", "UnpackPending"]);
    tests::assert_rows!(condition.message => "received bundle upload, waiting for provisioner to unpack it.");

    tests::assert_rows!(site.get(&format!("/uploads/{name}.tgz"), &token).await.content() => content);
    assert_eq!(restored(&site, &bundle).await, Some(digest(&content)));

    uploads_are_answered_as_rukpak_answers_them(&site, &token).await;
    site.stop().await;
}

async fn uploads_are_answered_as_rukpak_answers_them(site: &Site, token: &str) {
    let (first, second) = (saying("first"), saying("second"));
    let answer = site.upload("absent", token, &first).await;
    answer.assert_rejected(404, "NotFound", "Bundle absent not found");
    let other = site.bundle("plain", image()).await.name_any();
    let (status, _, message) = site.upload(&other, token, &first).await.rejection();
    tests::assert_rows!((status, &*message) => (409, r#"bundle source type is "image"; expected "upload""#));

    let mut deleted = Bundle::new(&unique("bundle"), site.waiting().await.spec);
    deleted.metadata.finalizers = Some(vec!["example.com/wait".to_owned()]);
    let name = deleted.name_any();
    create(&site.bundles(), &deleted).await;
    delete(&site.bundles(), &name).await;
    let answer = site.upload(&name, token, &first).await;
    answer.assert_rejected(409, "Deleting", "*");

    let bundle = site.waiting().await;
    let name = bundle.name_any();
    let nothing = site.get(&format!("/uploads/{name}.tgz"), token).await;
    assert_eq!(nothing.status, 404);
    for (content, status) in [(&first, 201), (&first, 204), (&second, 201), (&first, 201)] {
        let answer = site.upload(&name, token, content).await;
        assert_eq!(answer.status, status, "{:?}", answer.rejection());
    }
    site.unpacked(&bundle, &digest(&first)).await;
    assert_eq!(site.upload(&name, token, &first).await.status, 204);
    // An upload that the cluster has lost is stored again. If only the store has lost it, nothing is written to the cluster.
    delete(&site.config_maps(), &format!("{name}-upload")).await;
    let lost = json!({
        "type": CONTENT_AVAILABLE, "status": "False", "reason": "UnpackPending", "message": "waiting for the upload",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let lost = json!({"status": {"conditions": [lost]}});
    for _ in 0..2 {
        site.patch(&bundle, &lost).await;
        assert_eq!(site.upload(&name, token, &first).await.status, 204);
        assert_eq!(restored(site, &bundle).await, Some(digest(&first)));
        tests::assert_rows!(find(&site.fresh(&bundle).await.status.unwrap().conditions, CONTENT_AVAILABLE) => None);
    }
    site.store.remove(&digest(&second)).unwrap();
    let (status, _, message) = site.upload(&name, token, &second).await.rejection();
    let late = "bundle has already been unpacked, cannot change content of existing bundle";
    assert_eq!((status, &*message), (409, late));
    // Content of a rejected upload is removed.
    assert!(site.store.hold(&digest(&second)).is_err());
    assert_eq!(restored(site, &bundle).await, Some(digest(&first)));
}

/// Begins an upload that ends on a signal, waits until the service has accepted it, and returns the refusal of a second
/// one.
async fn begin(
    site: &Site,
    name: &str,
    token: &str,
    content: &Content,
) -> (oneshot::Sender<()>, JoinHandle<Answer>, (String, String)) {
    let path = &format!("/uploads/{name}.tgz");
    let slow = site.request(Method::PUT, path, token).await;
    let mut head = Bytes::from(archive(content));
    let tail = head.split_off(20);
    let (end, signal) = oneshot::channel::<()>();
    let tail = async move { signal.await.map(|()| tail) };
    let parts = stream::once(async move { Ok(head) }).chain(stream::once(tail));
    let body = reqwest::Body::wrap_stream(parts);
    let slow = tokio::spawn(Answer::from_request(slow.body(body)));
    let refusal = eventually("an upload under way", async || {
        // An invalid request, so that it cannot become the first upload.
        let request = site.request(Method::PUT, path, token).await;
        let request = request.header("Content-Type", "text/plain").body("x");
        match Answer::from_request(request).await.rejection() {
            (409, reason, message) => Ok((reason, message)),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    (end, slow, refusal)
}

fn content_of(bundle: &str, verb: &str) -> Value {
    json!([{
        "apiGroups": ["core.rukpak.io"], "resources": ["bundles/content"], "resourceNames": [bundle], "verbs": [verb],
    }])
}

// parity: b19-2
#[tokio::test]
async fn uploads_need_a_permission_and_an_unchanged_bundle() {
    let site = Site::new().await;
    let content = saying("mine");
    let mine = site.expecting(&digest(&content)).await.name_any();
    let other = site.expecting(&digest(&content)).await.name_any();
    let token = site.token_with(&content_of(&mine, "update")).await;
    // The same digest in another Bundle does not extend the permission.
    for other in [other.as_str(), "absent"] {
        let answer = site.upload(other, &token, &content).await;
        let message = format!(
            "*is not allowed to update bundles.core.rukpak.io/content of Bundle {other};*--resource-name={other}*"
        );
        answer.assert_rejected(403, "Forbidden", &message);
    }
    assert_eq!(maps(&site).await, [""; 0]);
    assert!(site.store.digests().unwrap().is_empty());

    let answer = site.upload(&mine, &token, &content).await;
    assert_eq!(answer.status, 201, "{:?}", answer.rejection());
    assert_eq!(answer.header("warning"), "");
    // The verb get allows reading the upload.
    let path = format!("/uploads/{mine}.tgz");
    assert_eq!(site.get(&path, &token).await.status, 403);
    let reader = site.token_with(&content_of(&mine, "get")).await;
    assert_eq!(site.get(&path, &reader).await.content(), content);
    assert_eq!(site.upload(&mine, &reader, &content).await.status, 403);
    // The same holds for the roles of the install file: a reader learns that no content exists, and cannot upload.
    let reader = site.token(&["bundle-reader"]).await;
    let answer = site.upload(&mine, &reader, &content).await;
    answer.assert_rejected(403, "Forbidden", "*bundle-uploader*");
    let path = format!("/bundles/{mine}.tgz");
    assert_eq!(site.get(&path, &reader).await.rejection().1, "NotUnpacked");
    let uploader = site.token(&["bundle-uploader"]).await;
    assert_eq!(site.get(&path, &uploader).await.status, 403);
    assert_eq!(site.upload(&mine, &uploader, &content).await.status, 204);

    // Permission on the URL is deprecated.
    let name = site.waiting().await.name_any();
    let rules = json!([{"nonResourceURLs": ["/uploads/*"], "verbs": ["get", "update"]}]);
    let token = site.token_with(&rules).await;
    let answer = site.upload(&name, &token, &saying("a")).await;
    assert_eq!(answer.status, 201, "{:?}", answer.rejection());
    let path = format!("/uploads/{name}.tgz");
    for answer in [answer, site.get(&path, &token).await] {
        let warning = answer.header("warning");
        assert!(warning.starts_with("299 - \""), "{warning}");
        assert_has(warning, "bundles.core.rukpak.io/content");
    }
    // The role of the install file has the permission that is not deprecated.
    let uploader = site.token(&["bundle-uploader"]).await;
    assert_eq!(site.get(&path, &uploader).await.header("warning"), "");

    clear(&site).await;
    let token = site.content_client().await;
    let content = saying("content");
    let name = site.waiting().await.name_any();
    let answer = site.upload(&name, &token, &content).await;
    answer.assert_rejected(403, "Forbidden", "*spec.source.upload.digest*");
    assert_eq!(maps(&site).await, [""; 0]);

    let name = site.expecting(&digest(&content)).await.name_any();
    assert_eq!(site.upload(&name, &token, &content).await.status, 201);

    // If the Bundle changes or the Lease is lost during an upload, no content is kept. The last case ends the leadership.
    clear(&site).await;
    let token = site.token(&["bundle-uploader"]).await;
    let content = saying("for the first Bundle");
    let bundle = site.expecting(&digest(&content)).await;
    let name = bundle.name_any();
    let (end, slow, _) = begin(&site, &name, &token, &content).await;
    delete(&site.bundles(), &name).await;
    let second = digest(&saying("for the second Bundle")).to_string();
    let other = support::bundle(&name, "plain", upload(Some(second)));
    create(&site.bundles(), &other).await;
    end.send(()).unwrap();
    slow.await.unwrap().assert_rejected(409, "Deleting", "*");
    assert_eq!(maps(&site).await, [""; 0]);
    assert!(site.store.digests().unwrap().is_empty());

    // A second upload of a Bundle is rejected, and the first one is not affected.
    let name = site.waiting().await.name_any();
    let first = saying("the first one");
    let (end, slow, refusal) = begin(&site, &name, &token, &first).await;
    assert_eq!(refusal.0, "UploadInProgress", "{}", refusal.1);
    end.send(()).unwrap();
    assert_eq!(slow.await.unwrap().status, 201);

    let before = maps(&site).await;
    let name = site.waiting().await.name_any();
    let (end, slow, _) = begin(&site, &name, &token, &saying("too late")).await;
    site.leading.set(false);
    end.send(()).unwrap();
    let (status, _, message) = slow.await.unwrap().rejection();
    assert_eq!(status, 503, "{message}");
    assert_has(message, "is not the leader");
    assert_eq!(maps(&site).await, before);
    assert_eq!(site.store.digests().unwrap(), [digest(&first)]);
}
