//! Whose content is taken, and whose is not.

use reqwest::StatusCode;
use serde_json::Value;
use unpacker::{
    Digest,
    wire::{BODY_DIGEST, CONTENT_DIGEST, CONTENT_SIZE, Claims},
};

use super::*;

/// Sends an archive as a Job does, with a token of the test's choice, and claims that are right unless it says others.
async fn put(
    world: &World,
    bundle: &str,
    token: &str,
    content: &Content,
    lie: bool,
) -> (StatusCode, String) {
    let body = archive(content);
    let mut tar = Vec::new();
    let digest = unpacker::pack(content, Format::Tar, &mut tar).unwrap();
    let claimed = if lie { Digest::of(b"lie") } else { digest };
    let claims = Claims {
        body: Some(Digest::of(&body)),
        content: Some(claimed),
        size: Some(tar.len() as u64),
    };
    let claims = claims.to_headers();
    let maps: Api<ConfigMap> = Api::namespaced(world.client(), SYSTEM);
    let authority = maps.get("rukpak-ca").await.unwrap().data.unwrap();
    let authority = reqwest::Certificate::from_pem_bundle(authority["ca.crt"].as_bytes()).unwrap();
    let browser = reqwest::Client::builder()
        .tls_certs_only(authority)
        .no_proxy()
        .timeout(PATIENCE)
        .build()
        .unwrap();
    let url = format!(
        "{}/unpack/{bundle}.tgz",
        world.provisioner().await.url("content")
    );
    let mut request = browser.put(url).body(body);
    if !token.is_empty() {
        request = request.bearer_auth(token);
    }
    for name in [BODY_DIGEST, CONTENT_DIGEST, CONTENT_SIZE] {
        request = request.header(&name, claims[&name].clone());
    }
    let answer = request.send().await.unwrap();
    let (status, text) = (answer.status(), answer.text().await.unwrap());
    let reason: Value = serde_json::from_str(&text).unwrap_or_default();
    let reason = reason["reason"].as_str().unwrap_or_default().to_owned();
    (status, reason)
}

/// A pod that somebody makes who may.
async fn pod(world: &World, account: &str, more: serde_json::Value) -> Pod {
    let mut pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": unique("stranger")},
        "spec": {"serviceAccountName": account, "containers": [{"name": "a", "image": "a"}]},
    });
    for (key, value) in more.as_object().unwrap() {
        pod["metadata"][key] = value.clone();
    }
    let pods: Api<Pod> = Api::namespaced(world.client(), SYSTEM);
    let pod: Pod = serde_json::from_value(pod).unwrap();
    pods.create(&PostParams::default(), &pod).await.unwrap()
}

/// Tokens that are as good as they can be, and not good enough.
struct Strangers {
    apiservers: String,
    elsewhere: String,
    unbound: String,
    without_job: String,
    named: String,
    foreign: String,
}

async fn strangers(world: &World, node: &Kubelet, ours: &Pod, job: &Job) -> Strangers {
    let audience = || vec!["unpack.core.rukpak.io".to_owned()];
    let apiservers = node.token_for(ours, Vec::new()).await;
    let elsewhere = node
        .token_for(ours, vec!["https://example.com".to_owned()])
        .await;
    let stranger = pod(world, "unpack", json!({})).await;
    let without_job = node.token_for(&stranger, audience()).await;
    // Whoever may make pods with our account and somebody's Job as their owner may do everything in this namespace; but
    // one that only names the Job, and is not controlled by it, is no pod of it.
    let names_only = json!({"ownerReferences": [{
        "apiVersion": "batch/v1", "kind": "Job", "name": job.name_any(), "uid": job.uid(),
    }]});
    let named = pod(world, "unpack", names_only).await;
    let named = node.token_for(&named, audience()).await;
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "other", "namespace": SYSTEM}});
    world.apply(&account).await;
    let unbound: Api<k8s_openapi::api::core::v1::ServiceAccount> =
        Api::namespaced(world.client(), SYSTEM);
    let request = serde_json::from_value(json!({"spec": {"audiences": audience()}})).unwrap();
    let params = PostParams::default();
    let unbound = unbound
        .create_token_request("unpack", &params, &request)
        .await;
    let unbound = unbound.unwrap().status.unwrap().token.unwrap();
    let controlled = json!({"ownerReferences": [{
        "apiVersion": "batch/v1", "kind": "Job", "name": job.name_any(), "uid": job.uid(), "controller": true,
    }]});
    let foreign = pod(world, "other", controlled).await;
    let foreign = node.token_for(&foreign, audience()).await;

    Strangers {
        apiservers,
        elsewhere,
        unbound,
        without_job,
        named,
        foreign,
    }
}

