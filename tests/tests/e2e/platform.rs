//! Platform operators from the day a cluster is born to the day it has been upgraded.

use kube::{Api, api::DeleteParams};
use manifests::api::{
    condition::INSTALLED,
    config::{ClusterOperator, OperatorStatusCondition},
    platform::PlatformOperator,
};
use serde_json::json;

use super::{
    day_0::{self, WANTED},
    wait::{self, line, message},
    world::{World, conditions, world},
};

const AGGREGATED: &str = "platform-operators-aggregated";

impl World {
    fn operators(&self) -> Api<PlatformOperator> {
        Api::all(self.client())
    }

    /// Waits until the ClusterOperator says this in one of its conditions; its message.
    async fn told(&self, kind: &str, status: &str, reason: &str) -> String {
        let operators: Api<ClusterOperator> = Api::all(self.client());
        let wanted = format!("{kind} {status} {reason}");
        let operator = wait::until(operators, AGGREGATED, &wanted, |it| {
            condition(it, kind)
                .is_some_and(|it| it.status == status && it.reason.as_deref() == Some(reason))
        })
        .await;
        let condition = condition(&operator, kind).unwrap();
        condition.message.clone().unwrap()
    }
}

fn condition<'a>(operator: &'a ClusterOperator, kind: &str) -> Option<&'a OperatorStatusCondition> {
    let status = operator.status.as_ref()?;
    status.conditions.iter().find(|it| it.type_ == kind)
}

// parity: max-1, max-17, platform-1
#[tokio::test]
async fn platform_operators_of_a_day_0_are_installed_and_upgraded_with_the_cluster() {
    let world = world().await;
    let day = world.day_0.as_ref().unwrap();

    // They were there before the provisioner was.
    for package in WANTED {
        world.healthy(package, "1.0.0").await;
    }
    let reef = world.instances().get("reef").await.unwrap();
    let said = world.told("Available", "True", "AsExpected").await;
    assert_eq!(said, "All platform operators are in a successful state");
    let operators: Api<ClusterOperator> = Api::all(world.client());
    for name in [AGGREGATED, "platform-operators-core"] {
        let wanted = |it: &ClusterOperator| {
            let is = |kind, status| condition(it, kind).is_some_and(|it| it.status == status);
            is("Available", "True") && is("Degraded", "False") && is("Upgradeable", "True")
        };
        wait::until(operators.clone(), name, "well", wanted).await;
    }

    // The next minor version of one is there, and waits for the cluster.
    let newer = day_0::publish("tide", "1.1.0", "4.20");
    day_0::serve(&[&day.tide, &newer]);
    wait::until(world.operators(), "tide", "waiting for the cluster", |it| {
        let status = it.status.as_ref();
        let next = status.and_then(|status| status.next_available.as_ref());
        next.is_some_and(|next| {
            let waits = next.waits_for.as_deref().unwrap_or_default();
            next.version == "1.1.0" && waits.contains("when the cluster is upgraded")
        })
    })
    .await;
    world.healthy("tide", "1.0.0").await;

    // The cluster moves; only when it is there does anything follow.
    for state in ["Partial", "Completed"] {
        let history = [(state, "4.13.0"), ("Completed", "4.12.7")];
        day_0::run(world.cluster, "4.13.0", &history).await;
    }
    world.healthy("tide", "1.1.0").await;
    world.healthy("lagoon", "1.0.0").await;

    // Of the other catalog one runs on the present version at most.
    let closed = "IncompatibleOperatorsInstalled";
    let said = world.told("Upgradeable", "False", closed).await;
    assert_eq!(
        said.lines().next().unwrap(),
        "The following operators will not run on the next OpenShift Version: reef-system/reef"
    );

    // What is below the cluster is refused, whoever wants it; that is no reason to take the others for broken.
    let below = day_0::publish("shoal", "1.0.0", "4.12");
    let too_old = "requires OpenShift <= 4.12 but the cluster is 4.13";
    let by_hand = "shoal-by-hand";
    world.install(by_hand, &below.image, json!({})).await;
    wait::until(world.instances(), by_hand, too_old, |it| {
        let all = conditions(it).iter();
        all.map(|it| it.message.as_str())
            .any(|message| message.contains(too_old))
    })
    .await;
    world.remove("shoal-by-hand").await;

    // Its authors have found that it does run on the next one: the catalog says so, and no bundle is another one.
    let raised = day_0::Listed {
        newest: "4.14",
        ..day.reef.clone()
    };
    let image = day_0::catalog_image("pulled:v2", &[&raised, &day.lagoon, &below]);
    world
        .apply(day_0::source("pulled", &json!({"image": image})))
        .await;
    let open =
        |it: &ClusterOperator| condition(it, "Upgradeable").is_some_and(|it| it.status == "True");
    wait::until(operators, AGGREGATED, "open again", open).await;
    // It was not touched for that.
    let same = world.healthy("reef", "1.0.0").await;
    assert_eq!(same.metadata.generation, reef.metadata.generation);

    // A platform operator of which there is no bundle for this cluster says so.
    world.apply(day_0::wanted("shoal")).await;
    wait::until(world.operators(), "shoal", "refused", |it| {
        let status = it.status.as_ref();
        status.is_some_and(|status| {
            line(&status.conditions, INSTALLED) == "False SourceFailed"
                && message(&status.conditions, INSTALLED).contains("no eligible bundle")
        })
    })
    .await;
    let params = DeleteParams::default();
    world.operators().delete("shoal", &params).await.unwrap();
    wait::gone(world.operators(), "shoal").await;
    world.told("Available", "True", "AsExpected").await;
}
