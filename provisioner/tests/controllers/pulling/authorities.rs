//! Authorities of registries, and the credentials that nodes have.

use super::*;

fn base64(text: &str) -> String {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    STANDARD.encode(text)
}

fn config(kind: &str, name: &str, data: &Value) -> Value {
    let metadata = json!({"name": name, "namespace": "openshift-config"});
    json!({"apiVersion": "v1", "kind": kind, "metadata": metadata, "data": data})
}

/// A private registry with TLS, and an image in it.
async fn private(authority: &Authority, name: &str) -> (Registry, String, String) {
    let registry = Registry::start(Auth::Basic, Some(authority));
    let login = registry.docker_config(OWNER);
    let access = Access {
        registries: Credentials::from_docker_config(login.as_bytes()).unwrap(),
        trust: Trust {
            roots: authority.pem(),
            ..Trust::default()
        },
        ..Access::default()
    };
    let image = registry.image(&format!("{name}:v1"));
    push(&image, &content(name), &access).await;
    (registry, image, login)
}

// parity: complaint-17
#[tokio::test]
async fn rights_authorities_and_proxy_of_the_cluster_are_used() {
    let lab = Lab::new().await;
    lab.openshift().await;
    rights::rights_of_the_openshift_file_suffice(&lab).await;
    authorities_and_pull_secret_are_used(&lab).await;
    requests_go_through_the_proxy_and_around_it(&lab).await;
}

async fn authorities_and_pull_secret_are_used(lab: &Lab) {
    let authority = Authority::new("lab");
    let (registry, image, login) = private(&authority, "one").await;
    let provisioner = lab.provisioner(&[]).await;
    let bundle = lab.bundle(&image).await;
    lab.fails(&bundle, "certificate").await;

    // A ConfigMap that is not there yet is told.
    let mut settings = image_config(&json!({}));
    settings["spec"]["additionalTrustedCA"] = json!({"name": "registry-cas"});
    lab.apply(&settings).await;
    provisioner
        .counts("rukpak_pull_configuration_problems{source=\"ImageAuthorities\"} 1")
        .await;
    let events: Api<k8s_openapi::api::events::v1::Event> =
        Api::namespaced(lab.cluster.client().unwrap(), "openshift-config");
    eventually("an event", async || {
        let list = events
            .list(&kube::api::ListParams::default())
            .await
            .unwrap();
        let told = list.items.iter().any(|event| {
            let about = event.regarding.as_ref().and_then(|it| it.name.as_deref());
            about == Some("registry-cas")
                && event.reason.as_deref() == Some("PullConfigurationInvalid")
        });
        told.then_some(())
            .ok_or_else(|| format!("{:?}", list.items))
    })
    .await;

    let key = registry.host().replace(':', "..");
    lab.apply(&config(
        "ConfigMap",
        "registry-cas",
        &json!({key: authority.pem()}),
    ))
    .await;
    provisioner
        .counts("rukpak_pull_configuration_problems{source=\"ImageAuthorities\"} 0")
        .await;
    lab.fails(&bundle, "credentials").await;
    let mut secret = config(
        "Secret",
        "pull-secret",
        &json!({".dockerconfigjson": base64(&login)}),
    );
    secret["type"] = "kubernetes.io/dockerconfigjson".into();
    lab.apply(&secret).await;
    lab.unpacked(&bundle).await;

    // The authority is one registry's, and nobody else's.
    let (_other, image, _) = private(&authority, "two").await;
    let bundle = lab.bundle(&image).await;
    lab.fails(&bundle, "certificate").await;
    // The Proxy's are everybody's.
    lab.apply(&config(
        "ConfigMap",
        "user-ca-bundle",
        &json!({"ca-bundle.crt": authority.pem()}),
    ))
    .await;
    let proxy = json!({
        "apiVersion": CONFIG, "kind": "Proxy", "metadata": {"name": "cluster"},
        "spec": {"trustedCA": {"name": "user-ca-bundle"}},
    });
    lab.apply(&proxy).await;
    lab.fails(&bundle, "credentials").await;
}

async fn requests_go_through_the_proxy_and_around_it(lab: &Lab) {
    let (registry, proxy) = (Registry::plain(), HttpProxy::start());
    push(&registry.image("app:v1"), &content("one"), &insecure()).await;
    // An address of this machine that does not look like one: those are reached without proxies.
    let host = registry.host().replace("127.0.0.1", "0.0.0.0");
    lab.apply(&image_config(&json!({"insecureRegistries": [host]})))
        .await;
    let object = json!({
        "apiVersion": CONFIG, "kind": "Proxy", "metadata": {"name": "cluster"},
        "spec": {"trustedCA": {"name": ""}},
    });
    let status = |no_proxy: &str| json!({"httpProxy": proxy.url(), "httpsProxy": proxy.url(), "noProxy": no_proxy});
    lab.apply(&object).await;
    lab.status(&object, &status(".cluster.local,.svc")).await;
    let _provisioner = lab.provisioner(&[]).await;
    lab.unpacked(&lab.bundle(&format!("{host}/app:v1")).await)
        .await;
    let through = proxy.requests("0.0.0.0");
    assert!(through > 0, "nothing went through the proxy");

    lab.status(&object, &status(".cluster.local,0.0.0.0/8"))
        .await;
    push(&registry.image("next:v1"), &content("two"), &insecure()).await;
    // It may take a moment until the provisioner knows.
    eventually("around the proxy", async || {
        let before = proxy.requests("0.0.0.0");
        lab.unpacked(&lab.bundle(&format!("{host}/next:v1")).await)
            .await;
        let after = proxy.requests("0.0.0.0");
        (before == after)
            .then_some(())
            .ok_or_else(|| format!("{before} {after}"))
    })
    .await;
}
