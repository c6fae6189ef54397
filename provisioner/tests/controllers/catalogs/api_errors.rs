//! API servers that deny an operation to all clients.

use cluster::Cluster;
use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicyBinding;
use kube::Api;
use serde_json::json;

use super::delete;
use crate::support::{apply, eventually};

/// Makes the API server deny an operation on objects of a kind. `attempt` sends the operation and must not change
/// anything.
pub(crate) async fn deny<T>(
    cluster: &Cluster,
    operation: &str,
    (group, resource): (&str, &str),
    attempt: impl AsyncFn() -> kube::Result<T>,
) {
    deny_unless("false", cluster, operation, (group, resource), attempt).await;
}

/// Denies an operation for which a CEL expression is false.
pub(crate) async fn deny_unless<T>(
    expression: &str,
    cluster: &Cluster,
    operation: &str,
    (group, resource): (&str, &str),
    attempt: impl AsyncFn() -> kube::Result<T>,
) {
    let version = "admissionregistration.k8s.io/v1";
    let name = resource.replace('/', ".");
    let metadata = json!({"name": name});
    let rule = json!({"apiGroups": [group], "apiVersions": ["*"], "operations": [operation], "resources": [resource]});
    let validation = json!({"expression": expression, "message": "nothing is done here"});
    let policy = json!({
        "apiVersion": version, "kind": "ValidatingAdmissionPolicy", "metadata": metadata,
        "spec": {"matchConstraints": {"resourceRules": [rule]}, "validations": [validation]},
    });
    let binding = json!({
        "apiVersion": version, "kind": "ValidatingAdmissionPolicyBinding", "metadata": metadata,
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    });
    for object in [policy, binding] {
        apply(cluster, &object).await;
    }
    eventually("denied", async || match attempt().await {
        Err(kube::Error::Api(status)) if status.code == 422 => Ok(()),
        Err(other) => Err(other.to_string()),
        Ok(_) => Err("allowed".to_owned()),
    })
    .await;
}

/// Removes the policies of [`deny`] for a resource.
pub(crate) async fn allow(cluster: &Cluster, resource: &str) {
    let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(cluster.client().unwrap());
    delete(&bindings, &resource.replace('/', ".")).await;
}
