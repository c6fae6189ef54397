//! Objects of kinds that many tests need, and subjects of role bindings.

use cluster::Cluster;
use serde_json::{Value, json};

use super::objects::apply;

/// Returns a ServiceAccount.
pub(crate) fn account_object(namespace: &str, name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}})
}

/// Returns a Node of an architecture.
pub(crate) fn node_object(name: &str, architecture: &str) -> Value {
    let labels = json!({"kubernetes.io/arch": architecture});
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}})
}

/// Returns a CatalogSource of OLM's API version.
pub(crate) fn catalog_source(namespace: &str, name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
        "metadata": {"name": name, "namespace": namespace}, "spec": spec,
    })
}

/// Returns a user as the subject of bindings.
pub(crate) fn user(name: &str) -> Value {
    json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name})
}

/// Returns a ServiceAccount as the subject of bindings.
pub(crate) fn account(namespace: &str, name: &str) -> Value {
    json!({"kind": "ServiceAccount", "name": name, "namespace": namespace})
}

/// Binds a role to a subject, in a namespace or cluster-wide.
pub(crate) async fn bind_role(
    cluster: &Cluster,
    subject: &Value,
    namespace: Option<&str>,
    (kind, role): (&str, &str),
    name: &str,
) {
    let group = "rbac.authorization.k8s.io";
    let binding = json!({
        "apiVersion": format!("{group}/v1"),
        "kind": namespace.map_or("ClusterRoleBinding", |_| "RoleBinding"),
        "metadata": {"name": name, "namespace": namespace},
        "roleRef": {"apiGroup": group, "kind": kind, "name": role}, "subjects": [subject],
    });
    apply(cluster, &binding).await;
}
