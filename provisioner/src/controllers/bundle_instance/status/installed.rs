//! The condition Installed. Pure; no I/O.

use manifests::api::condition::{self, reason};

use super::Conditions;
use crate::controllers::bundle_instance::outcome::{
    Outcome, RolledBack, RolloutState, TemplateState,
};

/// Returns the message about a rollback to a bundle.
fn rolled_back(bundle: &str, back: &RolledBack) -> String {
    match back {
        RolledBack {
            template_hash: Some(_),
            why,
            ..
        } => {
            let why = why
                .as_deref()
                .map(|why| format!(": {why}"))
                .unwrap_or_default();
            format!(
                "rolled back to bundle {bundle}: the bundle of spec.template failed{why}; change spec.template to retry"
            )
        }
        RolledBack { to, .. } => format!(
            "rolled back to bundle {bundle} of revision {to}; remove spec.rollbackTo to return to spec.template"
        ),
    }
}

/// Sets the condition Installed. `bundle` is the name of the installed Bundle. `has_failed_template` reports that its
/// template failed and cannot be rolled back.
pub(super) fn installed(
    conditions: &mut Conditions<'_>,
    bundle: Option<&str>,
    outcome: &Outcome,
    has_failed_template: bool,
) {
    const TYPE: &str = condition::INSTALLED;
    if let Some(replaced) = &outcome.replaced
        && !matches!(outcome.install, RolloutState::Done(_))
    {
        let mut message = replaced.clone();
        if let RolloutState::Failed(failure) = &outcome.install {
            message.push('\n');
            message.push_str(&failure.message);
        }
        return conditions.set(TYPE, "True", reason::INSTALLED_BUNDLE_REPLACED, &message);
    }
    match (&outcome.install, bundle) {
        (RolloutState::Done(done), _) => {
            let mut message = format!("instantiated bundle {} successfully", done.bundle);
            let mut why = reason::INSTALLATION_SUCCEEDED;
            if let Some(back) = &done.rolled_back {
                why = reason::ROLLED_BACK;
                message = rolled_back(&done.bundle, back);
            } else if has_failed_template {
                why = reason::UPGRADE_FAILED;
                message = format!(
                    "bundle {} of spec.template failed and cannot be rolled back, because the record of the previous \
                     revision was lost; change spec.template, or set spec.rollbackTo to a recorded revision",
                    done.bundle
                );
            }
            if !done.waiting.is_empty() {
                message.push_str("; ");
                message.push_str(&done.waiting.len().to_string());
                message.push_str(
                    " objects are deferred because the cluster does not serve their APIs; see status.waiting",
                );
            }
            for warning in &done.warnings {
                message.push_str("; ");
                message.push_str(warning);
            }
            conditions.set(TYPE, "True", why, &message);
        }
        (RolloutState::Failed(failure), None) => {
            conditions.set(TYPE, "False", reason::INSTALL_FAILED, &failure.message);
        }
        (RolloutState::Failed(failure), Some(bundle)) if *bundle == failure.bundle => {
            let message = format!(
                "bundle {bundle} is installed, but some of its objects are not in the desired state: {}",
                failure.message
            );
            conditions.set(TYPE, "True", reason::RECONCILE_FAILED, &message);
        }
        (RolloutState::Failed(failure), Some(bundle)) => {
            let state = if failure.touched {
                "is partly replaced"
            } else {
                "is still installed"
            };
            let message = format!(
                "bundle {bundle} {state}; failed to install bundle {}: {}",
                failure.bundle, failure.message
            );
            conditions.set(TYPE, "True", reason::UPGRADE_FAILED, &message);
        }
        // In a reconcile that did not examine the Bundle, the previous reason remains.
        (
            RolloutState::Unchanged
            | RolloutState::Waiting(_)
            | RolloutState::Queued
            | RolloutState::Unobserved
            | RolloutState::Stopped(_),
            Some(bundle),
        ) if conditions.has_reason(TYPE, reason::INSTALLED_BUNDLE_REPLACED)
            && !matches!(outcome.valid, TemplateState::UnknownClass(_)) =>
        {
            let message = format!(
                "the installed Bundle {bundle} is missing; its objects are repaired from the recorded revision, and \
                 the Bundle of spec.template is installed once it is unpacked; see condition HasValidBundle"
            );
            conditions.set(TYPE, "True", reason::RECONCILE_FAILED, &message);
        }
        (
            RolloutState::Unchanged
            | RolloutState::Paused
            | RolloutState::Waiting(_)
            | RolloutState::Queued
            | RolloutState::Unobserved
            | RolloutState::Stopped(_)
            | RolloutState::Applying(_),
            _,
        ) => {
            conditions.retain(
                TYPE,
                (
                    "False",
                    reason::NOT_INSTALLED,
                    "no bundle is installed; see condition HasValidBundle",
                ),
            );
        }
    }
}
