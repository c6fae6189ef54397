//! Authorities of registries, and the credentials that nodes have.

use super::*;
use crate::support::until;

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
async fn registries_are_believed_by_the_clusters_authorities_and_told_its_pull_secret() {
    let lab = Lab::new().await;
    lab.openshift().await;
    let authority = Authority::new("lab");
    let (registry, image, login) = private(&authority, "one").await;
    let provisioner = lab.provisioner(&[]).await;
    let bundle = lab.bundle(&image).await;
    lab.fails(&bundle, "certificate").await;

    // A ConfigMap that is not there yet is told.
    let mut settings = image_config(&json!({}));
    settings["spec"]["additionalTrustedCA"] = json!({"name": "registry-cas"});
    lab.apply(&settings).await;
    let metrics = format!("{}/metrics", provisioner.url("metrics"));
    let counts = async |line: &str| {
        until(
            line,
            async || reqwest::get(&metrics).await.unwrap().text().await.unwrap(),
            |text| text.lines().any(|other| other == line),
        )
        .await;
    };
    counts("rukpak_pull_configuration_problems{source=\"ImageAuthorities\"} 1").await;
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
    counts("rukpak_pull_configuration_problems{source=\"ImageAuthorities\"} 0").await;
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
