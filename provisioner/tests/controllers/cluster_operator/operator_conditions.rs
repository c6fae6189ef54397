//! Operators that block upgrades through operator-lib: an environment variable, an object, and the permission to write
//! it.

use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        rbac::v1::{Role, RoleBinding},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Client,
    core::{ApiResource, DynamicObject},
};
use manifests::{
    api::{
        operator_condition::OperatorCondition,
        platform_status::{NAME, PlatformStatus},
    },
    names::OPERATOR_CONDITION_VARIABLE,
};

use super::*;
use crate::support::{delete, eventually, has, list, operator, until};

const NAMESPACE: &str = "wave-system";
const CONDITION: &str = "wave.v1.0.0";

/// Returns the value of the environment variable that names the OperatorCondition.
async fn condition_variable(client: &Client) -> Option<String> {
    let deployments = Api::<Deployment>::namespaced(client.clone(), NAMESPACE);
    let deployment = deployments.get("wave-operator").await.unwrap();
    let pod = deployment.spec.unwrap().template.spec.unwrap();
    let variables = pod.containers[0].env.clone().unwrap_or_default();
    let mut variables = variables.into_iter();
    let variable = variables.find(|variable| variable.name == OPERATOR_CONDITION_VARIABLE)?;
    variable.value
}

/// Waits until the gate has this status and reason, and a message that starts with this text.
async fn gate_is(platform: &Platform, [status, reason, text]: [&str; 3]) {
    let mut gate = json!({"type": "Upgradeable", "status": status, "reason": reason});
    gate["message"] = format!("{text}*").into();
    let part = json!({"status": {"conditions": [gate]}});
    wait_part::<PlatformStatus>(platform.world.api(), NAME, part).await;
}

const OPEN: [&str; 3] = ["True", "AsExpected", "Ready for upgrade"];

/// Leaves the operator installed.
pub(super) async fn an_operator_closes_the_gate(platform: &Platform) {
    let cluster = platform.world.cluster;
    let client = cluster.client().unwrap();
    let content = operator("wave", "1.0.0", &[]);
    let bundle = platform.world.push("wave:v1.0.0", &content).await;
    platform.install("wave", &bundle).await;
    // No node runs the operator; permissions that leave the bundle are pruned all the same.
    let deadline = json!({"spec": {"progressDeadlineSeconds": 1}});
    merge(&platform.instances(), "wave", &deadline).await;
    assert_eq!(condition_variable(&client).await, None);
    gate_is(platform, OPEN).await;

    // The CRD is created after the operator; installed instances are reconciled again.
    let name = define(cluster, "operatorconditions").await;
    // The project's own type declares no spec.
    let resource = ApiResource::erase::<OperatorCondition>(&());
    let conditions: Api<DynamicObject> = Api::namespaced_with(client.clone(), NAMESPACE, &resource);
    let variable = async || condition_variable(&client).await;
    let is_set = |name: &Option<String>| name.as_deref() == Some(CONDITION);
    until("the variable is set", variable, is_set).await;
    assert!(conditions.get_opt(CONDITION).await.unwrap().is_some());
    let (world, installed) = (&platform.world, "Installed");
    world.wait_instance("wave", installed, "True").await;

    // The operator writes with its own permissions, as operator-lib does: it reads the object and sends all of it back.
    let mut config = cluster.config().clone();
    config.auth_info.impersonate = Some(format!("system:serviceaccount:{NAMESPACE}:wave-operator"));
    let operator = Client::try_from(config).unwrap();
    let own: Api<DynamicObject> = Api::namespaced_with(operator, NAMESPACE, &resource);
    let reported = json!([{
        "type": "Upgradeable", "status": "False", "reason": "Busy", "message": "moving data",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]);
    eventually("the operator writes", async || {
        let mut condition = own
            .get(CONDITION)
            .await
            .map_err(|error| error.to_string())?;
        condition.data["spec"]["conditions"].clone_from(&reported);
        let params = kube::api::PostParams::default();
        let written = own.replace(CONDITION, &params, &condition).await;
        written.map_err(|error| error.to_string())
    })
    .await;
    let busy = "The following operators are not upgradeable: wave-system/wave\n\
                - wave-system/wave: not upgradeable: Busy: moving data";
    let closed = ["False", "OperatorConditionsNotUpgradeable", busy];
    gate_is(platform, closed).await;
    // The write does not count as drift.
    let instance = platform.instances().get("wave").await.unwrap();
    let status = instance.status.unwrap();
    assert!(has(&status.conditions, installed, "True"), "{status:?}");
    // A cluster admin overrides the operator.
    let overridden = json!({"spec": {"overrides": [{
        "type": "Upgradeable", "status": "True", "reason": "Admin", "message": "proceed",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]}});
    merge(&conditions, CONDITION, &overridden).await;
    gate_is(platform, OPEN).await;

    // Deleting the CRD removes the environment variable and the role.
    delete(&platform.world.api::<CustomResourceDefinition>(), &name).await;
    until("no variable", variable, Option::is_none).await;
    let roles = Api::<Role>::namespaced(client.clone(), NAMESPACE);
    let bindings = Api::<RoleBinding>::namespaced(client.clone(), NAMESPACE);
    let left = async || list(&roles).await.len() + list(&bindings).await.len();
    until("no permissions", left, |left| *left == 0).await;
    world.wait_instance("wave", installed, "True").await;
}
