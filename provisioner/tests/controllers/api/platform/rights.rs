//! Who may say with whose rights a platform operator is installed.

use super::*;
use crate::support::{apply, delete, eventually};

/// The BundleInstance is made by the provisioner, so who names the account has to be asked here.
// parity: openshift-27
#[tokio::test]
#[expect(clippy::too_many_lines, reason = "a table")]
async fn who_names_an_account_in_a_platform_operator_has_to_be_allowed_to_act_as_it() {
    let cluster = defined().await;
    let rbac = "rbac.authorization.k8s.io";
    let role = json!({
        "apiVersion": format!("{rbac}/v1"), "kind": "ClusterRole", "metadata": {"name": "platform-admin"},
        "rules": [{"apiGroups": ["platform.openshift.io"], "resources": ["*"], "verbs": ["*"]}],
    });
    apply(cluster, &role).await;
    let subjects =
        ["carol", "dave"].map(|name| json!({"apiGroup": rbac, "kind": "User", "name": name}));
    let binding = json!({
        "apiVersion": format!("{rbac}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": "platform-admin"},
        "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "platform-admin"},
        "subjects": subjects,
    });
    apply(cluster, &binding).await;
    let impersonator = json!({
        "apiVersion": format!("{rbac}/v1"), "kind": "RoleBinding",
        "metadata": {"name": "dave-is-installer", "namespace": "default"},
        "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "bundle-instance-impersonator"},
        "subjects": [{"apiGroup": rbac, "kind": "User", "name": "dave"}],
    });
    apply(cluster, &impersonator).await;

    let account = json!({"name": "installer", "namespace": "default"});
    let named = operator(
        "named",
        &json!({"package": {"name": "etcd"}, "bundle": {"serviceAccount": account}}),
    );
    let put_as = async |user: &str, object: &Value| {
        let arguments = ["create", "--as", user, "--filename", "-"];
        kubectl(cluster, &arguments, &object.to_string()).await
    };
    let refusal = "spec.bundle.serviceAccount: carol is not allowed to impersonate the ServiceAccount default/installer";
    eventually("carol is refused an account", async || {
        match put_as("carol", &named).await {
            Err(said) if said.contains(refusal) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    eventually("dave may name it", async || put_as("dave", &named).await).await;
    // What is installed with these rights is his to say.
    let patch_as = async |user: &str, patch: &str| {
        let mut arguments: Vec<&str> = "patch platformoperator named --type merge --patch"
            .split(' ')
            .collect();
        arguments.extend([patch, "--as", user]);
        kubectl(cluster, &arguments, "").await
    };
    for patch in [
        r#"{"spec": {"channel": "other"}}"#,
        r#"{"spec": {"bundle": null}}"#,
    ] {
        let said = patch_as("carol", patch).await.unwrap_err();
        assert!(said.contains(refusal), "{said}");
        patch_as("dave", patch).await.unwrap();
    }
    put_as("dave", &{
        let mut again = named.clone();
        again["metadata"]["name"] = json!("again");
        again
    })
    .await
    .unwrap();
    let attempt_as = async |user: &str, attempt: &[&str]| {
        let mut arguments = attempt.to_vec();
        arguments.extend(["--dry-run=server", "--as", user]);
        if user.starts_with("system:") {
            arguments.extend(["--as-group", "system:masters"]);
        }
        kubectl(cluster, &arguments, "").await
    };
    let patch = |patch: &'static str| {
        let arguments = "patch platformoperator again --type merge --patch".split(' ');
        arguments.chain([patch]).collect::<Vec<_>>()
    };
    for (attempt, is_guarded) in tests::rows![
        vec!["delete", "platformoperator", "again"] => true;
        patch(r#"{"metadata": {"finalizers": ["example.com/held"]}}"#) => true;
        patch(r#"{"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "1"}]}}"#)
            => true;
        patch(r#"{"metadata": {"annotations": {"a": "b"}}}"#) => false;
    ] {
        let said = attempt_as("carol", &attempt).await;
        if is_guarded {
            let said = said.unwrap_err();
            assert!(said.contains(refusal), "{attempt:?}: {said}");
        } else {
            said.unwrap();
        }
        for user in [
            "dave",
            "system:serviceaccount:rukpak-system:provisioner",
            "system:serviceaccount:kube-system:generic-garbage-collector",
            "system:kube-controller-manager",
        ] {
            attempt_as(user, &attempt).await.unwrap();
        }
    }
    kubectl(cluster, &["delete", "platformoperator", "again"], "")
        .await
        .unwrap();
    // Who names none is not asked.
    for bundle in [json!({}), json!({"installNamespace": "etcd"})] {
        let object = operator(
            "unnamed",
            &json!({"package": {"name": "etcd"}, "bundle": bundle}),
        );
        put_as("carol", &object).await.unwrap();
        delete(&api_of(&object).await, "unnamed").await;
    }
}
