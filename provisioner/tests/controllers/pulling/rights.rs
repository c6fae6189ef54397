//! What the provisioner may read, and what happens when it may not.

use super::*;

use crate::support::namespace_object;
use manifests::api::install;

#[tokio::test]
async fn the_rights_of_the_file_for_openshift_suffice_and_without_them_everything_else_works() {
    let lab = Lab::new().await;
    lab.openshift().await;
    let options = install::Options::default();
    support::install_rights(&lab.cluster, &install::file(&options)).await;
    let registry = Registry::start(Auth::Anonymous, None);
    push(&registry.image("app:v1"), &content("one"), &insecure()).await;
    lab.apply(&image_config(
        &json!({"insecureRegistries": [registry.host()]}),
    ))
    .await;
    let options_of = |kubeconfig| Options {
        flags: vec!["--controllers=bundle".to_owned()],
        kubeconfig: Some(kubeconfig),
        ..Options::default()
    };
    let provisioner = Provisioner::start(
        &lab.cluster,
        options_of(support::own_kubeconfig(&lab.cluster).await),
    )
    .await;
    let line = provisioner
        .says("cannot follow the cluster in pulling")
        .await;
    let problem = line["problem"].as_str().unwrap();
    assert!(
        problem.contains("manifests/install/openshift.yaml"),
        "{problem}"
    );
    let bundle = lab.bundle(&registry.image("app:v1")).await;
    lab.fails(&bundle, "TLS").await;
    // Everything else works.
    let name = unique("trusting");
    let source = support::image(&registry.image("app:v1"));
    let trusting = json!({
        "apiVersion": "core.rukpak.io/v1alpha1", "kind": "Bundle", "metadata": {"name": name},
        "spec": {"provisionerClassName": "core-rukpak-io-plain", "source": source},
    });
    lab.apply(&trusting).await;
    lab.unpacked(&name).await;
    drop(provisioner);

    lab.apply(&namespace_object("openshift-marketplace")).await;
    support::install_rights(&lab.cluster, &install::openshift(&options)).await;
    let provisioner = Provisioner::start(
        &lab.cluster,
        options_of(support::own_kubeconfig(&lab.cluster).await),
    )
    .await;
    lab.unpacked(&bundle).await;
    provisioner.says("pulling follows the cluster").await;
    let refused = |line: &Value| line["message"] == "cannot follow the cluster in pulling";
    assert!(
        !provisioner.lines().iter().any(refused),
        "{}",
        provisioner.log()
    );
}
