//! A change of the account in the spec of an installed instance.

use super::*;

/// The permissions of the new account are checked at once, and repairs use the new account.
pub(super) async fn another_account_is_checked_and_used(
    world: &World,
    name: &str,
    first: &ServiceAccountRef,
) {
    let namespace = first.namespace.as_str();
    let second = service_account(world.cluster, namespace, "second").await;
    change(world, name, json!({"spec": {"serviceAccount": second}})).await;
    let lacking = says(world, name, "Installed", &["apply the manifest below"]).await;
    assert_eq!(line(&lacking, "Installed"), "True ReconcileFailed");

    bind(
        world.cluster,
        Some(namespace),
        "second",
        "cluster-admin",
        &second,
    )
    .await;
    wait_reason(world, name, "Installed", "InstallationSucceeded").await;
    revoke(world, first).await;
    patch_as_other(&maps(world, namespace), "a", json!({"data": {"v": "2"}})).await;
    has_value(world, namespace, "a", "v", "1").await;
}
