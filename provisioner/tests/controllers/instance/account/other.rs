//! Another account in the spec of an installed instance.

use super::*;

/// The permissions of another account are checked at once, and the account is used for repairs.
pub(super) async fn another_account_is_checked_and_used(
    world: &World,
    name: &str,
    first: &ServiceAccountRef,
) {
    let namespace = first.namespace.as_str();
    let second = json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": "second", "namespace": namespace},
    });
    world.apply(&second).await;
    let named = json!({"serviceAccount": {"name": "second", "namespace": namespace}});
    change(world, name, json!({"spec": named})).await;
    let lacking = says(world, name, "Installed", "kubectl create -f - and this").await;
    assert_eq!(line(&lacking, "Installed"), "True ReconcileFailed");

    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": "second", "namespace": namespace},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "second", "namespace": namespace}],
    });
    world.apply(&binding).await;
    wait_reason(world, name, "Installed", "InstallationSucceeded").await;
    revoke(world, first).await;
    meddle(&maps(world, namespace), "a", json!({"data": {"v": "2"}})).await;
    has_value(world, namespace, "a", "v", "1").await;
}
