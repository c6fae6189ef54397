//! Facts from an outcome that the condition Ready depends on in addition to the other conditions. Pure; no I/O.

use manifests::api::bundle_instance::{
    BundleInstanceStatus,
    ready::{Declaration, Facts, Objects, Remedy},
};

use crate::controllers::bundle_instance::outcome::{
    HealthState, Outcome, RolloutState, TemplateState,
};

/// Returns the facts of an outcome. `status` is the status that the outcome leads to.
pub(super) fn collect(
    outcome: &Outcome,
    declaration: &Declaration,
    status: &BundleInstanceStatus,
) -> Facts {
    let is_settled = match &outcome.install {
        RolloutState::Unchanged | RolloutState::Paused => true,
        RolloutState::Done(done) => !done.is_outdated,
        RolloutState::Failed(_)
        | RolloutState::Waiting(_)
        | RolloutState::Queued
        | RolloutState::Unobserved
        | RolloutState::Stopped(_)
        | RolloutState::Applying(_) => false,
    };
    Facts {
        is_applied: is_settled && outcome.is_declared,
        remedy: remedy(outcome, declaration),
        objects: match outcome.health {
            HealthState::Healthy => Objects::Healthy,
            HealthState::Progressing(_) => Objects::Progressing,
            HealthState::Failed(_) => Objects::Failed,
            HealthState::Unknown(_) => Objects::Unknown,
            HealthState::NotObserved => Objects::NotObserved,
        },
        is_rolled_back: status.failed_template_hash.is_some(),
    }
}

/// Returns the remedy of the failure: of the Bundle of the template unless a revision is pinned, or else of the attempt.
fn remedy(outcome: &Outcome, declaration: &Declaration) -> Option<Remedy> {
    match &outcome.valid {
        TemplateState::Failed { remedy, .. } | TemplateState::Unknown { remedy, .. }
            if !declaration.is_pinned =>
        {
            return Some(*remedy);
        }
        TemplateState::Unchanged
        | TemplateState::UnknownClass(_)
        | TemplateState::Unknown { .. }
        | TemplateState::Pending { .. }
        | TemplateState::Failed { .. }
        | TemplateState::Unpacked { .. } => {}
    }
    match &outcome.install {
        RolloutState::Failed(failure) => Some(failure.remedy),
        RolloutState::Waiting(remedy) => Some(*remedy),
        // BundleInstances that became unhealthy stop the rollout.
        RolloutState::Stopped(_) => Some(Remedy::World),
        // Another client replaced the installed Bundle.
        RolloutState::Unchanged => outcome.replaced.as_ref().map(|_| Remedy::World),
        RolloutState::Paused
        | RolloutState::Done(_)
        | RolloutState::Queued
        | RolloutState::Unobserved
        | RolloutState::Applying(_) => None,
    }
}
