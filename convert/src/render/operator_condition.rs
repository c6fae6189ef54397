//! The OperatorCondition, with which an operator controls its upgrades: the object, the permissions to write it, and its
//! name, which operator-lib reads from an environment variable.

use std::collections::BTreeSet;

use manifests::{
    names::{self, OPERATOR_CONDITION_VARIABLE},
    object::{child_mut, get_path},
};
use serde_json::{Value, json};

use super::service_accounts;
use crate::deployment_config;

const GROUP: &str = "operators.coreos.com";
const RBAC: &str = "rbac.authorization.k8s.io";

/// Returns the object, and role and binding for the ServiceAccounts of all Deployments. The object has the
/// ClusterServiceVersion's name, as in OLM. The name of the role differs from OLM's, because OLM creates its own role if it
/// also runs.
pub(crate) fn objects(name: &str, deployments: &[Value], namespace: &str) -> Vec<Value> {
    let accounts: BTreeSet<&str> = deployments
        .iter()
        .map(|entry| get_path(entry, &["spec", "template", "spec"]).unwrap_or(&Value::Null))
        .map(|pod| service_accounts::of_pod(pod).1)
        .collect();
    if accounts.is_empty() || !is_valid_name(name) {
        return Vec::new();
    }
    let role = names::generate_name(
        &format!("{name}-condition"),
        &[name, "OperatorCondition"],
        names::SHORT,
    );
    let subjects: Vec<Value> = accounts
        .into_iter()
        .map(|account| json!({"kind": "ServiceAccount", "name": account, "namespace": namespace}))
        .collect();
    vec![
        json!({
            "apiVersion": format!("{GROUP}/v2"),
            "kind": "OperatorCondition",
            "metadata": {"name": name, "namespace": namespace},
        }),
        json!({
            "apiVersion": format!("{RBAC}/v1"),
            "kind": "Role",
            "metadata": {"name": role, "namespace": namespace},
            "rules": [{
                "apiGroups": [GROUP],
                "resources": ["operatorconditions", "operatorconditions/status"],
                "resourceNames": [name],
                "verbs": ["get", "update", "patch"],
            }],
        }),
        json!({
            "apiVersion": format!("{RBAC}/v1"),
            "kind": "RoleBinding",
            "metadata": {"name": role, "namespace": namespace},
            "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": role},
            "subjects": subjects,
        }),
    ]
}

/// Reports whether the name of a ClusterServiceVersion is a valid name of an OperatorCondition. In a cluster, no
/// ClusterServiceVersion has another name.
pub(crate) fn is_valid_name(name: &str) -> bool {
    names::dns_subdomain(name).is_ok()
}

/// Sets the variable with the name of the OperatorCondition in all containers of a Deployment.
pub(crate) fn set_variable(deployment: &mut Value, name: &str) {
    let pod = child_mut(child_mut(child_mut(deployment, "spec"), "template"), "spec");
    let variable = [json!({"name": OPERATOR_CONDITION_VARIABLE, "value": name})];
    let containers = pod.get_mut("containers").and_then(Value::as_array_mut);
    for container in containers.into_iter().flatten() {
        deployment_config::by_name(container, "env", &variable);
    }
}