/// Tokens that must not deliver content to the Bundle of a pod.
async fn rejected(world: &World, node: &Kubelet, name: &str, content: &Content) -> String {
    let (other, plain, upload) = (unique("whose"), unique("whose"), unique("door"));
    world.bundle(&other, "plain", nowhere(&other)).await;
    world
        .bundle(&plain, "plain", image("127.0.0.1:1/a:v1"))
        .await;
    let source = BundleSource {
        type_: "upload".to_owned(),
        upload: Some(manifests::api::bundle::UploadSource::default()),
        ..BundleSource::default()
    };
    world.bundle(&upload, "plain", source).await;
    let (ours, theirs) = (node.pod(name).await, node.pod(&other).await);
    let good = node.token(&ours).await;
    let others = node.token(&theirs).await;
    let strangers = strangers(world, node, &ours, &node.job(name).await).await;
    let none = unique("none");
    let unknown = (StatusCode::UNAUTHORIZED, "Unauthorized");
    let forbidden = (StatusCode::FORBIDDEN, "Forbidden");
    for (why, bundle, token, (status, reason)) in tests::rows![
        "no token", name, "" => unknown;
        "no token of this cluster", name, "nonsense" => unknown;
        "a token for the API server", name, &strangers.apiservers => unknown;
        "a token for another service", name, &strangers.elsewhere => unknown;
        "a token of no pod", name, &strangers.unbound => unknown;
        "a pod of no Job", name, &strangers.without_job => forbidden;
        "a pod that names the Job", name, &strangers.named => forbidden;
        "a pod of another account", name, &strangers.foreign => forbidden;
        "the pod of another Bundle", name, &others => forbidden;
        "the same pod for another Bundle", &other, &good => forbidden;
        "the same pod for an upload", &upload, &good => forbidden;
        "a Bundle without a Job", &plain, &good => forbidden;
        "a Bundle that does not exist", &none, &good => (StatusCode::NOT_FOUND, "NotFound");
    ] {
        let found = put(world, bundle, token, content, false).await;
        assert_eq!(found, (status, reason.to_owned()), "{why}");
    }
    let job = node.find_job(name).await.unwrap();
    assert!(!job.annotations().contains_key("core.rukpak.io/handed-over"));

    // The token of a deleted pod is not valid.
    let params = DeleteParams::default().grace_period(0);
    node.pods()
        .delete(&theirs.name_any(), &params)
        .await
        .unwrap();
    gone::<Pod>(node.pods(), &theirs.name_any()).await;
    let late = put(world, &other, &others, content, false).await;
    assert!(
        matches!(late.0, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN),
        "{late:?}"
    );
    good
}

#[tokio::test]
async fn only_the_pod_of_a_job_delivers_content_and_once() {
    let world = place().await;
    let (name, node) = (unique("whose"), node(world).await);
    let content = small(&name);
    world.bundle(&name, "plain", nowhere(&name)).await;
    let good = Box::pin(rejected(world, &node, &name, &content)).await;

    // The claims have to be true. The content is accepted once, and the same content again.
    let false_claim = put(world, &name, &good, &content, true).await;
    assert_eq!(
        false_claim,
        (
            StatusCode::UNPROCESSABLE_ENTITY,
            "DigestMismatch".to_owned()
        )
    );
    let (status, _) = put(world, &name, &good, &content, false).await;
    assert_eq!(status, StatusCode::CREATED);
    world.wait_bundle(&name, "Unpacked", "True").await;
    let (status, _) = put(world, &name, &good, &content, false).await;
    assert_eq!(status, StatusCode::OK);
    let changed = put(world, &name, &good, &small("another"), false).await;
    assert_eq!(changed, (StatusCode::CONFLICT, "ContentChanged".to_owned()));
}
