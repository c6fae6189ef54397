//! Another account is named.

use super::*;

#[tokio::test]
async fn the_rights_of_another_account_are_looked_at_at_once_and_used_from_then_on() {
    let world = modest().await;
    let name = unique("switch");
    let space = world.cluster.temp_namespace("switch").await.unwrap();
    let first = account(world, space.name()).await;
    trust(world, space.name()).await;
    install(
        world,
        &name,
        &first,
        &[map(space.name(), "a", &[("v", "1")])],
    )
    .await;
    grant(world, &name).await;
    world.wait_instance(&name, "Healthy", "True").await;

    let second = json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": "second", "namespace": space.name()},
    });
    world.apply(&second).await;
    let named = json!({"serviceAccount": {"name": "second", "namespace": space.name()}});
    change(world, &name, json!({"spec": named})).await;
    let lacking = says(world, &name, "Installed", "kubectl create -f - and this").await;
    assert_eq!(line(&lacking, "Installed"), "True ReconcileFailed");

    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": "second", "namespace": space.name()},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "second", "namespace": space.name()}],
    });
    world.apply(&binding).await;
    wait_reason(world, &name, "Installed", "InstallationSucceeded").await;
    revoke(world, &first).await;
    meddle(&maps(world, space.name()), "a", json!({"data": {"v": "2"}})).await;
    has_value(world, space.name(), "a", "v", "1").await;
    delete(world, &name).await;
}
