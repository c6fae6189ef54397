//! Private sources, and Secrets that are invalid, missing or corrected.

use k8s_openapi::api::core::v1::Secret;
use manifests::api::bundle::{Authorization, SecretName};
use tests::{Auth, OWNER, Registry, Sshd, TestCa};

use super::*;
use crate::support::{publish, trusting};

async fn put_secret(world: &World, name: &str, type_: &str, data: Value) {
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": SYSTEM},
        "type": type_, "stringData": data,
    });
    world.apply(&secret).await;
}

/// Returns the main branch of a repository as a source, with credentials from a Secret.
fn private(repository: &str, secret: &str) -> BundleSource {
    let mut source = git(repository, branch("main"), None);
    let secret = Some(SecretName {
        name: secret.to_owned(),
    });
    source.git.as_mut().unwrap().auth = Some(tests::with!(Authorization, secret));
    source
}

// parity: b14
#[tokio::test]
async fn b14_a_private_image_is_pulled_with_the_pull_secret() {
    let world = world().await;
    let (name, secret) = (unique("b14"), unique("b14"));
    let ca = TestCa::new("b14");
    let registry = Registry::start(Auth::Basic, Some(&ca));
    let tag = registry.image(&format!("{name}:v1"));
    let config = registry.docker_config(OWNER);
    publish(&tag, &small(&name), &trusting(&ca, Some(&config))).await;

    let mut source = image(&tag);
    let at = source.image.as_mut().unwrap();
    at.insecure_skip_tls_verify = false;
    at.certificate_data = Some(ca.pem());
    at.pull_secret = Some(secret.clone());
    let missing = format!("get secret {SYSTEM}/{secret}: Secret \"{secret}\" not found");
    failing(&name, source, &missing).await;

    put_secret(world, &secret, "Opaque", json!({"password": "hush"})).await;
    let wrong = "a pull secret requires type kubernetes.io/dockerconfigjson";
    wait_message(&name, "UnpackFailed", wrong).await;

    let secrets: Api<Secret> = Api::namespaced(world.client(), SYSTEM);
    delete(&secrets, &secret).await;
    let type_ = "kubernetes.io/dockerconfigjson";
    put_secret(world, &secret, type_, json!({".dockerconfigjson": config})).await;
    // The last failure has a retry delay of five minutes: the Secret triggers the reconcile.
    let bundle = world.wait_bundle(&name, "Unpacked", "True").await;
    let resolved = bundle.status.unwrap().resolved_source.unwrap();
    let resolved = resolved.image.unwrap();
    assert_eq!(resolved.pull_secret, None);
    assert_eq!(resolved.certificate_data, None);
}

// parity: b15
#[tokio::test]
async fn b15_a_private_repository_is_cloned_with_basic_auth() {
    let world = world().await;
    let (name, secret) = (unique("b15"), unique("b15"));
    let server = GitServer::start(Some(OWNER), None);
    let dir = tempfile::tempdir().unwrap();
    write_small(dir.path(), &name);
    server.repository("r.git").commit("main", dir.path());
    let type_ = "kubernetes.io/basic-auth";
    let login = |password: &str| json!({"username": OWNER.name, "password": password});
    put_secret(world, &secret, type_, login("wrong")).await;
    let source = private(&server.url("r.git"), &secret);
    let bundle = failing(&name, source, "rejected the credentials").await;
    let status = serde_json::to_string(&bundle.status).unwrap();
    assert!(!status.contains("wrong"), "{status}");
    put_secret(world, &secret, type_, login(OWNER.password)).await;
    world.wait_bundle(&name, "Unpacked", "True").await;
}

// parity: b23
#[tokio::test]
async fn b23_a_repository_is_cloned_over_ssh() {
    let world = world().await;
    let (name, secret) = (unique("b23"), unique("b23"));
    let server = Sshd::start();
    let dir = tempfile::tempdir().unwrap();
    write_small(dir.path(), &name);
    let commit = server.repository("r.git").commit("main", dir.path());
    let key = json!({"ssh-privatekey": server.key(), "ssh-knownhosts": server.known_hosts()});
    put_secret(world, &secret, "kubernetes.io/ssh-auth", key).await;
    let bundle = unpacked(&name, private(&server.url("r.git"), &secret)).await;
    tests::assert_rows!(bundle.status.unwrap().resolved_source.unwrap().git.unwrap().reference.commit => Some(commit));
}
