//! Permissions to read the pull configuration, CAs of registries, and the credentials of nodes.

use manifests::api::install;
use tests::assert_has;

use super::*;
use crate::catalogs::images::pull_secret;

fn ca_map(name: &str, data: &Value) -> Value {
    let metadata = json!({"name": name, "namespace": "openshift-config"});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
}

fn proxy_config(trusted_ca: &str) -> Value {
    json!({
        "apiVersion": CONFIG, "kind": "Proxy", "metadata": {"name": "cluster"},
        "spec": {"trustedCA": {"name": trusted_ca}},
    })
}

/// Starts a private registry with TLS, and pushes an image to it.
async fn private(ca: &TestCa, name: &str) -> (Registry, String, String) {
    let registry = Registry::start(Auth::Basic, Some(ca));
    let login = registry.docker_config(OWNER);
    let image = registry.image(&format!("{name}:v1"));
    publish(&image, &content(name), &trusting(ca, Some(&login))).await;
    (registry, image, login)
}

// parity: complaint-17
#[tokio::test]
async fn permissions_cas_and_proxy_of_the_cluster_are_used() {
    let lab = Lab::new().await;
    lab.openshift().await;
    // The permissions of the OpenShift file suffice.
    let options = install::Options::default();
    support::install_rights(&lab.cluster, &install::file(&options)).await;
    let registry = Registry::start(Auth::Anonymous, None);
    publish(&registry.image("app:v1"), &content("one"), &insecure()).await;
    let config = image_config(&json!({"insecureRegistries": [registry.host()]}));
    lab.apply(&config).await;
    let start = async || {
        let mut options = Options::with_flags(&["--controllers=bundle"]);
        options.kubeconfig = Some(support::own_kubeconfig(&lab.cluster).await);
        Provisioner::start(&lab.cluster, options).await
    };
    let provisioner = start().await;
    let refused = "invalid pull configuration";
    let line = provisioner.wait_log(refused).await;
    assert_has(&line["problem"], "manifests/install/openshift.yaml");
    let bundle = lab.bundle(&registry.image("app:v1")).await;
    lab.fails(&bundle, "TLS").await;
    // Everything else works.
    let trusting = support::image(&registry.image("app:v1"));
    lab.unpacked(&lab.bundle_of(trusting).await).await;
    drop(provisioner);

    lab.apply(&namespace_object("openshift-marketplace")).await;
    support::install_rights(&lab.cluster, &install::openshift(&options)).await;
    let provisioner = start().await;
    lab.unpacked(&bundle).await;
    provisioner.wait_log("updated pull configuration").await;
    let mut lines = provisioner.lines().into_iter();
    assert_eq!(lines.find(|line| line["message"] == refused), None);
    lab.delete(&config).await;
    drop(provisioner);

    let ca = TestCa::new("lab");
    let (registry, image, login) = private(&ca, "one").await;
    let provisioner = lab.provisioner(&[]).await;
    let bundle = lab.bundle(&image).await;
    lab.fails(&bundle, "certificate").await;

    // A missing ConfigMap is reported.
    let mut settings = image_config(&json!({}));
    settings["spec"]["additionalTrustedCA"] = json!({"name": "registry-cas"});
    lab.apply(&settings).await;
    let problems = "rukpak_pull_configuration_problems{source=\"ImageAuthorities\"}";
    provisioner.counts(&format!("{problems} 1")).await;
    let (namespace, reason) = ("openshift-config", "PullConfigurationInvalid");
    let read_notes = async || notes_about(&lab.client(), namespace, "registry-cas", reason).await;
    until("an event", read_notes, |notes| !notes.is_empty()).await;

    let key = registry.host().replace(':', "..");
    let cas = json!({key: ca.pem()});
    lab.apply(&ca_map("registry-cas", &cas)).await;
    provisioner.counts(&format!("{problems} 0")).await;
    lab.fails(&bundle, "credentials").await;
    let secret = pull_secret("openshift-config", "pull-secret", &login);
    lab.apply(&secret).await;
    lab.unpacked(&bundle).await;

    // The CA applies to one registry only.
    let (_other, image, _) = private(&ca, "two").await;
    let bundle = lab.bundle(&image).await;
    lab.fails(&bundle, "certificate").await;
    // The CAs of the Proxy apply to all registries.
    let cas = json!({"ca-bundle.crt": ca.pem()});
    lab.apply(&ca_map("user-ca-bundle", &cas)).await;
    lab.apply(&proxy_config("user-ca-bundle")).await;
    lab.fails(&bundle, "credentials").await;
    drop(provisioner);

    // Requests pass through the proxy.
    let (registry, proxy) = (Registry::plain(), HttpProxy::start());
    publish(&registry.image("app:v1"), &content("one"), &insecure()).await;
    // An address of this machine that is not recognized as local: the provisioner reaches local addresses without a proxy.
    let host = registry.host().replace("127.0.0.1", "0.0.0.0");
    let hosts = json!({"insecureRegistries": [host]});
    lab.apply(&image_config(&hosts)).await;
    let object = proxy_config("");
    let status = json!({"httpProxy": proxy.url(), "httpsProxy": proxy.url(), "noProxy": ".cluster.local,.svc"});
    lab.apply(&object).await;
    lab.status(&object, &status).await;
    let _provisioner = lab.provisioner(&[]).await;
    let first = lab.bundle(&format!("{host}/app:v1")).await;
    lab.unpacked(&first).await;
    assert!(proxy.requests("0.0.0.0") > 0, "no request to the proxy");
}
