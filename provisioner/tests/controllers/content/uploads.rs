//! `/uploads/<name>.tgz`: the table of rukpak, and failures.

use bytes::Bytes;
use futures::stream;
use kube::ResourceExt;
use manifests::{
    api::bundle::{Bundle, Phase},
    content::Content,
};
use provisioner::controllers::bundle::upload::restore;
use reqwest::Method;
use serde_json::Value;
use tokio::{sync::oneshot, task::JoinHandle};

use super::support::{Answer, Site, digest, files, image, noise, packed, saying};
use crate::support::{create, delete, eventually, list, unique, upload};

/// Returns the names of all ConfigMaps except that of the CA.
pub(super) async fn maps(site: &Site) -> Vec<String> {
    let all = list(&site.config_maps()).await;
    let names = all.iter().map(ResourceExt::name_any);
    names.filter(|name| name.contains("-upload")).collect()
}

/// Removes all uploads from the cluster and the store, so that the next step starts without any.
pub(super) async fn clear(site: &Site) {
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
    invalid_archives_leave_nothing(&site, &token).await;
    an_upload_must_have_the_digest_of_the_bundle(&site, &token).await;
    clear(&site).await;
    rejected_uploads_take_no_content(&site, &token).await;
    clear(&site).await;
    an_upload_is_stored_and_reported_in_the_bundle(&site, &token).await;
    uploads_are_answered_as_rukpak_answers_them(&site, &token).await;
    site.stop().await;
}

async fn an_upload_is_stored_and_reported_in_the_bundle(site: &Site, token: &str) {
    let bundle = site.waiting().await;
    let name = bundle.name_any();
    let content = saying("hello");

    let answer = site.put(&name, token, packed(&content)).await;
    assert_eq!(answer.status, 201, "{:?}", answer.refusal());
    let accepted: Value = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!(accepted["digest"], digest(&content).to_string());
    assert_eq!(
        maps(site).await,
        [format!("{name}-upload"), format!("{name}-upload-0")]
    );

    let status = site.fresh(&bundle).await.status.unwrap();
    assert_eq!(status.phase, Some(Phase::Pending));
    let condition = &status.conditions[0];
    let condition = (
        &*condition.type_,
        &*condition.status,
        &*condition.reason,
        &*condition.message,
    );
    let message = "received bundle upload, waiting for provisioner to unpack it.";
    assert_eq!(condition, ("Unpacked", "False", "UnpackPending", message));

    let path = format!("/uploads/{name}.tgz");
    assert_eq!(site.get(&path, token).await.content(), content);
    assert_eq!(restored(site, &bundle).await, digest(&content));
}

/// Returns the digest of the content that is recorded for a Bundle.
async fn restored(site: &Site, bundle: &Bundle) -> unpacker::Digest {
    let recorded = restore(&site.client, &site.settings, bundle).await;
    recorded.unwrap().unwrap().digest()
}

