//! The provisioner with its own account's rights alone.

use cluster::{Cluster, DryRun};
use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenRequestSpec},
    core::v1::ServiceAccount,
    rbac::v1::ClusterRoleBinding,
};
use kube::{
    Api,
    api::{DeleteParams, PostParams},
};
use manifests::yaml;
use serde_json::{Value, json};

use super::SYSTEM;
use super::objects::{apply, delete};

/// Gives the account what an install file gives it, save the right to install anything: with that there would be nothing
/// to see.
pub(crate) async fn install_rights(cluster: &Cluster, file: &str) {
    let kinds = [
        "ServiceAccount",
        "ClusterRole",
        "ClusterRoleBinding",
        "Role",
        "RoleBinding",
    ];
    for document in yaml::documents(file.as_bytes()) {
        let document: Value = document.unwrap();
        if kinds.contains(&document["kind"].as_str().unwrap_or_default()) {
            apply(cluster, &document).await;
        }
    }
    let bindings: Api<ClusterRoleBinding> = Api::all(cluster.client().unwrap());
    delete(&bindings, "provisioner-install-anything").await;
}

/// Grants rules to a subject, in a namespace or in the whole cluster.
pub(crate) async fn grant(
    cluster: &Cluster,
    subject: &Value,
    namespace: Option<&str>,
    name: &str,
    rules: &Value,
) {
    let group = "rbac.authorization.k8s.io";
    let (version, metadata) = (
        format!("{group}/v1"),
        json!({"name": name, "namespace": namespace}),
    );
    let kind = namespace.map_or("ClusterRole", |_| "Role");
    let role = json!({"apiVersion": version, "kind": kind, "metadata": metadata, "rules": rules});
    let binding = json!({
        "apiVersion": version, "kind": format!("{kind}Binding"), "metadata": metadata,
        "roleRef": {"apiGroup": group, "kind": kind, "name": name}, "subjects": [subject],
    });
    for object in [role, binding] {
        apply(cluster, &object).await;
    }
}

/// A kubeconfig with a token of the account.
pub(crate) async fn own_kubeconfig(cluster: &Cluster) -> String {
    let accounts: Api<ServiceAccount> = Api::namespaced(cluster.client().unwrap(), SYSTEM);
    let request = TokenRequest {
        spec: Some(TokenRequestSpec::default()),
        ..TokenRequest::default()
    };
    let params = PostParams::default();
    let answer = accounts
        .create_token_request("provisioner", &params, &request)
        .await
        .unwrap();
    let text = std::fs::read(cluster.kubeconfig_path()).unwrap();
    let mut kubeconfig: Value = yaml::documents(&text).next().unwrap().unwrap();
    kubeconfig["users"][0]["user"] = json!({"token": answer.status.unwrap().token});
    kubeconfig.to_string()
}
