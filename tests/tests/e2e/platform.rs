//! Platform operators from the installation of a cluster to its upgrade.

use kube::Api;
use manifests::api::config::{ClusterOperator, OperatorStatusCondition};
use manifests::api::platform_operator::PlatformOperator;
use serde_json::json;

use super::{
    day_0::{self, PACKAGES},
    environment::{World, world},
    wait,
};

const AGGREGATED: &str = "platform-operators-aggregated";

impl World {
    /// Waits until a platform operator reports a version that waits for the upgrade of the cluster.
    pub(crate) async fn offers_upgrade(&self, name: &str, version: &str) {
        let operators: Api<PlatformOperator> = Api::all(self.client());
        wait::until(operators, name, version, |operator| {
            let status = operator.status.as_ref();
            let next = status.and_then(|status| status.next_available.as_ref());
            next.is_some_and(|next| {
                let reason = next.waits_for.as_deref().unwrap_or_default();
                next.version == version && reason.contains("when the cluster is upgraded")
            })
        })
        .await;
    }

    /// Waits for the status and reason of one of the ClusterOperator's conditions, and returns its message.
    async fn wait_condition(&self, kind: &str, status: &str, reason: &str) -> String {
        let operators: Api<ClusterOperator> = Api::all(self.client());
        let expected = format!("{kind} {status} {reason}");
        let operator = wait::until(operators, AGGREGATED, &expected, |operator| {
            condition(operator, kind).is_some_and(|condition| {
                condition.status == status && condition.reason.as_deref() == Some(reason)
            })
        })
        .await;
        let condition = condition(&operator, kind).unwrap();
        condition.message.clone().unwrap()
    }
}

fn condition<'a>(operator: &'a ClusterOperator, kind: &str) -> Option<&'a OperatorStatusCondition> {
    let mut conditions = operator.status.as_ref()?.conditions.iter();
    conditions.find(|condition| condition.type_ == kind)
}

fn is_healthy(operator: &ClusterOperator) -> bool {
    let is = |kind, status| condition(operator, kind).is_some_and(|found| found.status == status);
    is("Available", "True") && is("Degraded", "False") && is("Upgradeable", "True")
}

// parity: max-1, max-17, platform-1
#[tokio::test]
async fn platform_operators_are_installed_and_follow_the_cluster() {
    let world = world().await;
    let day = world.day_0.as_ref().unwrap();

    // The platform operators were created before the provisioner.
    for package in PACKAGES {
        world.healthy(package, "1.0.0").await;
    }
    let reef = world.instances().get("reef").await.unwrap();
    let available = world.wait_condition("Available", "True", "AsExpected");
    let reported = available.await;
    assert_eq!(reported, "All platform operators are in a successful state");
    let operators: Api<ClusterOperator> = Api::all(world.client());
    for name in [AGGREGATED, "platform-operators-core"] {
        wait::until(operators.clone(), name, "healthy", is_healthy).await;
    }

    // The next minor version of one operator waits for the cluster's upgrade.
    let newer = day_0::publish("tide", "1.1.0", "4.20");
    day_0::serve(&[&day.tide, &newer]);
    world.offers_upgrade("tide", "1.1.0").await;
    world.healthy("tide", "1.0.0").await;

    // Operators follow only after the cluster's upgrade is completed.
    for state in ["Partial", "Completed"] {
        let history = [(state, "4.13.0"), ("Completed", "4.12.7")];
        day_0::set_version(world.cluster, "4.13.0", &history).await;
    }
    world.healthy("tide", "1.1.0").await;
    world.healthy("lagoon", "1.0.0").await;

    // The max OpenShift version of one operator in the other catalog is the cluster's.
    let closed = "IncompatibleOperatorsInstalled";
    let reported = world.wait_condition("Upgradeable", "False", closed).await;
    let named =
        "The following operators will not run on the next OpenShift Version: reef-system/reef";
    assert_eq!(reported.lines().next(), Some(named));

    // The catalog raises the max OpenShift version of the same bundle.
    let raised = day_0::Listed {
        newest: "4.14",
        ..day.reef.clone()
    };
    let image = day_0::catalog_image("pulled:v2", &[&raised, &day.lagoon]);
    let source = day_0::source("pulled", &json!({"image": image}));
    world.apply(source).await;
    wait::until(operators, AGGREGATED, "open again", is_healthy).await;
    // The provisioner did not change the BundleInstance.
    let same = world.healthy("reef", "1.0.0").await;
    assert_eq!(same.metadata.generation, reef.metadata.generation);
}
