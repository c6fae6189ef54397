//! Rollout of the target that a reconcile has chosen, followed by the rollback of a failed one.

use kube::ResourceExt as _;
use manifests::api::bundle_instance::{BundleInstance, BundleInstanceStatus};

use super::{Error, current_status};
use crate::controllers::bundle_instance::{
    choice::{Choices, Goal},
    outcome::{Failure, Remedy, RepairedInventory, RetryClass, RolledBack, RolloutState},
    repair, rollback, rollback_evidence,
    rollout::{self, RolloutResult, Source, Target},
    state::{InstanceContext, InstanceState},
    status_writer::write_status,
};

/// Rolls out the chosen target, repairs the installed objects, and rolls back a failed rollout if the spec asks for it.
///
/// # Errors
/// Returns an error if the start of a rollback cannot be recorded.
pub(super) async fn roll_out(
    instance: &BundleInstance,
    shared: &InstanceContext,
    state: &mut InstanceState,
    choices: &Choices<'_>,
) -> Result<RolloutResult, Error> {
    let status = choices.status;
    let goal = choices.goal();
    let has_api = goal == Goal::Keep && rollout::is_deferred_api_served(shared, status).await;
    let given_up = state.failed_template.as_ref();
    let given_up = given_up.map(|(hash, why)| (hash.as_str(), why.as_str()));
    let target = choices.target(&goal, has_api, given_up);
    let mut settled = if let Some(target) = &target {
        rollout::run(instance, shared, state, status, target).await
    } else {
        state.refused.clear();
        let settled = repair::run(instance, shared, state, status).await;
        match goal {
            Goal::Unrecorded(number) => unrecorded(instance, status, number, settled),
            _ => settled,
        }
    };
    let target = target.as_ref();
    let back = target.and_then(|target| target.rollback.as_ref());
    let mut why = back.and_then(|back| back.why.clone());
    if back.is_none()
        && let Some(failure) =
            rollback_evidence::failure(instance, shared, state, choices, target, &mut settled).await
    {
        // The attempt has changed the status. From now on this template is not tried again, even if the rollback fails.
        let mut status = current_status(instance, state);
        status.failed_template_hash = Some(choices.hash.to_owned());
        let active = status.active().cloned();
        // Without this record, the end of the reconcile could make the failed revision active.
        write_status(instance, shared, state, &status).await?;
        if let Some(active) = active {
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
    Ok(settled)
}

/// Updates the result of a reconcile in which another client has replaced the installed Bundle. After repairs, the condition
/// still reports the replacement. A completed rollout is recorded, so that it is not repeated. `applied` is the applied digest of
/// the status.
pub(crate) fn retain_replaced(settled: &mut RolloutResult, applied: Option<&str>) {
    if let RolloutState::Done(done) = &settled.install
        && applied == Some(done.digest.as_str())
    {
        settled.repaired = Some(RepairedInventory::from_done(done));
        settled.install = RolloutState::Unchanged;
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controllers::bundle_instance::outcome::HealthState;

    #[test]
    fn completed_rollout_is_recorded_while_its_bundle_is_replaced() {
        let instance: BundleInstance = object!({"metadata": {"name": "a"}});
        let is_recorded = |applied: Option<&str>| {
            let done = rollout::unchanged(&instance, &BundleInstanceStatus::default());
            let done = with!(done => digest: "revision 1".to_owned());
            let mut settled = RolloutResult {
                install: RolloutState::Done(Box::new(done)),
                health: HealthState::Healthy,
                conflicts: Vec::new(),
                repaired: None,
                requeue_after: None,
            };
            retain_replaced(&mut settled, applied);
            let is_done = settled.install != RolloutState::Unchanged;
            (is_done, settled.repaired.is_some())
        };
        assert_rows! {
            is_recorded(None) => (true, false);
            is_recorded(Some("key")) => (true, false);
            is_recorded(Some("revision 1")) => (false, true), "a repair";
        }
    }
}
