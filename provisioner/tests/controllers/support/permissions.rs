//! The provisioner with only the permissions of its ServiceAccount.

use cluster::Cluster;
use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenRequestSpec},
    authorization::v1::{ResourceAttributes, SubjectAccessReviewSpec},
    core::v1::ServiceAccount,
};
use kube::{Api, api::PostParams};
use manifests::{api::bundle_instance::ServiceAccountRef, yaml};
use serde_json::{Value, json};

use super::{SYSTEM, account_object, apply, bind_role, until};

/// Applies the permissions of an install file, except those of `provisioner-install-anything`, which would hide missing
/// permissions.
pub(crate) async fn install_rights(cluster: &Cluster, file: &str) {
    let documents: Vec<Value> = yaml::documents(file.as_bytes())
        .map(Result::unwrap)
        .collect();
    let is_for_anything =
        |document: &&Value| document["metadata"]["name"] == "provisioner-install-anything";
    let (skipped, documents): (Vec<_>, Vec<_>) = documents.iter().partition(is_for_anything);
    assert!(!skipped.is_empty());
    for document in documents {
        let kind = document["kind"].as_str().unwrap_or_default();
        if kind == "ServiceAccount" || kind.contains("Role") {
            apply(cluster, document).await;
        }
    }
}

/// Waits until the API server allows or denies a user a verb on a resource. An empty namespace means cluster-wide.
pub(crate) async fn wait_permission(
    cluster: &Cluster,
    user: &str,
    (allowed, verb, resource, namespace): (bool, &str, &str, &str),
) {
    let description = format!("{user}: {verb} {resource} {allowed}");
    let text = |value: &str| Some(value.to_owned()).filter(|value| !value.is_empty());
    let (resource, group) = resource.split_once('.').unwrap_or((resource, ""));
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let attributes = tests::with!(ResourceAttributes, verb: text(verb), group: text(group), resource: text(resource),
        subresource: text(subresource), namespace: text(namespace));
    let resource_attributes = Some(attributes);
    let action = tests::with!(SubjectAccessReviewSpec, user: text(user), resource_attributes);
    let found = async || cluster.permits(&action).await.unwrap();
    until(&description, found, |found| *found == allowed).await;
}

/// Grants rules to a subject, in a namespace or cluster-wide.
pub(crate) async fn grant(
    cluster: &Cluster,
    subject: &Value,
    namespace: Option<&str>,
    name: &str,
    rules: &Value,
) {
    let kind = namespace.map_or("ClusterRole", |_| "Role");
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind,
        "metadata": {"name": name, "namespace": namespace}, "rules": rules,
    });
    apply(cluster, &role).await;
    bind_role(cluster, subject, namespace, (kind, name), name).await;
}

/// Binds a ClusterRole to an account, in a namespace or cluster-wide.
pub(crate) async fn bind(
    cluster: &Cluster,
    namespace: Option<&str>,
    name: &str,
    role: &str,
    account: &ServiceAccountRef,
) {
    let subject = super::account(&account.namespace, &account.name);
    bind_role(cluster, &subject, namespace, ("ClusterRole", role), name).await;
}

pub(crate) async fn service_account(
    cluster: &Cluster,
    namespace: &str,
    name: &str,
) -> ServiceAccountRef {
    apply(cluster, &account_object(namespace, name)).await;
    ServiceAccountRef {
        name: name.to_owned(),
        namespace: namespace.to_owned(),
    }
}

pub(crate) async fn token(cluster: &Cluster, account: &ServiceAccountRef) -> String {
    let client = cluster.client().unwrap();
    let accounts: Api<ServiceAccount> = Api::namespaced(client, &account.namespace);
    let request = tests::with!(TokenRequest, spec: Some(TokenRequestSpec::default()));
    let (name, params) = (&account.name, PostParams::default());
    let answer = accounts.create_token_request(name, &params, &request).await;
    answer.unwrap().status.unwrap().token.unwrap()
}

pub(crate) async fn kubeconfig_of(cluster: &Cluster, account: &ServiceAccountRef) -> String {
    let text = std::fs::read(cluster.kubeconfig_path()).unwrap();
    let mut kubeconfig: Value = yaml::documents(&text).next().unwrap().unwrap();
    kubeconfig["users"][0]["user"] = json!({"token": token(cluster, account).await});
    kubeconfig.to_string()
}

pub(crate) async fn own_kubeconfig(cluster: &Cluster) -> String {
    let (name, namespace) = ("provisioner".to_owned(), SYSTEM.to_owned());
    kubeconfig_of(cluster, &ServiceAccountRef { name, namespace }).await
}
