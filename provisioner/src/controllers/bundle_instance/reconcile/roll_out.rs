//! Rollout of the target that a reconcile has chosen, followed by the rollback of a failed one.

use std::time::Duration;

use kube::ResourceExt as _;
use manifests::api::bundle_instance::{BundleInstance, BundleInstanceStatus};
use tracing::warn;

use super::{current_status, earliest};
use crate::controllers::bundle_instance::{
    choice::{Choices, Goal},
    outcome::{Failure, Remedy, RepairedInventory, RetryClass, RolledBack, RolloutState},
    repair, rollback, rollback_evidence,
    rollout::{self, RolloutResult, Source, Target},
    state::{InstanceContext, InstanceState},
    status_writer::write_status,
};

/// Rolls out the chosen target, repairs the installed objects, and rolls back a failed rollout if the spec asks for it.
pub(super) async fn roll_out(
    instance: &BundleInstance,
    shared: &InstanceContext,
    state: &mut InstanceState,
    choices: &Choices<'_>,
) -> RolloutResult {
    let status = choices.status;
    let goal = choices.goal();
    let has_api = goal == Goal::Keep && rollout::is_deferred_api_served(shared, status).await;
    let given_up = state.failed_template.as_ref();
    let given_up = given_up.map(|(hash, why)| (hash.as_str(), why.as_str()));
    let Some(target) = choices.target(&goal, has_api, given_up) else {
        state.refused.clear();
        let settled = repair::run(instance, shared, state, status).await;
        return match goal {
            Goal::Unrecorded(number) => unrecorded(instance, status, number, settled),
            _ => settled,
        };
    };
    let mut settled = rollout::run(instance, shared, state, status, &target).await;
    let mut why = target.rollback.as_ref().and_then(|back| back.why.clone());
    if target.rollback.is_none()
        && let Some(failure) =
            rollback_evidence::failure(instance, shared, state, choices, &target, &settled).await
    {
        // The attempt has changed the status. From now on this template is not tried again, even if the rollback fails.
        let mut status = current_status(instance, state);
        status.failed_template_hash = Some(choices.hash.to_owned());
        let active = status.active().cloned();
        if let Err(error) = write_status(instance, shared, state, &status).await {
            warn!(%error, "failed to start the rollback; retrying");
            settled.requeue_after = earliest(settled.requeue_after, Some(Duration::from_secs(1)));
        } else if let Some(active) = active {
            state.failed_template = Some((choices.hash.to_owned(), failure.clone()));
            why = Some(failure.clone());
            let target = Target {
                source: Source::Revision(&active),
                rollback: Some(RolledBack {
                    template_hash: Some(choices.hash.to_owned()),
                    why: Some(failure),
                    to: active.number,
                }),
            };
            settled = rollout::run(instance, shared, state, &status, &target).await;
        }
    }
    if let (Some(why), RolloutState::Failed(failure)) = (why, &mut settled.install) {
        failure.message = rollback::rollback_blocked_message(&failure.message, &why);
    }
    settled
}

/// Reports that `spec.rollbackTo` names no recorded revision.
pub(crate) fn unrecorded(
    instance: &BundleInstance,
    status: &BundleInstanceStatus,
    number: i64,
    settled: RolloutResult,
) -> RolloutResult {
    let recorded: Vec<String> = status
        .revisions
        .iter()
        .map(|revision| revision.number.to_string())
        .collect();
    let recorded = if recorded.is_empty() {
        "no revision is recorded".to_owned()
    } else {
        format!("recorded: {}", recorded.join(", "))
    };
    let message = format!(
        "revision {number} (spec.rollbackTo) of BundleInstance {} is not recorded ({recorded}); set spec.rollbackTo to \
         a recorded revision, or remove the field",
        instance.name_any()
    );
    RolloutResult {
        install: RolloutState::Failed(Failure {
            bundle: status.installed_bundle_name.clone().unwrap_or_default(),
            message,
            touched: false,
            retry: RetryClass::Backoff,
            remedy: Remedy::Own,
        }),
        repaired: match &settled.install {
            RolloutState::Done(done) => Some(RepairedInventory::from_done(done)),
            _ => settled.repaired,
        },
        ..settled
    }
}
