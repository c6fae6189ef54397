//! Deliveries from other pods. The tests of `provisioner::controllers::bundle::job` cover which pods belong to a Job.

use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::PostParams;
use unpacker::{
    Digest,
    transfer::{BODY_DIGEST, CONTENT_DIGEST, CONTENT_SIZE, DeclaredUpload},
};

use super::*;
use crate::content::support::{Answer, visit};

/// Sends an archive as a Job does, with any token. Returns the status, and the reason of a rejection.
async fn put(world: &World, bundle: &str, token: &str, content: &Content) -> (u16, String) {
    let body = archive(content);
    let mut tar = Vec::new();
    let claims = DeclaredUpload {
        body: Some(Digest::sha256(&body)),
        content: Some(unpacker::pack(content, Format::Tar, &mut tar).unwrap()),
        size: Some(tar.len() as u64),
    };
    let claims = claims.to_headers();
    let (browser, base) = visit(world.client(), world.provisioner().await).await;
    let url = format!("{base}/unpack/{bundle}.tgz");
    let mut request = browser.put(url).body(body);
    if !token.is_empty() {
        request = request.bearer_auth(token);
    }
    for name in [BODY_DIGEST, CONTENT_DIGEST, CONTENT_SIZE] {
        request = request.header(&name, claims[&name].clone());
    }
    let (status, reason, _) = Answer::from_request(request).await.rejection();
    (status, reason)
}

#[tokio::test]
async fn only_the_pod_of_a_job_delivers_content_and_once() {
    let world = place().await;
    let (name, node) = (unpacking(world, "whose").await, node(world).await);
    let content = small(&name);
    // Tokens that must not deliver content to the Bundle of a pod.
    let (other, plain, door) = (unique("whose"), unique("whose"), unique("door"));
    for (name, source) in tests::rows![
        &other => nowhere(&other);
        &plain => image("127.0.0.1:1/a:v1");
        &door => upload(None);
    ] {
        world.bundle(name, "plain", source).await;
    }
    let (own_pod, theirs) = (node.pod(&name).await, node.pod(&other).await);
    let good = node.token(&own_pod).await;
    let others = node.token(&theirs).await;
    let to = |audience: &str| vec![audience.to_owned()];
    let audience = "unpack.core.rukpak.io";
    let apiservers = node.token_for(&own_pod, Vec::new()).await;
    let elsewhere = to("https://example.com");
    let elsewhere = node.token_for(&own_pod, elsewhere).await;
    let accounts: Api<ServiceAccount> = Api::namespaced(world.client(), SYSTEM);
    let request = serde_json::from_value(json!({"spec": {"audiences": [audience]}})).unwrap();
    let params = PostParams::default();
    let unbound = accounts.create_token_request("unpack", &params, &request);
    let unbound = unbound.await.unwrap().status.unwrap().token.unwrap();
    // A user who may create pods with this service account and a Job as owner may do everything in this namespace.
    world.apply(&account_object(SYSTEM, "other")).await;
    let job = node.job(&name).await;
    let owner = json!({"apiVersion": "batch/v1", "kind": "Job", "name": job.name_any(), "uid": job.uid(), "controller": true});
    let foreign = json!({
        "metadata": {"name": unique("stranger"), "ownerReferences": [owner]},
        "spec": {"serviceAccountName": "other", "containers": [{"name": "a", "image": "a"}]},
    });
    let foreign = create(&node.pods(), &serde_json::from_value(foreign).unwrap()).await;
    let foreign = node.token_for(&foreign, to(audience)).await;
    let none = unique("none");
    let (unknown, forbidden) = ((401, "Unauthorized"), (403, "Forbidden"));
    for (why, bundle, token, (status, reason)) in tests::rows![
        "no token", &name, "" => unknown;
        "no token of this cluster", &name, "nonsense" => unknown;
        "a token for the API server", &name, &apiservers => unknown;
        "a token for another service", &name, &elsewhere => unknown;
        "a token of no pod", &name, &unbound => unknown;
        "a pod of another account", &name, &foreign => forbidden;
        "the pod of another Bundle", &name, &others => forbidden;
        "the same pod for another Bundle", &other, &good => forbidden;
        "the same pod for an upload", &door, &good => forbidden;
        "a Bundle without a Job", &plain, &good => forbidden;
        "a Bundle that does not exist", &none, &good => (404, "NotFound");
    ] {
        tests::assert_rows!(put(world, bundle, token, &content).await => (status, reason.to_owned()), "{why}");
    }
    tests::assert_rows!(node.find_job(&name).await.unwrap().annotations().contains_key("core.rukpak.io/handed-over") => false);

    // The token of a deleted pod is not valid.
    let params = DeleteParams::default().grace_period(0);
    let pods = node.pods();
    pods.delete(&theirs.name_any(), &params).await.unwrap();
    wait_deleted(pods, &theirs.name_any()).await;
    let (late, _) = put(world, &other, &others, &content).await;
    assert!([401, 403].contains(&late), "{late}");

    // The content is accepted once, and the same content again.
    tests::assert_rows!(put(world, &name, &good, &content).await.0 => 201);
    world.wait_bundle(&name, "Unpacked", "True").await;
    tests::assert_rows! {
        put(world, &name, &good, &content).await.0 => 200;
        put(world, &name, &good, &small("another")).await => (409, "ContentChanged".to_owned());
    }
}
