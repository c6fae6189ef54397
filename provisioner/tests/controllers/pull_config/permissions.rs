//! The provisioner's permissions to read the pull configuration, and its behavior without them.

use manifests::api::install;

use super::*;

/// Leaves no pull configuration behind.
pub(super) async fn rights_of_the_openshift_file_suffice(lab: &Lab) {
    let options = install::Options::default();
    support::install_rights(&lab.cluster, &install::file(&options)).await;
    let registry = Registry::start(Auth::Anonymous, None);
    publish(&registry.image("app:v1"), &content("one"), &insecure()).await;
    let config = image_config(&json!({"insecureRegistries": [registry.host()]}));
    lab.apply(&config).await;
    let start = async || {
        let options = Options {
            flags: vec!["--controllers=bundle".to_owned()],
            kubeconfig: Some(support::own_kubeconfig(&lab.cluster).await),
            ..Options::default()
        };
        Provisioner::start(&lab.cluster, options).await
    };
    let provisioner = start().await;
    let refused = "invalid pull configuration";
    let line = provisioner.says(refused).await;
    let problem = line["problem"].as_str().unwrap();
    let remedy = "manifests/install/openshift.yaml";
    assert!(problem.contains(remedy), "{problem}");
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
    provisioner.says("updated pull configuration").await;
    let mut lines = provisioner.lines().into_iter();
    assert_eq!(lines.find(|line| line["message"] == refused), None);
    lab.delete(&config).await;
}
