//! What the provisioner may write about the cluster, by its own rights alone.

use manifests::api::{install, platform_status::PlatformStatus};

use super::*;
use crate::support::{Options, gone, install_rights, own_kubeconfig};

#[tokio::test]
async fn the_rights_of_the_file_for_openshift_suffice_before_and_after_it_is_one() {
    let platform = Platform::new().await;
    let cluster = platform.world.cluster;
    for namespace in ["openshift-config", "openshift-marketplace"] {
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        platform.world.apply(&namespace).await;
    }
    install_rights(cluster, &install::openshift(&install::Options::default())).await;
    let options = Options {
        kubeconfig: Some(own_kubeconfig(cluster).await),
        ..Options::default()
    };
    let provisioner = platform.start_with(options).await;
    let statuses = platform.world.api::<PlatformStatus>();
    wait_for(statuses.clone(), "cluster", "written", |status| {
        let written = status.status.as_ref()?;
        (!written.conditions.is_empty()).then_some(())
    })
    .await;

    become_openshift(&platform).await;
    history(cluster, &["Completed 4.12.7"]).await;
    let nothing = "No platform operators are present in the cluster";
    becomes(&platform, "Available", "True", "AsExpected", nothing).await;
    let core = "platform-operators-core";
    operator_becomes(&platform, core, ("Available", "True"), "AsExpected", "").await;
    // There is one gate.
    gone(statuses, "cluster").await;
    for line in provisioner.lines() {
        assert!(!line.to_string().contains("orbidden"), "{line}");
    }
}
