//! An apiserver that refuses something, whoever asks.

use cluster::{Cluster, DryRun};
use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicyBinding;
use kube::{Api, api::DeleteParams};
use serde_json::json;

use crate::support::eventually;

/// Has the apiserver refuse that something is done to objects of a kind. `attempt` tries it, which must change nothing.
pub(super) async fn deny<T>(
    cluster: &Cluster,
    operation: &str,
    (group, resource): (&str, &str),
    attempt: impl AsyncFn() -> kube::Result<T>,
) {
    let (version, metadata) = ("admissionregistration.k8s.io/v1", json!({"name": resource}));
    let policy = json!({
        "apiVersion": version, "kind": "ValidatingAdmissionPolicy", "metadata": metadata,
        "spec": {
            "matchConstraints": {"resourceRules": [{
                "apiGroups": [group], "apiVersions": ["*"], "operations": [operation], "resources": [resource],
            }]},
            "validations": [{"expression": "false", "message": "nothing is done here"}],
        },
    });
    let binding = json!({
        "apiVersion": version, "kind": "ValidatingAdmissionPolicyBinding", "metadata": metadata,
        "spec": {"policyName": resource, "validationActions": ["Deny"]},
    });
    for object in [policy, binding] {
        cluster.apply(&object, DryRun::No).await.unwrap();
    }
    eventually("it is refused", async || match attempt().await {
        Err(kube::Error::Api(status)) if status.code == 422 => Ok(()),
        Err(other) => Err(other.to_string()),
        Ok(_) => Err("it is not".to_owned()),
    })
    .await;
}

/// Has the apiserver do it again.
pub(super) async fn allow(cluster: &Cluster, resource: &str) {
    let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(cluster.client().unwrap());
    bindings
        .delete(resource, &DeleteParams::default())
        .await
        .unwrap();
}
