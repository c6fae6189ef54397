//! Permissions that the provisioner needs to write ClusterOperators.

use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::ResourceExt as _;
use manifests::api::{install, platform_status::PlatformStatus};

use super::*;
use crate::api::PROVISIONER;
use crate::support::{
    Options, install_rights, namespace_object, own_kubeconfig, wait_deleted, wait_permission,
};

/// Requires the permission to delete an object for changing its owners, as OpenShift does.
const OWNERS: &str = "--enable-admission-plugins=OwnerReferencesPermissionEnforcement";

#[tokio::test]
async fn openshift_manifest_grants_sufficient_permissions() {
    let flags = vec![OWNERS.to_owned()];
    let options = tests::with!(cluster::Options::default() => apiserver_flags: flags);
    let platform = Platform::with_options(&options).await;
    let cluster = platform.world.cluster;
    for namespace in ["openshift-config", "openshift-marketplace"] {
        platform.world.apply(&namespace_object(namespace)).await;
    }
    install_rights(cluster, &install::openshift(&install::Options::default())).await;
    let kubeconfig = Some(own_kubeconfig(cluster).await);
    let provisioner = platform.start_with(tests::with!(Options, kubeconfig)).await;
    let statuses = platform.world.api::<PlatformStatus>();
    let written = json!({"status": {"conditions": [{}]}});
    wait_part(statuses.clone(), "cluster", written).await;

    become_openshift(&platform, &["Completed 4.12.7"]).await;
    let nothing = "No platform operators are present in the cluster";
    becomes(&platform, "Available=True AsExpected", nothing).await;
    core_becomes(&platform, "Available=True", "").await;
    // Only the ClusterOperator remains as gate.
    wait_deleted(statuses, "cluster").await;
    // Without an owner, the ClusterOperator would never be deleted.
    let orphan = json!({"metadata": {"ownerReferences": null}});
    let operators = platform.world.api::<ClusterOperator>();
    merge(&operators, AGGREGATED, &orphan).await;
    let owned = json!({"metadata": {"ownerReferences": [{}]}});
    wait_part(operators.clone(), AGGREGATED, owned).await;
    for line in provisioner.lines() {
        assert!(!line.to_string().contains("orbidden"), "{line}");
    }

    // Without the delete permission, the object remains as an orphan with correct conditions.
    let role = "provisioner-openshift";
    let roles = platform.world.api::<ClusterRole>();
    let mut rules = roles.get(role).await.unwrap().rules.unwrap();
    rules.retain(|rule| rule.verbs != ["delete"]);
    merge(&roles, role, &json!({"rules": rules})).await;
    let deletion = (false, "delete", "clusteroperators.config.openshift.io", "");
    wait_permission(cluster, PROVISIONER, deletion).await;
    merge(&operators, AGGREGATED, &orphan).await;
    platform.declare(json!({"package": {"name": "typo"}})).await;
    let installing = "Progressing=True PlatformOperatorsInstalling";
    tests::assert_rows!(becomes(&platform, installing, "Installing 1 of 1").await.owner_references() => []);
    let is_notice = |line: &Value| line.to_string().contains("kept when rukpak is uninstalled");
    assert!(provisioner.lines().iter().any(is_notice));
}
