//! The provisioner's own permissions on platform operators.

use manifests::api::install;

use super::support::{Platform, package};
use super::*;
use crate::catalogs::images::pull_secret;
use crate::support::{install_rights, own_kubeconfig, until};

// parity: openshift-27
#[tokio::test]
async fn install_file_permissions_suffice_for_platform_operators() {
    let platform = Platform::new().await;
    let cluster = platform.world.cluster;
    install_rights(cluster, &install::file(&install::Options::default())).await;
    // An admin with catalogs in another namespace allows the provisioner to read secrets there.
    let secrets = install::catalog_secrets(&install::Options::default(), "catalogs");
    platform.world.apply(&secrets).await;
    let secret = pull_secret("catalogs", "pull", r#"{"auths":{}}"#);
    platform.world.apply(&secret).await;
    let image = platform.world.registry.image("none:v1");
    let spec = json!({"image": image, "secrets": ["pull"]});
    platform.source("image", spec).await;

    let bundles = platform.bundles("tide", &["1.0.0"]).await;
    platform.declare(json!({"package": {"name": "tide"}})).await;
    let _server = platform.serve_mine(&package("tide", &bundles)).await;
    let kubeconfig = Some(own_kubeconfig(cluster).await);
    let provisioner = platform.start_with(tests::with!(Options, kubeconfig)).await;
    // The installation needs more permissions: an account, or the second binding.
    let (world, lacks) = (&platform.world, ["lacks permissions"]);
    world.wait_message("tide", "Installed", &lacks).await;
    let chosen = json!({"status": {"chosenBundle": {"name": "tide.v1.0.0"}}});
    wait_part(platform.operators(), "tide", chosen).await;
    // The provisioner reads the pull secret, and the pull fails only because the image does not exist.
    let is_reported = |lines: &Vec<Value>| {
        let mut lines = lines.iter();
        let of_image = |line: &&Value| {
            line["message"] == "failed to read catalog" && line["catalog"] == "catalogs/image"
        };
        lines
            .find(of_image)
            .is_some_and(|line| line["error"].to_string().contains("none"))
    };
    until(
        "the failed pull is logged",
        async || provisioner.lines(),
        is_reported,
    )
    .await;
    for line in provisioner.lines() {
        assert!(!line.to_string().contains("orbidden"), "{line}");
    }
}
