//! Operators that ask not to be upgraded, by what operator-lib finds: a variable, an object, and the right to write it.

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
        instance::BundleInstance,
        operator_condition::OperatorCondition,
        platform_status::{NAME, PlatformStatus},
    },
    names::OPERATOR_CONDITION_VARIABLE,
};

use super::*;
use crate::support::{delete, has, list, operator, until};

const NAMESPACE: &str = "wave-system";
const CONDITION: &str = "wave.v1.0.0";

/// What the operator's container is told.
async fn told(client: &Client) -> Option<String> {
    let deployments = Api::<Deployment>::namespaced(client.clone(), NAMESPACE);
    let deployment = deployments.get("wave-operator").await.unwrap();
    let pod = deployment.spec.unwrap().template.spec.unwrap();
    let variables = pod.containers[0].env.clone().unwrap_or_default();
    let variable = variables
        .into_iter()
        .find(|variable| variable.name == OPERATOR_CONDITION_VARIABLE);
    variable.and_then(|it| it.value)
}

async fn gate_is(platform: &Platform, status: &str, reason: &str, words: &str) {
    let what = format!("{status} {reason} {words}");
    wait_for(platform.world.api(), NAME, &what, |it: &PlatformStatus| {
        let conditions = &it.status.as_ref()?.conditions;
        let gate = crate::support::condition(conditions, "Upgradeable")?;
        let is_it = gate.status == status && gate.reason == reason && gate.message.contains(words);
        is_it.then_some(())
    })
    .await;
}

/// Leaves the operator installed.
pub(super) async fn an_operator_closes_the_gate(platform: &Platform) {
    let cluster = platform.world.cluster;
    let client = cluster.client().unwrap();
    let content = operator("wave", "1.0.0", &[]);
    let bundle = platform.world.push("wave:v1.0.0", &content).await;
    platform.install("wave", &bundle).await;
    // No node runs the operator, and permissions that leave are pruned all the same.
    let deadline = json!({"spec": {"progressDeadlineSeconds": 1}});
    change::<BundleInstance>(platform, "wave", deadline).await;
    assert_eq!(told(&client).await, None);
    gate_is(platform, "True", "AsExpected", "Ready for upgrade").await;

    // The definition comes later: what is installed is looked at again.
    let name = define(cluster, "operatorconditions").await;
    // Ours has no spec of its own.
    let resource = ApiResource::erase::<OperatorCondition>(&());
    let conditions: Api<DynamicObject> = Api::namespaced_with(client.clone(), NAMESPACE, &resource);
    let is_told = |name: &Option<String>| name.as_deref() == Some(CONDITION);
    until("told", async || told(&client).await, is_told).await;
    assert!(conditions.get_opt(CONDITION).await.unwrap().is_some());
    platform.installed("wave").await;

    // It says so with its own rights, as operator-lib does: it reads the object and sends it back whole.
    let mut config = cluster.config().clone();
    config.auth_info.impersonate = Some(format!("system:serviceaccount:{NAMESPACE}:wave-operator"));
    let operator = Client::try_from(config).unwrap();
    let own: Api<DynamicObject> = Api::namespaced_with(operator, NAMESPACE, &resource);
    let say = async |status: &str| {
        let mut condition = own.get(CONDITION).await.unwrap();
        let said = json!([{
            "type": "Upgradeable", "status": status, "reason": "Busy", "message": "moving data",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }]);
        condition.data["spec"]["conditions"] = said;
        let params = kube::api::PostParams::default();
        own.replace(CONDITION, &params, &condition).await.unwrap();
    };
    say("False").await;
    let words = "The following operators are not upgradeable: wave-system/wave\n- wave-system/wave: not upgradeable: \
                 Busy: moving data";
    gate_is(platform, "False", "OperatorConditionsNotUpgradeable", words).await;
    // Nobody takes that for a change of what was applied.
    let instance = platform.instances().get("wave").await.unwrap();
    let status = instance.status.unwrap();
    assert!(has(&status.conditions, "Installed", "True"), "{status:?}");
    say("True").await;
    gate_is(platform, "True", "AsExpected", "Ready for upgrade").await;
    say("False").await;
    gate_is(platform, "False", "OperatorConditionsNotUpgradeable", words).await;
    // An admin knows better.
    let overridden = json!({"spec": {"overrides": [{
        "type": "Upgradeable", "status": "True", "reason": "Admin", "message": "go on",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]}});
    merge(&conditions, CONDITION, &overridden).await;
    gate_is(platform, "True", "AsExpected", "Ready for upgrade").await;

    goes_with_its_definition(platform, &client, &name).await;
}

/// The definition goes, and everything that was there for it.
async fn goes_with_its_definition(platform: &Platform, client: &Client, name: &str) {
    let definitions = platform.world.api::<CustomResourceDefinition>();
    delete(&definitions, name).await;
    until("not told", async || told(client).await, Option::is_none).await;
    let roles = Api::<Role>::namespaced(client.clone(), NAMESPACE);
    let bindings = Api::<RoleBinding>::namespaced(client.clone(), NAMESPACE);
    let left = async || list(&roles).await.len() + list(&bindings).await.len();
    until("no rights", left, |left| *left == 0).await;
    platform.installed("wave").await;
}
