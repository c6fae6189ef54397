//! Naming an account takes the right to impersonate it, and the Bundles of an instance are the provisioner's.

mod tables;

use kube::Config;
use serde_json::json;

use super::*;
use crate::support::eventually;

/// A client of somebody who may do this in the whole cluster with BundleInstances, and nothing else.
async fn somebody(name: &str) -> Client {
    let cluster = installed().await;
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": format!("bundleinstances-admin-{name}")},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "bundleinstances-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}],
    });
    cluster.apply(&binding, cluster::DryRun::No).await.unwrap();
    let mut config: Config = cluster.config().clone();
    config.auth_info.impersonate = Some(name.to_owned());
    Client::try_from(config).unwrap()
}

fn with_account(name: &str, account: &str) -> Value {
    let mut object = instance(name, &image());
    object["spec"]["serviceAccount"] = json!({"name": account, "namespace": "default"});
    object
}

const REFUSAL: &str = "may not impersonate the ServiceAccount default/installer: ask for the verb impersonate on it (ClusterRole bundle-instance-impersonator, bound in the namespace default)";

#[tokio::test]
async fn only_who_may_impersonate_an_account_may_name_it() {
    let admin = installed().await.client().unwrap();
    let (alice, bob) = (somebody("alice").await, somebody("bob").await);
    // The policy, and a new binding, count a moment after they were stored.
    eventually("alice is refused an account", async || {
        let object = with_account("alices", "installer");
        match create(alice.clone(), &object, true).await {
            Err(said) if said.contains("alice ") && said.contains(REFUSAL) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;

    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "bob-is-installer", "namespace": "default"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "bundle-instance-impersonator"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "bob"}],
    });
    installed()
        .await
        .apply(&role, cluster::DryRun::No)
        .await
        .unwrap();
    eventually("bob may name the account", async || {
        create(bob.clone(), &with_account("bobs", "installer"), false).await
    })
    .await;

    // What is installed with those rights is bob's to say: Alice may neither take the account away nor name another.
    let change_as_alice = |patch: Value| change(alice.clone(), "BundleInstance", "bobs", patch);
    let said = change_as_alice(json!({"spec": {"template": {"metadata": {"labels": {"a": "b"}}}}}));
    assert!(said.await.unwrap_err().contains(REFUSAL));
    change_as_alice(json!({"metadata": {"labels": {"a": "b"}}}))
        .await
        .unwrap();
    let said = change_as_alice(json!({"spec": {"serviceAccount": {"name": "other"}}}))
        .await
        .unwrap_err();
    assert!(
        said.contains("may not impersonate the ServiceAccount default/other"),
        "{said}"
    );
    let away = json!({"spec": {"serviceAccount": null}});
    let said = change_as_alice(away.clone()).await.unwrap_err();
    assert!(said.contains(REFUSAL), "{said}");
    change(bob.clone(), "BundleInstance", "bobs", away)
        .await
        .unwrap();
    let said = change_as_alice(
        json!({"spec": {"serviceAccount": {"name": "installer", "namespace": "default"}}}),
    );
    assert!(said.await.unwrap_err().contains(REFUSAL));

    // Who names none is not asked; what is installed with is the provisioner's own account.
    create(alice, &instance("alices", &image()), false)
        .await
        .unwrap();
    create(admin, &with_account("admins", "installer"), false)
        .await
        .unwrap();
}