async fn uploads_are_answered_as_rukpak_answers_them(site: &Site, token: &str) {
    let (first, second) = (saying("first"), saying("second"));

    let (status, _, message) = site.put("absent", token, packed(&first)).await.refusal();
    assert_eq!((status, &*message), (404, "Bundle absent not found"));
    let other = site.bundle("plain", image()).await.name_any();
    let (status, _, message) = site.put(&other, token, packed(&first)).await.refusal();
    assert_eq!(
        (status, &*message),
        (409, r#"bundle source type is "image"; expected "upload""#)
    );

    let mut deleted = Bundle::new(&unique("bundle"), site.waiting().await.spec);
    deleted.metadata.finalizers = Some(vec!["example.com/wait".to_owned()]);
    let name = deleted.name_any();
    create(&site.bundles(), &deleted).await;
    delete(&site.bundles(), &name).await;
    let (status, reason, _) = site.put(&name, token, packed(&first)).await.refusal();
    assert_eq!((status, &*reason), (409, "Deleting"));

    let bundle = site.waiting().await;
    let name = bundle.name_any();
    let nothing = site.get(&format!("/uploads/{name}.tgz"), token).await;
    assert_eq!(nothing.status, 404);
    for (content, status) in [(&first, 201), (&first, 204), (&second, 201), (&first, 201)] {
        let answer = site.put(&name, token, packed(content)).await;
        assert_eq!(answer.status, status, "{:?}", answer.refusal());
    }
    site.unpacked(&bundle, &digest(&first)).await;
    assert_eq!(site.put(&name, token, packed(&first)).await.status, 204);
    site.store.remove(&digest(&second)).unwrap();
    let (status, _, message) = site.put(&name, token, packed(&second)).await.refusal();
    let late = "bundle has already been unpacked, cannot change content of existing bundle";
    assert_eq!((status, &*message), (409, late));
    // Content of a rejected upload is removed.
    assert!(site.store.hold(&digest(&second)).is_err());
    assert_eq!(restored(site, &bundle).await, digest(&first));
}

async fn invalid_archives_leave_nothing(site: &Site, token: &str) {
    let bundle = site.waiting().await;
    let name = bundle.name_any();
    let half = packed(&noise(100_000));
    for (body, status, reason, parts) in tests::rows![
        b"not an archive".to_vec(), 415, "NotGzip" => "";
        Vec::new(), 422, "ArchiveTruncated" => "";
        half[..half.len() / 2].to_vec(), 422, "ArchiveTruncated" => "";
        packed(&noise(9 << 20)), 413, "TooLargeForCluster" => "--persistent-storage 8388608";
    ] {
        let (found, found_reason, message) = site.put(&name, token, body).await.refusal();
        assert_eq!((found, &*found_reason), (status, reason), "{message}");
        let mut parts = parts.split_whitespace();
        assert!(parts.all(|part| message.contains(part)), "{message}");
    }
    assert_eq!(maps(site).await, Vec::<String>::new());
    assert!(site.store.hold(&digest(&noise(9 << 20))).is_err());
    assert_eq!(site.fresh(&bundle).await.status, None);
}

async fn an_upload_must_have_the_digest_of_the_bundle(site: &Site, token: &str) {
    let folded = files(&[("bundle/manifests/a.yaml", b"kind: A")]);
    let (content, other) = (folded.clone().into_folder("bundle"), saying("other"));
    let bundle = site.expecting(&digest(&content)).await;
    let name = bundle.name_any();
    for wrong in [&other, &noise(9 << 20)] {
        let answer = site.put(&name, token, packed(wrong)).await.refusal();
        let (status, reason, message) = answer;
        assert_eq!((status, &*reason), (422, "DigestMismatch"));
        for digest in [digest(wrong), digest(&content)] {
            assert!(message.contains(&digest.to_string()), "{message}");
        }
        assert!(message.contains("spec.source.upload.digest"), "{message}");
    }
    assert!(site.store.digests().unwrap().is_empty());
    assert_eq!(maps(site).await, [""; 0]);
    assert_eq!(site.fresh(&bundle).await.status, None);

    for (content, status) in [(&content, 201), (&content, 204), (&folded, 204)] {
        let answer = site.put(&name, token, packed(content)).await;
        assert_eq!(answer.status, status, "{:?}", answer.refusal());
    }
    assert_eq!(site.store.digests().unwrap(), [digest(&content)]);
}

pub(super) async fn content_client_uploads_only_declared_content(site: &Site) {
    let token = site.content_client().await;
    let content = saying("content");
    let name = site.waiting().await.name_any();
    let (status, reason, message) = site.put(&name, &token, packed(&content)).await.refusal();
    assert_eq!((status, &*reason), (403, "Forbidden"));
    assert!(message.contains("spec.source.upload.digest"), "{message}");
    assert_eq!(maps(site).await, [""; 0]);

    let name = site.expecting(&digest(&content)).await.name_any();
    assert_eq!(site.put(&name, &token, packed(&content)).await.status, 201);
}

async fn rejected_uploads_take_no_content(site: &Site, token: &str) {
    let (content, other) = (saying("this"), saying("other"));
    let [first, second, third] = [
        site.expecting(&digest(&content)).await.name_any(),
        site.expecting(&digest(&content)).await.name_any(),
        site.expecting(&digest(&other)).await.name_any(),
    ];
    for (name, content, status) in tests::rows![
        &first, &content => 201;
        &second, &content => 201;
        &third, &content => 422;
        &second, &other => 422;
    ] {
        let answer = site.put(name, token, packed(content)).await;
        assert_eq!(answer.status, status, "{:?}", answer.refusal());
    }
    assert_eq!(site.store.digests().unwrap(), [digest(&content)]);
    // The Bundle is unpacked from other content, and the uploaded content equals that of the others.
    let fourth = site.waiting().await;
    site.unpacked(&fourth, &digest(&other)).await;
    let late = site.put(&fourth.name_any(), token, packed(&content)).await;
    assert_eq!(late.refusal().1, "AlreadyUnpacked");
    assert_eq!(site.store.digests().unwrap(), [digest(&content)]);
}

/// Returns a body that ends only when the sender signals it.
fn halting(archive: &[u8]) -> (oneshot::Sender<()>, reqwest::Body) {
    let (end, rest) = oneshot::channel::<()>();
    let (head, tail) = archive.split_at(20);
    let parts = stream::unfold(
        (0, Some(rest), [head, tail].map(Bytes::copy_from_slice)),
        |(number, mut rest, parts)| async move {
            if number == 1 {
                rest.take()?.await.ok()?;
            }
            let part = parts.get(number)?.clone();
            Some((Ok::<_, std::io::Error>(part), (number + 1, rest, parts)))
        },
    );
    (end, reqwest::Body::wrap_stream(parts))
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
    let (end, body) = halting(&packed(content));
    let slow = tokio::spawn(Answer::from_request(slow.body(body)));
    let refusal = eventually("an upload under way", async || {
        // An invalid request, so that it cannot become the first upload.
        let request = site.request(Method::PUT, path, token).await;
        let request = request.header("Content-Type", "text/plain").body("x");
        match Answer::from_request(request).await.refusal() {
            (409, reason, message) => Ok((reason, message)),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    (end, slow, refusal)
}

/// Leaves this replica without leadership.
pub(super) async fn changes_during_uploads_leave_nothing(site: &Site, token: &str) {
    let content = saying("for the first Bundle");
    let bundle = site.expecting(&digest(&content)).await;
    let name = bundle.name_any();
    let (end, slow, _) = begin(site, &name, token, &content).await;

    delete(&site.bundles(), &name).await;
    let mut other = Bundle::new(&name, bundle.spec.clone());
    let second = digest(&saying("for the second Bundle")).to_string();
    other.spec.source = upload(Some(second));
    create(&site.bundles(), &other).await;
    end.send(()).unwrap();
    let (status, reason, message) = slow.await.unwrap().refusal();
    assert_eq!((status, &*reason), (409, "Deleting"), "{message}");
    assert_eq!(maps(site).await, [""; 0]);
    assert!(site.store.digests().unwrap().is_empty());

    // A second upload of a Bundle is rejected, and the first one is not affected.
    let name = site.waiting().await.name_any();
    let first = saying("the first one");
    let (end, slow, refusal) = begin(site, &name, token, &first).await;
    assert_eq!(refusal.0, "UploadInProgress", "{}", refusal.1);
    end.send(()).unwrap();
    assert_eq!(slow.await.unwrap().status, 201);

    let before = maps(site).await;
    let name = site.waiting().await.name_any();
    let (end, slow, _) = begin(site, &name, token, &saying("too late")).await;
    site.leading.set(false);
    end.send(()).unwrap();
    let (status, _, message) = slow.await.unwrap().refusal();
    assert_eq!(status, 503, "{message}");
    assert!(message.contains("is not the leader"), "{message}");
    assert_eq!(maps(site).await, before);
    assert_eq!(site.store.digests().unwrap(), [digest(&first)]);
}
