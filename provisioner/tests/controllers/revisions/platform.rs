//! Rollouts that another release of the provisioner, or another version of Kubernetes, causes.

use manifests::api::bundle_instance::Cause;

use super::*;
use crate::support::{define, operator_conditions, prepare, without_controllers};

/// More than [`MAX_ROLLOUTS`].
const INSTANCES: usize = 7;
const MAX_ROLLOUTS: usize = 4;

impl Fixture<'_> {
    /// Reports the Deployment of the operator as available, or as failed, as the Deployment controller does.
    async fn report(&self, is_available: bool) {
        let deployments: Api<Deployment> = self.api();
        let name = format!("{}-operator", self.name);
        let read = async || deployments.get_opt(&name).await.unwrap();
        let deployment = becomes("Deployment", read, Option::is_some).await;
        let ready = i32::from(is_available);
        let (state, reason) = if is_available {
            ("True", "NewReplicaSetAvailable")
        } else {
            ("False", "ProgressDeadlineExceeded")
        };
        let condition =
            |type_| json!({"type": type_, "status": state, "reason": reason, "message": ""});
        let conditions = ["Available", "Progressing"].map(condition);
        let status = json!({"observedGeneration": deployment.unwrap().metadata.generation, "replicas": 1, "updatedReplicas": 1,
            "readyReplicas": ready, "availableReplicas": ready, "conditions": conditions});
        merge_status(&deployments, &name, &json!({"status": status})).await;
    }
}

/// Returns the fixtures with a revision that the platform caused, and those whose revision is rolling out.
async fn under_way(fixtures: &[Fixture<'_>]) -> (Vec<usize>, Vec<usize>) {
    let (mut all, mut rolling_out) = (Vec::new(), Vec::new());
    for (number, fixture) in fixtures.iter().enumerate() {
        let status = fixture.read().await.status.unwrap_or_default();
        let newest = status.revisions.last();
        let newest = newest.filter(|newest| newest.cause == Cause::Platform);
        let state = newest.map(|newest| newest.state);
        all.extend(state.map(|_| number));
        rolling_out.extend((state == Some(RevisionState::RollingOut)).then_some(number));
    }
    (all, rolling_out)
}

// Rollouts that the platform causes start at most four at a time, until their revisions are active, and stop while two of
// the revisions are unhealthy. A restart changes nothing.
#[tokio::test]
async fn platform_rollouts_are_few_and_stop_when_two_are_unhealthy() {
    let lease = without_controllers().await;
    let cluster = lease.cluster();
    prepare(cluster).await;
    let world = World::bare(cluster);
    let provisioner = Provisioner::start(cluster, Options::default()).await;
    let mut fixtures = Vec::new();
    for _ in 0..INSTANCES {
        let fixture = Fixture::new(&world, "platform").await;
        world.create(&fixture.declare_operator(&[]).await).await;
        fixture.report(true).await;
        fixture.wait("Healthy", "True").await;
        fixtures.push(fixture);
    }

    // If OperatorConditions are served, the Deployment of an operator names its OperatorCondition.
    define(cluster, &operator_conditions()).await;
    let rolling_out = async || under_way(&fixtures).await.1;
    let are_four = |rollouts: &Vec<usize>| rollouts.len() == MAX_ROLLOUTS;
    let first = becomes("four rollouts", &rolling_out, are_four).await;
    let are_the_first = async || {
        observe(Duration::from_secs(2), async || {
            assert_eq!(under_way(&fixtures).await.0, first);
        })
        .await;
    };
    are_the_first().await;

    drop(provisioner);
    let _provisioner = Provisioner::start(cluster, Options::default()).await;
    are_the_first().await;

    // Two fail and the two others become healthy. No other rollout takes their slots.
    let [failed, other, well @ ..] = &first[..] else {
        panic!("{first:?}");
    };
    for number in [failed, other] {
        fixtures[*number].report(false).await;
    }
    let waiting = (0..INSTANCES).filter(|number| !first.contains(number));
    for number in waiting.clone() {
        let progressing = async || fixtures[number].condition("Progressing").await;
        becomes("both names", progressing, |(reason, message)| {
            let mut failed = [failed, other].into_iter();
            reason == "Blocked" && failed.all(|number| message.contains(&fixtures[*number].name))
        })
        .await;
    }
    for number in well {
        fixtures[*number].report(true).await;
    }
    let are_two = |rollouts: &Vec<usize>| rollouts.len() == 2;
    becomes("two active revisions", &rolling_out, are_two).await;
    are_the_first().await;

    // One recovers, and the remaining rollouts start.
    fixtures[*failed].report(true).await;
    let all = async || under_way(&fixtures).await.0;
    becomes("all other rollouts", all, |all| all.len() == INSTANCES).await;
    for number in waiting {
        let is_applied = async || {
            let status = fixtures[number].read().await.status.unwrap();
            status
                .newest()
                .is_some_and(|newest| newest.applied.is_some())
        };
        becomes("applied", is_applied, |is_applied| *is_applied).await;
        fixtures[number].report(true).await;
        fixtures[number].is_active(2).await;
    }
}
